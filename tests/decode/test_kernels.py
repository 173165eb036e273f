"""The compiled kernels: close to float64, and a row's bits the same alone, in a tree, anywhere."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from ragla.decode.backend import kernels
from ragla.decode.backend.fused import FAMILIES, FusedLayers
from ragla.decode.backend.kernel_linears import (
    KernelIntegerLinear,
    KernelLinear,
    narrowest,
    packed_integers,
)
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.request import DecodeRequest
from ragla.decode.tree_attention import causal_rows, tree_rows
from ragla.trie import DraftLimits, DraftTree
from tests.decode.tiny_configs import tiny_config
from tests.decode.tiny_models import drafted, few, plain, save_tiny, save_tokenizer

pytestmark = pytest.mark.skipif(not kernels.compiled, reason="the kernels are not built")

TASKS = Path("/proc/self/task")
HEADS = st.sampled_from([(1, 1), (3, 1), (4, 2), (9, 3), (6, 6)])
WIDTHS = st.sampled_from([8, 12, 20, 24, 64, 80, 128])


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["portable", "avx2", "avx512", "amx"])
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """Plain C, and what this processor has."""
    if kernels._kernels.use(request.param) is None:
        pytest.skip(f"no {request.param} here")
    yield request.param
    kernels._kernels.use("")


VECTORS = ("avx2", "avx512")  # kernels that round a product and its addition together
TILES = "amx"  # exact with 8-bit weights; floats are multiplied in pieces, and summed in another order


def with_each_kind(compute: Callable[[], torch.Tensor], names: tuple[str, ...]) -> list[torch.Tensor]:
    """The same from each of these kernels that this processor has."""
    found = []
    for name in names:
        if kernels._kernels.use(name) is not None:
            found.append(compute())
    kernels._kernels.use("")
    return found


def random_tree(nodes: int, seed: int) -> DraftTree:
    rng = random.Random(seed)
    tree = DraftTree([1])
    while len(tree) < nodes:
        tree.add(len(tree) + 1, rng.randrange(max(0, len(tree) - 8), len(tree)))
    return tree


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.Tensor, cap: float | None
) -> torch.Tensor:
    """Attention [1, T, H, D] in float64."""
    repeats = query.shape[1] // key.shape[1]
    keys, values = (x.double().repeat_interleave(repeats, 1) for x in (key, value))
    scores = query.double() @ keys.transpose(2, 3) * query.shape[-1] ** -0.5
    scores = scores if cap is None else torch.tanh(scores / cap) * cap
    return (scores.masked_fill(~visible, -math.inf).softmax(-1) @ values).transpose(1, 2)


@few(3)
@given(
    heads=HEADS,
    width=WIDTHS,
    prefix=st.integers(0, 150),
    nodes=st.integers(1, 64),
    window=st.sampled_from([None, 1, 7, 40]),
    cap=st.sampled_from([None, 5.0]),
    seed=st.integers(0, 2**20),
)
@pytest.mark.usefixtures("variant")
def test_a_row_of_a_tree_is_the_row_of_its_own_text(
    heads: tuple[int, int],
    width: int,
    prefix: int,
    nodes: int,
    window: int | None,
    cap: float | None,
    seed: int,
) -> None:
    """Against float64, and to the last bit against one query over just the keys that it sees."""
    n_heads, groups = heads
    rows = tree_rows(random_tree(nodes, seed), prefix, torch.device("cpu"))
    visible = rows.visible if window is None else rows.within(window)
    query = 2 * numbers(1, n_heads, nodes, width, seed=seed)
    key, value = (numbers(1, groups, prefix + nodes, width, seed=seed + i) for i in (1, 2))
    scaling = width**-0.5
    found = kernels.attention(query, key, value, visible[None, None], scaling, cap)
    expected = reference(query, key, value, visible, cap)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    for row in {0, nodes // 2, nodes - 1}:
        seen = visible[row].nonzero().flatten()
        room = [numbers(1, groups, len(seen) + 3, width) for _ in range(2)]  # a cache with unused places
        for place, states in zip(room, (key, value), strict=True):
            place[:, :, : len(seen)] = states[:, :, seen]
        alone = kernels.attention(
            query[:, :, row : row + 1],
            room[0][:, :, : len(seen)],
            room[1][:, :, : len(seen)],
            torch.ones(1, 1, 1, len(seen), dtype=torch.bool),
            scaling,
            cap,
        )
        assert torch.equal(alone[0, 0], found[0, row])


@pytest.mark.usefixtures("variant")
def test_what_a_row_does_not_see_cannot_touch_it() -> None:
    """A rejected sibling may hold anything, even no number at all."""
    query, key, value = (numbers(1, 4, 20, 16, seed=seed) for seed in range(3))
    visible = torch.ones(20, 20, dtype=torch.bool).tril()
    visible[10:, 5:9] = False
    before = kernels.attention(query, key, value, visible[None, None], 0.25)
    key[:, :, 5:9] = math.nan
    value[:, :, 5:9] = math.inf
    after = kernels.attention(query, key, value, visible[None, None], 0.25)
    assert torch.equal(before[:, 10:], after[:, 10:])
    assert torch.equal(before[:, :5], after[:, :5])


@pytest.mark.usefixtures("variant")
def test_scores_of_any_size() -> None:
    """Shares that underflow, and a single key that takes all."""
    query, key, value = (numbers(1, 2, 40, 32, seed=seed) for seed in range(3))
    visible = torch.ones(1, 1, 40, 40, dtype=torch.bool).tril()
    for factor in (0.0, 1e-20, 30.0, 1e4):
        found = kernels.attention(query * factor, key, value, visible, 32**-0.5)
        expected = reference(query * factor, key, value, visible, None)
        torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-3)
        assert found.isfinite().all()


def test_layouts_of_the_model_and_of_the_cache() -> None:
    """Queries as the projection leaves them, [T, H, D], and a value of another width than the key's."""
    query = numbers(1, 7, 6, 16).transpose(1, 2)
    key, value = numbers(1, 2, 30, 16, seed=1)[:, :, :12], numbers(1, 2, 50, 24, seed=2)[:, :, :12]
    visible = torch.ones(7, 40, dtype=torch.bool).tril(5)[None, None, :, :12]
    found = kernels.attention(query, key, value, visible, 0.25)
    assert found.shape == (1, 7, 6, 24)
    torch.testing.assert_close(
        found.double(), reference(query, key, value, visible, None), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(ValueError, match="a mask of"):
        kernels.attention(query, key, value, visible[:, :, :3], 0.25)


SHAPES = st.tuples(st.sampled_from([1, 7, 32, 129, 256, 300, 576]), st.sampled_from([1, 8, 33, 64, 200]))


def linear_of(kind: str, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
    if kind == "int8":
        return KernelIntegerLinear(*packed_integers(weight), tuple(weight.shape), bias)
    linear = KernelLinear(weight, bias)
    assert linear.packed.dtype == getattr(torch, kind)
    return linear


def rounded(kind: str, weight: torch.Tensor) -> torch.Tensor:
    if kind == "bfloat16":
        weight[0] *= 1e9  # past float16
    return weight if kind == "int8" else weight.to(getattr(torch, kind)).float()


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int8"])
@few(4)
@given(shape=SHAPES, rows=st.integers(1, 110), bias=st.booleans(), data=st.data())
def test_rows_of_a_product_stand_alone(
    kind: str, shape: tuple[int, int], rows: int, bias: bool, data: st.DataObject
) -> None:
    inputs, outputs = shape
    seed = data.draw(st.integers(0, 1000))
    weight, x = rounded(kind, numbers(outputs, inputs, seed=seed)), numbers(rows, inputs, seed=seed + 2)
    offset = numbers(outputs, seed=seed + 1) if bias else None
    linear = linear_of(kind, weight, offset)
    found = linear(x)
    expected = x.double() @ weight.double().T + (0 if offset is None else offset)
    magnitude = x.abs() @ weight.abs().T
    assert (found - expected).norm() < (0.02 if kind == "int8" else 1e-6) * magnitude.norm()
    chosen = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=7))
    assert torch.equal(linear(x[chosen]), found[chosen])
    wide = numbers(1, rows, inputs + 5)
    wide[0, :, 2 : inputs + 2] = x
    assert torch.equal(linear(wide[:, :, 2 : inputs + 2])[0], found)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int8"])
