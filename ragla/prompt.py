"""Passages and a question become prompt tokens.

Passages are data: whatever they contain, no part of them is read as a control token of the model. This
module knows a tokenizer and text; it retrieves nothing and decodes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Wordings were compared on the handbook's questions: asked to quote, a small model copies and is right more
# often than asked to answer; given a fixed sentence for "no answer", it takes that way out far too often.
SYSTEM = "You answer questions about documents by quoting them."
TASK = (
    "Quote the sentences that answer the question, and after each quote give the number of its passage, like "
    "[1]. If the passages do not answer the question, say that they do not."
)
SYSTEM_ZH = "你通过引用原文来回答关于文档的问题。"
TASK_ZH = (
    "请逐字引用能回答问题的句子，并在每句后面注明段落编号，例如 [1]。"
    "如果段落没有回答这个问题，就说段落没有提到。"
)
REFUSAL_LENGTH = 240  # characters; what is longer says something
REFUSAL = re.compile(
    r"\b(passages?|documents?|texts?|information)\b[^.]*\b(do|does|did)(n't| not) (explicitly |directly )?"
    r"(say|answer|mention|contain|provide|specify|state|include|give|explain|discuss|address|tell)\b"
    r"|\b(is|are|was|were)(n't| not) (explicitly |directly )?"
    r"(mentioned|stated|provided|specified|given|contained|found|included|available|answered)\b"
    r"[^.]*\b(passages?|documents?|texts?|information)\b"
    r"|^no (passage|document|information)\b"
    r"|(段落|文档|资料|文中|原文)[^。]{0,20}(没有|未|并未)[^。]{0,6}(提|说|回答|给出|包含|涉及|明确)",
    re.IGNORECASE,
)
CITATION = re.compile(r"\[(\d{1,3})\]")
HEADING = re.compile(r"#{1,6} ")
MARK = re.compile(r"<(/?)\s*passage", re.IGNORECASE)
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
    chinese = bool(CJK.search(question))
    before, after = frame(tokenizer, SYSTEM_ZH if chinese else SYSTEM)
    task = instruction or (TASK_ZH if chinese else TASK)
    head = encode(tokenizer, before, special=True)
    token_ids = list(head)
    spans = []
    for block in blocks:
        spans.append(range(len(token_ids), len(token_ids) + len(block)))
        token_ids += block
    asked = f"{'问题：' if chinese else 'Question: '}{question.strip()}\n\n{task}"
    token_ids += encode(tokenizer, asked, special=False)
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
    """A passage as the model reads it: numbered, titled, without headings that only repeat the title."""
    lines = passage.text.strip().splitlines()
    while len(lines) > 1 and (not lines[0].strip() or _repeats(lines[0], passage.title)):
        del lines[0]
    title = f' title="{_data(passage.title)}"'.replace("\n", " ") if passage.title else ""
    text = _data("\n".join(lines))
    return f'<passage number="{number}"{title}>\n{text}\n</passage>\n\n'


def _repeats(line: str, title: str) -> bool:
    heading = HEADING.match(line)
    return heading is not None and line[heading.end() :].strip() in title


def _data(text: str) -> str:
    """Text that cannot open or close a passage."""
    return MARK.sub(r"<\1 passage", text)


def frame(tokenizer: Any, system: str) -> tuple[str, str]:
    """What the model wants before and after the user's words: its chat template, or plain lines."""
    if not getattr(tokenizer, "chat_template", None):
        return f"{system}\n\n", "\n\nAnswer:"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": PLACEHOLDER}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception:  # templates raise errors of their own for a system role they do not know
        messages = [{"role": "user", "content": f"{system}\n\n{PLACEHOLDER}"}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    before, _, after = text.partition(PLACEHOLDER)
    return before, after


def encode(tokenizer: Any, text: str, *, special: bool) -> list[int]:
    """Token ids of ``text``; only with ``special`` do control tokens written in it count as such."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"]
    return ids


def is_refusal(text: str) -> bool:
    """Whether an answer only says that the passages do not hold one; one that cites says more."""
    return len(text) <= REFUSAL_LENGTH and bool(REFUSAL.search(text)) and not CITATION.search(text)
