"""From a profile's settings to what a decoder is told: the conditions of an answer, the bounds of a draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragla.config import DecodeSettings
from ragla.decode.model import TargetModel
from ragla.decode.request import DecodeRequest
from ragla.decode.verify import SamplingSettings
from ragla.prompt import encode
from ragla.spelling import stop_sequences
from ragla.trie import DraftLimits

LEAST_CHUNK = 256  # rows of a prefill that a GPU computes in hardly more time than one
GPU_CHUNK = 2048  # tokens; fewer leave a GPU waiting for launches


def decode_request(
    settings: DecodeSettings, target: TargetModel, prompt_ids: list[int], cuts: Sequence[int] = ()
) -> DecodeRequest:
    """The profile's conditions for one answer; ``cuts`` are those of the prompt.

    A model that cannot drop rows reads its prompt in one piece: a second one it would begin anew.
    """
    whole = max(1, len(prompt_ids))
    sampling = SamplingSettings(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        repetition_penalty=settings.repetition_penalty,
        seed=settings.seed,
        min_p=settings.min_p,
        presence_penalty=settings.presence_penalty,
        frequency_penalty=settings.frequency_penalty,
        bad_words=stop_sequences(target.tokenizer, settings.bad_words),
        min_new_tokens=settings.min_new_tokens,
    )
    return DecodeRequest(
        prompt_ids,
        settings.max_new_tokens,
        target.end_ids,
        settings.stop,
        target.tokenizer.decode,
        sampling,
        prefill_rows=chunk_rows(target) if target.backend.drafts else whole,
        rank_prompt=ranks_prompt(settings, target),
        cuts=chunk_cuts(target, cuts),
    )


def chunk_rows(target: TargetModel) -> int:
    """How many prompt tokens go through the model at once."""
    return DecodeRequest.prefill_rows if target.backend.device.type == "cpu" else GPU_CHUNK


def chunk_cuts(target: TargetModel, cuts: Sequence[int]) -> tuple[int, ...]:
    """Those cuts at which the prefill is worth cutting.

    On a CPU rows cost what they cost, together or not; a GPU wants many at once.
    """
    if not target.backend.drafts:
        return ()
    least = 1 if target.backend.device.type == "cpu" else LEAST_CHUNK
    chosen: list[int] = []
    for cut in cuts:
        if cut - (chosen[-1] if chosen else 0) >= least:
            chosen.append(cut)
    return tuple(chosen)


def ranks_prompt(settings: DecodeSettings, target: TargetModel) -> bool:
    """Whether prefill also ranks every prompt position: asked for, or nearly free as on a GPU."""
    if settings.rank_prompt == "auto":
        return target.backend.device.type != "cpu"
    return settings.rank_prompt == "always"


def draft_limits(settings: DecodeSettings, tokenizer: Any, end_ids: frozenset[int]) -> DraftLimits:
    """The profile's bounds of a draft; end-of-sequence tokens are never drafted, they come as bonus."""
    barred = set()
    for text in settings.barred_anchors:
        for variant in (text, f" {text}"):
            ids = encode(tokenizer, variant, special=False)
            barred |= set(ids) if len(ids) == 1 else set()
    return DraftLimits(
        settings.draft_budget,
        settings.max_depth,
        settings.shape,
        end_ids,
        frozenset(barred),
        stop_sequences(tokenizer, settings.stop),
    )
