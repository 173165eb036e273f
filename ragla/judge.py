"""Asks the answering model, before it answers, whether the passages of its prompt say the answer.

No text is written: what is read off is how likely the model's next token is a yes or a no. The prompt
differs from the one that is answered behind the passages only, so their rows serve both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ragla.conditions import decode_request
from ragla.config import Profile
from ragla.decode.backend import Backend
from ragla.decode.model import TargetModel
from ragla.decode.prefill import OnRanks, PromptCache, prefill
from ragla.decode.request import DecodeRequest
from ragla.prompt import CJK, Prompt, encode, with_task

TASK = "Do the passages above say the answer to this question? Reply with Yes or No."
TASK_ZH = "上面的段落中有这个问题的答案吗？只回答“有”或“没有”。"
YES, NO = ("Yes", "yes", " Yes"), ("No", "no", " No")
YES_ZH, NO_ZH = ("有", "是"), ("没有", "没", "否")


def judge(
    question: str,
    prompt: Prompt,
    profile: Profile,
    target: TargetModel,
    kept: PromptCache,
    on_ranks: OnRanks,
) -> float | None:
    """How likely the passages of ``prompt`` say the answer to ``question``, in the model's own eyes.

    None where the profile does not ask, the prompt has no passages, or the model cannot be asked. The rows
    that the answer will find in the cache are ranked here, where they are to be ranked.
    """
    if profile.retrieve.judge is None or not prompt.used:
        return None
    asked = with_task(target.tokenizer, prompt, question, TASK_ZH if CJK.search(question) else TASK)
    request = decode_request(profile.decode, target, asked, prompt.cuts)
    ranking = on_ranks if request.rank_prompt else None
    return chance_of_yes(target.tokenizer, target.backend, request, kept, ranking)


def refusal(judged: float | None, least: float | None) -> str | None:
    """Why a question so judged is not answered, in a line; None where it is."""
    if judged is None or least is None or judged >= least:
        return None
    return (
        "the model finds no answer in the passages it read: "
        f"yes {judged:.2f}, retrieve.judge asks for {least:.2f}"
    )


def unasked(judged: float | None, least: float | None, prompt: Prompt) -> str | None:
    """That a question was answered though it could not be judged, in a line; None where that is not so."""
    if judged is not None or least is None or not prompt.used:
        return None
    return (
        "the model was not asked first if the passages say the answer: its window has no room for that, "
        "or its tokens cannot tell yes from no"
    )


def chance_of_yes(
    tokenizer: Any,
    backend: Backend,
    request: DecodeRequest,
    kept: PromptCache,
    on_ranks: OnRanks | None = None,
) -> float | None:
    """How likely the model says yes after the request's prompt, of yes and no together, 0 to 1.

    None where the tokenizer begins both words with one token, or the prompt is too long to be asked.
    """
    yes, no = _first_ids(tokenizer, YES + YES_ZH), _first_ids(tokenizer, NO + NO_ZH)
    yes, no = yes - no, no - yes
    if not yes or not no or len(request.prompt_ids) >= backend.context_end:
        return None
    cache = kept.take(backend, request, len(request.prompt_ids))
    logits = prefill(backend, cache, request, on_ranks, kept)[-1].float()
    for_yes, for_no = (torch.logsumexp(logits[sorted(ids)], 0) for ids in (yes, no))
    return float(torch.sigmoid(for_yes - for_no))


def _first_ids(tokenizer: Any, words: Sequence[str]) -> set[int]:
    return {encode(tokenizer, word, special=False)[0] for word in words}
