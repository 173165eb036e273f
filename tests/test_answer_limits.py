"""Answers where something is scarce: the model's window, the device's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ragla.answer import Answer, Answerer
from ragla.config import Profile
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.kv_cache import KVCache
from ragla.decode.model import LoadSettings, TargetModel, load_target
from ragla.decode.tree_attention import QueryRows
from ragla.errors import RaglaError, UsageError
from ragla.evidence import Evidence, Source
from ragla.failure import Failure
from ragla.prompt import PromptPassage, Turn
from tests.cli.tiny_models import READ, save_llm

QUESTION = "What is the hotel limit in Paris?"
EVIDENCE = Evidence(
    [PromptPassage("", text) for text in READ], [Source(n, f"{n}.md", 1, 1, 0.5) for n in range(4)]
)
TURNS = [Turn("Where are the boats?", "At the north pier [1].")] * 3

LoadWindow = Callable[[int], TargetModel]


@pytest.fixture(scope="module")
def load_window(tmp_path_factory: pytest.TempPathFactory) -> LoadWindow:
    def load(window: int) -> TargetModel:
        folder = save_llm(tmp_path_factory.mktemp("llm"), window=window)
        return load_target(folder, LoadSettings(backend="eager", dtype="float32", device="cpu"))

    return load


def profile(**decode: Any) -> Profile:
    return Profile.model_validate({"decode": {"max_new_tokens": 24, "cost_aware": False, **decode}})


@pytest.mark.parametrize("window", [260, 320, 700])
def test_a_short_window_holds_fewer_passages_and_an_answer(load_window: LoadWindow, window: int) -> None:
    answerer = Answerer(profile(max_new_tokens=100), load_window(window))
    answer = answerer.answer(QUESTION, EVIDENCE, turns=TURNS)
    assert answer.answered
    assert answer.request is not None
    room = window - len(answer.request.prompt_ids)
    assert answer.stats.tokens == min(room, 100)
    assert room >= min(window // 4, 100)
    assert len(answer.sources) + len(answer.left_out) == 4
    assert (len(answer.sources) < 4) == (window < 700)
    assert answer.sources
    plain = answerer.answer(QUESTION, EVIDENCE, decoder="greedy", turns=TURNS)
    assert plain.token_ids == answer.token_ids


def test_where_no_passage_fits_nothing_is_made_up(load_window: LoadWindow) -> None:
    answerer = Answerer(profile(), load_window(190))
    with pytest.raises(UsageError, match=r"no passage fits the prompt: .* the model's window 190"):
        answerer.answer(QUESTION, EVIDENCE)
    with pytest.raises(UsageError, match=r"the prompt has \d+ tokens, the model's window is 190"):
        answerer.answer("Why? " * 100, EVIDENCE)


class SmallMemory(EagerBackend):
    """A device that holds ``most`` rows at once."""

    most = 1 << 20

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        logits = super().forward(rows, cache, last=last)
        if len(rows) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return logits


def small_answer(target: TargetModel, most: int) -> tuple[Answer, Answer]:
    backend = SmallMemory(target.backend.model)  # type: ignore[attr-defined]
    answerer = Answerer(profile(), replace(target, backend=backend))
    backend.most = most
    return answerer.answer(QUESTION, EVIDENCE), answerer.answer(QUESTION, EVIDENCE)


def test_little_memory_is_said_and_costs_speed_only(load_window: LoadWindow) -> None:
    target = load_window(1024)
    whole = Answerer(profile(), target).answer(QUESTION, EVIDENCE)
    assert whole.notices == ()
    for answer in small_answer(target, 5):
        assert answer.text == whole.text
        [notice] = answer.notices
        assert notice.startswith("memory ran out: the prompt is read ")
        assert "nodes are verified a step" in notice
    with pytest.raises(RaglaError, match="not enough memory to compute the prompt"):
        small_answer(target, 0)


def test_memory_that_runs_out_elsewhere_is_one_line_too() -> None:
    for error in (torch.OutOfMemoryError("CUDA out of memory. Tried …"), MemoryError()):
        failure = Failure.of(error)
        assert (failure.message, failure.exit_code) == ("not enough memory", 1)
        assert failure.hint


def test_rows_are_kept_between_answers(load_window: LoadWindow, tmp_path: Path) -> None:
    target = load_window(1024)
    answerer, other = Answerer(profile(), target), Answerer(profile(), target, reuse=False)
    first, again = (answerer.answer(QUESTION, EVIDENCE) for _ in range(2))
    assert first.stats.reused == 0
    assert 0 < again.stats.reused < again.stats.prompt_tokens
    assert again.token_ids == first.token_ids == other.answer(QUESTION, EVIDENCE).token_ids
    assert other.answer(QUESTION, EVIDENCE).stats.reused == 0
