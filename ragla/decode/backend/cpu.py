"""The CPU backend: packed or integer linears, fused projections, attention whose rows stand alone.

A tree keeps its rows in other places of the cache than plain text does. The compiled kernel sums over the
keys that a row sees, in their order, wherever they lie. Without it decode steps attend in float64 over a
float64 cache and round once: the sums differ near the 16th digit and the rounded results are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.pytorch_utils import Conv1D

from ragla.decode.backend import kernels
from ragla.decode.backend.eager import RANKED_ROWS, EagerBackend
from ragla.decode.backend.elementwise import PlacesAlone
from ragla.decode.backend.fused import FusedLayers, fused_layers
from ragla.decode.backend.kernel_linears import KernelLinear
from ragla.decode.backend.linears import PackedLinear, SharedLinear, SharedProduct
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows
from ragla.decode.verify import best_ids

ATTENTION = "ragla_cpu"
DECODE_ROWS = 256  # more rows than any draft: prefill
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
UNSUPPORTED = ("s_aux", "position_bias")


class CpuBackend(EagerBackend):
    """A transformers model on the CPU whose linears and attention have been replaced."""

    name = "cpu"

    def __init__(self, model: Any) -> None:
        super().__init__(model, cache_dtype=torch.float32 if kernels.compiled else torch.float64)
        self._mask_dtype = torch.float32  # whatever precision the embedding is kept in

        # without them a prompt's rows attend in float32, where a step's attend in float64: other bits
        self.drafts_with_prompt = kernels.compiled
        self._layers = fused_layers(model, self.layer_types, self.window)

    @torch.inference_mode()
    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows."""
        if self._layers is None:
            with PlacesAlone():
                return super().forward(rows, cache, last=last)
        hidden = self._hidden(self._layers, rows, cache)
        return self._logits(hidden[-last:])

    @torch.inference_mode()
    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int, last: int = 1
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """What ``forward`` gives for ``last``, the same bits, and the ``count`` best ids after every row."""
        if self._layers is None:
            with PlacesAlone():
                return super().forward_ranked(rows, cache, count, last)
        hidden = self._hidden(self._layers, rows, cache)
        logits = self._logits(hidden[-last:])
        ranked: list[list[int]] = []
        for start in range(0, len(hidden) - last, RANKED_ROWS):
            ranked += best_ids(self._logits(hidden[start:-last][:RANKED_ROWS]), count)
        return logits, ranked + best_ids(logits, count)

    def _hidden(self, layers: FusedLayers, rows: QueryRows, cache: KVCache) -> torch.Tensor:
        embedded = self.model.get_input_embeddings()(rows.token_ids).float()
        return layers.run(embedded, rows, self.window, cache)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    def _additive(self, visible: torch.Tensor) -> torch.Tensor:
        """The kernel takes who sees whom as it is."""
        return visible[None, None] if kernels.compiled else super()._additive(visible)


def grouped_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it: query [1, H, T, D], key and value [1, H_kv, L, D].

    The queries that share a key head are folded into rows, so keys are never repeated. Returns
    [1, T, H, D] in the query's dtype.
    """
    if any(kwargs.get(name) is not None for name in UNSUPPORTED):
        raise ValueError(f"the cpu backend has no attention with {' or '.join(UNSUPPORTED)}")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if kernels.compiled and kernels.can_attend(query, key, value, attention_mask):
        return kernels.attention(query, key, value, attention_mask, scaling, softcap), None
    attention_mask = _additive(attention_mask)
    if query.shape[2] > DECODE_ROWS and softcap is None:
        return _prefill(query, key, value, attention_mask, scaling), None
    _, heads, rows, width = query.shape
    groups = key.shape[1]
    folded = query[0].double().mul_(scaling).reshape(groups, -1, width)
    scores = torch.matmul(folded, key[0].double().transpose(1, 2)).view(heads, rows, -1)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    shares = torch.softmax(scores.add_(attention_mask[0]), dim=-1)
    mixed = torch.matmul(shares.view(groups, -1, shares.shape[-1]), value[0].double())
    return mixed.view(1, heads, rows, -1).transpose(1, 2).to(query.dtype).contiguous(), None


def _additive(mask: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)


def _prefill(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    attended = nn.functional.scaled_dot_product_attention(
        query, key.to(query.dtype), value.to(query.dtype), attn_mask=mask, scale=scaling, enable_gqa=True
    )
    return attended.transpose(1, 2).contiguous()


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, grouped_attention)


@dataclass(frozen=True)
class LinearPlace:
    """Linears of one parent that can be one product: projections of the same input, or just one."""

    parent: nn.Module
    prefix: str
    names: tuple[str, ...]
    widths: list[int]
    inputs: int
    size: int

    def full_names(self) -> list[str]:
        """The linears' names in the model."""
        return [f"{self.prefix}.{name}".lstrip(".") for name in self.names]

    def linears(self) -> list[nn.Linear]:
        """The linears that stand here."""
        return [getattr(self.parent, name) for name in self.names]

    def put(self, linear: nn.Module) -> None:
        """Replace them by one linear that computes their outputs side by side."""
        if len(self.names) == 1:
            setattr(self.parent, self.names[0], linear)
            return
        product = SharedProduct(linear, self.widths)
        for index, name in enumerate(self.names):
            setattr(self.parent, name, SharedLinear(product, index))


def linear_places(model: nn.Module) -> list[LinearPlace]:
    """Every linear of a model, those that can be fused together."""
    places = []
    for prefix, parent in model.named_modules():
        linears = {name: child for name, child in parent.named_children() if isinstance(child, nn.Linear)}
        groups = [names for names in FUSED if _fusible([linears.get(name) for name in names])]
        fused = {name for names in groups for name in names}
        for names in [*groups, *[(name,) for name in linears if name not in fused]]:
            parts = [linears[name] for name in names]
            size = sum(part.weight.numel() for part in parts)
            widths = [part.out_features for part in parts]
            places.append(LinearPlace(parent, prefix, names, widths, parts[0].in_features, size))
    return places


def _fusible(linears: list[nn.Linear | None]) -> bool:
    return None not in linears and len({part.in_features for part in linears if part is not None}) == 1


def pack_linears(model: nn.Module) -> None:
    """Replace every linear of a float32 model by a packed one, projections of one input fused.

    Without the kernels this needs oneDNN.
    """
    packed = KernelLinear if kernels.compiled else PackedLinear
    for place in linear_places(model):
        parts = place.linears()
        weight = parts[0].weight if len(parts) == 1 else torch.cat([part.weight for part in parts])
        place.put(packed(weight, joined_bias([part.bias for part in parts], place.widths)))
    pack_conv1d(model)


def pack_conv1d(model: nn.Module) -> None:
    """Replace GPT-2's linears, which keep their weight as [in, out], by packed float32 ones."""
    packed = KernelLinear if kernels.compiled else PackedLinear
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Conv1D):
                setattr(parent, name, packed(child.weight.T, child.bias))


def joined_bias(biases: list[torch.Tensor | None], widths: list[int]) -> torch.Tensor | None:
    """Biases side by side, zeros where one is missing; None where all are."""
    if all(bias is None for bias in biases):
        return None
    return torch.cat(
        [torch.zeros(w) if b is None else b.detach() for b, w in zip(biases, widths, strict=True)]
    )
