"""What stands around the text of a web page: navigation, and lists of links to the pages beside it.

Such a list has words of everything and says nothing: searched, an alphabetical index would come before
the pages it points to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# By its role, or as DocBook, Sphinx, Texinfo and Doxygen call it.
_FRAME = (
    "nav, [role=navigation], [role=search], [role=contentinfo], .navheader, .navfooter, .sphinxsidebar, "
    ".headerlink, .nav-panel, .navpath, .breadcrumb, .breadcrumbs, .toc, .toctree-wrapper"
)
_WHOLE = ("html", "body", "main", "article")  # a page that calls itself navigation is read all the same
_LISTS = "ul, ol, dl"
_LINKS = 10  # fewer are a remark on where to read on
_LINKED = 0.4  # of the characters; with less there is something said of each link
_NEAR = 0.9  # of the links; those elsewhere are content
_ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def frame_of(tree: LexborHTMLParser) -> frozenset[int]:
    """The ``mem_id`` of the elements to leave out."""
    found = {node.mem_id for node in tree.css(_FRAME) if node.tag not in _WHOLE}
    seen: set[int] = set()
    for node in tree.css(_LISTS):
        if node.mem_id in seen:
            continue
        seen.update(inner.mem_id for inner in node.css(_LISTS))
        if _is_directory(node):
            found.add(node.mem_id)
    return frozenset(found)


def _is_directory(node: LexborNode) -> bool:
    """Whether a list is links to pages of the same place, and little else."""
    links = node.css("a[href]")
    near = [link for link in links if not _ELSEWHERE.match(link.attributes.get("href") or "")]
    if len(near) < _LINKS or len(near) < _NEAR * len(links):
        return False
    return _letters(near) >= _LINKED * _letters([node])


def _letters(nodes: list[LexborNode]) -> int:
    return sum(len("".join(node.text().split())) for node in nodes)
