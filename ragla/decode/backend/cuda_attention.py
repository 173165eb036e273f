"""Attention for a GPU, as transformers calls it: flash for prefill, plain products for a few query rows.

sdpa's flash kernels take no tree mask, and its masked kernels repeat the keys of grouped queries and give
one block of the GPU a whole row of keys. With few rows the products below read every key once, over as
many blocks as there are keys to share out, and need scores of T x L numbers only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.attention.bias import causal_lower_right
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ATTENTION = "ragla_cuda"
FEW_ROWS = 256  # the largest draft
SEGMENT = 512  # keys summed by one block
HALVES = (torch.bfloat16, torch.float16)
UNSUPPORTED = ("s_aux", "position_bias")
WIDE_PRODUCT = hasattr(torch.ops.aten.bmm, "dtype")  # half precision in, float32 out: torch 2.8


def attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query [1, H, T, D] over key and value [1, H_kv, L, D], the last T keys being the query's.

    No mask: causal. Returns [1, T, H, D]. Raises ValueError for what it does not compute.
    """
    if any(kwargs.get(name) is not None for name in UNSUPPORTED):
        raise ValueError(f"the cuda backend has no attention with {' or '.join(UNSUPPORTED)}")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    rows, keys = query.shape[2], key.shape[2]
    if attention_mask is None and softcap is None:
        return causal_attention(query, key, value, scaling), None
    if attention_mask is None:
        attention_mask = _causal_mask(rows, keys, query)
    if rows <= FEW_ROWS or softcap is not None:
        return grouped_attention(query, key, value, attention_mask, scaling, softcap), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling)


def causal_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Flash attention in half precision, memory-efficient in float32, each row up to its own key."""
    rows, keys = query.shape[2], key.shape[2]
    groups = query.shape[1] // key.shape[1]
    # flash groups queries itself; the other kernels want a key head for every query head
    grouped = groups > 1 and query.dtype in HALVES and key.shape[-1] == value.shape[-1] <= 256
    if groups > 1 and not grouped:
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    mask = None if rows in (1, keys) else causal_lower_right(rows, keys)
    attended = nn.functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=rows == keys > 1, scale=scaling, enable_gqa=grouped
    )
    return attended.transpose(1, 2).contiguous()


def grouped_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scaling: float,
    softcap: float | None = None,
) -> torch.Tensor:
    """Queries that share a key head are rows of one product; sums and softmax in float32."""
    _, heads, rows, width = query.shape
    groups, keys = key.shape[1], key.shape[2]
    folded = query.reshape(groups, -1, width)
    scores = wide_product(folded, key[0].transpose(1, 2)).view(heads, rows, keys)
    if softcap is not None:
        scores = torch.tanh(scores * (scaling / softcap)).mul_(softcap)
        scores = scores + mask[0]
    else:
        scores = torch.add(mask[0], scores, alpha=scaling)
    shares = torch.softmax(scores, dim=-1, dtype=torch.float32).view(groups, -1, keys)
    mixed = weighted_sum(shares, value[0]).view(1, heads, rows, -1)
    return mixed.transpose(1, 2).to(query.dtype).contiguous()


def weighted_sum(shares: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """``shares`` [G, R, L] times ``value`` [G, L, D], float32 [G, R, D]; long sums are shared out."""
    groups, rows, keys = shares.shape
    if keys % SEGMENT or keys == SEGMENT or not value.is_contiguous():
        return wide_product(shares.to(value.dtype), value)
    segments = keys // SEGMENT
    parts = shares.view(groups, rows, segments, SEGMENT).transpose(1, 2)
    parts = parts.to(value.dtype, memory_format=torch.contiguous_format)
    sums = wide_product(
        parts.reshape(groups * segments, rows, SEGMENT), value.view(groups * segments, SEGMENT, -1)
    )
    return sums.view(groups, segments, rows, -1).sum(1)


def wide_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A batched product in float32, whatever the precision of its factors."""
    if left.is_cuda and left.dtype in HALVES and WIDE_PRODUCT:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left, right).float()


def _causal_mask(rows: int, keys: int, query: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(rows, keys, dtype=query.dtype, device=query.device)
    hidden = torch.ones_like(mask, dtype=torch.bool).triu_(keys - rows + 1)
    return mask.masked_fill_(hidden, torch.finfo(query.dtype).min)[None, None]


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, attend)
