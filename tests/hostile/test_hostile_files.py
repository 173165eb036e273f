"""Odd, broken and malicious files: all in one folder, one run, and each must end as it should."""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder
from made_files import (
    RELATIONS,
    docx,
    epub,
    notebook,
    paragraph,
    pdf,
    pptx,
    raw_xlsx,
    shape,
    word_table,
    xlsx,
    zipped,
)

from ragla.config import RetrieveSettings
from ragla.retrieve import IndexReport, index_folders
from ragla.retrieve.layout import current_database

PLAIN = "The zebra quietly crossed the wide river at dawn. "
GERMAN = "Die Größe der Straße überrascht jeden Gast aus Köln. "
CHINESE = "出差申请须提前三天提交给主管审批。报销标准是每天一百元，需要发票。"
JAPANESE = "これは日本語の文章です。旅費の精算には領収書が必要です。"
SECRET = "zq-never-indexed"
LAUGHS = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
UTF16_LAUGHS = f'<?xml version="1.0" encoding="utf-16"?>{LAUGHS}<d/>'.encode("utf-16")
YAML_LAUGHS = b"a: &a [x]\n" + b"".join(
    b"%c: &%c [*%c, *%c]\n" % (98 + i, 98 + i, 97 + i, 97 + i) for i in range(20)
)
OUTER_PICTURE = (
    f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="image" Target="file:///etc/passwd" '
    'TargetMode="External"/></Relationships>'
)
FAR_CELL = (
    '<row r="1"><c r="A1"><v>1</v></c><c r="B1" t="inlineStr"><is><t>zebra</t></is></c></row>'
    '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
)
ATTACHED = f'--b\nContent-Type: application/zip; name="a.zip"\n\n{SECRET}\n--b--\n'
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)


@dataclass(frozen=True)
class Odd:
    """A file and how it must end: skipped for ``reason``, or indexed with and without some texts."""

    name: str
    raw: bytes
    reason: str | None = None
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    remark: str | None = None


def bomb(name: str, size: int) -> bytes:
    """A zip with a member of so many spaces."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open(name, "w", force_zip64=True) as member:
            for _ in range(size // 1_000_000):
                member.write(b" " * 1_000_000)
    return made.getvalue()


def lying(raw: bytes, name: bytes, size: int) -> bytes:
    """The zip with another uncompressed size for a member, in its central directory and local header."""
    local, central = raw.index(b"PK\x03\x04"), raw.index(b"PK\x01\x02")
    while raw[local + 30 : local + 30 + len(name)] != name:
        local = raw.index(b"PK\x03\x04", local + 4)
    while raw[central + 46 : central + 46 + len(name)] != name:
        central = raw.index(b"PK\x01\x02", central + 4)
    changed = bytearray(raw)
    changed[local + 22 : local + 26] = changed[central + 24 : central + 28] = struct.pack("<I", size)
    return bytes(changed)


def locked(raw: bytes) -> bytes:
    """The zip with every member marked as encrypted."""
    changed = bytearray(raw)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.find(mark)
        while at >= 0:
            changed[at + offset] |= 1
            at = raw.find(mark, at + 4)
    return bytes(changed)


def broken_page() -> bytes:
    """A PDF of two pages, the content of the second of which is no content."""
    raw = pdf("Readable zebra page", "Second page here")
    return raw.replace(
        b"BT /F1 12 Tf 20 200 Td (Second page here) Tj ET",
        b"<< [[ BT (unclosed \xff\xfe 12 << >> TJ ]]] (".ljust(47),
    )


def page_loop() -> bytes:
    """A PDF whose page tree contains itself."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
    ]
    return assembled(objects)


