"""Prompts of texts that are told to the model as they stand, inside its chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragla.prompt import Prompt, Turn, encode

MARK = "\x02ragla{}\x03"
"""Stands for a text while the chat template is written out, which may change what it is given."""


def turn_prompt(tokenizer: Any, text: str, before: Sequence[Turn] = ()) -> Prompt:
    """The prompt of ``text`` after the turns ``before``; no control token written in a text counts as one."""
    texts = [part for turn in before for part in (turn.question, turn.answer)] + [text]
    token_ids: list[int] = []
    for at, piece in enumerate(_frame(tokenizer, len(texts))):
        token_ids += encode(tokenizer, piece, special=True)
        if at < len(texts):
            token_ids += encode(tokenizer, texts[at].strip(), special=False)
    return Prompt(token_ids, [], [], [])


def _frame(tokenizer: Any, texts: int) -> list[str]:
    """What stands around so many texts, of user and assistant in turn: a piece more than there are texts."""
    marks = [MARK.format(at) for at in range(texts)]
    written = _written(tokenizer, marks)
    pieces = []
    for mark in marks:
        piece, _, written = written.partition(mark)
        pieces.append(piece)
    return [*pieces, written]


def _written(tokenizer: Any, marks: Sequence[str]) -> str:
    plain = (
        "\n\n".join(f"Answer: {mark}" if at % 2 else mark for at, mark in enumerate(marks)) + "\n\nAnswer:"
    )
    if not getattr(tokenizer, "chat_template", None):
        return plain
    messages = [{"role": "assistant" if at % 2 else "user", "content": mark} for at, mark in enumerate(marks)]
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    return text if all(mark in text for mark in marks) else plain
