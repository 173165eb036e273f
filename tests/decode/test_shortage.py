"""When memory runs out fewer rows go through the model at once, and the answer stays the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ragla.decode.backend.eager import EagerBackend
from ragla.decode.budget import StepCost
from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.kv_cache import KVCache
from ragla.decode.prefill import PromptCache
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.tree_attention import QueryRows
from ragla.errors import RaglaError
from ragla.memory import out_of_memory
from ragla.trie import Drafter, DraftLimits
from tests.decode.tiny_models import plain

PROMPT = [3 + (index * 37) % 110 for index in range(60)]
REQUEST = DecodeRequest(PROMPT, 30)


class SmallMemory(EagerBackend):
    """A model on a device that holds ``most`` rows at once: it fails amid a pass, its cache half written."""

    most = 1 << 20
    error: Exception = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        self.seen.append(len(rows))
        hook = None
        if len(rows) > self.most:
            layer = self.model.base_model.layers[-1]
            hook = layer.register_forward_pre_hook(self.fail)
        try:
            return super().forward(rows, cache, last=last)
        finally:
            if hook is not None:
                hook.remove()

    def fail(self, *_: object) -> None:
        raise self.error

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.seen: list[int] = []


@pytest.fixture
def small(load_tiny: Any) -> SmallMemory:
    return SmallMemory(load_tiny("llama", "eager").backend.model)


def draft(
    backend: Any, kept: PromptCache, answer: list[int], cost: StepCost | None = None
) -> tuple[list[int], DecodeStats]:
    drafter, stats = Drafter(), DecodeStats()
    drafter.begin(PROMPT, [("the answer", answer)])
    blocks = lookahead(backend, drafter, REQUEST, stats, DraftLimits(budget=16), cost, kept=kept)
    return [token for block in blocks for token in block.token_ids], stats


@pytest.mark.parametrize("most", [1, 2, 3, 7, 16, 40])
def test_chunks_and_then_drafts_are_halved_until_they_fit(small: SmallMemory, most: int) -> None:
    expected = plain(small, REQUEST)
    small.most, small.seen = most, []
    kept = PromptCache()
    found, stats = draft(small, kept, expected)
    assert found == expected
    assert kept.limits.prefill is not None
    assert 0 < kept.limits.prefill <= most < 2 * kept.limits.prefill + 1
    assert max(stats.nodes) <= max(most, 1)
    if most < 16:
        assert kept.limits.draft is not None
        assert max(stats.nodes) <= kept.limits.draft <= most
    if most > 3:
        assert stats.accepted > 0
    small.seen.clear()
    again, _ = draft(small, kept, expected)
    assert again == expected
    assert max(small.seen) <= most  # the limits were learned
    assert "memory ran out" in (kept.limits.notice() or "")


def test_measuring_what_steps_cost_stops_where_memory_ends(small: SmallMemory) -> None:
    expected = plain(small, REQUEST)
    small.most = 5
    cost = StepCost()
    assert draft(small, PromptCache(), expected, cost)[0] == expected
    [table] = cost.table.values()
    assert set(table) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you …"),
    ],
)
def test_the_host_may_run_out_too(small: SmallMemory, error: Exception) -> None:
    expected = plain(small, REQUEST)
    small.most, small.error = 9, error
    assert plain(small, REQUEST) == expected


def test_when_a_row_does_not_fit_a_line_says_so(small: SmallMemory) -> None:
    small.most = 0
    for decode in (lambda: draft(small, PromptCache(), []), lambda: plain(small, REQUEST)):
        with pytest.raises(RaglaError, match="not enough memory to compute the prompt") as raised:
            decode()
        assert "token_budget" in str(raised.value.hint)


def test_memory_that_runs_out_amid_an_answer_is_said_too(small: SmallMemory) -> None:
    kept = PromptCache()
    blocks = lookahead(small, Drafter(), REQUEST, DecodeStats(), DraftLimits(budget=4), kept=kept)
    next(blocks)
    small.most = 0
    with pytest.raises(RaglaError, match="not enough memory to compute the next token"):
        next(blocks)
    blocks = greedy(small, REQUEST, DecodeStats(), kept=PromptCache())
    small.most = 100
    next(blocks)
    small.most = 0
    with pytest.raises(RaglaError, match="not enough memory to compute the next token"):
        next(blocks)


def test_other_errors_are_errors(small: SmallMemory) -> None:
    small.most, small.error = 5, RuntimeError("shape mismatch")
    assert not out_of_memory(small.error)
    for decode in (lambda: draft(small, PromptCache(), []), lambda: plain(small, REQUEST)):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            decode()


def test_a_limit_that_was_never_met_is_not_spoken_of() -> None:
    assert PromptCache().limits.notice() is None
