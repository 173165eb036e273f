"""Files of many formats, made byte by byte for tests; nothing here is a recorded file."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def zipped(members: dict[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def relations(*targets: tuple[str, str]) -> str:
    lines = "".join(
        f'<Relationship Id="rId{at}" Type="{R}/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(targets, 1)
    )
    return f'{XML}<Relationships xmlns="{RELATIONS}">{lines}</Relationships>'


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def word_table(rows: Sequence[Sequence[str]]) -> str:
    body = "".join(
        "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in rows
    )
    return f"<w:tbl>{body}</w:tbl>"


def docx(*body: str, prolog: str = "", more: dict[str, str | bytes] | None = None) -> bytes:
    """A Word document of these XML blocks, with the styles Title, Heading1 and Heading2."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{key}"><w:name w:val="{name}"/></w:style>'
        for key, name in (("Title", "Title"), ("Heading1", "heading 1"), ("Heading2", "heading 2"))
    )
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>'
    )
    return zipped(
        {
            "[Content_Types].xml": XML + types,
            "_rels/.rels": relations(("officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(("styles", "styles.xml")),
            "word/styles.xml": f'{XML}<w:styles xmlns:w="{W}">{styles}</w:styles>',
            "word/document.xml": f'{XML}{prolog}<w:document xmlns:w="{W}"><w:body>{"".join(body)}</w:body>'
            "</w:document>",
            **(more or {}),
        }
    )


def shape(text: str, role: str = "body") -> str:
    lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:cNvSpPr/><p:nvPr><p:ph type="{role}"/></p:nvPr>'
        f"</p:nvSpPr><p:txBody>{lines}</p:txBody></p:sp>"
    )


def slide_table(rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(
        "<a:tr>"
        + "".join(
            f"<a:tc><a:txBody><a:p><a:r><a:t>{cell}</a:t></a:r></a:p></a:txBody></a:tc>" for cell in row
        )
        + "</a:tr>"
        for row in rows
    )
    return (
        f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{cells}</a:tbl></a:graphicData></a:graphic>"
        "</p:graphicFrame>"
    )


def pptx(*slides: str, notes: dict[int, str] | None = None, missing: tuple[int, ...] = ()) -> bytes:
    """A presentation whose members are numbered against the order in which the slides are shown."""
    count = len(slides)
    listed = "".join(f'<p:sldId id="{255 + at}" r:id="rId{at}"/>' for at in range(1, count + 1))
    members: dict[str, str | bytes] = {
        "[Content_Types].xml": XML + "<Types/>",
        "ppt/presentation.xml": f'{XML}<p:presentation xmlns:p="{P}" xmlns:r="{R}"><p:sldIdLst>{listed}'
        "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            *(("slide", f"slides/slide{count + 1 - at}.xml") for at in range(1, count + 1))
        ),
    }
    for at, body in enumerate(slides, 1):
        file = f"slide{count + 1 - at}.xml"
        if at not in missing:
            members[f"ppt/slides/{file}"] = (
                f'{XML}<p:sld xmlns:p="{P}" xmlns:a="{A}"><p:cSld><p:spTree>{body}</p:spTree></p:cSld>'
                "</p:sld>"
            )
        if notes and at in notes:
            members[f"ppt/slides/_rels/{file}.rels"] = relations(("notesSlide", "../notesSlides/n.xml"))
            members["ppt/notesSlides/n.xml"] = (
                f'{XML}<p:notes xmlns:p="{P}" xmlns:a="{A}">{shape(notes[at])}{shape("7", "sldNum")}'
                "</p:notes>"
            )
    return zipped(members)


def xlsx(sheets: dict[str, Sequence[Sequence[object]]]) -> bytes:
    """A workbook as openpyxl writes it."""
    from openpyxl import Workbook

    workbook = Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    made = io.BytesIO()
    workbook.save(made)
    return made.getvalue()


def raw_xlsx(sheet_data: str) -> bytes:
    """A workbook whose one sheet has this XML for its rows, whatever it says."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
        'PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'spreadsheetml.sheet.main+xml"/></Types>'
    )
    return zipped(
        {
            "[Content_Types].xml": XML + types,
            "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'{XML}<workbook xmlns="{main}" xmlns:r="{R}"><sheets>'
            '<sheet name="Data" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(("worksheet", "worksheets/sheet1.xml")),
            "xl/worksheets/sheet1.xml": f'{XML}<worksheet xmlns="{main}"><sheetData>{sheet_data}'
            "</sheetData></worksheet>",
        }
    )


def epub(
    chapters: Sequence[str], encrypted: Sequence[str] = (), missing: tuple[int, ...] = (), prolog: str = ""
) -> bytes:
    """A book of these XHTML bodies, in this order."""
    items = "".join(
        f'<item id="c{at}" href="text/c%20{at}.xhtml" media-type="application/xhtml+xml"/>'
        for at in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    members: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": f"{XML}{prolog}"
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        "OEBPS/book.opf": f'{XML}<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest>'
        f"<spine>{spine}</spine></package>",
    }
    if encrypted:
        uris = "".join(f'<e:CipherReference URI="{uri}"/>' for uri in encrypted)
        members["META-INF/encryption.xml"] = f'<encryption xmlns:e="urn:e">{uris}</encryption>'
    for at, body in enumerate(chapters):
        if at not in missing:
            members[f"OEBPS/text/c {at}.xhtml"] = (
                f"{XML}<html><head><title/></head><body>{body}</body></html>"
            )
    return zipped(members)


def notebook(*cells: dict[str, object], language: str = "python") -> bytes:
    whole = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"language_info": {"name": language}},
        "cells": list(cells),
    }
    return json.dumps(whole).encode()


def pdf(*pages: str, password: str | None = None, algorithm: str = "RC4-128") -> bytes:
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
        writer.encrypt(password, algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
