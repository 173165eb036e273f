"""Puts a prompt in the KV cache, chunk by chunk, and keeps the chunks that the next prompt begins with.

The last chunk may carry a draft: rows that are no part of the prompt but of what may follow it.

The last bits of a chunk's rows depend on how many rows went through the model together, so a chunk is
kept whole or not at all, and only where the next prompt would have made the same one: the same tokens
from the same place, after the same chunks, and no draft beside them. What is kept is then bit for bit what
would be computed, on every backend whose forward pass gives equal results for equal inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ragla.decode.backend import Backend
from ragla.decode.kv_cache import KVCache
from ragla.decode.request import DecodeRequest
from ragla.decode.shortage import RowLimits
from ragla.decode.tree_attention import text_and_tree_rows
from ragla.decode.verify import RANKS
from ragla.memory import out_of_memory
from ragla.trie.draft_tree import DraftTree

ROUNDED = 1024  # rows: a cache is made somewhat larger than asked for, so that it serves the next prompt too

OnRanks = Callable[[Sequence[int], list[list[int]]], None]
"""Called with prompt tokens and the best ids after each of them."""
OnRows = Callable[[int, int], None]
"""Called with how many tokens of a prompt are in the cache, and how many it has."""


def chunk_ends(request: DecodeRequest, rows: int) -> list[int]:
    """Where the chunks of a prompt end: at its cuts, and after ``rows`` rows at the latest."""
    length = len(request.prompt_ids)
    ends: list[int] = []
    start = 0
    for stop in [*sorted(cut for cut in set(request.cuts) if 0 < cut < length), length]:
        while start < stop:
            start = min(start + rows, stop)
            ends.append(start)
    return ends


class PromptCache:
    """The KV cache as it goes from one answer to the next, and the row limits that memory sets.

    ``token_ids`` are the prompt tokens whose rows it holds, ``ends`` where their chunks end. Rows behind
    them belong to an answer and are overwritten. With ``reuse`` off each answer has an empty cache.
    ``on_rows`` is told when a prompt is begun and after each of its chunks.
    """

    def __init__(self, *, reuse: bool = True) -> None:
        self.reuse = reuse
        self.token_ids: list[int] = []
        self.ends: list[int] = []
        self.limits = RowLimits()
        self.on_rows: OnRows | None = None
        self._wanted = 0
        self._cache: KVCache | None = None
        self._backend: Backend | None = None

    def take(self, backend: Backend, request: DecodeRequest, capacity: int) -> KVCache:
        """A cache of at least ``capacity`` rows for a prompt, filled with the chunks it begins with.

        At least the last chunk of the prompt is never among them: its logits begin the answer.
        """
        kept = self._cache
        self._wanted = len(request.prompt_ids)
        if not self.reuse or not backend.drafts:  # what cannot drop a draft's rows cannot drop an answer's
            self.clear()
            self._tell()
            return backend.new_cache(capacity)
        if kept is None or kept.capacity < capacity or self._backend is not backend:
            self.clear()
            kept = backend.new_cache(-(-capacity // ROUNDED) * ROUNDED)
            self._cache, self._backend = kept, backend
        self._keep(self.common(request))
        kept.truncate(len(self.token_ids))
        self._tell()
        return kept

    def common(self, request: DecodeRequest) -> int:
        """How many of the kept chunks a prompt begins with, its last chunk left out."""
        ends = chunk_ends(request, self.rows(request))[:-1]
        count = start = 0
        for own, end in zip(self.ends, ends, strict=False):
            if own != end or self.token_ids[start:end] != list(request.prompt_ids[start:end]):
                break
            count, start = count + 1, end
        return count

    def rows(self, request: DecodeRequest) -> int:
        """How many rows a chunk may have."""
        return min(request.prefill_rows, self.limits.prefill or request.prefill_rows)

    def add(self, part: Sequence[int], *, drafted: bool = False) -> None:
        """A chunk is in the cache. One with a draft beside it, which is the prompt's last, is not kept."""
        if drafted:
            self._tell(len(part))
            return
        self.token_ids += part
        self.ends.append(len(self.token_ids))
        self._tell()

    def clear(self) -> None:
        """Keep nothing."""
        self._cache = self._backend = None
        self._keep(0)

    def _tell(self, more: int = 0) -> None:
        if self.on_rows is not None:
            self.on_rows(len(self.token_ids) + more, self._wanted)

    def _keep(self, chunks: int) -> None:
        del self.ends[chunks:]
        del self.token_ids[self.ends[-1] if self.ends else 0 :]


def prefill(
    backend: Backend,
    cache: KVCache,
    request: DecodeRequest,
    on_ranks: OnRanks | None = None,
    kept: PromptCache | None = None,
    draft: DraftTree | None = None,
) -> torch.Tensor:
    """Put what is missing of the prompt in the cache, by chunks; logits [nodes, vocabulary] of the draft.

    ``draft`` begins with the prompt's last token, which is all of it where there is none; its other nodes'
    rows lie behind the prompt's in the cache, not counted in. With ``on_ranks`` every position of the
    prompt is ranked too, which costs a vocabulary product for each. Where memory runs out the draft is left
    out, so that logits are those of node 0 alone, and then the chunks are halved. Raises RaglaError when a
    single row does not fit.
    """
    kept = kept or PromptCache(reuse=False)
    ids = request.prompt_ids
    alone = DraftTree([ids[-1]])
    while True:
        start = cache.length
        end = next(end for end in chunk_ends(request, kept.rows(request)) if end > start)
        part = ids[start:end]
        tree = draft if draft is not None and end == len(ids) and kept.limits.with_prompt else alone
        try:
            logits = _chunk(backend, cache, part, tree, on_ranks)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            cache.truncate(start)
            if len(tree) > 1:
                kept.limits.with_prompt = False
            else:
                kept.limits.halve_prefill(len(part))
            continue
        cache.committed(len(part))
        kept.add(part, drafted=len(tree) > 1)
        if end == len(ids):
            return logits


def _chunk(
    backend: Backend, cache: KVCache, part: Sequence[int], tree: DraftTree, on_ranks: OnRanks | None
) -> torch.Tensor:
    """Logits [nodes, vocabulary] of a chunk's last row and the draft behind it."""
    rows = text_and_tree_rows(part, tree, cache.length, backend.device)
    if on_ranks is None:
        return backend.forward(rows, cache, last=len(tree))
    logits, ranked = backend.forward_ranked(rows, cache, RANKS, len(tree))
    if ranked:
        on_ranks(part, ranked[: len(part)])
    return logits
