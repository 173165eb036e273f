"""What the GPU backend is made of: attention, masks on the device, fixed storages and tapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ragla.decode.backend.cuda_attention import SEGMENT, attend, weighted_sum
from ragla.decode.backend.cuda_cache import LayerShape, StoragePool, attended, fixed_cache, rounded
from ragla.decode.backend.cuda_step import MaskRule, PackedRows, bucket_for, sight
from ragla.decode.backend.graphs import CaptureFailed, TapeGraphs
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import causal_rows, tree_rows
from tests.decode.random_trees import random_tree

CPU = torch.device("cpu")
SHAPES = [LayerShape(CPU, torch.float32, 2, 3, 3), LayerShape(CPU, torch.float32, 1, 4, 2)] * 2


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, softcap: float | None
) -> torch.Tensor:
    """Head by head in float64, [1, T, H, D]."""
    share = query.shape[1] // key.shape[1]
    heads = []
    for head in range(query.shape[1]):
        scores = query[0, head].double() @ key[0, head // share].double().T * query.shape[-1] ** -0.5
        scores = scores if softcap is None else torch.tanh(scores / softcap) * softcap
        heads.append(torch.softmax(scores + mask.double(), dim=-1) @ value[0, head // share].double())
    return torch.stack(heads, 1)[None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (4, 1)])
@pytest.mark.parametrize(
    ("rows", "keys"), [(1, 40), (7, 7), (7, 40), (300, 300), (300, 340), (5, 3 * SEGMENT)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_attention(
    dtype: torch.dtype, softcap: float | None, heads: tuple[int, int], rows: int, keys: int, masked: bool
) -> None:
    """Few rows and many, behind a prefix and not, grouped queries, with a mask and causal without one."""
    query = numbers(1, heads[0], rows, 8, dtype=dtype)
    key, value = numbers(1, heads[1], keys, 8, dtype=dtype), numbers(1, heads[1], keys, 8, dtype=dtype) * 2
    visible = torch.ones(rows, keys, dtype=torch.bool).tril_(keys - rows)
    if masked:
        visible[:, 1 : keys // 2] = False
    mask = torch.zeros(rows, keys).masked_fill_(~visible, torch.finfo(dtype).min)
    module = nn.Module()
    module.num_key_value_groups = heads[0] // heads[1]
    given_mask = mask.to(dtype)[None, None] if masked else None
    found, weights = attend(module, query, key, value, given_mask, softcap=softcap)
    assert weights is None
    assert found.dtype == dtype
    expected = reference(query, key, value, mask, softcap)
    tolerance = 2e-5 if dtype == torch.float32 else 0.06
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_a_long_sum_is_the_same_in_segments() -> None:
    shares, value = numbers(2, 3, 4 * SEGMENT).softmax(-1), numbers(2, 4 * SEGMENT, 8)
    apart = numbers(2, 5 * SEGMENT, 8)  # not contiguous once cut: summed at once
    apart[:, : 4 * SEGMENT] = value
    torch.testing.assert_close(
        weighted_sum(shares, value), weighted_sum(shares, apart[:, : 4 * SEGMENT]), rtol=1e-5, atol=1e-6
    )


def test_attention_with_sinks_is_left_to_the_model() -> None:
    with pytest.raises(ValueError, match="s_aux"):
        attend(nn.Module(), *[numbers(1, 2, 3, 4)] * 3, None, s_aux=numbers(2))


@given(
    nodes=st.integers(1, 20), padding=st.integers(0, 12), prefix=st.integers(0, 20), window=st.integers(1, 9)
)
def test_masks_made_on_the_device(nodes: int, padding: int, prefix: int, window: int) -> None:
    """They are the rows' own, nobody sees padding or leftovers, and padding sees something."""
    rows = tree_rows(random_tree(nodes, seed=nodes), prefix, CPU)
    packed = PackedRows(nodes + padding, CPU)
    packed.fill(causal_rows(list(range(nodes + padding)), 3, CPU))  # what another step has left there
    packed.fill(rows)
    ids, positions, among, cached = packed.on_device()
    assert ids.tolist() == [*rows.ids.tolist(), *[0] * padding]
    assert positions.tolist() == [*rows.places.tolist(), *[int(rows.places[-1])] * padding]
    capacity = prefix + nodes + padding + 3
    visible, distance = sight(positions, among, cached, capacity)
    kinds = frozenset({"full_attention", "sliding_attention"})
    masks: Any = MaskRule(kinds, window, torch.float32).masks(visible, distance)
    assert set(masks) == kinds
    for kind, expected in (("full_attention", rows.visible), ("sliding_attention", rows.within(window))):
        seen = masks[kind][0, 0] == 0
        assert torch.equal(seen[:nodes, : prefix + nodes], expected)
        assert not seen[:nodes, prefix + nodes :].any()
        assert seen.any(-1).all()
    alone: Any = MaskRule(frozenset(), window, torch.float32).masks(visible, distance)
    assert torch.equal(alone, masks["sliding_attention"])


