"""Passages and a question become prompt tokens.

Passages are data: whatever they contain, no part of them is read as a control token of the model. This
module knows a tokenizer and text; it retrieves nothing and decodes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

REFUSAL = "NOT IN THE DOCUMENTS"
INSTRUCTION = (
    "You answer questions from numbered passages. Use only the passages. Copy the sentences that answer the "
    "question word for word, all of them and nothing else, and after each put the number of its passage in "
    f"square brackets, like [1]. If the passages do not contain the answer, reply exactly: {REFUSAL}"
)
INSTRUCTION_ZH = (
    "你根据带编号的段落回答问题。只使用这些段落。逐字抄写能回答问题的句子，不要改写，不要添加别的内容，"
    f"并在每句后面用方括号写出段落编号，例如 [1]。如果段落中没有答案，只回复：{REFUSAL}"
)
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
PLACEHOLDER = "\x02ragla\x03"


@dataclass(frozen=True)
class PromptPassage:
    """A passage as the prompt shows it: a title line, which may be empty, and the text."""

    title: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """``token_ids``, and where in them each passage is.

    ``used`` are the indices of the passages in it, in the order of their numbers [1], [2], …, ``spans``
    their token ranges; ``left_out`` are the indices of those that did not fit.
    """

    token_ids: list[int]
    spans: list[range]
    used: list[int]
    left_out: list[int]


def build_prompt(
    tokenizer: Any,
    question: str,
    passages: Sequence[PromptPassage],
    token_budget: int,
    instruction: str | None = None,
) -> Prompt:
    """The prompt for a question: as many whole passages, best first, as ``token_budget`` tokens hold."""
    used, left_out, blocks = pack(tokenizer, passages, token_budget)
    instruction = instruction or (INSTRUCTION_ZH if CJK.search(question) else INSTRUCTION)
    before, after = frame(tokenizer, instruction, question)
    head = encode(tokenizer, before, special=True)
    token_ids = list(head)
    spans = []
    for block in blocks:
        spans.append(range(len(token_ids), len(token_ids) + len(block)))
        token_ids += block
    token_ids += encode(tokenizer, f"Question: {question.strip()}", special=False)
    token_ids += encode(tokenizer, after, special=True)
    return Prompt(token_ids, spans, used, left_out)


def pack(
    tokenizer: Any, passages: Sequence[PromptPassage], token_budget: int
) -> tuple[list[int], list[int], list[list[int]]]:
    """Indices of the passages that fit, of those that do not, and the token ids of each that fits."""
    used: list[int] = []
    left_out: list[int] = []
    blocks: list[list[int]] = []
    room = token_budget
    for index, passage in enumerate(passages):
        block = encode(tokenizer, passage_text(len(used) + 1, passage), special=False)
        if len(block) <= room:
            used.append(index)
            blocks.append(block)
            room -= len(block)
        else:
            left_out.append(index)
    return used, left_out, blocks


def passage_text(number: int, passage: PromptPassage) -> str:
    """A passage as the model reads it."""
    title = f"{passage.title}\n" if passage.title else ""
    return f"[{number}] {title}{passage.text.strip()}\n\n"


def frame(tokenizer: Any, instruction: str, question: str) -> tuple[str, str]:
    """What the model wants before and after the user's words: its chat template, or plain lines."""
    if not getattr(tokenizer, "chat_template", None):
        return f"{instruction}\n\n", "\nAnswer:"
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": PLACEHOLDER}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception:  # templates raise errors of their own for a system role they do not know
        messages = [{"role": "user", "content": f"{instruction}\n\n{PLACEHOLDER}"}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    before, _, after = text.partition(PLACEHOLDER)
    return before, after


def encode(tokenizer: Any, text: str, *, special: bool) -> list[int]:
    """Token ids of ``text``; only with ``special`` do control tokens written in it count as such."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"]
    return ids


def is_refusal(text: str) -> bool:
    """Whether an answer says that the passages do not hold one."""
    return text.strip().lstrip("\"'*").upper().startswith(REFUSAL)


def may_become_refusal(text: str) -> bool:
    """Whether an answer that is still growing could turn out to be a refusal."""
    start = text.strip().lstrip("\"'*").upper()
    return REFUSAL.startswith(start) or start.startswith(REFUSAL)
