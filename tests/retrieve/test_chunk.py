from __future__ import annotations

import json
import re
import sys
from itertools import pairwise

import pytest
from hashing_embedder import HashingEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from ragla.errors import UsageError
from ragla.retrieve.chunk import Chunk, Chunker, embedded_text
from ragla.retrieve.definitions import definitions, json_values, toml_tables, yaml_keys
from ragla.retrieve.headings import MARKUP, Heading, markdown_headings, paths
from ragla.retrieve.read import Document, Kind
from ragla.retrieve.sections import segments
from ragla.retrieve.tables import delimiter_of, tables

EMBEDDER = HashingEmbedder()
# Lines that mean something in one of the formats, so that every kind meets its own and everybody else's.
WORDS = st.sampled_from(
    [
        "# Head", "## Sub", "word", "two words.", "差旅报销标准。", "- item", "```", "    x = 1", "😀é", "",
        "=====", "-----", "= Adoc", "|===", "* Org", "#+begin_src", "| a | b |", "| --- | --- |",
        "| 1 | 2 |",
        "+---+---+", "+===+===+", "def f(x):", "    class A:", "int main(void) {", "}", "// note", "@wraps",
        "key:", "  inner: |", "    text: is no key", "[table]",
        '{"a": [1, 2, {"b": "' + "long " * 20 + '"}]}',
        "a,b,c", '"quo', 'ted",1,2', "1;2;3", "Notes: x",
    ]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", " "])
TEXTS = st.lists(st.tuples(WORDS, ENDS), max_size=60).map(lambda parts: "".join(a + b for a, b in parts))
KINDS: list[Kind] = [
    "markdown", "text", "code", "rst", "asciidoc", "org", "table", "json", "yaml", "toml", "mail", "sheet",
]  # fmt: skip


def tokens(text: str) -> int:
    return len(EMBEDDER.tokenizer.encode(text).ids)


def line_of(text: str, offset: int) -> int:
    return 1 + len(re.findall(r"\r\n|\n|\r", text[:offset])) - (text[offset - 1 : offset + 1] == "\r\n")


@given(TEXTS, st.sampled_from(KINDS), st.integers(4, 40), st.integers(0, 3))
@settings(deadline=None)
def test_offsets_lines_and_sizes_are_exact(text: str, kind: Kind, size: int, overlap: int) -> None:
    chunks = Chunker(EMBEDDER, size, overlap).chunks(Document(kind, text))
    for chunk in chunks:
        piece = text[chunk.start : chunk.end]
        assert piece.strip()
        assert tokens(piece) <= size
        assert (chunk.first_line, chunk.last_line) == (
            line_of(text, chunk.start),
            line_of(text, chunk.end - 1),
        )
        assert embedded_text(EMBEDDER, chunk.title, piece).endswith(piece)
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
    covered = {i for chunk in chunks for i in range(chunk.start, chunk.end)}
    missing = "".join(" " if i in covered else char for i, char in enumerate(text))
    # Only headings may be left out, and they are in the titles of what follows them.
    headings = MARKUP.get(kind, lambda text: [])(text)
    titles = {name for chunk in chunks for name in chunk.title.split(" > ")}
    told = [heading for heading in headings if heading.name in titles or not heading.name]
    heads = {i for heading in told for i in range(heading.start, heading.body)}
    assert not "".join(char for i, char in enumerate(missing) if i not in heads).strip()


@given(TEXTS, st.sampled_from(KINDS))
@settings(deadline=None)
def test_segments_are_the_whole_text(text: str, kind: Kind) -> None:
    found = list(segments(Document(kind, text)))
    assert "".join(text[segment.start : segment.end] for segment in found) == text


def test_a_document_of_headings_alone_still_has_a_chunk() -> None:
    assert len(cut("# One\n\n## Two\n", 4, "markdown")) >= 1


def cut(text: str, size: int = 40, kind: Kind = "text", overlap: int = 0) -> list[Chunk]:
    return Chunker(EMBEDDER, size, overlap).chunks(Document(kind, text))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_count_whatever_ends_them(end: str) -> None:
    text = end.join(f"line {number} has some words." for number in range(1, 31))
    chunks = cut(text, 18)
    assert [chunk.first_line for chunk in chunks] == list(range(1, 31, 3))
    assert [chunk.last_line for chunk in chunks] == list(range(3, 31, 3))


def test_a_chinese_paragraph_is_cut_at_its_sentences() -> None:
    text = "差旅报销需要发票和审批单。" * 50
    chunks = cut(text, 30)
    assert all(text[chunk.start : chunk.end].endswith("。") for chunk in chunks)
    assert max(chunk.end - chunk.start for chunk in chunks) <= 30


def test_a_run_that_is_one_token_does_not_become_one_huge_chunk() -> None:
    chunks = cut("QUJD" * 5000, 20)
    assert "".join(("QUJD" * 5000)[chunk.start : chunk.end] for chunk in chunks) == "QUJD" * 5000
    assert max(chunk.end - chunk.start for chunk in chunks) <= 240


def test_code_keeps_the_indentation_of_its_first_line() -> None:
    text = "def f():\n" + "\n".join(f"    value_{i} = {i}" for i in range(40))
    chunks = cut(text, 24, "code")
    assert len(chunks) > 2
    assert all(text[chunk.start : chunk.end].startswith("    ") for chunk in chunks[1:])


def test_headings_travel_with_chunks() -> None:
    text = (
        "# Travel\n\n## Booking\n\n"
        + "Book early. " * 30
        + "\n\n## Hotels ##\n\nStay near.\n\n# Boats\n\nMoor.\n"
    )
    chunks = cut(text, 40, "markdown")
    assert [chunk.title for chunk in chunks] == ["Travel > Booking"] * 3 + ["Travel > Hotels", "Boats"]
    assert text[chunks[0].start : chunks[0].end].startswith("Book early.")
    assert text[chunks[-2].start : chunks[-2].end] == "## Hotels ##\n\nStay near."


def test_what_is_a_heading() -> None:
    text = "Title\n=====\n\n```sh\n# a comment\n```\n\nSub\n---\n\n- item\n---\n\n#hashtag\n### Deep #\n"
    found = [" > ".join(path) for _, path in paths(markdown_headings(text))]
    assert found == ["Title", "Title > Sub", "Title > Sub > Deep"]


def test_pages_of_a_pdf() -> None:
    text = "One page.\n\n" + "Second page has words. " * 10 + "\n\n"
    chunks = Chunker(EMBEDDER, 20, 0).chunks(Document("pdf", text, (0, 11)))
    assert (chunks[0].page, chunks[-1].page) == (1, 2)


def test_overlap_repeats_the_end_of_the_chunk_before() -> None:
    chunks = cut("One two three. " * 40, 20, overlap=8)
    assert all(left.start < right.start < left.end for left, right in pairwise(chunks))


@pytest.mark.parametrize(("size", "overlap"), [(32, 32), (32, 33), (500, 0)])
def test_sizes_that_cannot_work_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(UsageError) as caught:
        Chunker(EMBEDDER, size, overlap)
    assert "set retrieve.chunk_" in str(caught.value.hint)


def test_the_embedded_text_always_fits_the_embedder() -> None:
    embedder = HashingEmbedder(max_tokens=20)
    text = "word " * 14
    title = "A long outer heading of many words > Inner"
    assert embedded_text(embedder, title, text) == "Inner\n" + text
    assert embedded_text(embedder, title, "short").startswith("A long outer")
    assert embedded_text(embedder, "no room for this one here", text) == text


def outline(headings: list[Heading]) -> list[str]:
    return [" > ".join(path) for _, path in paths(headings)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("kind", "lines", "expected"),
    [
        ("rst",
         ["=====", "Guide", "=====", "", "Part", "----", "", "text", "", "Deep", "~~~~", "", "Two", "----"],
         ["Guide", "Guide > Part", "Guide > Part > Deep", "Guide > Two"]),
        ("rst", ["===  ===", "a    b", "===  ===", "1    2", "===  ===", "", "+--+", "|ab|", "+--+"], []),
        ("asciidoc", ["= Book", "", "== Part", "----", "== no heading", "----", "=== Deep", "=="],
         ["Book", "Book > Part", "Book > Part > Deep"]),
        ("org", ["* TODO [#A] Top :tag:", "#+BEGIN_SRC org", "* no", "#+END_SRC", "** Sub", "*bold* text"],
         ["Top", "Top > Sub"]),
        ("mail", ["# Subject", "", "text", "----", "# no"], ["Subject"]),
    ],
)  # fmt: skip
def test_headings_of_other_markup(kind: str, lines: list[str], expected: list[str], end: str) -> None:
    assert outline(MARKUP[kind](end.join(lines))) == expected


CODE = """import os

# What it is for.
@wraps
class Store(Base):
    limit = 3

    def read(self, name):
        return open(name)

async def main(
    a,
):
    if x (y):
        pass
"""


def test_definitions_and_what_belongs_to_them() -> None:
    found = definitions(CODE)
    assert outline(found) == ["class Store", "class Store > def read", "def main"]
    assert CODE[found[0].start :].startswith("# What it is for.")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("export default async function go(a) {\n  return f(a);\n}\nconst add = async (a, b) => {\n};",
         ["function go", "add"]),
        ("class A<T> extends B {\n  public void run(int a) {\n    foo(a);\n  }\n}",
         ["class A", "class A > run"]),
        ("func (r *T) Name(x int) error {\n}\ntype T struct {\n}", ["func (r *T) Name", "type T"]),
        ("pub(crate) fn go<T>(a: T) -> u8 {\n}\nimpl T for U {\n}\nmacro_rules! m {\n}",
         ["fn go", "impl T", "macro_rules! m"]),
        ("static int f(int a,\n    int b)\n{\n  return g(a);\n}\n/*\n * text (in a comment)\n */\n", ["f"]),
        ("CREATE TABLE IF NOT EXISTS t (\n a int\n);", ["CREATE TABLE IF NOT EXISTS t"]),
        ("go() {\n  ls\n}\n", ["go"]),
        ('resource "x" "y" {\n}\n', ["resource x"]),
        ('"""A class of things, which\nclass of things, and the\ntype that is."""\nx = 1\n', []),
    ],
)  # fmt: skip
def test_definitions_in_many_languages(code: str, expected: list[str]) -> None:
    assert outline(definitions(code)) == expected


