"""The GPU backend: steps replayed as CUDA graphs, flash attention for prefill.

A step of a 7B model in bfloat16 reads its weights in a few milliseconds; launching its kernels one by
one from Python takes several times that. So a step is recorded once for each bucket of draft rows and
replayed: one upload, one launch. What cannot be recorded runs eagerly, and a notice says so.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from ragla.decode.backend.cuda_attention import ATTENTION
from ragla.decode.backend.cuda_cache import (
    LayerShape,
    PooledCache,
    RowStorage,
    StoragePool,
    attended,
    layer_shapes,
)
from ragla.decode.backend.cuda_step import MaskRule, RecordedStep, bucket_for, forward_of
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.graphs import CaptureFailed, GraphRunner, graphs_for
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows, causal_rows
from ragla.errors import RaglaError
from ragla.memory import out_of_memory

TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}  # of the largest logit

log = logging.getLogger(__name__)


class CudaBackend(EagerBackend):
    """A transformers model of a drafting family on one GPU, or on several without recorded steps.

    ``graphs``: how steps are recorded; None: as the device can. ``record``: False for a model that lies on
    several devices. ``notices`` say what is not recorded; one that comes up later, in the middle of an
    answer, is logged too.
    """

    name = "cuda"
    # a tree needs a mask, which would take the prompt's last chunk off flash attention
    drafts_with_prompt = False

    def __init__(self, model: Any, graphs: GraphRunner | None = None, *, record: bool = True) -> None:
        super().__init__(model)
        self.notices: list[str] = []
        self._rule = MaskRule(frozenset(self.layer_types), self.window, self._mask_dtype)
        self._forward = forward_of(model)
        self._given_attention = model.config._attn_implementation
        self._fast = bool(model._can_set_attn_implementation())
        if self._fast:
            model.set_attn_implementation(ATTENTION)
        self._checked = False
        self._pool = StoragePool(self._shapes())
        self._graphs = (graphs or graphs_for(self.device)) if record else None
        if record:
            self._check()
        else:
            self.notices.append("the model lies on several devices: its steps are not recorded as graphs")
        self._checked = True

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of at least ``capacity`` rows. Raises RaglaError when there is no memory for it."""
        try:
            return self._pool.new_cache(capacity)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        self._pool.drop_idle()
        try:
            return self._pool.new_cache(capacity)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise RaglaError(
                f"not enough memory on {self.device} to keep {capacity} tokens",
                "pack fewer passages: --set prompt.token_budget=512, or choose a smaller model",
            ) from error

    @torch.inference_mode()
    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows.

        When memory runs out, what is kept for later answers is given up first.
        """
        try:
            return self._pass(rows, cache, last)
        except (RuntimeError, MemoryError) as error:
            if not self._pool.idle or not out_of_memory(error):
                raise
        self._pool.drop_idle()
        cache.truncate(rows.prefix)
        return self._pass(rows, cache, last)

    def _pass(self, rows: QueryRows, cache: KVCache, last: int) -> torch.Tensor:
        step = None if last else self._step(rows, cache)
        if step is None or not isinstance(cache, PooledCache):
            return super().forward(rows, cache, last=last)
        logits = step(rows)
        cache.grown(len(rows))
        return logits

    def _step(self, rows: QueryRows, cache: KVCache) -> RecordedStep | None:
        """The recorded step for these rows, recorded now if none of its kind was; None: run eagerly."""
        bucket = bucket_for(len(rows))
        if self._graphs is None or bucket is None or not isinstance(cache, PooledCache):
            return None
        storage, end = cache.storage, rows.prefix + bucket
        if end > storage.capacity:  # the padding of the last draft before the end
            return None
        keys = attended(end, storage.capacity)
        step: RecordedStep | None = storage.steps.get((bucket, keys))
        if step is None:
            try:
                step = RecordedStep(bucket, keys, storage, self._forward, self._rule, self._graphs, rows)
            except CaptureFailed as error:
                self._stop_recording(f"steps are not recorded as graphs and run slower: {error}", storage)
            except (RuntimeError, MemoryError) as error:
                if self._pool.idle or not out_of_memory(error):
                    raise  # idle storages make room before anything is given up
                self._stop_recording("no memory is left to record steps as graphs: they run slower", storage)
            else:
                storage.steps[bucket, keys] = step
        return step

    def _stop_recording(self, notice: str, storage: RowStorage) -> None:
        """Run eagerly from now on, and free what recordings hold."""
        self._graphs = None
        storage.steps.clear()
        self._pool.drop_idle()
        self.notices.append(notice)
        if self._checked:
            log.warning(notice)

    def _masks(self, rows: QueryRows) -> Any:
        """None where attention knows by itself what plain text sees."""
        if self._fast and rows.among is None and rows.prefix + len(rows) <= (self.window or 1 << 62):
            return None
        return super()._masks(rows)

    def _shapes(self) -> list[LayerShape]:
        """What each layer keeps, seen from what one token leaves in an ordinary cache."""
        try:
            return self._probe()
        except Exception:
            if not self._fast:
                raise
        # attention with more than a mask, such as learned sinks: leave it to the model's own
        self._fast = False
        self.model.set_attn_implementation(self._given_attention)
        return self._probe()

    def _probe(self) -> list[LayerShape]:
        cache = KVCache(self.config.num_hidden_layers, 1, self._cache_dtype)
        super().forward(causal_rows([0], 0, self.device), cache)
        return layer_shapes(cache.rows)

    def _check(self) -> None:
        """Hold a recorded step against the model run eagerly, after two prefixes of different lengths.

        A family that keeps a number of its own between steps would have it frozen in the recording.
        """
        texts = ([1, 2, 3], [3, 2, 1, 2, 3, 1])
        for text in texts:
            cache = self._pool.new_cache(len(text) + 1)
            super().forward(causal_rows(text, 0, self.device), cache, last=1)
            cache.committed(len(text))
            row = causal_rows([4], len(text), self.device)
            found = self.forward(row, cache)
            if self._graphs is None:
                return
            cache.truncate(len(text))
            expected = super().forward(row, cache)
            allowed = TOLERANCE.get(expected.dtype, 0.1) * float(expected.abs().max())
            if not float((found - expected).abs().max()) <= allowed:
                self._stop_recording(
                    "a recorded step does not repeat the model's own: steps run slower", cache.storage
                )
                return
            del cache  # so that the next text is in the same storage