@few(4)
@given(shape=SHAPES, rows=st.integers(1, 110), seed=st.integers(0, 1000))
def test_products_are_the_same_bits_on_every_processor(
    kind: str, shape: tuple[int, int], rows: int, seed: int
) -> None:
    inputs, outputs = shape
    linear = linear_of(kind, rounded(kind, numbers(outputs, inputs, seed=seed)), None)
    x = numbers(rows, inputs, seed=seed + 1)
    names = (*VECTORS, TILES) if kind == "int8" else VECTORS
    first, *others = with_each_kind(lambda: linear(x), names) or [x]
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("inputs", [1, 40, 576, 4097])
@pytest.mark.usefixtures("variant")
def test_products_are_as_exact_as_float32_allows(kind: str, inputs: int) -> None:
    """Also where rows and weights differ by ten orders of magnitude, and every bit of them counts."""
    weight = rounded(kind, numbers(70, inputs))
    if kind != "float16":
        weight = rounded(kind, weight * (4 * numbers(70, 1, seed=1)).exp())
    x = numbers(50, inputs, seed=2) * (6 * numbers(50, 1, seed=3)).exp()
    expected = x.double() @ weight.double().T
    magnitude = x.double().abs() @ weight.double().abs().T
    error = (linear_of(kind, weight, None)(x) - expected) / magnitude
    assert error.abs().max() < 8 * 2**-24
    assert error.square().mean().sqrt() < 2**-24


