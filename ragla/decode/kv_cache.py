"""A preallocated KV cache: rejected rows are overwritten, accepted rows move a few places at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class PreallocatedLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]  # the class hook has no types
    """Keys and values of one layer, [1, heads, capacity, head_dim] each, the first ``length`` rows in use.

    Sliding layers keep every row too: their window is in the mask, so dropping rejected rows needs
    no past that a window has already thrown away.
    """

    is_sliding = False
    is_croppable = True

    def __init__(self, capacity: int, dtype: torch.dtype | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.capacity = capacity
        self.dtype = dtype
        self.length = 0
        self.keys: torch.Tensor
        self.values: torch.Tensor

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate like the first states that arrive."""
        self.keys = self._allocate(key_states)
        self.values = self._allocate(value_states)
        self.is_initialized = True

    def _allocate(self, states: torch.Tensor) -> torch.Tensor:
        batch, heads, _, head_dim = states.shape
        return states.new_zeros(batch, heads, self.capacity, head_dim, dtype=self.dtype or states.dtype)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new rows behind those in use; return keys and values of all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            raise ValueError(f"{end} rows do not fit a cache of {self.capacity}")
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def keep(self, prefix: int, rows: torch.Tensor) -> None:
        """Keep ``prefix`` rows and right behind them ``rows``, counted from there; drop the rest."""
        end = prefix + len(rows)
        if self.is_initialized:
            self.keys[:, :, prefix:end] = self.keys[:, :, prefix + rows]
            self.values[:, :, prefix:end] = self.values[:, :, prefix + rows]
            self.length = end

    def truncate(self, length: int) -> None:
        """Drop all rows from ``length`` on."""
        self.length = min(self.length, length)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Rows after the next update, and the offset of the first."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Rows in use."""
        return self.length

    def get_max_length(self) -> int:
        """Most rows the layer can hold."""
        return self.capacity


class KVCache(Cache):
    """Keys and values of every layer, batch size one.

    ``dtype`` stores the rows in another precision than the model computes in.
    """

    def __init__(self, layers: int, capacity: int, dtype: torch.dtype | None = None) -> None:
        self.rows: list[PreallocatedLayer] = [PreallocatedLayer(capacity, dtype) for _ in range(layers)]
        super().__init__(layers=list(self.rows))
        self.capacity = capacity
        self.length = 0

    def committed(self, rows: int) -> None:
        """The last forward's first ``rows`` rows are text: count them in."""
        self.length += rows

    @torch.inference_mode()
    def keep(self, nodes: Sequence[int]) -> None:
        """Of the rows the last forward added keep these, in this order; the others cost nothing."""
        if list(nodes) == list(range(len(nodes))):
            self.length += len(nodes)
            self.truncate(self.length)
            return
        index = torch.tensor(nodes, device=self.rows[0].keys.device)
        for layer in self.rows:
            layer.keep(self.length, index)
        self.length += len(nodes)

    def truncate(self, length: int) -> None:
        """Drop all rows from ``length`` on."""
        for layer in self.rows:
            layer.truncate(length)
        self.length = length
