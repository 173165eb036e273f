"""The plain loop, one token a forward pass: the oracle of every test and the baseline of every bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

import torch

from ragla.decode.backend import Backend
from ragla.decode.kv_cache import KVCache
from ragla.decode.prefill import PromptCache, prefill
from ragla.decode.request import Block, DecodeRequest, Ending, cache_capacity
from ragla.decode.shortage import too_little_memory
from ragla.decode.stats import DecodeStats, StepStats
from ragla.decode.tree_attention import causal_rows
from ragla.decode.verify import TokenChooser
from ragla.memory import out_of_memory


def greedy(
    backend: Backend,
    request: DecodeRequest,
    stats: DecodeStats,
    observe: Callable[[torch.Tensor], None] | None = None,
    kept: PromptCache | None = None,
) -> Iterator[Block]:
    """Decode without drafts; yields a block of one token a step and fills ``stats``.

    ``observe`` sees the logits [vocabulary] of every token, as the model gave them. ``kept`` may hold what
    the prompt begins with.
    """
    kept = kept or PromptCache(reuse=False)
    ending = Ending(request, backend.context_end)
    chooser = TokenChooser(request.sampling, request.prompt_ids, request.end_ids)
    cache = kept.take(backend, request, cache_capacity(request, ending, 1))
    stats.reused = cache.length
    began = perf_counter()
    logits = prefill(backend, cache, request, kept=kept)[-1]
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
        logits = next_logits(backend, cache, token)
        stats.steps.append(StepStats(0, 0, 1, perf_counter() - began, 0.0))


def next_logits(backend: Backend, cache: KVCache, token: int) -> torch.Tensor:
    """The one-token pass: logits [vocabulary] after ``token``, which joins the cache.

    Raises RaglaError where even that does not fit the memory.
    """
    try:
        logits = backend.forward(causal_rows([token], cache.length, backend.device), cache)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise too_little_memory("the next token") from error
    cache.committed(1)
    return logits[-1]