def inflating_pdf() -> bytes:
    """A PDF whose one page inflates to 400 MB."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * 1_000_000) for _ in range(400)) + packer.flush()
    stream = b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed)
    return assembled(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
            stream,
        ]
    )


def assembled(objects: list[bytes]) -> bytes:
    made, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    table += b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(made))
    return made + table + trailer


def nested_mail(depth: int) -> bytes:
    head = b"MIME-Version: 1.0\nSubject: deep zebra mail\nFrom: a@example.org\n"
    parts = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (at, at) for at in range(depth)
    )
    return head + parts + b"Content-Type: text/plain\n\ninnermost\n"


def mail(headers: str, body: str | bytes) -> bytes:
    raw = body if isinstance(body, bytes) else body.encode()
    return f"From: a@example.org\nMIME-Version: 1.0\n{headers}\n\n".encode() + raw


TEXTS = [
    Odd("cp1252.txt", (GERMAN * 5).encode("cp1252"), holds=("Größe der Straße",)),
    Odd("gbk.md", ("# 标题\n\n" + CHINESE).encode("gbk"), holds=("报销标准",)),
    Odd("shift_jis.txt", (JAPANESE * 3).encode("shift_jis"), holds=("旅費の精算",)),
    Odd("utf16.txt", PLAIN.encode("utf-16"), holds=("zebra",)),
    Odd("utf16-no-mark.txt", (PLAIN * 20).encode("utf-16-le"), holds=("zebra",)),
    Odd("utf32.txt", PLAIN.encode("utf-32"), holds=("zebra",)),
    Odd(
        "mark-before-heading.md",
        b"\xef\xbb\xbf# Marked\n\nzebra text",
        holds=("zebra text",),
        lacks=("\ufeff",),
    ),
    Odd("nul.txt", PLAIN.encode() * 3 + b"a\x00b" + PLAIN.encode(), holds=("a b",), lacks=("\x00",)),
    Odd("escape.txt", b"\x1b]0;owned\x07" + PLAIN.encode() * 5, holds=("owned",), lacks=("\x1b", "\x07")),
    Odd("c1.txt", (PLAIN + "\x9b31m" + PLAIN).encode(), lacks=("\x9b",)),
    Odd(
        "surrogate.txt",
        (PLAIN * 4).encode() + b"\xed\xa0\x80" + PLAIN.encode(),
        holds=("zebra",),
        lacks=("\ud800",),
    ),
    Odd("one-bad-byte.txt", (PLAIN * 50).encode() + b"\xff" + PLAIN.encode(), holds=("zebra",)),
    Odd("cut-character.txt", CHINESE.encode()[:-1], holds=("报销标准",)),
    Odd("old-mac.txt", b"first zebra\rsecond line\rthird line\r", holds=("second line\rthird",)),
    Odd("mixed-ends.txt", b"a zebra\r\nb\nc\rd\n\r\n", holds=("a zebra\r\nb\nc\rd",)),
    Odd("one-line.txt", b"x" * 200_000, holds=("xxxx",)),
    Odd("no-spaces.txt", CHINESE.encode() * 1000, holds=("报销标准",)),
    Odd("zalgo.txt", ("z" + "\u0301\u0323" * 5000).encode(), holds=("\u0301",)),
    Odd("joined-emoji.txt", ("👩\u200d👩\u200d👧" * 2000).encode(), holds=("👩",)),
    Odd("turned-around.txt", (PLAIN + "\u202e txet \u202c").encode(), holds=("zebra",)),
    Odd("empty.txt", b"", reason="empty file"),
    Odd("blank.md", b" \n\t\r\n\xc2\xa0", reason="no text in it"),
    Odd("only-mark.txt", b"\xef\xbb\xbf", reason="no text in it"),
    Odd("all-nul.txt", bytes(5000), reason="binary file"),
    Odd("headings-alone.md", b"# One\n## Two\n### Three\n", holds=("# One",)),
    Odd(
        "thousands-of-headings.md", b"".join(b"# H%d\n\nt\n" % at for at in range(2_000)), holds=("# H1999",)
    ),
    Odd("open-fence.md", b"# A\n\n```\n# zebra comment\n" + b"code\n" * 200, holds=("zebra comment",)),
    Odd(
        "three-hundred-levels.md",
        b"".join(b"> " * at + b"quoted zebra\n" for at in range(300)),
        holds=("quoted",),
    ),
    Odd("brackets.md", b"[" * 50_000 + b" zebra", holds=("zebra",)),
    Odd("stars.md", b"*a_ " * 30_000 + b" zebra", holds=("zebra",)),
    Odd("about-pdf.txt", b"%PDF-1.7 is how a PDF begins, says the zebra.", reason="damaged PDF"),
    Odd("mentions-pdf.txt", b"A PDF begins with %PDF-1.7, says the zebra.", holds=("zebra",)),
]

STRUCTURED = [
    Odd("deep.json", b"[" * 50_000, holds=("[[[",)),
    Odd("cut.json", b'{"zebra": [1, 2, {"a"', holds=("zebra",)),
    Odd("large-number.json", b'{"zebra": ' + b"9" * 6000 + b"}", holds=("zebra",)),
    Odd("one-line.json", json.dumps([{"zebra": "word " * 50}] * 400).encode(), holds=("zebra",)),
    Odd("not-a-notebook.ipynb", b'{"cells": "zebra"}', holds=("zebra",)),
    Odd(
        "odd-cells.ipynb",
        notebook({"cell_type": 3}, {"source": ["zebra", 4]}, {"outputs": "x"}),
        holds=("zebra",),
    ),
    Odd(
        "picture.ipynb",
        notebook({"cell_type": "code", "source": "zebra()", "outputs": [{"data": {"image/png": SECRET}}]}),
        holds=("zebra()",),
        lacks=(SECRET,),
    ),
    Odd(
        "escape.ipynb",
        notebook({"cell_type": "markdown", "source": "zebra\u0000\u001b[1m"}),
        holds=("zebra",),
        lacks=("\0", "\x1b"),
    ),
    Odd("laughs.yaml", YAML_LAUGHS, holds=("*t",)),
    Odd("python.yaml", b"zebra: !!python/object/apply:os.system ['touch /tmp/owned']\n", holds=("zebra",)),
    Odd("quote-never-closed.csv", b'a,b\n"zebra,1\n' + b"x,y\n" * 500, holds=("zebra",)),
    Odd(
        "five-hundred-columns.csv",
        b"\n".join(b",".join(b"c%d" % i for i in range(500)) for _ in range(4)),
        holds=("c499",),
    ),
    Odd("ragged.csv", b"a,b,c\nzebra\n1,2,3,4,5\n,,\n", holds=("zebra",)),
    Odd("no-table.csv", b"Dear zebra,\nthis is a letter.\n\nYours\n", holds=("letter",)),
    Odd("broken.toml", b"[zebra\nx = = 1\n", holds=("zebra",)),
    Odd(
        "a-page.txt",
        b"<!-- saved --><!DOCTYPE html><script>var x='" + SECRET.encode() + b"'</script><p>zebra",
        holds=("zebra",),
        lacks=(SECRET,),
    ),
    Odd("nested.html", b"<div>" * 20_000 + b"zebra", holds=("zebra",)),
    Odd("nested-tables.html", b"<table><tr><td>" * 2000 + b"zebra", holds=("zebra",)),
    Odd("never-closed.html", b"<html><p>zebra<b>bold<i>both<table><tr><td>cell", holds=("zebra", "cell")),
    Odd(
        "wrong-charset.html",
        b"<html><meta charset=utf-8><p>" + (GERMAN * 4).encode("cp1252"),
        holds=("Größe",),
    ),
    Odd("unknown-charset.html", "<html><meta charset=klingon><p>Größe zebra".encode(), holds=("Größe",)),
    Odd(
        "controls.html", b"<html><p>zebra&#0;&#27;[31m&#x9b;", holds=("zebra",), lacks=("\0", "\x1b", "\x9b")
    ),
    Odd(
        "wide-span.html",
        b"<table><tr><td colspan=999999999>zebra<td>b<tr><td>c<td>d</table>",
        holds=("zebra",),
    ),
    Odd("only-script.html", b"<html><script>let a = 1</script></html>", reason="no text in it"),
]

DOCUMENTS = [
    Odd("scanned.pdf", pdf("", "", ""), reason="no text layer on any of 3 pages: scanned?"),
    Odd(
        "half-scanned.pdf",
        pdf("zebra page", "", ""),
        holds=("zebra page",),
        remark="no text layer on 2 of 3 pages",
    ),
    Odd("locked.pdf", pdf("secret", password="x"), reason="encrypted PDF: a password is needed"),
    Odd("unlocked.pdf", pdf("open zebra", password=""), holds=("open zebra",)),
    Odd("cut.pdf", pdf("One")[:200], reason="damaged PDF|PDF without pages"),
    Odd("garbage.pdf", b"%PDF-1.7\n" + b"\xff\x00garbage" * 50, reason="damaged PDF"),
    Odd(
        "no-pages.pdf",
        assembled([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>"]),
        reason="PDF without pages",
    ),
    Odd("loop.pdf", page_loop(), reason="damaged PDF|no text layer"),
    Odd("inflates.pdf", inflating_pdf(), reason="no text layer"),
    Odd(
        "bad-page.pdf",
        broken_page(),
        holds=("Readable zebra page",),
        lacks=("Error", "unclosed"),
        remark="no text layer on 1 of 2",
    ),
    Odd("late-header.pdf", b"HTTP/1.1 200 OK\r\n\r\n" + pdf("late zebra"), holds=("late zebra",)),
    Odd("pdf-in-disguise.txt", pdf("disguised zebra"), holds=("disguised zebra",)),
    Odd(
        "text-in-disguise.pdf",
        b"just zebra words",
        holds=("just zebra words",),
        remark="no PDF, whatever its name",
    ),
    Odd("word-in-disguise.zip", docx(paragraph("disguised zebra")), holds=("disguised zebra",)),
    Odd("page-in-disguise.doc", b"<html><p>saved zebra", holds=("saved zebra",), remark="no Word document"),
    Odd("zip-in-disguise.docx", zipped({"a.txt": SECRET}), reason="a zip archive: unpack it"),
    Odd("sheet-in-disguise.docx", xlsx({"S": [["zebra", "b"], [1, 2]]}), holds=("| zebra | b |",)),
    Odd("empty.docx", docx(paragraph("")), reason="no text in it"),
    Odd("cut.docx", docx(paragraph("zebra"))[:-60], reason="a zip archive|damaged"),
    Odd("no-body.docx", zipped({"word/document.xml": ""}), reason="damaged Word document"),
    Odd("not-xml.docx", zipped({"word/document.xml": "zebra & <"}), reason="damaged Word document"),
    Odd("laughs.docx", docx(paragraph("&b;"), prolog=LAUGHS), reason="XML with a document type"),
    Odd("outside.docx", docx(paragraph("&x;"), prolog=OUTSIDE), reason="XML with a document type"),
    Odd("laughs-utf16.docx", docx(more={"word/more.xml": UTF16_LAUGHS}), reason="XML with a document type"),
    Odd(
        "bomb.docx",
        bomb("word/document.xml", 300_000_000),
        reason="too large: word/document.xml unpacks to 300,000,000",
    ),
    Odd(
        "lying.docx",
        lying(docx(paragraph("zebra " * 5000)), b"word/document.xml", 100),
        reason="damaged Word document",
    ),
    Odd("locked-parts.docx", locked(docx(paragraph(SECRET))), reason="encrypted Word document"),
    Odd("locked.docx", OLE + "EncryptedPackage".encode("utf-16-le"), reason="encrypted office document"),
    Odd("old.doc", OLE + b"zebra", reason="an old binary office file"),
    Odd(
        "deep.docx",
        docx("<w:tbl><w:tr><w:tc>" * 2000 + paragraph("z") + "</w:tc></w:tr></w:tbl>" * 2000),
        reason="cannot be parsed|damaged",
    ),
    Odd(
        "linked-picture.docx",
        docx(paragraph("zebra"), more={"word/_rels/document.xml.rels": OUTER_PICTURE}),
        holds=("zebra",),
        lacks=("root:",),
    ),
    Odd(
        "table.docx",
        docx(word_table([["k", "v"], *[[f"key{i}", "zebra"] for i in range(200)]])),
        holds=("| key199 | zebra |",),
    ),
    Odd("far-cell.xlsx", raw_xlsx(FAR_CELL), holds=("zebra",)),
    Odd(
        "row-beyond.xlsx",
        raw_xlsx('<row r="2000000000"><c r="A2000000000"><v>1</v></c></row>'),
        reason="too large",
    ),
    Odd(
        "bad-cells.xlsx",
        raw_xlsx('<row><c r="?!"><v>1</v></c></row>'),
        reason="cannot be parsed|damaged workbook",
    ),
    Odd(
        "bad-index.xlsx",
        raw_xlsx('<row r="1"><c r="A1" t="s"><v>99</v></c></row>'),
        reason="cannot be parsed|damaged workbook",
    ),
    Odd("no-sheet.xlsx", zipped({"xl/workbook.xml": "<workbook/>"}), reason="damaged workbook"),
    Odd(
        "missing-slide.pptx",
        pptx(shape("zebra", "title"), shape("gone"), missing=(2,)),
        holds=("# zebra",),
        remark="1 of 2 slides missing",
    ),
    Odd("laughs.pptx", zipped({"ppt/presentation.xml": f"{LAUGHS}<p/>"}), reason="XML with a document type"),
    Odd(
        "locked.epub",
        epub([f"<p>{SECRET}</p>"], encrypted=["OEBPS/text/c%200.xhtml"]),
        reason="encrypted EPUB: 1 of 1 chapter under DRM",
    ),
    Odd("fonts-locked.epub", epub(["<p>open zebra</p>"], encrypted=["OEBPS/f.otf"]), holds=("open zebra",)),
    Odd(
        "climbing.epub",
        zipped({"META-INF/container.xml": '<c><rootfile full-path="../../etc/passwd"/></c>'}),
        reason="damaged EPUB: ../../etc/passwd is missing",
    ),
    Odd("laughs.epub", epub(["<p>x</p>"], prolog=LAUGHS), reason="XML with a document type"),
    Odd(
        "libre.odt",
        zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": SECRET}),
        reason="an OpenDocument file",
    ),
    Odd(
        "many-parts.docx",
        zipped({"word/document.xml": "<d/>", **{f"p{i}": "" for i in range(20_001)}}),
        reason="too many parts",
    ),
    Odd("cut.rtf", rb"{\rtf1\ansi {\b zebra \'f6 \u99999999? \bin99999", reason="damaged RTF document"),
    Odd("deep.rtf", b"{\\rtf1 " + b"{" * 50_000 + b"zebra", holds=("zebra",)),
    Odd(
        "bad-base64.eml",
        mail("Subject: zebra\nContent-Transfer-Encoding: base64", "!!!not base64!!!"),
        holds=("# zebra",),
    ),
    Odd(
        "unknown-charset.eml",
        mail("Subject: =?klingon?q?zebra?=\nContent-Type: text/plain; charset=klingon", "zebra body"),
        holds=("zebra body",),
    ),
    Odd(
        "bad-header.eml",
        mail("Subject: =?utf-8?b?zzz?= \xff\nTo: <<>>,,;\nDate: never", "zebra body"),
        holds=("zebra body",),
    ),
    Odd("deep.eml", nested_mail(3000), reason=r"cannot be parsed \(RecursionError\)"),
    Odd(
        "locked.eml",
        mail("Content-Type: application/pkcs7-mime; smime-type=enveloped-data", SECRET),
        reason="encrypted mail",
    ),
    Odd(
        "attached.eml",
        mail("Subject: zebra\nContent-Type: multipart/mixed; boundary=b", ATTACHED),
        holds=("Attachments: a.zip",),
        lacks=(SECRET,),
        remark="1 attachment not read",
    ),
]

BINARIES = [
    Odd("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), reason=r"binary file \(PNG image\)"),
    Odd("picture.md", b"\xff\xd8\xff\xe0" + bytes(range(256)), reason=r"binary file \(JPEG image\)"),
    Odd("packed.txt", b"\x1f\x8b\x08" + bytes(300), reason=r"binary file \(gzip archive\)"),
    Odd("database.txt", b"SQLite format 3\0" + b"zebra " * 500, reason=r"binary file \(SQLite database\)"),
    Odd("program", b"\x7fELF" + b"zebra " * 500, reason=r"binary file \(program\)"),
    Odd(
        "texts.tar",
        b"a.txt".ljust(257, b"\0") + b"ustar" + b"zebra " * 5000,
        reason=r"binary file \(tar archive\)",
    ),
    Odd("noise.txt", bytes(range(256)) * 40, reason="binary file"),
    Odd("font.woff2", b"wOF2" + bytes(range(256)), reason=r"binary file \(font\)"),
    Odd("too-large.txt", b"zebra " * 400_000, reason="too large: 2,400,000 bytes, the limit is 2,000,000"),
]

ODD = [*TEXTS, *STRUCTURED, *DOCUMENTS, *BINARIES]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[IndexReport, dict[str, str]]:
    """All of them indexed in one run; its report, and the texts in the index by file name."""
    folder, place = tmp_path_factory.mktemp("odd"), tmp_path_factory.mktemp("index")
    for odd in ODD:
        (folder / odd.name).write_bytes(odd.raw)
    report = index_folders([folder], place, RetrieveSettings(), HashingEmbedder(), max_bytes=2_000_000)
    database = current_database(place)
    assert database is not None
    connection = sqlite3.connect(database)
    texts = dict(connection.execute("SELECT path, text FROM files JOIN documents USING (id)"))
    wrong = connection.execute('SELECT count(*) FROM chunks WHERE "end" <= start').fetchone()[0]
    connection.close()
    assert wrong == 0
    return report, texts


def test_there_are_many_and_each_has_one_end(run: tuple[IndexReport, dict[str, str]]) -> None:
    report, texts = run
    names = {odd.name for odd in ODD}
    assert len(names) == len(ODD) >= 60
    skipped = [Path(path).name for path, _ in report.skipped]
    assert sorted([*texts, *skipped]) == sorted(names)
    assert report.indexed == len(texts)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.name)
def test_each_ends_as_it_should(odd: Odd, run: tuple[IndexReport, dict[str, str]]) -> None:
    report, texts = run
    reasons = {Path(path).name: reason for path, reason in report.skipped}
    remarks = {Path(path).name: remark for path, remark in report.remarks}
    if odd.reason is not None:
        assert re.match(odd.reason, reasons.get(odd.name, "was indexed"))
        return
    assert reasons.get(odd.name) is None
    for text in odd.holds:
        assert text in texts[odd.name]
    for text in odd.lacks:
        assert text not in texts[odd.name]
    assert re.match(odd.remark or "$", remarks.get(odd.name, ""))


def test_nothing_secret_and_no_error_message_was_indexed(run: tuple[IndexReport, dict[str, str]]) -> None:
    for text in run[1].values():
        assert SECRET not in text
        assert "root:x:0:0" not in text
        assert "Traceback" not in text
        assert not any(
            (ord(char) < 32 and char not in "\t\n\r") or 0x7F <= ord(char) < 0xA0 for char in text[:5000]
        )
