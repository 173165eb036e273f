"""In 8 bit the models give the same answers with drafts as without, near-ties included.

Twenty answers by default where 8 bit is fast, with AVX-512 or AMX, else eleven. ``RAGLA_EXACT_ANSWERS=200
pytest tests/test_exact_answers.py`` takes six minutes with AMX and an hour or so without.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from ragla import models, profiles, session
from ragla.answer import Answerer
from ragla.config import Profile
from ragla.decode.backend import kernels
from ragla.errors import ModelUnavailable
from ragla.evidence import Evidence
from ragla.prompt import PromptPassage

HANDBOOK = Path(__file__).parents[1] / "corpora" / "handbook"
USUAL = 20 if kernels.kind() in ("avx512", "amx") else 11
ANSWERS = int(os.environ.get("RAGLA_EXACT_ANSWERS", USUAL))
SHARES = {
    "smollm2-135m": 0.8,
    "qwen2.5-coder-1.5b": 0.2,
}  # of the answers; the second takes ten times as long
BUDGETS = (16, 64, 4, 32, 2, 8, 48, 1)
SHAPES = ("tree", "parallel", "single")
LINES_AROUND = 6


def profile(model: str, budget: int, shape: str) -> Profile:
    """A profile that decodes in 8 bit, with answers short enough for a test."""
    flags = {
        "decode.model": model,
        "decode.dtype": "int8",
        "decode.max_new_tokens": 40,
        "decode.draft_budget": budget,
        "decode.shape": shape,
        "decode.cost_aware": False,  # verify the whole budget, whatever it costs
    }
    return profiles.load(flags, "offline", environ={}).profile


@pytest.mark.real
@pytest.mark.parametrize("model", SHARES)
def test_answers_in_8_bit_equal_their_own_greedy(model: str) -> None:
    try:
        models.locate(model)
    except ModelUnavailable:
        pytest.skip(f"pull the model first: ragla models pull {model}")
    target = session.open_target(profile(model, 16, "tree"))
    # every budget meets every shape, and neighbouring questions meet different ones
    conditions = itertools.cycle(
        (budget, SHAPES[(i + turn) % 3]) for turn in range(3) for i, budget in enumerate(BUDGETS)
    )
    tokens = steps = 0
    for question, (budget, shape) in zip(questions(round(ANSWERS * SHARES[model])), conditions, strict=False):
        answerer = Answerer(profile(model, budget, shape), target)
        evidence = passages_around(question)
        plain = answerer.answer(str(question["question"]), evidence, decoder="greedy")
        drafted = answerer.answer(str(question["question"]), evidence)
        assert drafted.token_ids == plain.token_ids, (question["id"], budget, shape)
        if budget > 1:
            tokens += drafted.stats.tokens - 1
            steps += len(drafted.stats.steps)
    assert tokens / steps > 1.3  # else little was drafted and equality means little


def questions(count: int) -> list[dict[str, object]]:
    """Answerable questions spread over the handbook; from the first again when all are used."""
    lines = (HANDBOOK / "questions.jsonl").read_text("utf-8").splitlines()
    answerable = [entry for entry in map(json.loads, lines) if entry.get("first_line")]
    stride = max(1, len(answerable) // count)
    return list(itertools.islice(itertools.cycle(answerable[::stride]), count))


def passages_around(question: dict[str, object]) -> Evidence:
    """The lines that hold the answer with some around them, and the page's beginning as a distractor."""
    lines = (HANDBOOK / str(question["source"])).read_text("utf-8").splitlines()
    first, last = int(str(question["first_line"])), int(str(question["last_line"]))
    near = lines[max(0, first - LINES_AROUND) : last + LINES_AROUND]
    return Evidence(
        [PromptPassage(lines[0].lstrip("# "), "\n".join(near)), PromptPassage("", "\n".join(lines[:8]))]
    )
