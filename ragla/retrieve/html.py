"""HTML to the little Markdown that chunking understands: headings, paragraphs, list items, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.page_frame import frame_of
from ragla.retrieve.tables import pipe_table

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_DROPPED = ["script", "style", "noscript", "template", "svg", "iframe", "select", "button", "head"]
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "dd", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr",
        "li", "main", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul",
    }
)  # fmt: skip
# What makes a table a means of layout rather than one of data.
_LAYOUT = ", ".join(f"table {tag}" for tag in ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "form"))
_SEVERAL_CELLS = "td ~ td, th ~ td, th ~ th"
_FIRST_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
_REMARKS = frozenset(("note", "tip", "hint", "important", "warning", "caution", "danger", "admonition"))
_MAX_SPAN = 50
_HEADINGS = "h1, h2, h3, h4, h5, h6"
_ENTRY = 800  # characters; a longer cell is a page in a frame
# In XHTML any element may close itself; an HTML parser would take the rest of the page for its content.
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:-]*)((?:\s[^<>]*?)?)/>")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_SPACE = re.compile(r"[ \t\r\n\f\v]+")


def html_to_markdown(source: str) -> str:
    """The readable text of a page; scripts, styles, navigation and lists of links to pages beside it go.

    They stay where there is nothing else. The page's title becomes its first heading unless it has a
    first-level heading of its own, or begins with one that says the same.
    """
    if source.lstrip("\ufeff \t\r\n").startswith("<?xml"):
        source = _SELF_CLOSED.sub(_closed, source)
    title, body = _page(source, framed=False)
    if not body.strip():
        title, body = _page(source, framed=True)
    return neutralise(f"# {title}\n\n{body}" if title else body)


def _page(source: str, framed: bool) -> tuple[str, str]:
    """A page's title, empty where its body has it already, and its body; ``framed``: with its navigation."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(source)
    node = tree.css_first("title")
    title = "" if node is None or tree.css_first("h1") is not None else _line(node.text())
    tree.strip_tags(_DROPPED)
    writer = _Writer(_layout_tables(tree), frozenset() if framed else frame_of(tree))
    if tree.body is not None:
        writer.write(tree.body)
    body = writer.text()
    first = _FIRST_HEADING.search(body)
    return "" if first and first[1].casefold() == title.casefold() else title, body


def _line(text: str | None) -> str:
    return _SPACE.sub(" ", text or "").strip()


