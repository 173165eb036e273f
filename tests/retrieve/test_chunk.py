from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hashing_embedder import HashingEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from ragla.errors import UsageError
from ragla.retrieve.chunk import Chunk, Chunker, embedded_text
from ragla.retrieve.headings import markdown_headings, paths
from ragla.retrieve.read import Document, Kind

EMBEDDER = HashingEmbedder()
WORDS = st.sampled_from(
    ["# Head", "## Sub", "word", "two words.", "差旅报销标准。", "- item", "```", "    x = 1", "😀é", ""]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", " "])
TEXTS = st.lists(st.tuples(WORDS, ENDS), max_size=60).map(lambda parts: "".join(a + b for a, b in parts))


def tokens(text: str) -> int:
    return len(EMBEDDER.tokenizer.encode(text).ids)


def line_of(text: str, offset: int) -> int:
    return 1 + len(re.findall(r"\r\n|\n|\r", text[:offset])) - (text[offset - 1 : offset + 1] == "\r\n")


@given(TEXTS, st.sampled_from(["markdown", "text", "code"]), st.integers(4, 40), st.integers(0, 3))
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
    covered = {i for chunk in chunks for i in range(chunk.start, chunk.end)}
    missing = "".join(" " if i in covered else char for i, char in enumerate(text))
    assert not missing.strip() or kind == "markdown"
    assert all(line.lstrip().startswith("#") for line in re.split(r"[\r\n]", missing) if line.strip())


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
