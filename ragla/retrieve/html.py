"""HTML to the little Markdown that chunking understands: headings, paragraphs, list items, code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ragla.retrieve.decoding import neutralise

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_DROPPED = ["script", "style", "nav", "noscript", "template", "svg", "iframe", "select", "button", "head"]
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "dd", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr",
        "li", "main", "ol", "p", "pre", "section", "table", "tr", "ul",
    }
)  # fmt: skip
_SPACE = re.compile(r"[ \t\r\n\f\v]+")


def html_to_markdown(source: str) -> str:
    """The readable text of a page; scripts, styles and navigation are dropped.

    The page's title becomes its first heading unless it has a first-level heading of its own.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(source)
    title = tree.css_first("title")
    heading = (
        "" if title is None or tree.css_first("h1") is not None else _SPACE.sub(" ", title.text()).strip()
    )
    tree.strip_tags(_DROPPED)
    writer = _Writer()
    if tree.body is not None:
        writer.write(tree.body)
    body = writer.text()
    return neutralise(f"# {heading}\n\n{body}" if heading else body)


class _Writer:
    """Collects blocks of text on a walk over the tree, without recursion: pages nest thousands deep."""

    def __init__(self) -> None:
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
        if tag in ("td", "th"):
            self._line.append(" | ")
        if tag in _BLOCKS:
            self._break()

    def _break(self) -> None:
        lines = (
            [_SPACE.sub(" ", line).strip() for line in "".join(self._line).split("\n")] if self._line else []
        )
        block = "\n".join(line for line in lines if line).removesuffix(" |")
        if block:
            self._blocks.append(self._prefix + block)
            self._prefix = ""
        self._line = []

    def text(self) -> str:
        parts: list[str] = []
        for block in self._blocks:
            tight = bool(parts) and block.startswith("- ") and parts[-1].startswith("- ")
            parts.append("\n" if tight else "\n\n" if parts else "")
            parts.append(block)
        return "".join(parts) + "\n"
