"""What an answer rests on: documents around what was found, and the passages it is counted for."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from ragla.decode.request import Block
from ragla.evidence import (
    DOCUMENT_CHARACTERS,
    DocumentPart,
    Evidence,
    Source,
    cite,
    copied_passages,
    gather,
)
from ragla.prompt import Prompt, PromptPassage
from ragla.retrieve.passage import Passage, ScoredPassage

# --- sources -------------------------------------------------------------------------------------------

SOURCES = [Source(n, f"{name}.md", n, n + 1, 0.5) for n, name in enumerate("abcd", 1)]


@pytest.mark.parametrize(
    ("text", "copied", "cited"),
    [
        ("So it is [2].", {1: 50}, [2]),
        ("[1] and [3], again [1].", {}, [1, 3]),
        ("No such passage [7], [0].", {1: 4, 2: 3}, [1]),
        ("Just copied.", {2: 4, 3: 3, 0: 99}, [2]),
        ("Own words.", {}, []),
        ("", {1: 50}, []),
        ("The year [2024] is no passage.", {}, []),
    ],
)
def test_cited_is_what_the_answer_names_or_else_copies(
    text: str, copied: dict[int, int], cited: list[int]
) -> None:
    used = [0, 2, 3]
    found = cite(SOURCES, used, text, Counter(copied))
    assert [source.number for source in found] == [1, 2, 3]
    assert [source.path for source in found] == ["a.md", "c.md", "d.md"]
    assert [source.number for source in found if source.cited] == cited
    assert [source.copied for source in found] == [copied.get(number, 0) for number in (1, 2, 3)]


def test_passages_without_sources_cite_nothing() -> None:
    assert cite([], [0, 1], "as [1] says", Counter({1: 9})) == []


def prompt_of(spans: list[range], used: list[int]) -> Prompt:
    return Prompt([0] * 100, spans, used, [])


def test_copied_tokens_are_counted_for_their_passage() -> None:
    evidence = Evidence([], SOURCES)
    prompt = prompt_of([range(10, 20), range(20, 30)], [1, 3])
    origins: list[tuple[str, int] | None] = [
        ("prompt", 10), ("prompt", 19), ("prompt", 20), ("prompt", 5), ("prompt", 30), None,
        ("document:0:d.md", 7), ("document:90:b.md", 0), ("document:0:c.md", 3), ("passage:0", 1),
        ("6ed7930fbd8d", 2),
    ]  # fmt: skip
    block = Block([1] * len(origins), origins)
    assert list(copied_passages(block, prompt, evidence)) == [1, 1, 2, 2, 1, 0, 0]


# --- evidence --------------------------------------------------------------------------------------------


class Documents:
    """A retriever's texts; counts how often each is asked for."""

    def __init__(self, **texts: str) -> None:
        self.texts = dict(enumerate(texts.values()))
        self.asked: Counter[int] = Counter()

    def document_text(self, document_id: int) -> str:
        self.asked[document_id] += 1
        return self.texts[document_id]


def scored(document_id: int, start: int = 0, end: int = 5, score: float = 0.5) -> ScoredPassage:
    passage = Passage(start, document_id, f"{document_id}.md", "/x", "title", "text", start, end, 3, 4)
    return ScoredPassage(passage, score, score, score)


def test_each_parent_document_feeds_the_trie_once_the_best_last() -> None:
    retriever: Any = Documents(a="first document", b="second document")
    evidence = gather([scored(0), scored(1, score=0.4), scored(0, 6, 9, score=0.3)], retriever)
    assert evidence.documents == [
        DocumentPart("1.md", 0, "second document"),
        DocumentPart("0.md", 0, "first document"),
    ]
    assert retriever.asked == {0: 1, 1: 1}
    assert [source.number for source in evidence.sources] == [1, 2, 3]
    assert [source.score for source in evidence.sources] == [0.5, 0.4, 0.3]
    assert evidence.passages[0] == PromptPassage("title", "text")


@pytest.mark.parametrize("at", [0, 100_000, 199_995])
def test_of_a_long_document_the_part_around_the_passage_is_read(at: int) -> None:
    text = "".join(f"{n:05}" for n in range(40_000))
    retriever: Any = Documents(a=text)
    [part] = gather([scored(0, at, at + 5)], retriever).documents
    assert text[at : at + 5] in part.text
    assert part.text == text[part.start : part.start + len(part.text)]
    assert DOCUMENT_CHARACTERS // 2 - 5 <= len(part.text) <= DOCUMENT_CHARACTERS


def test_several_passages_of_a_long_document_share_what_is_read_of_it() -> None:
    text = "".join(f"{n:05}" for n in range(40_000))
    retriever: Any = Documents(a=text)
    places = [150_000, 1_000, 151_000, 60_000]
    parts = gather([scored(0, at, at + 5) for at in places], retriever).documents
    assert all(any(text[at : at + 5] in part.text for part in parts) for at in places)
    assert [part.start for part in parts] == sorted(part.start for part in parts)
    assert all(a.start + len(a.text) < b.start for a, b in pairwise(parts))
    assert sum(len(part.text) for part in parts) <= DOCUMENT_CHARACTERS