def test_code_is_cut_at_definitions_and_small_ones_share_a_chunk() -> None:
    body = "".join(f"        total += value_{i}\n" for i in range(12))
    code = "import os\n\n\nclass A:\n" + "".join(
        f"    def m{i}(self):\n{body if i == 2 else '        pass'}\n\n" for i in range(5)
    )
    chunks = cut(code, 60, "code")
    assert [(code[chunk.start : chunk.end].lstrip()[:8], chunk.title) for chunk in chunks] == [
        ("import o", ""),
        ("def m2(s", "class A > def m2"),
        ("total +=", "class A > def m2"),
        ("def m3(s", "class A"),
    ]


def test_keys_of_yaml_and_tables_of_toml() -> None:
    text = "paths:\n  /users:\n    get:\n      deep: 1\n    text: |\n      no: key\n---\nother: 1\n'q': 2\n"
    assert outline(yaml_keys(text)) == [
        "paths", "paths > /users", "paths > /users > get", "paths > /users > text", "other", "q",
    ]  # fmt: skip
    assert outline(toml_tables("[a.b]\nx = [1]\n[[c]] # note\n")) == ["a.b", "c"]


def test_json_is_cut_at_its_values_however_it_is_laid_out() -> None:
    records = [{"title": f"T{i}", "text": "word " * 400, "n": 10**5000} for i in range(3)]
    for indent in (None, 2):
        sys.set_int_max_str_digits(0)
        text = json.dumps({"data": records}, indent=indent)
        sys.set_int_max_str_digits(4300)
        found = json_values(text)
        assert outline(found)[:4] == ["", "data", "data", "data > title"]
        assert text[found[3].start :].startswith('"title": "T0"')
    lines = json_values('{"a": 1}\r\n{"a": 2}\r\n')
    assert [heading.start for heading in lines] == [0, 10]
    assert json_values('{"a": ') == json_values("[" * 100_000) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("kind", "head", "row"),
    [
        ("markdown", ["| name | price |", "|---|---|"], "| item {} | {} |"),
        ("org", ["| name | price |", "|------+-------|"], "| item {} | {} |"),
        ("table", ["name,price"], "item {},{}"),
        ("table", ["name;price"], '"item {}";{}'),
        ("rst", ["+------+-------+", "| name | price |", "+======+=======+"], "| it{} | {}  |"),
        ("asciidoc", ["|===", "| name | price", ""], "| item {} | {}"),
    ],
)
def test_every_chunk_of_rows_has_the_header(kind: Kind, head: list[str], row: str, end: str) -> None:
    text = end.join(
        [*head, *(row.format(i, i * 3) for i in range(1, 60)), *(["|==="] if kind == "asciidoc" else [])]
    )
    before = "" if kind == "table" else f"Before.{end}{end}"
    after = "" if kind == "table" else f"{end}{end}After it."
    chunks = cut(before + text + after, 40, kind)
    rows = [chunk for chunk in chunks if "it" in (before + text)[chunk.start : chunk.end]]
    assert len(rows) > 5
    for chunk in rows:
        piece = (before + text + after)[chunk.start : chunk.end]
        assert chunk.title == "name | price" or ("name" in piece and "price" in piece)
        assert len(re.split(r"\r\n|\n|\r", piece)) == chunk.last_line - chunk.first_line + 1
        assert embedded_text(EMBEDDER, chunk.title, piece).startswith(chunk.title)


