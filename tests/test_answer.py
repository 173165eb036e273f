"""The seam: streaming never loses or doubles text; bounds of a draft come from the profile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.conditions import draft_limits
from ragla.config import DecodeSettings
from ragla.prompt import NO_ANSWER, NO_ANSWER_ZH, no_answer
from ragla.text_stream import TextStream
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


@pytest.mark.parametrize("count", [1, 2])
def test_half_a_character_where_the_answer_was_cut_is_no_text(count: int) -> None:
    stream = Stream()
    stream.say("to ")
    stream.push(single_bytes("旅")[:count])
    assert stream.finish() == "to"


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


def test_nothing_is_drafted_behind_a_stop_string() -> None:
    limits = draft_limits(DecodeSettings(stop=("END",)), byte_tokenizer(), frozenset())
    texts = {byte_tokenizer().decode(list(stop)) for stop in limits.stops}
    assert texts == {"END", " END", "\nEND"}
