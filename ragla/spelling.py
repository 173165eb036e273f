"""Tokens that are written alike: with or without a space, a capital, or punctuation before the word.

A copied span starts where the text around it is another, so its first token is often not the token that
was read: ``The`` for `` the``, ``发`` for ``，发``. It knows a tokenizer; it drafts nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ragla.prompt import encode

LEADING = " \n\t\"'“”‘’([{（【《*_-–—,.:;，。：；、！？"


class Spelling:
    """Looks tokens up by their text, and remembers what it found."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._alike: dict[int, tuple[int, ...]] = {}

    def alike(self, token_ids: Collection[int]) -> dict[int, tuple[int, ...]]:
        """For each token the single tokens that are written alike, itself left out."""
        unknown = sorted(set(token_ids) - self._alike.keys())
        texts = self.tokenizer.batch_decode([[token] for token in unknown]) if unknown else []
        forms = {token: _forms(text) for token, text in zip(unknown, texts, strict=True)}
        found = self._singles({form for others in forms.values() for form in others})
        for token, others in forms.items():
            ids = [found[form] for form in others if form in found]
            self._alike[token] = tuple(dict.fromkeys(other for other in ids if other != token))
        return {token: self._alike[token] for token in token_ids}

    def _singles(self, texts: Iterable[str]) -> dict[str, int]:
        """Those texts that are one token."""
        ordered = sorted(texts)
        if not ordered:
            return {}
        rows = self.tokenizer(ordered, add_special_tokens=False)["input_ids"]
        return {text: row[0] for text, row in zip(ordered, rows, strict=True) if len(row) == 1}


def stop_sequences(tokenizer: Any, stop: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """The token sequences that usually write one of the stop strings."""
    found: dict[tuple[int, ...], None] = {}
    for text in stop:
        for form in (text, f" {text}", f"\n{text}"):
            ids = tuple(encode(tokenizer, form, special=False))
            if ids:
                found[ids] = None
    return tuple(found)


def _forms(text: str) -> list[str]:
    bare = text.lstrip(LEADING)
    if not bare or "\ufffd" in bare:  # nothing but punctuation, or part of a character
        return []
    other = bare[0].swapcase() + bare[1:]
    return [form for form in (f" {bare}", bare, f" {other}", other) if form != text]