def test_a_chunk_of_text_needs_no_tree() -> None:
    packed = PackedRows(4, CPU)
    packed.fill(causal_rows([5, 6, 7], 2, CPU))
    assert packed.on_device()[2].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]]


def test_sizes() -> None:
    assert [bucket_for(rows) for rows in (1, 2, 3, 4, 5, 64, 65, 256, 257)] == [
        1,
        2,
        4,
        4,
        8,
        64,
        128,
        256,
        None,
    ]
    assert [rounded(capacity) for capacity in (1, 1024, 1025, 5000)] == [1024, 1024, 2048, 5120]
    assert [attended(rows, 5120) for rows in (1, 1024, 1025, 3000, 5000)] == [1024, 1024, 2048, 4096, 5120]


@torch.inference_mode()
def fill(cache: KVCache, rows: int) -> None:
    """Row i holds i in the keys and -i in the values."""
    for layer, shape in zip(cache.rows, SHAPES, strict=True):
        row = torch.arange(rows, dtype=torch.float32)[None, None, :, None]
        layer.update(
            row.expand(1, shape.heads, rows, shape.key_width),
            -row.expand(1, shape.heads, rows, shape.value_width),
        )


@given(prefix=st.integers(0, 5), nodes=st.sets(st.integers(1, 5)))
def test_a_storage_keeps_the_accepted_rows_in_order(prefix: int, nodes: set[int]) -> None:
    cache = StoragePool(SHAPES).new_cache(16)
    fill(cache, prefix + 6)
    cache.committed(prefix)
    kept = [0, *sorted(nodes)]
    cache.keep(kept)
    expected = [*range(prefix), *[prefix + node for node in kept]]
    assert cache.length == cache.get_seq_length() == len(expected)
    for layer in cache.rows:
        assert layer.length == len(expected)
        assert layer.keys[0, -1, : layer.length, -1].tolist() == expected
        assert layer.values[0, 0, : layer.length, 0].tolist() == [-row for row in expected]


def test_storages_are_used_again_and_few_are_kept() -> None:
    pool = StoragePool(SHAPES)
    first, second = pool.new_cache(1000), pool.new_cache(1000)
    assert first.storage is not second.storage
    storage = first.storage
    fill(first, 9)
    del first
    assert pool.idle == [storage]
    again = pool.new_cache(800)
    assert again.storage is storage
    assert again.length == again.get_seq_length() == 0
    assert not any(tensor.any() for stack in storage.stacks for tensor in stack)
    assert pool.new_cache(2000).storage.capacity == 2048
    for capacity in (3000, 4000, 5000):
        pool.new_cache(capacity)
    assert [idle.capacity for idle in pool.idle] == [3072, 4096, 5120]


def test_a_full_storage_says_so() -> None:
    cache = StoragePool(SHAPES).new_cache(16)
    with pytest.raises(ValueError, match="1025 rows do not fit a cache of 1024"):
        fill(cache, 1025)


@torch.inference_mode()
def test_a_recorded_step_writes_where_it_is_told() -> None:
    storage = StoragePool(SHAPES).new_cache(16).storage
    places = torch.tensor([0])
    cache = fixed_cache(storage, places, 10)
    assert cache.get_seq_length() == 0
    assert cache.get_mask_sizes(1, 0) == (10, 0)
    for place in (3, 7):
        places.fill_(place)
        keys, values = cache.update(torch.full((1, 2, 1, 3), 2.0), torch.full((1, 2, 1, 3), 4.0), 0)
        assert keys.shape == values.shape == (1, 2, 10, 3)
    assert storage.layers[0][0][0, 1, :, 2].nonzero().flatten().tolist() == [3, 7]
    assert not storage.layers[2][0].any()


def test_a_tape_runs_again_on_what_its_tensors_now_hold() -> None:
    given_, kept, scale = torch.ones(3), torch.zeros(3), [2.0]

    def step() -> torch.Tensor:
        doubled = given_ * scale[0]
        kept.copy_(doubled[:, None].squeeze(1))
        first, *_ = doubled.split(1)
        return doubled.add_(first.clone())

    replay = TapeGraphs().capture(step)
    given_.fill_(5.0)
    scale[0] = 100.0  # a Python number is frozen in the recording
    assert replay().tolist() == [20.0] * 3
    assert kept.tolist() == [10.0] * 3
    given_.fill_(1.0)
    assert replay().tolist() == [4.0] * 3


@pytest.mark.parametrize(
    "step",
    [
        lambda: torch.ones(2) * torch.ones(2).sum().item(),
        lambda: torch.ones(2).nonzero(),
        lambda: torch.ones(2)[torch.ones(2) > 0],
        lambda: torch.ones(2).index_put_((torch.ones(2) > 0,), torch.ones(2)),
        lambda: torch.ones(2) if torch.ones(()) > 0 else torch.zeros(2),
        lambda: torch.ones(2) @ torch.ones(3),
    ],
)
def test_what_a_tape_refuses(step: Any) -> None:
    with pytest.raises(CaptureFailed) as caught:
        TapeGraphs().capture(step)
    assert "\n" not in str(caught.value)
