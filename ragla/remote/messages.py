"""A question and its passages as the messages of a chat.

A server puts them through the chat template of its model, and may take control tokens that stand in a
passage for its own. So what looks like one is spelled otherwise before it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragla.answering import ANSWER_SHARE
from ragla.config import Profile
from ragla.errors import UsageError
from ragla.evidence import Evidence
from ragla.prompt import CJK, SYSTEM, SYSTEM_ZH, Prompt, PromptPassage, Turn, build_prompt
from ragla.remote.pieces import TextPieces

# <|im_end|>, <｜User｜>, </s>, <start_of_turn>, [INST], <<SYS>> and their like
CONTROL_TOKEN = re.compile(
    r"(?P<open><(?=[|｜][^<>\s]{1,40}[|｜]>)|<(?=/?(?:s|bos|eos|pad|unk|think|(?:start|end)_of_\w{1,16})>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])|<(?=</?SYS>>))",
    re.IGNORECASE,
)
FRAME = 64  # tokens at most that a chat template puts around the messages


@dataclass(frozen=True)
class Asked:
    """What is sent, and how it was packed. ``tokens``: about how many, rather more than less."""

    messages: list[dict[str, Any]]
    prompt: Prompt
    tokens: int


def harmless(text: str) -> str:
    """A text without control tokens: a space behind their first character is enough."""
    return CONTROL_TOKEN.sub(lambda found: f"{found['open']} ", text)


def asked_of_any(
    pieces: TextPieces,
    profile: Profile,
    window: int | None,
    question: str,
    evidence: Evidence,
    turns: Sequence[Turn],
) -> Asked:
    """A system message and one of the user, with passages and question, as a model here would read them.

    Raises UsageError where none of the passages fits the prompt.
    """
    settings = profile.prompt
    passages = [
        PromptPassage(harmless(passage.title), harmless(passage.text)) for passage in evidence.passages
    ]
    said = [replace(turn, question=harmless(turn.question), answer=harmless(turn.answer)) for turn in turns]
    most = None
    if window is not None:
        most = window - min(profile.decode.max_new_tokens, window // ANSWER_SHARE) - FRAME
    prompt = build_prompt(
        pieces, harmless(question), passages, settings.token_budget, settings.instruction, said, most
    )
    if passages and not prompt.used:
        room = f", the model's window {window}" if window is not None else ""
        raise UsageError(
            f"no passage fits the prompt: prompt.token_budget is {settings.token_budget}{room}",
            "ask a shorter question, or raise the budget: "
            f"--set prompt.token_budget={2 * settings.token_budget}",
        )
    system = SYSTEM_ZH if CJK.search(question) else SYSTEM
    whole = pieces.decode(prompt.token_ids)
    # what frames a prompt without a chat template is the template's here
    user = whole.removeprefix(system).removesuffix("Answer:").strip()
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return Asked(messages, prompt, len(prompt.token_ids) + FRAME)


def asked_of_ragla(question: str, evidence: Evidence, turns: Sequence[Turn]) -> Asked:
    """A conversation, for a server that makes the prompt itself from the passages that come beside it."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        messages.append({"role": "user", "content": turn.question})
        messages.append({"role": "assistant", "content": turn.answer})
    messages.append({"role": "user", "content": question})
    every = list(range(len(evidence.passages)))
    return Asked(messages, Prompt([], [], every, []), 0)


def documents(evidence: Evidence) -> list[dict[str, str]]:
    """The passages as ``ragla serve`` reads them: each under its place in the list."""
    return [
        {"id": str(number), "title": passage.title, "text": passage.text}
        for number, passage in enumerate(evidence.passages)
    ]
