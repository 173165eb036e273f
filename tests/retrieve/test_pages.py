"""Pages as documentation generators write them: what is around the text goes, what belongs together stays."""

from __future__ import annotations

import pytest

from ragla.retrieve.html import html_to_markdown

DOCBOOK = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>11.8. Partial Indexes</title></head><body>
<div class="navheader"><table><tr><th colspan="3">11.8. Partial <span>Indexes</span></th></tr><tr>
<td><a accesskey="p" href="a.html">Prev</a></td><th>Chapter 11</th>
<td><a href="b.html">Next</a></td></tr></table></div>
<div class="sect1"><h2 class="title">11.8. Partial <span>Indexes</span><a id="x"></a></h2>
<p>Some rows only.</p>
<div class="note"><h3 class="title">Note</h3><p>Not often.</p></div><p>More.</p></div>
<div class="navfooter"><table><tr><td>Prev</td><td>Home</td></tr></table></div></body></html>"""


def test_a_page_of_docbook_is_its_section_alone() -> None:
    text = "## 11.8. Partial Indexes\n\nSome rows only.\n\nNote\nNot often.\n\nMore.\n"
    assert html_to_markdown(DOCBOOK) == text


@pytest.mark.parametrize(
    "frame",
    [
        '<div class="related" role="navigation"><h3>Navigation</h3><ul><li><a>next</a></ul></div>',
        '<div class="sphinxsidebar"><p>Table of contents</p></div>',
        '<form role="search"><p>Go</p></form>',
        '<div class="nav-panel"><p>Next: <a rel="next">Two</a></div>',
        '<div role="contentinfo"><p>© 2024</p></div>',
        "<nav><div>Home<nav>deeper</nav></div></nav>",
    ],
)
def test_frames_of_other_generators_go_too(frame: str) -> None:
    assert html_to_markdown(f"{frame}<h1>One</h1><p>text</p>{frame}") == "# One\n\ntext\n"


def test_the_sign_that_links_to_a_heading_is_no_part_of_it() -> None:
    page = '<h1>One<a class="headerlink" href="#one">¶</a></h1><p>a<a class="headerlink">¶</a> b</p>'
    assert html_to_markdown(page) == "# One\n\na b\n"


def test_a_page_that_is_nothing_but_navigation_is_read_all_the_same() -> None:
    assert html_to_markdown("<title>Map</title><nav><a>One</a></nav>") == "# Map\n\nOne\n"
    assert html_to_markdown('<body class="navheader"><p>kept') == "kept\n"


def _list(count: int, href: str, said: str = "") -> str:
    return (
        "<ul>"
        + "".join(f'<li><a href="{href}{at}.html">Page {at}</a>{said}' for at in range(count))
        + "</ul>"
    )


def test_a_long_list_of_links_to_pages_beside_it_is_navigation() -> None:
    nested = f"<dl><dt>Part<dd>{_list(12, 'part/')}</dl>"
    for directory in (_list(12, "page"), _list(12, "#"), nested):
        assert html_to_markdown(f"<h1>One</h1>{directory}<p>text") == "# One\n\ntext\n"


@pytest.mark.parametrize(
    ("count", "href", "said"),
    [(9, "page", ""), (12, "https://example.org/", ""), (12, "page", ", which says what this page is for")],
)
def test_lists_that_say_something_stay(count: int, href: str, said: str) -> None:
    read = html_to_markdown(f"<h1>One</h1>{_list(count, href, said)}<p>text")
    assert [f"- Page {at}{said}" for at in range(count)] == read.split("\n")[2 : 2 + count]


def test_a_page_of_links_alone_is_read() -> None:
    assert html_to_markdown(_list(20, "page")).count("- Page") == 20


def test_another_title_than_the_first_heading_stays() -> None:
    assert html_to_markdown("<title>Book: One</title><h2>One</h2>") == "# Book: One\n\n## One\n"
    assert html_to_markdown("<title>One</title><h2>Zero</h2><h2>One</h2>") == "# One\n\n## Zero\n\n## One\n"


def test_a_term_goes_with_what_is_said_of_it() -> None:
    page = "<dl><dt>a</dt><dt>b</dt><dd><p>First.</p><p>Second.</p></dd><dt>c</dt><dd>Third.</dl><p>End.</p>"
    assert html_to_markdown(page) == "a\nb\nFirst.\n\nSecond.\n\nc\nThird.\n\nEnd.\n"
    assert html_to_markdown("<dl><dt>One<dt>Two</dl><p>End.") == "One\nTwo\n\nEnd.\n"


def test_the_paragraphs_of_an_entry_in_a_table_of_one_column_stay_together() -> None:
    rows = "".join(f"<tr><td><p>f({name})</p><p>Says {name}.</p></td></tr>" for name in "ab")
    assert html_to_markdown(f"<table>{rows}</table>") == "f(a)\nSays a.\n\nf(b)\nSays b.\n"
    page = "<table><tr><td>" + "<p>word word word word</p>" * 100 + "</td></tr></table>"
    assert html_to_markdown(page).count("\n\n") == 99  # a page in a frame


def test_code_in_a_definition_stays_code() -> None:
    assert html_to_markdown("<dl><dt>f</dt><dd><pre>a  b</pre></dd></dl>") == "f\n```\na  b\n```\n"