def test_a_small_table_stays_whole_with_its_text() -> None:
    text = "# Prices\n\nAs of May.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.\n"
    assert [chunk.title for chunk in cut(text, 60, "markdown")] == ["Prices"]


def test_a_wide_header_leaves_room_for_rows() -> None:
    names = ",".join(f"column{i}" for i in range(100))
    text = names + "\n" + "\n".join(",".join(str(i * j) for j in range(100)) for i in range(3))
    chunks = cut(text, 60, "table")
    assert chunks[-1].title.startswith("column0 | column1")
    assert chunks[-1].title.endswith("…")
    for chunk in chunks:
        assert embedded_text(EMBEDDER, chunk.title, text[chunk.start : chunk.end]).startswith(chunk.title)


def test_records_of_csv() -> None:
    text = 'name,note\n"a, b","two\nlines"\nc,"d"\n'
    (table,) = tables("table", text)
    assert [text[start:].partition(",")[0] for start in table.rows] == ['"a', "c"]
    assert tables("table", "1,2\n3,4\n")[0].header == ""
    assert [delimiter_of(text) for text in ("a\tb\n1\t2", "a|b\n1|2", '"x,y";b\n"1,2";2', "words\nonly")] == [
        "\t", "|", ";", None,
    ]  # fmt: skip


def test_a_long_text_without_any_break_is_cut_in_bounded_parts() -> None:
    text = "字" * 250_000
    assert [segment.end - segment.start for segment in segments(Document("text", text))] == [
        100_000, 100_000, 50_000,
    ]  # fmt: skip
