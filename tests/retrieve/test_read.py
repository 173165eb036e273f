from __future__ import annotations

import base64
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import (
    docx,
    epub,
    notebook,
    paragraph,
    pdf,
    pptx,
    shape,
    slide_table,
    word_table,
    xlsx,
)

from ragla.retrieve.decoding import decode, neutralise
from ragla.retrieve.html import html_to_markdown
from ragla.retrieve.read import NotIndexable, read_document

ENGLISH = "Café Müller pays 10 € – “soon”. Größe and façade are words the naïve reader knows well. "
CHINESE = "出差申请须提前三天提交给主管审批。报销标准是每天一百元，需要发票。"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (ENGLISH, "utf-8"), (ENGLISH, "utf-8-sig"), (ENGLISH, "utf-16"), (ENGLISH, "utf-32"),
        (ENGLISH, "cp1252"),
        (CHINESE, "utf-8"), (CHINESE, "gbk"), (CHINESE, "gb18030"), (CHINESE, "utf-16"),
    ],
)  # fmt: skip
def test_encodings(text: str, encoding: str) -> None:
    assert read_document("a.txt", text.encode(encoding)).text == text


@pytest.mark.parametrize(("text", "encoding"), [(ENGLISH, "cp1252"), (CHINESE, "gbk")])
def test_the_foreign_byte_may_come_late(text: str, encoding: str) -> None:
    whole = "plain ascii line\n" * 2000 + text * 5
    assert read_document("a.txt", whole.encode(encoding)).text == whole


@given(st.text())
def test_utf8_keeps_every_offset(text: str) -> None:
    decoded = decode(text.encode("utf-8", "surrogatepass")) if text.isprintable() else neutralise(text)
    assert decoded is not None
    assert len(decoded) == len(text.removeprefix("\ufeff") if text.isprintable() else text)
    assert not any((ord(c) < 32 and c not in "\t\n\r") or 0x7F <= ord(c) < 0xA0 for c in decoded)


def test_nul_and_escape_are_neutralised_one_for_one() -> None:
    raw = b"The fee is \x00 ten \x1b[31m euros.\r\n" + b"More text follows here. " * 10
    text = read_document("a.txt", raw).text
    assert len(text) == len(raw)
    assert "\x00" not in text
    assert "\x1b" not in text
    assert "\r\n" in text


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("a.txt", b"", "empty file"),
        ("a.md", b" \n\t\r\n", "no text in it"),
        ("a.bin", bytes(range(256)) * 40, "binary file"),
        (
            "a.png",
            b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 8,
            r"binary file \(PNG image\)",
        ),
        ("a.html", b"<html><script>let a = 1</script></html>", "no text in it"),
    ],
)
def test_what_has_no_text_is_named(name: str, raw: bytes, reason: str) -> None:
    with pytest.raises(NotIndexable, match=reason):
        read_document(name, raw)


def test_kind_goes_by_content_first() -> None:
    assert read_document("page.txt", b"<!DOCTYPE html><p>Hello").kind == "html"
    assert read_document("a.MD", b"# A").kind == "markdown"
    assert read_document("a.py", b"x = 1").kind == "code"
    assert read_document("README", b"words").kind == "text"
    assert read_document("wrong.md", pdf("Hello")).kind == "pdf"
    assert read_document("tool", b"#!/bin/sh\necho hi\n").kind == "code"
    assert read_document("notes.txt", b"The header %PDF-1.4 begins a PDF.").kind == "text"
    assert read_document("a.csv", b"Dear all, no table.\nJust words here.\nAnd more").kind == "text"