class _Writer:
    """Collects blocks of text on a walk over the tree, without recursion: pages nest thousands deep."""

    def __init__(self, layout: frozenset[int] = frozenset(), left_out: frozenset[int] = frozenset()) -> None:
        self._layout = layout
        self._left_out = left_out
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._prefix = ""
        self._tight: set[int] = set()  # numbers of the blocks with no blank line before them
        self._cell: int | None = None  # the cell all of whose blocks belong together
        self._glued = False

    def write(self, top: LexborNode) -> None:
        node: LexborNode | None = top
        while node is not None:
            child = self._enter(node)
            if child is not None:
                node = child
                continue
            while node is not None and node.mem_id != top.mem_id and node.next is None:
                self._leave(node)
                node = node.parent
            if node is None or node.mem_id == top.mem_id:
                break
            self._leave(node)
            node = node.next
        self._break()

    def _enter(self, node: LexborNode) -> LexborNode | None:
        """Take in what the node says by itself; return its first child when that is to be visited."""
        tag = node.tag or ""
        if node.is_text_node:
            self._line.append(node.text_content or "")
            return None
        if node.mem_id in self._left_out:
            if tag != "a":
                self._break()
            return None
        if tag == "table" and node.mem_id not in self._layout and node.css_first(_SEVERAL_CELLS):
            self._break()
            self._glued = False
            self._blocks.extend(_table(node, self._left_out))
            return None
        if tag == "pre":
            self._break()
            self._add("```\n" + (node.text_lexbor()).strip("\n") + "\n```")
            return None
        if tag in _BLOCKS:
            self._break()
            if tag[0] == "h" and tag[1:].isdigit() and not _in_remark(node):
                self._prefix = "#" * int(tag[1]) + " "
            self._prefix = "- " if tag == "li" else self._prefix
            if tag in ("td", "th") and self._cell is None and _one_entry(node):
                self._cell = node.mem_id
        elif tag == "br":
            self._line.append("\n")
        return node.first_child

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag in _BLOCKS:
            self._break()
        if tag == "dt" or (tag[:1] == "h" and tag[1:].isdigit() and _in_remark(node)):
            # a term goes with what is said of it, and with the terms that share it
            self._glued = True
        elif tag in ("dd", "dl"):
            self._glued = False
        elif node.mem_id == self._cell:
            self._cell, self._glued = None, False

    def _break(self) -> None:
        lines = (
            [_SPACE.sub(" ", line).strip() for line in "".join(self._line).split("\n")] if self._line else []
        )
        block = "\n".join(line for line in lines if line)
        if block:
            self._add(self._prefix + block)
            self._prefix = ""
        self._line = []

    def _add(self, block: str) -> None:
        if self._glued and not block.startswith("#"):
            self._tight.add(len(self._blocks))
        self._blocks.append(block)
        self._glued = self._cell is not None

    def line(self) -> str:
        """All of it on one line, as a table's cell holds it."""
        return " ".join(" ".join(self._blocks).split())

    def text(self) -> str:
        parts: list[str] = []
        for number, block in enumerate(self._blocks):
            items = bool(parts) and block.startswith("- ") and parts[-1].startswith("- ")
            tight = items or number in self._tight
            parts.append("\n" if tight else "\n\n" if parts else "")
            parts.append(block)
        return "".join(parts) + "\n"


def _closed(element: re.Match[str]) -> str:
    name = element[1]
    return element[0] if name.lower() in _VOID else f"<{name}{element[2]}></{name}>"


def _layout_tables(tree: LexborHTMLParser) -> frozenset[int]:
    """All that lies around tables, headings or code in a table; such a table's cells are blocks of text."""
    found: set[int] = set()
    for node in tree.css(_LAYOUT):
        outer = node.parent
        while outer is not None and outer.mem_id not in found:
            found.add(outer.mem_id)
            outer = outer.parent
    return frozenset(found)


def _in_remark(heading: LexborNode) -> bool:
    """Whether a heading is the word "Note" over a box: what follows the box is not under it."""
    parent = heading.parent
    return parent is not None and not _REMARKS.isdisjoint((parent.attributes.get("class") or "").split())


def _one_entry(cell: LexborNode) -> bool:
    """Whether a cell is the whole row and short: one entry of a list, though it may have paragraphs."""
    alone = all(sibling is None or sibling.is_text_node for sibling in (cell.prev, cell.next))
    return alone and len(cell.text()) <= _ENTRY and cell.css_first(_HEADINGS) is None


def _table(table: LexborNode, left_out: frozenset[int]) -> Iterator[str]:
    """A table of data: its caption, then its rows in Markdown, the first one as the header."""
    caption = table.css_first("caption")
    if caption is not None and (text := _line_of(caption, left_out)):
        yield text
    rows = [list(_cells(row, left_out)) for row in table.css("tr")]
    rows = [row for row in rows if any(row)]
    if rows:
        yield pipe_table(rows)


def _cells(row: LexborNode, left_out: frozenset[int]) -> Iterator[str]:
    cell = row.child
    while cell is not None:
        if cell.tag in ("td", "th"):
            yield _line_of(cell, left_out)
            span = str(cell.attributes.get("colspan") or "1")
            yield from [""] * (min(int(span), _MAX_SPAN) - 1 if span.isdecimal() else 0)
        cell = cell.next


def _line_of(node: LexborNode, left_out: frozenset[int]) -> str:
    writer = _Writer(left_out=left_out)
    writer.write(node)
    return writer.line()
