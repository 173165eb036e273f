"""Decoding a known answer with a model that has nothing to say: its best token is replaced by the answer's.

So a model with random weights takes the steps, the drafts and the time that the real model would have
taken for a recorded answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from ragla.bench.transcripts import Transcript
from ragla.decode.backend.cuda import CudaBackend
from ragla.decode.backend.cuda_cache import upload
from ragla.decode.budget import StepCost
from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.kv_cache import KVCache
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.tree_attention import QueryRows
from ragla.decode.verify import RANKS
from ragla.trie import Drafter, DraftLimits

LOUD = 64.0  # a logit above all that random weights give; each next rank has one less
LOOKUP_TOKENS = 10  # what transformers' prompt lookup drafts, as in `ragla bench`

Wait = Callable[[], None]
"""Returns when the device has done all it was given."""


class ForcedBackend:
    """A backend whose logits are those of a model that gives a known text at every position.

    Off the text's path the same tokens are said: a wrong draft is rejected at its first node either way.
    """

    name = "cuda"
    drafts = True
    drafts_with_prompt = False

    def __init__(self, inner: CudaBackend) -> None:
        self.inner = inner
        self.device = inner.device
        self.context_end = inner.context_end
        self._ids = torch.zeros(1, 1, dtype=torch.long)

    def say(self, transcript: Transcript) -> None:
        """Give this answer; where its second thoughts were recorded, these too."""
        known = len(transcript.best_ids)
        count = RANKS if known and all(len(row) >= RANKS for row in transcript.best_ids) else 1
        rows = [[token] for token in transcript.prompt_ids] + [[token] for token in transcript.answer_ids]
        rows = [row * count for row in rows]
        if count > 1:
            start = len(transcript.prompt_ids)
            for at, token in enumerate(transcript.answer_ids):
                others = [other for other in transcript.best_ids[at] if other != token]
                rows[start + at] = [token, *others][:count]
        self._ids = torch.tensor(rows, dtype=torch.long)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of at least ``capacity`` rows."""
        return self.inner.new_cache(capacity)

    @torch.inference_mode()
    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """The model's logits with the text's tokens on top."""
        logits = self.inner.forward(rows, cache, last=last)
        places = rows.places[-last:]
        ids = self._ids[(places + 1).clamp_max(len(self._ids) - 1)].flip(1)  # the best is written last
        said = upload(ids, logits.device)
        for rank in range(ids.shape[1]):
            logits.scatter_(1, said[:, rank : rank + 1], LOUD - (ids.shape[1] - 1 - rank))
        return logits

    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int, last: int = 1
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """Prompts are not ranked: random weights have no second thoughts worth recycling."""
        return self.forward(rows, cache, last=last), []


class Forcing(LogitsProcessor):
    """The same for transformers' ``generate``."""

    def __init__(self, transcript: Transcript) -> None:
        self.text = [*transcript.prompt_ids, *transcript.answer_ids]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [1, vocabulary] after the text ``input_ids`` [1, tokens]."""
        scores = scores.clone()
        scores[:, self.text[min(input_ids.shape[1], len(self.text) - 1)]] = LOUD
        return scores


def request_for(transcript: Transcript, prefill_rows: int) -> DecodeRequest:
    """Decode exactly the transcript's answer."""
    return DecodeRequest(transcript.prompt_ids, len(transcript.answer_ids), prefill_rows=prefill_rows)


def run_greedy(backend: ForcedBackend, transcript: Transcript, prefill_rows: int) -> dict[str, float]:
    """ragla's plain loop: decode tokens a second, TTFT in seconds, steps."""
    stats = DecodeStats()
    blocks = greedy(backend, request_for(transcript, prefill_rows), stats)
    return _figures(transcript, [token for block in blocks for token in block.token_ids], stats)


def run_lookahead(
    backend: ForcedBackend, transcript: Transcript, prefill_rows: int, cost: StepCost | None
) -> dict[str, float]:
    """ragla's drafted decoding: the same figures, and drafted nodes a step."""
    stats, drafter = DecodeStats(), Drafter()
    drafter.begin(transcript.prompt_ids)
    blocks = lookahead(
        backend, drafter, request_for(transcript, prefill_rows), stats, DraftLimits(budget=64), cost
    )
    figures = _figures(transcript, [token for block in blocks for token in block.token_ids], stats)
    return {**figures, "nodes_per_step": 1 + stats.drafted / max(1, len(stats.steps))}


def _figures(transcript: Transcript, token_ids: list[int], stats: DecodeStats) -> dict[str, float]:
    if token_ids != list(transcript.answer_ids):
        raise AssertionError(f"{transcript.id}: what was decoded is not the answer")
    return {
        "tokens_per_s": stats.decode_tokens_per_s,
        "ttft_s": stats.prefill_s,
        "steps": len(stats.steps),
        "tokens_per_step": stats.tokens_per_step,
    }


def run_stock(model: Any, transcript: Transcript, wait: Wait, lookup: bool) -> dict[str, float]:
    """transformers' ``generate``, greedy or with prompt lookup: the same figures."""
    prompt = torch.tensor([transcript.prompt_ids], device=model.device)
    passed: list[float] = []

    def note(*_: Any) -> None:
        if not passed:
            wait()
        passed.append(perf_counter())

    settings: Any = GenerationConfig
    options = {"prompt_lookup_num_tokens": LOOKUP_TOKENS} if lookup else {}
    config = settings(do_sample=False, max_new_tokens=len(transcript.answer_ids), **options)
    hook = model.register_forward_hook(note)
    wait()
    began = perf_counter()
    try:
        found = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=config,
            logits_processor=LogitsProcessorList([Forcing(transcript)]),
        )
        token_ids = found[0, prompt.shape[1] :].tolist()
    finally:
        hook.remove()
    seconds = perf_counter() - passed[0]
    if token_ids != list(transcript.answer_ids):
        raise AssertionError(f"{transcript.id}: what generate decoded is not the answer")
    after_first = len(token_ids) - 1
    return {
        "tokens_per_s": after_first / seconds,
        "ttft_s": passed[0] - began,
        "steps": len(passed) - 1,
        "tokens_per_step": after_first / max(1, len(passed) - 1),
    }


def synthetic_transcripts(
    count: int, vocabulary: int, prompt_tokens: int, answer_tokens: int
) -> list[Transcript]:
    """Random prompts whose answers are copies of parts of them, with random tokens in between."""
    rng = random.Random(1)
    made = []
    for number in range(count):
        prompt = [rng.randrange(3, vocabulary) for _ in range(prompt_tokens)]
        answer: list[int] = []
        while len(answer) < answer_tokens:
            start = rng.randrange(prompt_tokens - 8)
            answer += prompt[start : start + rng.randint(4, 30)]
            answer += [rng.randrange(3, vocabulary) for _ in range(rng.randint(1, 5))]
        made.append(Transcript(f"made up {number}", "", tuple(prompt), tuple(answer[:answer_tokens]), ()))
    return made
