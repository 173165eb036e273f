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
    drafts_with_prompt: bool  # whether a tree may go through the model together with the prompt's end

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of ``capacity`` rows."""
        ...

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows."""
        ...

    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int, last: int = 1
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """What ``forward`` gives for ``last``, the same bits, and the ``count`` best ids after every row.

        The lists are empty where the model does not show its hidden states.
        """
        ...
