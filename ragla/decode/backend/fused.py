"""All decoder layers of a model in one call to the compiled kernels, for families of the Llama shape.

At one token a step, transformers spends as long between the products as in them: some forty small tensor
operations a layer. Here the layers' weights are listed in a table and the kernels do the rest. What is
particular about a model, its rotary embedding above all, is still computed by the model's own modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ragla.decode.backend import kernels
from ragla.decode.backend.kernel_linears import KernelIntegerLinear, KernelLinear
from ragla.decode.backend.linears import SharedLinear
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows

# RMS norms, rotary embedding of whole heads, silu-gated products, nothing else; tests hold them to eager
FAMILIES = {"llama", "qwen2", "qwen3", "mistral"}
PLACES = slice(-2, None)  # where in a layer's part of the table the cache's addresses are


class FusedLayers:
    """The decoder layers and the last norm of a model whose linears have been packed."""

    def __init__(self, model: Any, windowed: list[bool]) -> None:
        """``windowed``: for each layer whether it sees its window only."""
        config, body = model.config.get_text_config(), model.base_model
        attention = body.layers[0].self_attn
        self.hidden = int(config.hidden_size)
        self.heads, self.groups = int(config.num_attention_heads), int(config.num_key_value_heads)
        self.width, self.scaling = int(attention.head_dim), float(attention.scaling)
        self.epsilon = float(body.norm.variance_epsilon)
        self.last_norm = body.norm.weight.detach()
        self.rotary = body.rotary_emb
        self.windowed = windowed
        self._kept = [list(_tensors(layer)) for layer in body.layers]  # the table has addresses only
        self._table = torch.tensor(
            [_entry(layer, window) for layer, window in zip(body.layers, windowed, strict=True)],
            dtype=torch.int64,
        )

    def run(
        self, embedded: torch.Tensor, rows: QueryRows, window: int | None, cache: KVCache
    ) -> torch.Tensor:
        """Embedded tokens [T, hidden], which are overwritten, → normed hidden states [T, hidden].

        The cache grows by T rows. Raises ValueError when they do not fit it.
        """
        prefix, count = cache.rows[0].length, len(embedded)
        if prefix + count > cache.capacity:
            raise ValueError(f"{prefix + count} rows do not fit a cache of {cache.capacity}")
        cosines, sines = (part.contiguous() for part in self.rotary(embedded, rows.positions[None]))
        visible = rows.visible.contiguous()
        within = rows.within(window or 1 << 30).contiguous() if any(self.windowed) else visible
        table = self._table.clone()
        table[:, PLACES] = self._places(cache)
        hidden = embedded.contiguous()
        kernels.layers(
            table,
            self.last_norm,
            hidden,
            prefix,
            cache.capacity,
            (self.heads, self.groups, self.width),
            (cosines, sines),
            (visible, within),
            self.epsilon,
            self.scaling,
        )
        for layer in cache.rows:
            layer.length = prefix + count
        return hidden

    def _places(self, cache: KVCache) -> torch.Tensor:
        """Addresses of the keys and values of each layer, [layers, 2]."""
        for layer in cache.rows:
            if not layer.is_initialized:
                nothing = torch.empty(1, self.groups, 0, self.width)
                layer.lazy_initialization(nothing, nothing)
        return torch.tensor([[layer.keys.data_ptr(), layer.values.data_ptr()] for layer in cache.rows])


def fused_layers(model: Any, layer_types: list[str], window: int | None) -> FusedLayers | None:
    """The layers of ``model`` for the kernels; None where its shape is another."""
    config = model.config.get_text_config()
    if not kernels.compiled or config.model_type not in FAMILIES or config.hidden_act != "silu":
        return None
    layers = list(model.base_model.layers)
    width = layers[0].self_attn.head_dim
    cosines, _ = model.base_model.rotary_emb(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.long))
    sizes = (config.hidden_size, config.intermediate_size, width)
    if any(size % kernels.LANES for size in sizes) or cosines.shape[-1] != width:
        return None
    if not all(_packed(layer) for layer in layers):
        return None
    kinds = layer_types or ["sliding_attention" if window is not None else "full_attention"] * len(layers)
    return FusedLayers(model, [kind == "sliding_attention" for kind in kinds])


def _linears(layer: Any) -> Iterator[Any]:
    """Queries, keys and values; output; gate and up; down: the linears that the table lists, in its order."""
    for linear in (layer.self_attn.q_proj, layer.self_attn.o_proj, layer.mlp.gate_proj, layer.mlp.down_proj):
        yield linear.product.linear if isinstance(linear, SharedLinear) else linear


def _norms(layer: Any) -> Iterator[Any]:
    """Before attention; of queries and of keys, or None; before the gated products."""
    yield layer.input_layernorm
    yield getattr(layer.self_attn, "q_norm", None)
    yield getattr(layer.self_attn, "k_norm", None)
    yield layer.post_attention_layernorm


def _packed(layer: Any) -> bool:
    norms = [norm for norm in _norms(layer) if norm is not None]
    if any(norm.weight.dtype != torch.float32 for norm in norms):
        return False
    fused = (layer.self_attn.q_proj, layer.self_attn.v_proj, layer.mlp.gate_proj, layer.mlp.up_proj)
    return all(isinstance(linear, SharedLinear) for linear in fused) and all(
        isinstance(linear, (KernelLinear, KernelIntegerLinear)) for linear in _linears(layer)
    )


def _tensors(layer: Any) -> Iterator[torch.Tensor]:
    for norm in _norms(layer):
        if norm is not None:
            yield norm.weight.detach()
    for linear in _linears(layer):
        yield from (part for part in (linear.packed, linear.scales, linear.bias) if part is not None)


def _entry(layer: Any, windowed: bool) -> list[int]:
    """A layer's part of the table: see Layer in _kernels.h."""
    entry = [0 if norm is None else norm.weight.data_ptr() for norm in _norms(layer)]
    for linear in _linears(layer):
        entry += kernels.weights(
            linear.packed, linear.scales, linear.bias, linear.in_features, linear.out_features
        )
    return [*entry, int(windowed), 0, 0]
