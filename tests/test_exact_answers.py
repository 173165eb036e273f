"""The demo's model in 8 bit gives the same answers with drafts as without, near-ties included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragla import models, profiles, session
from ragla.answer import Answerer
from ragla.config import Profile
from ragla.errors import ModelUnavailable
from ragla.evidence import Evidence
from ragla.prompt import PromptPassage

HANDBOOK = Path(__file__).parents[1] / "corpora" / "handbook"
QUESTIONS = ("h01", "h02", "h04", "h05", "h12", "h20", "h30", "h31")
LINES_AROUND = 6


def offline_profile() -> Profile:
    """The offline profile with answers and drafts short enough for a test."""
    flags = {"decode.max_new_tokens": 40, "decode.draft_budget": 16}
    return profiles.load(flags, "offline", environ={}).profile


@pytest.mark.real
def test_offline_answers_equal_their_own_greedy() -> None:
    profile = offline_profile()
    try:
        models.locate(profile.decode.model)
    except ModelUnavailable:
        pytest.skip("pull the model first: ragla models pull qwen2.5-coder-1.5b")
    answerer = Answerer(profile, session.open_target(profile))
    asked = [json.loads(line) for line in (HANDBOOK / "questions.jsonl").read_text("utf-8").splitlines()]
    drafted_tokens = steps = 0
    for question in (entry for entry in asked if entry["id"] in QUESTIONS):
        evidence = passages_around(question)
        drafted = answerer.answer(question["question"], evidence)
        plain = answerer.answer(question["question"], evidence, decoder="greedy")
        assert drafted.token_ids == plain.token_ids, question["id"]
        drafted_tokens += drafted.stats.tokens - 1
        steps += len(drafted.stats.steps)
    assert drafted_tokens / steps > 1.5  # else nothing was drafted and equality means nothing


def passages_around(question: dict[str, object]) -> Evidence:
    """The lines that hold the answer with some around them, and the page's beginning as a distractor."""
    lines = (HANDBOOK / str(question["source"])).read_text("utf-8").splitlines()
    first, last = int(str(question["first_line"])), int(str(question["last_line"]))
    near = lines[max(0, first - LINES_AROUND) : last + LINES_AROUND]
    return Evidence(
        [PromptPassage(lines[0].lstrip("# "), "\n".join(near)), PromptPassage("", "\n".join(lines[:8]))]
    )