@few(4)
@given(width=WIDTHS, nodes=st.integers(1, 64), prefix=st.integers(0, 150), seed=st.integers(0, 1000))
def test_attention_is_the_same_bits_on_every_processor(
    width: int, nodes: int, prefix: int, seed: int
) -> None:
    visible = tree_rows(random_tree(nodes, seed), prefix, torch.device("cpu")).visible[None, None]
    query = numbers(1, 6, nodes, width, seed=seed)
    key, value = (numbers(1, 2, prefix + nodes, width, seed=seed + i) for i in (1, 2))
    found = with_each_kind(lambda: kernels.attention(query, key, value, visible, 0.2), (*VECTORS, TILES))
    first, *others = found or [query]
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.usefixtures("variant")
@few(4)
@given(
    vocabulary=st.integers(1, 300),
    rows=st.integers(1, 9),
    count=st.integers(1, 12),
    values=st.sampled_from([[0.0, -0.0, 1.0], [-math.inf, 2.0], [math.nan, 1.0, math.inf], [0.5]]),
    seed=st.integers(0, 1000),
)
def test_the_best_are_ranked_and_the_first_of_equals_comes_first(
    vocabulary: int, rows: int, count: int, values: list[float], seed: int
) -> None:
    """Against a stable sort; the very first is torch's argmax, also where there is no number."""
    count = min(count, vocabulary)
    logits = numbers(rows, vocabulary + 3, seed=seed)[:, 1 : vocabulary + 1]
    among = logits[:, :: 1 + seed % 5]
    among.copy_(torch.tensor(values).repeat(vocabulary)[: among.shape[1]])
    ids, best = kernels.best(logits, count)
    for row, row_ids, row_best in zip(logits, ids, best, strict=True):
        keys = [
            (0, 0.0, token) if math.isnan(value) else (1, -value, token)
            for token, value in enumerate(row.tolist())
        ]
        expected = [token for *_, token in sorted(keys)][:count]
        assert row_ids.tolist() == expected
        assert row_ids[0] == row.argmax()
        torch.testing.assert_close(row_best, row[expected], rtol=0, atol=0, equal_nan=True)
    with pytest.raises(ValueError, match="best of"):
        kernels.best(logits, vocabulary + 1)


def test_only_rows_that_lie_in_one_piece_are_ranked_by_the_kernels() -> None:
    logits = numbers(4, 50)
    assert kernels.can_rank(logits)
    assert not kernels.can_rank(logits.T)
    assert not kernels.can_rank(logits.double())
    assert not kernels.can_rank(logits[0])


def test_unknown_kernels_are_none_and_change_nothing() -> None:
    fastest = kernels._kernels.use("")
    assert kernels._kernels.use("sse2") is None
    assert kernels._kernels.use("") == fastest


