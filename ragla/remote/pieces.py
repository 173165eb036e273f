"""Text cut into pieces about as large as tokens, for prompts whose tokenizer is elsewhere.

The pieces stand in for token ids where a prompt is packed. There are rather more of them than a model has
tokens, so that what fits here fits there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# A run of letters is cut where most tokenizers would; what few of them have words for is cut into characters.
PIECE = re.compile(r" ?[A-Za-z]{1,5}| ?\d|[À-ɏ\u0370-\u052f]{1,2}|\n+|[^\S\n]+|.", re.DOTALL)


class TextPieces:
    """A tokenizer as ``ragla.prompt`` and ``ragla.text_stream`` use one; text → ids → the same text."""

    chat_template = None  # the server has one

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []

    def __call__(self, text: str, **_: bool) -> dict[str, list[int]]:
        """The ids of a text; no piece is a control token."""
        return {"input_ids": self.encode(text)}

    def encode(self, text: str) -> list[int]:
        """The same, bare."""
        return [self._id(piece) for piece in PIECE.findall(text)]

    def decode(self, token_ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """The text that they came from."""
        return "".join(self._texts[number] for number in token_ids)

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._texts)
            self._texts.append(piece)
        return self._ids[piece]
