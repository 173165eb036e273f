"""HTML to the little Markdown that chunking understands: headings, paragraphs, list items, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.tables import pipe_table

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_DROPPED = ["script", "style", "nav", "noscript", "template", "svg", "iframe", "select", "button", "head"]
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
_MAX_SPAN = 50
# In XHTML any element may close itself; an HTML parser would take the rest of the page for its content.
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:-]*)((?:\s[^<>]*?)?)/>")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_SPACE = re.compile(r"[ \t\r\n\f\v]+")


def html_to_markdown(source: str) -> str:
    """The readable text of a page; scripts, styles and navigation are dropped.

    The page's title becomes its first heading unless it has a first-level heading of its own.
    """
    from selectolax.lexbor import LexborHTMLParser

    if source.lstrip("\ufeff \t\r\n").startswith("<?xml"):
        source = _SELF_CLOSED.sub(_closed, source)
    tree = LexborHTMLParser(source)
    title = tree.css_first("title")
    heading = (
        "" if title is None or tree.css_first("h1") is not None else _SPACE.sub(" ", title.text()).strip()
    )
    tree.strip_tags(_DROPPED)
    writer = _Writer(_layout_tables(tree))
    if tree.body is not None:
        writer.write(tree.body)
    body = writer.text()
    return neutralise(f"# {heading}\n\n{body}" if heading else body)


class _Writer:
    """Collects blocks of text on a walk over the tree, without recursion: pages nest thousands deep."""

    def __init__(self, layout: frozenset[int] = frozenset()) -> None:
        self._layout = layout
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._prefix = ""

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
        if tag == "table" and node.mem_id not in self._layout and node.css_first(_SEVERAL_CELLS):
            self._break()
            self._blocks.extend(_table(node))
            return None
        if tag == "pre":
            self._break()
            self._blocks.append("```\n" + (node.text_lexbor()).strip("\n") + "\n```")
            return None
        if tag in _BLOCKS:
            self._break()
            self._prefix = "#" * int(tag[1]) + " " if tag[0] == "h" and tag[1:].isdigit() else self._prefix
            self._prefix = "- " if tag == "li" else self._prefix
        elif tag == "br":
            self._line.append("\n")
        return node.first_child

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag in _BLOCKS:
            self._break()

    def _break(self) -> None:
        lines = (
            [_SPACE.sub(" ", line).strip() for line in "".join(self._line).split("\n")] if self._line else []
        )
        block = "\n".join(line for line in lines if line)
        if block:
            self._blocks.append(self._prefix + block)
            self._prefix = ""
        self._line = []

    def line(self) -> str:
        """All of it on one line, as a table's cell holds it."""
        return " ".join(" ".join(self._blocks).split())

    def text(self) -> str:
        parts: list[str] = []
        for block in self._blocks:
            tight = bool(parts) and block.startswith("- ") and parts[-1].startswith("- ")
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


def _table(table: LexborNode) -> Iterator[str]:
    """A table of data: its caption, then its rows in Markdown, the first one as the header."""
    caption = table.css_first("caption")
    if caption is not None and (text := _line_of(caption)):
        yield text
    rows = [list(_cells(row)) for row in table.css("tr")]
    rows = [row for row in rows if any(row)]
    if rows:
        yield pipe_table(rows)


def _cells(row: LexborNode) -> Iterator[str]:
    cell = row.child
    while cell is not None:
        if cell.tag in ("td", "th"):
            yield _line_of(cell)
            span = str(cell.attributes.get("colspan") or "1")
            yield from [""] * (min(int(span), _MAX_SPAN) - 1 if span.isdecimal() else 0)
        cell = cell.next


def _line_of(node: LexborNode) -> str:
    writer = _Writer()
    writer.write(node)
    return writer.line()
