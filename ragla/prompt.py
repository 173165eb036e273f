"""Passages and a question become prompt tokens.

Passages are data: whatever they contain, no part of them is read as a control token of the model. This
module knows a tokenizer and text; it retrieves nothing and decodes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
NO_ANSWER = "The documents do not answer this question."
NO_ANSWER_ZH = "文档中没有这个问题的答案。"
REFUSAL_LENGTH = 240  # characters; what is longer says something
REFUSAL = re.compile(
    r"\b(passages?|documents?|texts?|information)\b[^.]*\b(do|does|did)(n't| not) (explicitly |directly )?"
    r"(say|answer|mention|contain|provide|specify|state|include|give|explain|discuss|address|tell)\b"
    r"|\b(is|are|was|were)(n't| not) (explicitly |directly )?"
    r"(mentioned|stated|provided|specified|given|contained|found|included|available|answered)\b"
    r"[^.]*\b(passages?|documents?|texts?|information)\b"
    r"|^no (passage|document|information)\b|^not (mentioned|stated|provided|specified|given|found)\b"
    r"|\bthere (is|are|was) no (information|mention)\b"
    r"|(段落|文档|文件|资料|文中|原文)[^。]{0,20}(没有|未|并未)[^。]{0,6}(提|说|回答|给出|包含|涉及|明确)",
    re.IGNORECASE,
)
# [1], [1][2], [1, 2], [1-3], and 【1】 as some models write
CITATION = re.compile(r"[\[【［](\d{1,3}(?:\s*[,，、;–-]\s*\d{1,3})*)[\]】］]")
MORE = re.compile(r"[;；]|\b(but|however|although|though)\b|，但|，不过|，然而", re.IGNORECASE)
# One that names a passage is taken at its word only where it speaks of nothing but passages: a document
# may well say that breakfast is not included, or that old documents do not need to be kept.
CITED_REFUSAL = re.compile(
    r"[^.!?;,]*(?:\bnot|n't) (?:explicitly |directly )?"
    r"(?:mentioned|stated|specified|provided|given|answered|said)"
    r" (?:anywhere )?in (?:any of )?(?:the|this|these) (?:given |provided |cited )?passages?\.?"
    r"|(?:the|this|these|none of the) (?:given |provided |cited )?(?:passage|document)s? "
    r"(?:do|does|did)(?: not|n't) "
    r"(?:explicitly |directly )?(?:say|mention|state|specify|answer|tell)\b[^.!?;,]*\.?"
    r"|[^。！？；，]*(?:没有|未|并未)(?:被)?(?:明确)?(?:提到|提及)(?!的)[^。！？；，]{0,12}。?"
    r"|文档中没有这个问题的答案。?",
    re.IGNORECASE,
)
HEADING = re.compile(r"#{1,6} ")
MARK = re.compile(r"<(/?)\s*passage", re.IGNORECASE)
CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
PLACEHOLDER = "\x02ragla\x03"
TURNS_SHARE = 4  # of the passages' tokens a quarter at most goes to what was said before


@dataclass(frozen=True)
class PromptPassage:
    """A passage as the prompt shows it: a title line, which may be empty, and the text."""

    title: str
    text: str


@dataclass(frozen=True)
class Turn:
    """A question of a conversation and what was answered."""

    question: str
    answer: str


@dataclass(frozen=True)
class Prompt:
    """``token_ids``, and where in them each passage is.

    ``used`` are the indices of the passages in it, in the order of their numbers [1], [2], …, ``spans``
    their token ranges; ``left_out`` are the indices of those that did not fit. ``cuts`` are the places
    where a part ends that the next prompt may begin with, too.
    """

    token_ids: list[int]
    spans: list[range]
    used: list[int]
    left_out: list[int]
    cuts: tuple[int, ...] = ()


def build_prompt(
    tokenizer: Any,
    question: str,
    passages: Sequence[PromptPassage],
    token_budget: int,
    instruction: str | None = None,
    turns: Sequence[Turn] = (),
    most: int | None = None,
) -> Prompt:
    """The prompt for a question: as many whole passages, best first, as ``token_budget`` tokens hold.

    Of the ``turns`` before it as many as a quarter of the budget holds, the last ones, if that leaves room
    for a passage; the passages get the rest. ``most`` tokens are in the whole prompt, if question and frame
    leave it that choice.
    """
    chinese = bool(CJK.search(question))
    before, after = frame(tokenizer, SYSTEM_ZH if chinese else SYSTEM)
    task = instruction or (TASK_ZH if chinese else TASK)
    head = encode(tokenizer, before, special=True)
    tail = tail_ids(tokenizer, question, task, after)
    if most is not None:
        token_budget = min(token_budget, most - len(head) - len(tail))
    said = said_before(tokenizer, turns, token_budget // TURNS_SHARE, chinese=chinese)
    used, left_out, blocks = pack(tokenizer, passages, token_budget - sum(map(len, said)))
    if said and passages and not used:  # a passage is worth more than what was said
        said = []
        used, left_out, blocks = pack(tokenizer, passages, token_budget)
    token_ids, ends = list(head), [len(head)]
    for part in (*blocks, *said):
        token_ids += part
        ends.append(len(token_ids))
    spans = [range(start, end) for start, end in pairwise(ends[: len(blocks) + 1])]
    return Prompt(token_ids + tail, spans, used, left_out, tuple(ends))


def tail_ids(tokenizer: Any, question: str, task: str, after: str) -> list[int]:
    """What follows the passages: the question, what is to be done with it, and the frame's end."""
    asked = f"{'问题：' if CJK.search(question) else 'Question: '}{question.strip()}\n\n{task}"
    return encode(tokenizer, asked, special=False) + encode(tokenizer, after, special=True)


