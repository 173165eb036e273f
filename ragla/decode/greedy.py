"""The plain loop, one token a forward pass: the oracle of every test and the baseline of every bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

import torch

from ragla.decode.backend import Backend
from ragla.decode.kv_cache import KVCache
from ragla.decode.request import Block, DecodeRequest, Ending, cache_capacity
from ragla.decode.stats import DecodeStats, StepStats
from ragla.decode.tree_attention import causal_rows
from ragla.decode.verify import RANKS, TokenChooser

OnRanks = Callable[[Sequence[int], list[list[int]]], None]
"""Called with prompt tokens and the best ids after each of them."""


def prefill(
    backend: Backend, cache: KVCache, request: DecodeRequest, on_ranks: OnRanks | None = None
) -> torch.Tensor:
    """Put the prompt in the cache, a bounded number of rows at a time; the last row's logits [vocabulary].

    With ``on_ranks`` every position is ranked too, which costs a vocabulary product for the whole prompt.
    """
    ids = request.prompt_ids
    for start in range(0, len(ids), request.prefill_rows):
        part = ids[start : start + request.prefill_rows]
        rows = causal_rows(part, start, backend.device)
        if on_ranks is None:
            logits = backend.forward(rows, cache, last_only=True)
        else:
            logits, ranked = backend.forward_ranked(rows, cache, RANKS)
            if ranked:
                on_ranks(part, ranked)
        cache.committed(len(part))
    return logits[-1]


def greedy(
    backend: Backend,
    request: DecodeRequest,
    stats: DecodeStats,
    observe: Callable[[torch.Tensor], None] | None = None,
) -> Iterator[Block]:
    """Decode without drafts; yields a block of one token a step and fills ``stats``.

    ``observe`` sees the logits [vocabulary] of every token, as the model gave them.
    """
    ending = Ending(request, backend.context_end)
    chooser = TokenChooser(request.sampling, request.prompt_ids, request.end_ids)
    cache = backend.new_cache(cache_capacity(request, ending, 1))
    began = perf_counter()
    logits = prefill(backend, cache, request)
    stats.prompt_tokens = len(request.prompt_ids)
    stats.prefill_s = perf_counter() - began
    began = perf_counter()
    while True:
        if observe is not None:
            observe(logits)
        token = chooser.choose(logits)
        ending.push(token)
        stats.tokens += 1
        stats.decode_s += perf_counter() - began
        yield Block([token], [None])
        if ending.reason:
            return
        began = perf_counter()
        logits = backend.forward(causal_rows([token], cache.length, backend.device), cache)[-1]
        cache.committed(1)
        stats.steps.append(StepStats(0, 0, 1, perf_counter() - began, 0.0))
