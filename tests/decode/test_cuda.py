"""The GPU backend on a CPU: steps go on a tape, which freezes and refuses what a CUDA graph does."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from ragla.decode.backend import cuda_cache
from ragla.decode.backend.cuda import CudaBackend
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.graphs import CaptureFailed, Step, TapeGraphs
from ragla.decode.model import LoadSettings, _backend_name
from ragla.decode.request import DecodeRequest
from ragla.decode.tree_attention import causal_rows, tree_rows
from ragla.errors import RaglaError, UsageError
from ragla.trie import DraftLimits
from tests.decode.random_trees import prefix_of, random_tree
from tests.decode.tiny_models import drafted, few, plain, tiny_config

FAMILIES = [
    "llama", "qwen2", "qwen2-window", "qwen3", "mistral", "gemma2", "gemma3_text", "gpt2", "gptj", "glm",
    "opt", "phi", "falcon", "gpt_oss", "qwen3_moe", "stablelm",
]  # fmt: skip
CPU = torch.device("cpu")

Backends = tuple[EagerBackend, CudaBackend]


class CountingTape(TapeGraphs):
    """A tape that counts its recordings, and can be told to fail once."""

    def __init__(self, fails_at: int | None = None, error: Exception | None = None) -> None:
        self.recorded = 0
        self.fails_at, self.error = fails_at, error or CaptureFailed("of a test")

    def capture(self, function: Step) -> Step:
        if self.recorded == self.fails_at:
            self.fails_at = None
            raise self.error
        self.recorded += 1
        return super().capture(function)


def tiny(family: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(tiny_config(family), dtype=torch.float32).to(dtype)


@pytest.fixture(scope="module")
def pair() -> Callable[[str], Backends]:
    """The eager and the GPU backend over equal models, the same ones for the same family."""
    made: dict[str, Backends] = {}

    def get(family: str) -> Backends:
        if family not in made:
            made[family] = EagerBackend(tiny(family)), CudaBackend(tiny(family), CountingTape())
        return made[family]

    return get


def after(backend: EagerBackend, text: list[int], room: int, chunk: int = 512) -> Any:
    """A cache that holds a text."""
    cache = backend.new_cache(len(text) + room)
    for start in range(0, len(text), chunk):
        part = text[start : start + chunk]
        backend.forward(causal_rows(part, start, CPU), cache, last=1)
        cache.committed(len(part))
    return cache


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_rows_are_the_eager_backends(pair: Callable[[str], Backends], family: str) -> None:
    """Of every bucket's first and last size, behind prompts in chunks, and after rows were moved."""
    eager, cuda = pair(family)
    assert cuda.notices == []
    for nodes in (1, 2, 3, 5, 8, 9, 17):
        text, tree = prefix_of(20 + nodes), random_tree(nodes, seed=nodes)
        logits = []
        for backend in (eager, cuda):
            cache = after(backend, text, 40, chunk=13)
            first = backend.forward(tree_rows(tree, len(text), CPU), cache)
            kept = tree.ancestors()[nodes - 1]
            cache.keep(kept)
            assert cache.length == len(text) + len(kept)
            logits.append((first, backend.forward(tree_rows(tree, cache.length, CPU), cache)))
        for expected, found in zip(*logits, strict=True):
            assert found.shape == expected.shape
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "qwen2-window", "mistral", "gpt2"])
@few(33)
@given(
    prompt=st.lists(st.integers(3, 119), min_size=1, max_size=50),
    budget=st.integers(1, 70),
    shape=st.sampled_from(["tree", "parallel", "single"]),
)
def test_the_answer_is_the_eager_backends(
    pair: Callable[[str], Backends], family: str, prompt: list[int], budget: int, shape: Any
) -> None:
    eager, cuda = pair(family)
    request = DecodeRequest(prompt, 30, prefill_rows=32)
    expected = plain(eager, request)
    crossed = [ids for token in expected for ids in (token, (token * 7 + 1) % 120)]
    assert plain(cuda, request) == expected
    found, stats = drafted(cuda, request, DraftLimits(budget=budget, shape=shape), [expected, crossed])
    assert found == expected
    assert stats.tokens == len(expected)


def test_a_known_answer_is_accepted() -> None:
    cuda = CudaBackend(tiny("llama"), CountingTape())
    request = DecodeRequest(list(range(10, 40)), 40)
    expected = plain(cuda, request)
    found, stats = drafted(cuda, request, DraftLimits(budget=16), [expected])
    assert found == expected
    assert stats.tokens_per_step > 4