def with_task(tokenizer: Any, prompt: Prompt, question: str, task: str) -> list[int]:
    """Token ids of ``prompt`` with another task behind its question."""
    _, after = frame(tokenizer, SYSTEM_ZH if CJK.search(question) else SYSTEM)
    return prompt.token_ids[: prompt.cuts[-1]] + tail_ids(tokenizer, question, task, after)


def said_before(
    tokenizer: Any, turns: Sequence[Turn], token_budget: int, *, chinese: bool = False
) -> list[list[int]]:
    """Token ids of the last turns that fit, oldest first; numbers of their passages mean others now."""
    asked, answered = ("之前的问题：", "回答：") if chinese else ("Earlier question: ", "Answer: ")
    found: list[list[int]] = []
    room = token_budget
    for turn in reversed(turns):
        answer = CITATION.sub("", turn.answer).strip()
        text = f"{asked}{_data(turn.question.strip())}\n{answered}{_data(answer)}\n\n"
        ids = encode(tokenizer, text, special=False)
        if len(ids) > room:
            break
        found.insert(0, ids)
        room -= len(ids)
    return found


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
    """Whether an answer only says that the passages do not hold one; most that cite say more."""
    if len(text) > REFUSAL_LENGTH:
        return False
    if CITATION.search(text):
        return bool(CITED_REFUSAL.fullmatch(" ".join(CITATION.sub("", text).split()).replace(" .", ".")))
    return bool(REFUSAL.search(text)) and not MORE.search(text)


def cited_numbers(text: str) -> set[int]:
    """The numbers that a text names passages by."""
    found: set[int] = set()
    for marker in CITATION.findall(text):
        for part in re.split(r"[,，、;]", marker):
            first, _, last = re.sub(r"[\s–]", lambda sign: "-" if sign[0] == "–" else "", part).partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found


def no_answer(question: str) -> str:
    """The sentence that says there is no answer, in the question's language as far as it is Chinese."""
    return NO_ANSWER_ZH if re.search("[\u4e00-\u9fff]", question) else NO_ANSWER
