"""One verifying forward pass as a recorded step: fixed shapes, everything it needs in one small upload.

T rows are padded to a bucket, keys are the whole storage. Masks are built on the device from the number
of cached rows and from who sees whom inside the draft, so that nothing of the storage's length is ever
made on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ragla.decode.backend.cuda_cache import RowStorage, fixed_cache
from ragla.decode.backend.graphs import GraphRunner, Step
from ragla.decode.tree_attention import QueryRows

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Forward = Callable[..., torch.Tensor]
"""``(input_ids, position_ids, attention_mask, cache)`` → logits [T, vocabulary]."""


def bucket_for(rows: int) -> int | None:
    """The smallest bucket that holds so many rows; None where none does."""
    return next((bucket for bucket in BUCKETS if rows <= bucket), None)


@dataclass(frozen=True)
class MaskRule:
    """Which masks a model takes. ``kinds``: layer types, empty for one mask for all layers.

    ``window``: how many latest positions a sliding layer sees. ``dtype``: of the additive masks.
    """

    kinds: frozenset[str]
    window: int | None
    dtype: torch.dtype

    def masks(self, visible: torch.Tensor, distance: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
        """Additive masks [1, 1, T, L] from bool [T, L] and positions between query and key [T, L]."""
        if "sliding_attention" in self.kinds:
            made = {"full_attention": self._additive(visible)}
            made["sliding_attention"] = self._additive(self._windowed(visible, distance))
            return {kind: made[kind] for kind in self.kinds}
        return self._additive(visible if self.kinds else self._windowed(visible, distance))

    def _windowed(self, visible: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
        return visible if self.window is None else visible & (distance < self.window)

    def _additive(self, visible: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(visible.shape, dtype=self.dtype, device=visible.device)
        return mask.masked_fill_(~visible, torch.finfo(self.dtype).min)[None, None]


class PackedRows:
    """What a step must know of its rows, int64, in one host buffer and its copy on the device.

    Token ids [T], positions [T], who sees whom [T, T], the number of cached rows [1].
    """

    def __init__(self, bucket: int, device: torch.device) -> None:
        self.bucket = bucket
        size = bucket * (bucket + 2) + 1
        self.host = torch.zeros(size, dtype=torch.long, pin_memory=device.type == "cuda")
        self.device = torch.zeros(size, dtype=torch.long, device=device)
        self._sent = (
            torch.cuda.Event()  # type: ignore[no-untyped-call]
            if device.type == "cuda"
            else None
        )

    def fill(self, rows: QueryRows) -> None:
        """Write the rows and send them. Padding repeats the last position and sees itself only."""
        if self._sent is not None:
            self._sent.synchronize()  # the last upload must have left the host buffer
        count = len(rows)
        ids, positions, among, prefix = self._parts(self.host)
        ids[:count], ids[count:] = rows.ids, 0
        positions[:count], positions[count:] = rows.places, rows.places[-1]
        among.zero_().fill_diagonal_(1)
        among[:count, :count] = _causal(count) if rows.among is None else rows.among
        prefix.fill_(rows.prefix)
        self.device.copy_(self.host, non_blocking=True)
        if self._sent is not None:
            self._sent.record()

    def on_device(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Views of the device buffer: ids, positions, who sees whom (as 0 and 1), cached rows."""
        return self._parts(self.device)

    def _parts(self, buffer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        size = self.bucket
        return (
            buffer[:size],
            buffer[size : 2 * size],
            buffer[2 * size : -1].view(size, size),
            buffer[-1:],
        )


def _causal(count: int) -> torch.Tensor:
    return torch.ones(count, count, dtype=torch.long).tril_()


def sight(
    positions: torch.Tensor, among: torch.Tensor, prefix: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which of ``capacity`` keys each of T rows sees, and how many positions lie between: [T, capacity].

    Keys before ``prefix`` stand at their own index and are seen by all; the T rows follow; what lies
    behind them is left over from other steps and seen by none.
    """
    columns = torch.arange(capacity, device=positions.device)
    offset = columns - prefix
    inside = offset.clamp(0, len(positions) - 1)
    within = (offset >= 0) & (offset < len(positions))
    visible = (offset < 0)[None] | (within[None] & among[:, inside].bool())
    key_positions = torch.where(within, positions[inside], columns)
    return visible, positions[:, None] - key_positions[None, :]


class RecordedStep:
    """A forward pass over a bucket of rows, recorded over one storage."""

    def __init__(
        self,
        bucket: int,
        keys: int,
        storage: RowStorage,
        forward: Forward,
        rule: MaskRule,
        graphs: GraphRunner,
        first: QueryRows,
    ) -> None:
        """Record it, for drafts that end within the storage's first ``keys`` rows.

        Recording runs it, with the rows given: the storage's rows behind the prefix are overwritten.
        Raises CaptureFailed.
        """
        self.keys = keys
        self.rows = PackedRows(bucket, first.device)
        self.rows.fill(first)
        self._replay: Step = graphs.capture(lambda: self._run(storage, forward, rule))

    def _run(self, storage: RowStorage, forward: Forward, rule: MaskRule) -> torch.Tensor:
        ids, positions, among, prefix = self.rows.on_device()
        places = prefix + torch.arange(len(ids), device=ids.device)
        visible, distance = sight(positions, among, prefix, self.keys)
        return forward(
            input_ids=ids[None],
            position_ids=positions[None],
            attention_mask=rule.masks(visible, distance),
            cache=fixed_cache(storage, places, self.keys),
        )

    def __call__(self, rows: QueryRows) -> torch.Tensor:
        """Logits [T, vocabulary] of T rows, which now stand behind the cached ones."""
        self.rows.fill(rows)
        return self._replay()[: len(rows)].clone()


def forward_of(model: Any) -> Forward:
    """The model's forward as a step calls it."""

    def forward(**inputs: Any) -> torch.Tensor:
        logits: torch.Tensor = model(**inputs, use_cache=True).logits[0]
        return logits

    return forward
