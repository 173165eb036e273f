"""Tokens that are written alike but for a space, a capital or punctuation before the word."""

from __future__ import annotations

from typing import Any

from ragla.spelling import Spelling, stop_sequences

WORDS = ["the", " the", "The", " The", "发", "，发", "\n", ",", "cat"]


class WordTokenizer:
    """Knows a few words as single tokens and all else as characters."""

    def __init__(self) -> None:
        self.decoded = 0

    def batch_decode(self, rows: list[list[int]]) -> list[str]:
        self.decoded += len(rows)
        return ["".join(WORDS[token] for token in row) for row in rows]

    def __call__(self, text: Any, **_: Any) -> dict[str, Any]:
        texts = [text] if isinstance(text, str) else text
        rows = [[WORDS.index(one)] if one in WORDS else [1000 + ord(c) for c in one] for one in texts]
        return {"input_ids": rows[0] if isinstance(text, str) else rows}


def test_spaces_capitals_and_punctuation_before_a_word_are_let_pass() -> None:
    alike = Spelling(WordTokenizer()).alike([1, 5, 6, 8])
    assert set(alike[1]) == {0, 2, 3}
    assert alike[5] == (4,)
    assert alike[6] == alike[8] == ()


def test_a_token_is_looked_up_once() -> None:
    tokenizer = WordTokenizer()
    spelling = Spelling(tokenizer)
    spelling.alike([0, 1])
    spelling.alike([0, 1, 2])
    assert tokenizer.decoded == 3
    assert spelling.alike([]) == {}


def test_stop_strings_are_written_with_a_space_or_a_line_before_them() -> None:
    assert stop_sequences(WordTokenizer(), ["the"]) == ((0,), (1,), tuple(1000 + ord(c) for c in "\nthe"))
    assert stop_sequences(WordTokenizer(), []) == ()