def test_recordings_serve_the_next_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_cache, "GRANULE", 128)
    tape = CountingTape()
    cuda = CudaBackend(tiny("llama"), tape)
    assert tape.recorded == 1  # the check
    first = plain(cuda, DecodeRequest(list(range(10, 40)), 20))
    assert tape.recorded == 1
    drafted(cuda, DecodeRequest(list(range(10, 40)), 20), DraftLimits(budget=8), [first])
    recorded = tape.recorded
    assert 2 <= recorded <= 4
    for _ in range(2):
        found, _ = drafted(cuda, DecodeRequest(list(range(10, 40)), 20), DraftLimits(budget=8), [first])
        assert found == first
    assert tape.recorded == recorded


def test_caches_that_live_together_do_not_share_rows() -> None:
    cuda = CudaBackend(tiny("llama"), CountingTape())
    eager = EagerBackend(tiny("llama"))
    texts = [prefix_of(20), prefix_of(30)[10:]]
    caches = [after(cuda, text, 10) for text in texts]
    for text, cache in zip(texts, caches, strict=True):
        row = causal_rows([7], len(text), CPU)
        expected = eager.forward(row, after(eager, text, 10))
        torch.testing.assert_close(cuda.forward(row, cache), expected, rtol=1e-4, atol=1e-4)


def test_more_keys_are_attended_to_as_the_text_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Across the steps at 16, 32 and 64 keys, and to the very end of the storage."""
    monkeypatch.setattr(cuda_cache, "GRANULE", 16)
    tape = CountingTape()
    cuda, eager = CudaBackend(tiny("mistral"), tape), EagerBackend(tiny("mistral"))
    request = DecodeRequest(prefix_of(5), 75)
    expected = plain(eager, request)
    assert plain(cuda, request) == expected
    assert tape.recorded == 4 + 1  # the check had another storage
    for budget in (3, 8):
        assert drafted(cuda, request, DraftLimits(budget=budget), [expected])[0] == expected
    assert cuda.notices == []


def test_padding_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_cache, "GRANULE", 1)
    cuda, eager = CudaBackend(tiny("llama"), CountingTape()), EagerBackend(tiny("llama"))
    text, tree = prefix_of(20), random_tree(3, seed=1)
    rows = tree_rows(tree, 20, CPU)
    found = cuda.forward(rows, after(cuda, text, 3))
    torch.testing.assert_close(found, eager.forward(rows, after(eager, text, 3)), rtol=1e-4, atol=1e-4)


def test_a_leftover_that_is_no_number_does_no_harm() -> None:
    cuda = CudaBackend(tiny("llama"), CountingTape())
    request = DecodeRequest(prefix_of(20), 10)
    expected = plain(cuda, request)
    cache = cuda.new_cache(100)
    with torch.inference_mode():
        for layer in cache.rows:
            layer.keys.fill_(math.nan)
            layer.values.fill_(math.inf)
    del cache
    assert plain(cuda, request) == expected


def asking(model: Any) -> Any:
    """The model as one that asks for a value between its layers."""
    model.base_model.layers[0].register_forward_hook(
        lambda _module, _args, out: out * (out.sum() * 0 + 1).item()
    )
    return model


def counting(model: Any) -> Any:
    """The model as one that counts for itself how often it ran, and computes with it."""
    runs: list[int] = []

    def hook(_module: Any, _args: Any, output: Any) -> Any:
        runs.append(1)
        return output * (1.0 + 0.1 * (len(runs) % 7))

    model.base_model.layers[0].register_forward_hook(hook)
    return model


@pytest.mark.parametrize(
    ("spoil", "notice"),
    [
        (asking, "steps are not recorded as graphs and run slower: aten.item asks the device"),
        (counting, "a recorded step does not repeat the model's own"),
    ],
)
def test_a_model_that_cannot_be_recorded_runs_eagerly(
    spoil: Callable[[Any], Any], notice: str, caplog: pytest.LogCaptureFixture
) -> None:
    cuda = CudaBackend(spoil(tiny("llama")), CountingTape())
    assert len(cuda.notices) == 1
    assert cuda.notices[0].startswith(notice)
    assert caplog.records == []  # the notice is the loader's to show
    if spoil is asking:
        request = DecodeRequest(prefix_of(20), 20)
        expected = plain(EagerBackend(tiny("llama")), request)
        assert drafted(cuda, request, DraftLimits(budget=8), [expected])[0] == expected


@pytest.mark.parametrize(
    ("error", "notice"),
    [
        (CaptureFailed("of a test"), "steps are not recorded as graphs and run slower: of a test"),
        (torch.OutOfMemoryError("of a test"), "no memory is left to record steps as graphs"),
    ],
)
def test_a_recording_that_fails_in_an_answer(
    error: Exception, notice: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One token's step is recorded, the draft's is not: the answer goes on, and a line says why."""
    cuda = CudaBackend(tiny("llama"), CountingTape(fails_at=1, error=error))
    request = DecodeRequest(prefix_of(20), 30)
    expected = plain(EagerBackend(tiny("llama")), request)
    with caplog.at_level(logging.WARNING):
        assert drafted(cuda, request, DraftLimits(budget=16), [expected])[0] == expected
    assert len(caplog.messages) == len(cuda.notices) == 1
    assert caplog.messages[0].startswith(notice)


