"""How one forward pass runs: stock transformers, or packed and integer linears on a CPU.

A backend knows a model and a cache; it knows no drafts beyond who sees whom, and no sampling.
"""

from __future__ import annotations

from typing import Protocol

import torch

from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows


class Backend(Protocol):
    """One forward pass over the target model, batch size one."""

    name: str
    device: torch.device
    context_end: int
    drafts: bool  # False where a tree cannot be verified exactly: decode one token a step

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of ``capacity`` rows."""
        ...

    def forward(self, rows: QueryRows, cache: KVCache, *, last_only: bool = False) -> torch.Tensor:
        """Logits [T, vocabulary] of T rows, or [1, vocabulary] of the last; the cache grows by T rows."""
        ...

    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """``forward(last_only=True)``, the same bits, and the ``count`` best ids after every row.

        The lists are empty where the model does not show its hidden states.
        """
        ...
