from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

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
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 8, "binary file"),
        ("a.pdf", b"just words", "not a PDF, whatever its name says"),
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


def test_html_keeps_structure_and_drops_the_frame() -> None:
    page = """<html><head><title>Visitors</title><style>p{}</style></head><body><nav>Home | About</nav>
    <h2>Parking &amp; keys</h2><p>Ask at <b>the desk</b>.<br>Always.</p><ul><li>one</li><li>two</li></ul>
    <pre>a  b
 c</pre><table><tr><td>x</td><td>y</td></tr></table><script>alert(1)</script></body></html>"""
    assert html_to_markdown(page) == (
        "# Visitors\n\n## Parking & keys\n\nAsk at the desk.\nAlways.\n\n- one\n- two\n\n"
        "```\na  b\n c\n```\n\nx | y\n"
    )


def test_html_nested_beyond_any_recursion_limit() -> None:
    assert html_to_markdown("<div>" * 5000 + "deep" + "</div>" * 5000).strip() == "deep"


def test_html_believes_its_charset() -> None:
    raw = "<html><meta charset='gbk'><p>中华</p></html>".encode("gbk")
    assert read_document("a.html", raw).text.strip() == "中华"


def pdf(*pages: str, password: str | None = None) -> bytes:
    """A PDF whose pages show these texts; an empty one has no text layer."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        if not text:
            continue
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


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
