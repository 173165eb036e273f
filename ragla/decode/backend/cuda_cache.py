"""Where a GPU keeps keys and values: fixed addresses that recorded steps read and write.

A storage outlives the cache that uses it, so that the next answer finds its recorded steps again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from ragla.decode.kv_cache import KVCache, PreallocatedLayer

GRANULE = 1024  # step between capacities, and the fewest keys that a recorded step attends to
IDLE = 3  # storages kept for later answers


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps of a token, and where."""

    device: torch.device
    dtype: torch.dtype
    heads: int
    key_width: int
    value_width: int


def layer_shapes(rows: Sequence[PreallocatedLayer]) -> list[LayerShape]:
    """The shapes of layers that have seen a token. Raises AttributeError where one has not."""
    return [
        LayerShape(
            layer.keys.device,
            layer.keys.dtype,
            layer.keys.shape[1],
            layer.keys.shape[3],
            layer.values.shape[3],
        )
        for layer in rows
    ]


def rounded(capacity: int) -> int:
    """A capacity that few requests differ in."""
    return -(-capacity // GRANULE) * GRANULE


def attended(rows: int, capacity: int) -> int:
    """How many keys a recorded step over so many rows attends to: 1024 doubled, at most the capacity."""
    keys = GRANULE
    while keys < rows:
        keys *= 2
    return min(keys, capacity)


class RowStorage:
    """Keys and values of all layers, [1, heads, capacity, width] each; layers of one shape lie in one tensor.

    ``steps``: what was recorded over these addresses, by padded rows and attended keys.
    """

    def __init__(self, shapes: Sequence[LayerShape], capacity: int) -> None:
        self.capacity = capacity
        self.steps: dict[tuple[int, int], Any] = {}
        self.stacks: list[tuple[torch.Tensor, torch.Tensor]] = []
        places: dict[LayerShape, list[int]] = {}
        for index, shape in enumerate(shapes):
            places.setdefault(shape, []).append(index)
        layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for shape, indices in places.items():
            keys, values = (
                torch.zeros(
                    len(indices), 1, shape.heads, capacity, width, dtype=shape.dtype, device=shape.device
                )
                for width in (shape.key_width, shape.value_width)
            )
            self.stacks.append((keys, values))
            layers.update({index: (keys[at], values[at]) for at, index in enumerate(indices)})
        self.layers = [layers[index] for index in range(len(shapes))]

    def clear(self) -> None:
        """Zero every row: masked rows count zero times, but zero times a leftover infinity is no number."""
        for stack in self.stacks:
            for tensor in stack:
                tensor.zero_()

    def move(self, prefix: int, nodes: Sequence[int]) -> None:
        """Put the rows ``prefix + nodes`` right behind the prefix, all layers of a shape at once."""
        sources: dict[torch.device, torch.Tensor] = {}
        for keys, values in self.stacks:
            device = keys.device
            if device not in sources:
                sources[device] = upload(torch.tensor(nodes).add_(prefix), device)
            end = prefix + len(nodes)
            for tensor in (keys, values):
                tensor[:, :, :, prefix:end] = tensor.index_select(3, sources[device])


def upload(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A host tensor on the device, without waiting for what the device is doing."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class StorageLayer(PreallocatedLayer):  # type: ignore[no-untyped-call]  # the class hook has no types
    """One layer of a storage, used like any preallocated layer."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__(keys.shape[2], keys.dtype)
        self.keys, self.values = keys, values
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the rows lie in a storage."""


class PooledCache(KVCache):
    """A KV cache in a storage, which it gives back when it is no longer referred to."""

    def __init__(self, storage: RowStorage, give_back: Callable[[RowStorage], None]) -> None:
        super().__init__(len(storage.layers), storage.capacity)
        self.storage = storage
        self.rows: list[PreallocatedLayer] = [StorageLayer(keys, values) for keys, values in storage.layers]
        self.layers = list(self.rows)
        weakref.finalize(self, give_back, storage).atexit = False

    def grown(self, rows: int) -> None:
        """A recorded step has written ``rows`` rows behind the text."""
        for layer in self.rows:
            layer.length = self.length + rows

    @torch.inference_mode()
    def keep(self, nodes: Sequence[int]) -> None:
        """Of the rows the last forward added keep these, in this order; the others cost nothing."""
        if list(nodes) != list(range(len(nodes))):
            self.storage.move(self.length, nodes)
        self.length += len(nodes)
        for layer in self.rows:
            layer.length = self.length


class StoragePool:
    """Storages in use and a few idle ones, the latest used last."""

    def __init__(self, shapes: Sequence[LayerShape]) -> None:
        self.shapes = list(shapes)
        self.idle: list[RowStorage] = []

    @torch.inference_mode()
    def new_cache(self, capacity: int) -> PooledCache:
        """An empty cache of ``capacity`` rows at least, in an idle storage of the same rounded capacity or
        in a new one.
        """
        size = rounded(capacity)
        found = next((storage for storage in self.idle if storage.capacity == size), None)
        if found is None:
            found = RowStorage(self.shapes, size)
        else:
            self.idle.remove(found)
            found.clear()
        return PooledCache(found, self._give_back)

    def drop_idle(self) -> None:
        """Free the idle storages and what was recorded over them."""
        self.idle.clear()

    def _give_back(self, storage: RowStorage) -> None:
        self.idle = [*self.idle, storage][-IDLE:]


class FixedLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]  # the class hook has no types
    """A layer as a recorded step sees it: rows go where a device tensor says, all ``keys`` rows come back.

    It tells the model nothing that changes from step to step, because a recording would freeze it.
    """

    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, places: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys: torch.Tensor = keys
        self.values: torch.Tensor = values
        self.places = places
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the rows lie in a storage."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write rows at ``places``, int64 [T]; return all rows, in use or not."""
        self.keys.index_copy_(2, self.places, key_states.to(self.keys.dtype))
        self.values.index_copy_(2, self.places, value_states.to(self.values.dtype))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """All rows, from the first."""
        return self.keys.shape[2], 0

    def get_seq_length(self) -> int:
        """Zero, whatever is in use."""
        return 0

    def get_max_length(self) -> int:
        """Most rows the layer can hold."""
        return self.keys.shape[2]


def fixed_cache(storage: RowStorage, places: torch.Tensor, attended_keys: int) -> Cache:
    """The storage's first rows as one recorded step sees them, new rows going to ``places``."""
    return Cache(
        layers=[
            FixedLayer(keys[:, :, :attended_keys], values[:, :, :attended_keys], places)
            for keys, values in storage.layers
        ]
    )