def test_another_error_is_not_swallowed() -> None:
    with pytest.raises(RuntimeError, match="of a test"):
        CudaBackend(tiny("llama"), CountingTape(fails_at=0, error=RuntimeError("of a test")))


def test_a_cache_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle storages make room; when that is not enough one line says what helps."""
    cuda = CudaBackend(tiny("llama"), CountingTape())
    real = cuda_cache.RowStorage
    failures = [1]

    def allocate(shapes: Any, capacity: int) -> Any:
        if failures and failures.pop():
            raise torch.OutOfMemoryError("of a test")
        return real(shapes, capacity)

    monkeypatch.setattr(cuda_cache, "RowStorage", allocate)
    idle = cuda._pool.idle
    assert len(idle) == 1
    assert cuda.new_cache(5000).capacity == 5120
    assert idle == []
    failures[:] = [1, 1]
    with pytest.raises(RaglaError, match="not enough memory on cpu to keep 9000 tokens") as caught:
        cuda.new_cache(9000)
    assert caught.value.hint


@pytest.mark.parametrize("idle", [True, False])
def test_idle_storages_make_room_for_a_pass(idle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaBackend(tiny("llama"), CountingTape())
    text = prefix_of(20)
    cache = cuda.new_cache(1500)
    assert len(cuda._pool.idle) == 1
    if not idle:
        cuda._pool.drop_idle()
    real, failures = EagerBackend.forward, [1]

    def forward(*arguments: Any, **keywords: Any) -> torch.Tensor:
        logits = real(*arguments, **keywords)
        if failures and failures.pop():
            raise torch.OutOfMemoryError("of a test")
        return logits

    monkeypatch.setattr(EagerBackend, "forward", forward)
    rows = causal_rows(text, 0, CPU)
    if not idle:
        with pytest.raises(torch.OutOfMemoryError):
            cuda.forward(rows, cache, last=1)
        return
    found = cuda.forward(rows, cache, last=1)
    assert cuda._pool.idle == []
    assert cache.rows[0].length == 20
    eager = EagerBackend(tiny("llama"))
    expected = real(eager, rows, eager.new_cache(20), last=1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_idle_storages_make_room_for_a_recording() -> None:
    tape = CountingTape(fails_at=1, error=torch.OutOfMemoryError("of a test"))
    cuda = CudaBackend(tiny("llama"), tape)
    text, tree = prefix_of(20), random_tree(5, seed=2)
    cache = after(cuda, text, 1500)
    assert len(cuda._pool.idle) == 1
    rows = tree_rows(tree, 20, CPU)
    found = cuda.forward(rows, cache)
    assert (cuda._pool.idle, cuda.notices, tape.recorded) == ([], [], 2)
    eager = EagerBackend(tiny("llama"))
    torch.testing.assert_close(found, eager.forward(rows, after(eager, text, 9)), rtol=1e-4, atol=1e-4)


def test_a_gpu_gets_this_backend() -> None:
    settings = [LoadSettings(), LoadSettings(dtype="bfloat16"), LoadSettings(parallel="layers")]
    for one in settings:
        assert _backend_name(one, torch.device("cuda"), "llama", None, False) == "cuda"
    assert _backend_name(LoadSettings(), CPU, "llama", None, True) == "eager"
    with pytest.raises(UsageError, match="needs a CUDA device"):
        _backend_name(LoadSettings(backend="cuda"), CPU, "llama", None, False)


def test_bfloat16_is_near_the_eager_backends() -> None:
    eager = EagerBackend(tiny("qwen2", torch.bfloat16))
    cuda = CudaBackend(tiny("qwen2", torch.bfloat16), CountingTape())
    assert cuda.notices == []
    text, tree = prefix_of(40), random_tree(9, seed=3)
    rows = tree_rows(tree, 40, CPU)
    expected, found = (backend.forward(rows, after(backend, text, 16)).float() for backend in (eager, cuda))
    assert (found - expected).norm() < 0.03 * expected.norm()