@pytest.mark.parametrize(
    ("name", "raw", "kind"),
    [
        ("a.rst", b"Title\n=====\n", "rst"),
        ("a.adoc", b"= Title\n", "asciidoc"),
        ("a.org", b"* Title\n", "org"),
        ("a.csv", b"a;b\r\n1;2\r\n", "table"),
        ("a.tsv", b"a\tb\n1\t2\n", "table"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n', "json"),
        ("a.yml", b"a:\n  b: 1\n", "yaml"),
        ("a.toml", b"[a]\nb = 1\n", "toml"),
        ("a.xyz", b"words", "text"),
    ],
)
def test_text_keeps_its_bytes(name: str, raw: bytes, kind: str) -> None:
    document = read_document(name, raw)
    assert (document.kind, document.text) == (kind, raw.decode())


def test_text_under_another_name_is_read_and_remarked() -> None:
    document = read_document("a.pdf", b"just words")
    assert (document.kind, document.text) == ("text", "just words")
    assert document.remark == "no PDF, whatever its name says: read as text"
    assert read_document("old.doc", b"<html><p>Saved as a page").kind == "html"


def test_word() -> None:
    raw = docx(
        paragraph("My title", "Title"),
        paragraph("Intro."),
        paragraph("Prices", "Heading1"),
        word_table([["name", "price"], ["Pen", "1|2"]]),
        paragraph("Deep", "Heading2"),
        paragraph("End."),
    )
    document = read_document("renamed.bin", raw)
    assert document.kind == "word"
    assert document.text == (
        "# My title\n\nIntro.\n\n# Prices\n\n| name | price |\n| --- | --- |\n"
        "| Pen | 1\\|2 |\n\n## Deep\n\nEnd.\n"
    )


def test_slides_come_in_the_order_shown_with_their_numbers() -> None:
    raw = pptx(
        shape("First", "title") + shape("one\ntwo") + shape("7", "sldNum"),
        shape("gone"),
        shape("Last", "ctrTitle") + slide_table([["k", "v"], ["a", "1"]]),
        notes={3: "Say this."},
        missing=(2,),
    )
    document = read_document("a.pptx", raw)
    pages = [document.text[start:].split("\n")[0] for start in document.page_starts]
    assert pages == ["# First", "", "# Last"]
    assert document.text.startswith("# First\n\none\ntwo\n\n")
    assert "| k | v |\n| --- | --- |\n| a | 1 |\n\nNotes: Say this." in document.text
    assert document.remark == "1 of 3 slides missing"


def test_a_workbook_shows_its_values_as_people_see_them() -> None:
    day = datetime.date(2026, 1, 2)
    moment = datetime.datetime(2026, 1, 2, 3, 4)
    rows = [["Report"], [], [None, "name", "n", "when"], [None, "Pen", 1.5, day], [None, "Cap", True, moment]]
    document = read_document(
        "a.xlsx", xlsx({"Prices": [*rows, [], ["x", "y"], [0.1 + 0.2, "a|b"]], "Empty": []})
    )
    assert document.text == (
        "# Prices\n\nReport\n\n| name | n | when |\n| --- | --- | --- |\n| Pen | 1.5 | 2026-01-02 |\n"
        "| Cap | TRUE | 2026-01-02 03:04:00 |\n\n| x | y |\n| --- | --- |\n| 0.3 | a\\|b |\n"
    )


def test_a_book_in_reading_order() -> None:
    chapters = ["<h1>One</h1><p>Hello<br/>there</p>", "<h1>Two</h1><a id='x'/><p>World</p>", "<p>lost</p>"]
    document = read_document("a.epub", epub(chapters, encrypted=["OEBPS/font.otf"], missing=(2,)))
    assert document.text == "# One\n\nHello\nthere\n\n# Two\n\nWorld\n"
    assert (document.kind, document.remark) == ("book", "1 of 3 chapters missing")


def test_a_notebook_keeps_prose_code_and_what_was_printed() -> None:
    raw = notebook(
        {"cell_type": "markdown", "source": ["# T\n", "prose"]},
        {
            "cell_type": "code",
            "source": "print('```')",
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[31mone\n"]},
                {"data": {"text/plain": "<two>", "image/png": "iVBORw0K"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "three"},
            ],
        },
    )
    assert read_document("a.ipynb", raw).text == (
        "# T\nprose\n\n````python\nprint('```')\n````\n\n```\none\n<two>ValueError: three\n```\n"
    )
    assert read_document("a.ipynb", b'{"cells": 3}').kind == "json"


MAIL = b"""From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\r
Subject: A trip\r
 to Rome\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=B\r
\r
--B\r
Content-Type: multipart/alternative; boundary=C\r
\r
--C\r
Content-Type: text/plain; charset=gbk\r
Content-Transfer-Encoding: base64\r
\r
%b\r
--C\r
Content-Type: text/html\r
\r
<p>the same in HTML\r
--C--\r
--B\r
Content-Type: application/pdf\r
Content-Disposition: attachment; filename="r.pdf"\r
\r
xx\r
--B--\r
"""


@pytest.mark.parametrize("name", ["a.eml", "saved.txt"])
def test_mail(name: str) -> None:
    document = read_document(name, MAIL % base64.b64encode(CHINESE.encode("gbk")))
    assert document.text == (
        f"# A trip to Rome\n\nFrom: Jürgen <j@example.org>\nAttachments: r.pdf\n\n{CHINESE}\n"
    )
    assert (document.kind, document.remark) == ("mail", "1 attachment not read")


def test_rtf_in_its_code_page() -> None:
    raw = rb"{\rtf1\ansi\ansicpg1251 {\b Hello} \'cc\'e8\'f0\par next}"
    assert read_document("a.doc", raw).text == "Hello Мир\nnext"


def test_xhtml_whose_title_closes_itself_keeps_its_page() -> None:
    page = '<?xml version="1.0"?><html><head><title/></head><body><p>kept<br/>whole</p></body></html>'
    assert html_to_markdown(page) == "kept\nwhole\n"


def test_tables_of_layout_are_no_tables() -> None:
    page = "<table><tr><td><table><tr><th>a<th>b<tr><td colspan=2>1</table><td>side</table>"
    assert html_to_markdown(page) == "| a | b |\n| --- | --- |\n| 1 |  |\n\nside\n"


def test_html_keeps_structure_and_drops_the_frame() -> None:
    page = """<html><head><title>Visitors</title><style>p{}</style></head><body><nav>Home | About</nav>
    <h2>Parking &amp; keys</h2><p>Ask at <b>the desk</b>.<br>Always.</p><ul><li>one</li><li>two</li></ul>
    <pre>a  b
 c</pre><table><tr><td>x</td><td>y</td></tr></table><script>alert(1)</script></body></html>"""
    assert html_to_markdown(page) == (
        "# Visitors\n\n## Parking & keys\n\nAsk at the desk.\nAlways.\n\n- one\n- two\n\n"
        "```\na  b\n c\n```\n\n| x | y |\n| --- | --- |\n"
    )


def test_html_nested_beyond_any_recursion_limit() -> None:
    assert html_to_markdown("<div>" * 5000 + "deep" + "</div>" * 5000).strip() == "deep"


def test_html_believes_its_charset() -> None:
    raw = "<html><meta charset='gbk'><p>中华</p></html>".encode("gbk")
    assert read_document("a.html", raw).text.strip() == "中华"


def test_pdf_pages_keep_their_numbers() -> None:
    document = read_document("a.pdf", pdf("First page", "Second page"))
    assert [document.text[start:].split("\n")[0] for start in document.page_starts] == [
        "First page",
        "Second page",
    ]
    assert document.remark is None


def test_pdf_with_blank_pages_says_so() -> None:
    assert read_document("a.pdf", pdf("One", "", "")).remark == "no text layer on 2 of 3 pages"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (pdf("", ""), r"no text layer on any of 2 pages"),
        (pdf("secret", password="x"), "encrypted PDF"),
        (b"%PDF-1.7\ngarbage", "damaged PDF"),
        (pdf("One")[:200], "damaged PDF|PDF without pages"),
    ],
)
def test_pdf_without_readable_text_is_not_indexed(raw: bytes, reason: str) -> None:
    with pytest.raises(NotIndexable, match=reason):
        read_document("a.pdf", raw)


def test_pdf_encrypted_with_an_empty_password_opens() -> None:
    assert "open" in read_document("a.pdf", pdf("open", password="")).text