@pytest.mark.skipif(kernels.kind() != "amx", reason="no tile registers here")
def test_where_the_system_refuses_tile_registers_others_are_used() -> None:
    """As it does where a thread's signal stack has no room for them."""
    script = """
import ctypes, importlib.util, sys
class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
small = ctypes.create_string_buffer(4096)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(small), 0, 4096)), None) == 0
spec = importlib.util.spec_from_file_location("_kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.kind(), module.use("amx"))
"""
    command = [sys.executable, "-c", script, str(kernels._kernels.__file__)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "avx512 None\n"


def test_small_weights_share_large_pages() -> None:
    first, second = (kernels.in_large_pages(1000, torch.float16) for _ in range(2))
    apart = second.data_ptr() - first.data_ptr()
    assert 2000 <= apart < 2000 + 64 or apart < 0  # the second one may have begun another piece
    assert first.data_ptr() % 64 == second.data_ptr() % 64 == 0
    large = kernels.in_large_pages(1 << 25, torch.float16)
    large[-1] = first[0] = second[-1] = 1.0


def test_weights_are_narrowed_only_where_nothing_is_lost() -> None:
    weight = numbers(9, 9)
    assert narrowest(weight).dtype == torch.float32
    assert narrowest(weight.half().float()).dtype == torch.float16
    large = weight.bfloat16().float()
    large[3, 3] = 2.0**100
    assert narrowest(large).dtype == torch.bfloat16
    tiny = torch.full((2, 2), 2.0**-24)  # the least number above zero in 16 bit
    assert torch.equal(KernelLinear(tiny, None)(torch.eye(2)), tiny)


def test_eight_bit_rows_with_outliers_zeros_and_large_sums() -> None:
    weight = torch.ones(70, 512)
    linear = KernelIntegerLinear(*packed_integers(weight), (70, 512), None)
    x = torch.zeros(3, 512)
    x[1] = 1.0  # the largest sum there can be
    x[2, 7] = 1e6
    x[2, 8] = 100.0  # three levels
    found = linear(x)
    assert torch.equal(found[0], torch.zeros(70))
    torch.testing.assert_close(found[1], torch.full((70,), 512.0), rtol=1e-5, atol=0)
    torch.testing.assert_close(found[2], torch.full((70,), 1000100.0), rtol=1e-4, atol=0)


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.skipif(not TASKS.exists(), reason="threads are counted in /proc")
@pytest.mark.usefixtures("three_threads")
def test_there_are_never_more_threads_than_asked_for() -> None:
    linear, x = KernelLinear(numbers(640, 640), None), numbers(64, 640)
    before = len(list(TASKS.iterdir()))
    linear(x)
    started = len(list(TASKS.iterdir()))
    assert started - before <= 2
    for _ in range(50):
        linear(x)
    assert len(list(TASKS.iterdir())) == started


@pytest.mark.usefixtures("three_threads")
def test_products_of_several_python_threads_do_not_meet() -> None:
    linears = [KernelLinear(numbers(640, 640, seed=seed), None) for seed in range(4)]
    x = numbers(9, 640)
    expected = [linear(x) for linear in linears]

    def check(index: int) -> bool:
        return all(torch.equal(linears[index](x), expected[index]) for _ in range(100))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(check, range(4)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """In a process of its own, and with too few numbers for torch's threads, which do not survive a fork."""
    script = """
import os, torch
from ragla.decode.backend.kernel_linears import KernelLinear
torch.set_num_threads(3)
linear, x = KernelLinear(torch.randn(640, 640), None), torch.randn(9, 640)
expected = linear(x)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(linear(x), expected) else 3)
print(os.waitpid(child, 0)[1], torch.equal(linear(x), expected))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 True\n"


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen2-window", "gemma2", "gpt2"])
def test_the_same_ids_without_the_kernels(
    load_tiny: Any, family: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 8 bit the weights are rounded otherwise, so there only its own plain loop is the measure."""
    request = DecodeRequest([3 + (index * 37) % 110 for index in range(40)], 40, frozenset())
    with_kernels = plain(load_tiny(family, "cpu", dtype).backend, request)
    monkeypatch.setattr(kernels, "compiled", False)
    settings = LoadSettings(backend="cpu", dtype=dtype, integers=tmp_path / "integers")  # type: ignore[arg-type]
    backend = load_target(save_tiny(tmp_path, tiny_config(family)), settings).backend
    without = plain(backend, request)
    if dtype == "float32":
        assert without == with_kernels
    found, stats = drafted(backend, request, DraftLimits(budget=12), [without])
    assert found == without
    assert stats.tokens_per_step > 3


@pytest.mark.parametrize("family", sorted(FAMILIES | {"qwen2-window"}))
def test_fused_layers_compute_what_transformers_does(load_tiny: Any, tmp_path: Path, family: str) -> None:
    """Norms with weights of their own, biases, and a window shorter than the text."""
    torch.manual_seed(2)
    model = AutoModelForCausalLM.from_config(tiny_config(family)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    prompt = [3 + (index * 29) % 110 for index in range(60)]
    logits = {}
    for name in ("eager", "cpu"):
        backend: Any = load_target(tmp_path, LoadSettings(backend=name, dtype="float32")).backend  # type: ignore[arg-type]
        cache = backend.new_cache(60)
        parts = []
        for start, end in ((0, 31), (31, 32), (32, 60)):
            parts.append(backend.forward(causal_rows(prompt[start:end], start, backend.device), cache))
            cache.committed(end - start)
        logits[name] = torch.cat(parts)
    assert isinstance(backend._layers, FusedLayers)
    torch.testing.assert_close(logits["cpu"], logits["eager"], rtol=1e-4, atol=2e-4)
    with pytest.raises(ValueError, match="61 rows do not fit a cache of 60"):
        backend.forward(causal_rows([1], 60, backend.device), cache)


def test_ranking_a_prompt_leaves_the_last_row_as_it_is(load_tiny: Any) -> None:
    backend = load_tiny("llama", "cpu", "float32").backend
    rows = causal_rows([3 + (index * 29) % 110 for index in range(70)], 0, backend.device)
    alone = backend.forward(rows, backend.new_cache(70), last=1)
    logits, ranked = backend.forward_ranked(rows, backend.new_cache(70), 4)
    assert torch.equal(logits, alone)
    every = backend.forward(rows, backend.new_cache(70))
    assert ranked == every.topk(4).indices.tolist()
