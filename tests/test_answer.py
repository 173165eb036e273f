"""The seam: streaming never loses or doubles text, and sources are what the answer rests on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.answer import (
    DOCUMENT_CHARACTERS,
    NO_ANSWER,
    NO_ANSWER_ZH,
    Evidence,
    Source,
    TextStream,
    cite,
    copied_passages,
    draft_limits,
    gather,
    no_answer,
)
from ragla.config import DecodeSettings
from ragla.decode.request import Block
from ragla.prompt import Prompt, PromptPassage
from ragla.retrieve.passage import Passage, ScoredPassage
from tests.cli.tiny_models import byte_tokenizer

END = byte_tokenizer().convert_tokens_to_ids("<|im_end|>")

# --- the stream --------------------------------------------------------------------------------------


class Stream:
    """A TextStream, what it handed on, and the ids it has seen."""

    def __init__(self, *stop: str) -> None:
        self.pieces: list[str] = []
        self.stream = TextStream(byte_tokenizer(), stop, self.pieces.append)
        self.ids: list[int] = []

    def push(self, ids: list[int]) -> str:
        """All that was handed on after these ids."""
        self.ids += ids
        self.stream.push(self.ids, frozenset({END}))
        return "".join(self.pieces)

    def say(self, text: str) -> str:
        return self.push(byte_tokenizer()(text)["input_ids"])

    def finish(self) -> str:
        """The final text, which is exactly what was handed on."""
        text = self.stream.finish()
        assert "".join(self.pieces) == text
        return text


def single_bytes(text: str) -> list[int]:
    """Token ids of the text's bytes, one a byte."""
    from tokenizers.pre_tokenizers import ByteLevel

    spelled = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return [byte_tokenizer().convert_tokens_to_ids(letter) for piece, _ in spelled for letter in piece]


def test_half_a_character_waits_for_the_rest() -> None:
    stream = Stream()
    first, second, third = single_bytes("旅")
    stream.say("to ")
    assert stream.push([first]) == stream.push([second]) == "to"
    assert stream.push([third]) == "to 旅"
    assert stream.finish() == "to 旅"


def test_what_may_become_a_stop_string_waits() -> None:
    stream = Stream("\nQ:", "STOP")
    assert stream.say("one\n") == "one"
    assert stream.say("Q") == "one"
    assert stream.say("uick S") == "one\nQuick"
    assert stream.say("TOOL") == "one\nQuick STOOL"
    assert stream.say(" STOP and more") == "one\nQuick STOOL"
    assert stream.finish() == "one\nQuick STOOL"


def test_a_stop_string_completed_by_half_characters_is_never_shown() -> None:
    stream = Stream("完了")
    stream.say("答")
    for token in single_bytes("完了"):
        assert stream.push([token]) == "答"
    assert stream.finish() == "答"


def test_the_earliest_of_several_stop_strings_counts() -> None:
    stream = Stream("later", "now")
    stream.say("go now or later")
    assert stream.finish() == "go"


def test_end_tokens_and_outer_white_space_are_no_text() -> None:
    stream = Stream()
    assert stream.say("\n  ") == ""
    assert stream.say("a b ") == "a b"
    stream.push([END])
    assert stream.finish() == "a b"


def test_nothing_is_handed_on_for_nothing() -> None:
    stream = Stream()
    stream.push([END])
    assert stream.finish() == ""
    assert stream.pieces == []


def test_a_stream_without_listener_has_the_same_text() -> None:
    stream = TextStream(byte_tokenizer(), ("STOP",), None)
    stream.push(byte_tokenizer()(" a STOP b")["input_ids"], frozenset())
    assert stream.finish() == "a"


TEXTS = st.text(st.sampled_from("ab \n旅é😀."), max_size=24)


@given(
    text=TEXTS,
    stops=st.lists(st.text(st.sampled_from("ab 旅\n"), min_size=1, max_size=4), max_size=2),
    data=st.data(),
)
def test_whatever_the_blocks_the_stream_is_the_text_up_to_the_first_stop(
    text: str, stops: list[str], data: Any
) -> None:
    ids = single_bytes(text) if data.draw(st.booleans()) else byte_tokenizer()(text)["input_ids"]
    stream = Stream(*stops)
    shown = ""
    while ids:
        size = data.draw(st.integers(1, len(ids)))
        now = stream.push(ids[:size])
        assert now.startswith(shown)
        shown, ids = now, ids[size:]
    ends = [text.index(stop) for stop in stops if stop in text]
    assert stream.finish() == text[: min(ends, default=len(text))].strip()


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
        ("document:d.md", 7), ("document:b.md", 0), ("document:c.md", 3), ("passage:0", 1), ("answer", 2),
    ]  # fmt: skip
    block = Block([1] * len(origins), origins)
    assert list(copied_passages(block, prompt, evidence)) == [1, 1, 2, 2, 1, 0, 0, 0]


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
    assert evidence.documents == [("1.md", "second document"), ("0.md", "first document")]
    assert retriever.asked == {0: 1, 1: 1}
    assert [source.number for source in evidence.sources] == [1, 2, 3]
    assert [source.score for source in evidence.sources] == [0.5, 0.4, 0.3]
    assert evidence.passages[0] == PromptPassage("title", "text")


@pytest.mark.parametrize("at", [0, 100_000, 199_995])
def test_of_a_long_document_the_part_around_the_passage_is_read(at: int) -> None:
    text = "".join(f"{n:05}" for n in range(40_000))
    retriever: Any = Documents(a=text)
    [(_, part)] = gather([scored(0, at, at + 5)], retriever).documents
    assert text[at : at + 5] in part
    assert DOCUMENT_CHARACTERS // 2 - 5 <= len(part) <= DOCUMENT_CHARACTERS


# --- small rules -------------------------------------------------------------------------------------------


def test_barred_anchors_are_single_tokens_with_and_without_space() -> None:
    tokenizer = byte_tokenizer()
    settings = DecodeSettings(barred_anchors=("the", ".", "a long phrase of many tokens"), draft_budget=7)
    limits = draft_limits(settings, tokenizer, frozenset({END}))
    barred = {tokenizer.decode([token]) for token in limits.barred_anchors}
    assert barred == {" the", "."} | ({"the"} if len(tokenizer("the")["input_ids"]) == 1 else set())
    assert (limits.budget, limits.forbidden) == (7, {END})


def test_an_anchor_written_as_a_control_token_bars_no_control_token() -> None:
    settings = DecodeSettings(barred_anchors=("<|im_end|>",))
    assert END not in draft_limits(settings, byte_tokenizer(), frozenset()).barred_anchors


@pytest.mark.parametrize(
    ("question", "sentence"), [("Why?", NO_ANSWER), ("为什么？", NO_ANSWER_ZH), ("", NO_ANSWER)]
)
def test_no_answer_is_said_in_the_language_of_the_question(question: str, sentence: str) -> None:
    assert no_answer(question) == sentence
