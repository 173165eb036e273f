"""One forward over a tree is every branch's own forward; and what of it the cache keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.kv_cache import KVCache, PreallocatedLayer
from ragla.decode.tree_attention import causal_rows, tree_rows
from ragla.trie import DraftTree
from tests.decode.random_trees import prefix_of, random_tree
from tests.decode.test_matrix import EAGER, PACKED
from tests.decode.tiny_models import few

CPU = torch.device("cpu")


def after_prefix(backend: Any, prefix: list[int], room: int) -> KVCache:
    cache: KVCache = backend.new_cache(len(prefix) + room)
    backend.forward(causal_rows(prefix, 0, CPU), cache, last=1)
    cache.committed(len(prefix))
    return cache


@pytest.mark.parametrize("family", EAGER)
def test_eager_tree_logits_are_those_of_stock_forwards(load_tiny: Any, family: str) -> None:
    """Each branch written out behind the prompt, with transformers' own masks and no cache."""
    backend = load_tiny(family, "eager", "float32").backend
    prefix, tree = prefix_of(30), random_tree(12, seed=5)
    logits = backend.forward(tree_rows(tree, 30, CPU), after_prefix(backend, prefix, 12))
    for node, path in enumerate(tree.ancestors()):
        text = prefix + [tree.token_ids[ancestor] for ancestor in path]
        with torch.inference_mode():
            expected = backend.model(torch.tensor([text]), use_cache=False).logits[0, -1]
        torch.testing.assert_close(logits[node], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("family", PACKED)
def test_cpu_tree_logits_are_bitwise_those_of_one_token_a_step(
    load_tiny: Any, family: str, dtype: str
) -> None:
    backend = load_tiny(family, "cpu", dtype).backend
    prefix, tree = prefix_of(30), random_tree(12, seed=6)
    logits = backend.forward(tree_rows(tree, 30, CPU), after_prefix(backend, prefix, 12))
    for node, path in enumerate(tree.ancestors()):
        cache = after_prefix(backend, prefix, 12)
        for ancestor in path:
            rows = causal_rows([tree.token_ids[ancestor]], cache.length, CPU)
            alone = backend.forward(rows, cache)[0]
            cache.committed(1)
        assert torch.equal(logits[node], alone)


@few(4)
@given(
    nodes=st.integers(1, 20), seed=st.integers(0, 10_000), prefix=st.integers(0, 12), window=st.integers(1, 9)
)
def test_a_node_sees_its_ancestors_within_the_window(nodes: int, seed: int, prefix: int, window: int) -> None:
    tree = random_tree(nodes, seed)
    rows = tree_rows(tree, prefix, CPU)
    for node, path in enumerate(tree.ancestors()):
        seen = [*range(prefix), *[prefix + ancestor for ancestor in path]]
        assert rows.visible[node].nonzero().flatten().tolist() == seen
        assert int(rows.positions[node]) == prefix + len(path) - 1
        assert rows.within(window)[node].nonzero().flatten().tolist() == seen[-window:]


def test_a_chain_is_plain_text() -> None:
    tree = DraftTree([5])
    for token in (6, 7, 8):
        tree.add(token, len(tree) - 1)
    chain, text = tree_rows(tree, 9, CPU), causal_rows([5, 6, 7, 8], 9, CPU)
    for name in ("token_ids", "positions", "visible", "key_positions"):
        assert torch.equal(getattr(chain, name), getattr(text, name))


def filled(rows: int, capacity: int = 12) -> KVCache:
    """Row i holds i in the keys and -i in the values, in two layers."""
    cache = KVCache(2, capacity)
    for layer in cache.rows:
        numbers = torch.arange(rows, dtype=torch.float32)[None, None, :, None].expand(1, 2, rows, 3)
        layer.update(numbers, -numbers)
    return cache


@given(prefix=st.integers(0, 5), nodes=st.sets(st.integers(1, 5)))
def test_the_cache_keeps_the_accepted_rows_in_order(prefix: int, nodes: set[int]) -> None:
    cache = filled(prefix + 6)
    cache.committed(prefix)
    kept = [0, *sorted(nodes)]
    cache.keep(kept)
    expected = [*range(prefix), *[prefix + node for node in kept]]
    assert cache.length == len(expected)
    for layer in cache.rows:
        assert layer.length == layer.get_seq_length() == len(expected)
        assert layer.keys[0, 1, : layer.length, 2].tolist() == expected
        assert layer.values[0, 0, : layer.length, 0].tolist() == [-row for row in expected]


def test_rejected_rows_are_overwritten() -> None:
    cache = filled(6)
    cache.committed(2)
    cache.keep([0, 2])
    one = torch.full((1, 2, 1, 3), 9.0)
    keys, values = cache.rows[0].update(one, one)
    assert keys[0, 0, :, 0].tolist() == [0, 1, 2, 4, 9]
    assert values.shape == (1, 2, 5, 3)


def test_truncating_leaves_the_text() -> None:
    cache = filled(6)
    cache.truncate(3)
    assert cache.length == 3
    assert [layer.length for layer in cache.rows] == [3, 3]
    assert cache.rows[0].get_mask_sizes(4) == (7, 0)


def test_a_full_cache_says_so() -> None:
    layer = PreallocatedLayer(4)
    states = torch.zeros(1, 1, 5, 2)
    with pytest.raises(ValueError, match="5 rows do not fit a cache of 4"):
        layer.update(states, states)
    assert layer.get_max_length() == 4


def test_rows_may_be_kept_in_another_precision() -> None:
    layer = PreallocatedLayer(4, torch.float64)
    keys, _ = layer.update(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    assert keys.dtype == torch.float64
