"""Replays drafting rules on recorded answers: tokens per step, cost on the host, and how honest they are.

It knows transcripts and rules; it needs no model and loads none.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from itertools import chain, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from ragla.bench.machine import cpu_name
from ragla.bench.rules import PUBLIC_RULES
from ragla.bench.transcripts import Transcript, load_transcripts
from ragla.config import DecodeSettings
from ragla.errors import UsageError
from ragla.trie import LIVE_SOURCES, SOURCES, Drafter, DraftLimits
from ragla.trie.replay import ReplayCount, ReplayStep, Rule, replay

SCHEMA = "ragla.replay/1"
OURS = "ragla"
BUDGETS = (8, 16, 32, 64)
LARGEST_BUDGET = 1024
LEAST_ANSWER = 4  # tokens; a shorter answer has hardly a step to draft
FIFTHS = 5

Rules = Mapping[str, Callable[[], Rule]]
OnProgress = Callable[[int, int, str], None]
"""Called before each replay of the file with (replays done, replays, rule and budget)."""


@dataclass(frozen=True)
class Calibration:
    """Means over some steps: the accepted draft tokens a rule expected, and those that came."""

    steps: int
    expected: float
    accepted: float


@dataclass(frozen=True)
class RuleResult:
    """One rule at one budget, over all answers; ``None`` where a number does not exist.

    ``tokens_per_step``: committed tokens / steps, bonus tokens included, the first token of each answer left
    out, ``_even`` and ``_odd`` over every other answer. ``nodes_per_step``: verified nodes, node 0 included.
    ``host_us_per_step``: median microseconds the rule took in a step, of which ``draft_us_per_step`` to draft
    (a median too). ``begin_us_per_prompt_token``: mean. ``expected_accepted``: mean accepted draft tokens a
    step that the rule expected, None for a rule that names no probabilities; ``accepted``: those that came.
    ``calibration``: the same in each fifth of the steps, sorted by expectation.
    """

    steps: int
    tokens_per_step: float
    tokens_per_step_even: float | None
    tokens_per_step_odd: float | None
    nodes_per_step: float
    host_us_per_step: float
    draft_us_per_step: float
    begin_us_per_prompt_token: float
    expected_accepted: float | None
    accepted: float
    calibration: tuple[Calibration, ...]


@dataclass(frozen=True)
class Conditions:
    """What the numbers hold for. ``order``, ``max_depth`` and ``shape`` are those of our own rule."""

    ragla: str
    python: str
    cpu: str
    cores: int
    order: int
    max_depth: int
    shape: str
    prompt_tokens: float
    answer_tokens: float
    date: str


@dataclass(frozen=True)
class ReplayResult:
    """``rules``: name → budget → numbers. ``left_out``: answers too short to replay."""

    file: str
    answers: int
    left_out: int
    conditions: Conditions
    rules: dict[str, dict[int, RuleResult]]

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers. Keys are kept within a schema version; new ones may come."""
        return {
            "schema": SCHEMA,
            "file": self.file,
            "answers": self.answers,
            "left_out": self.left_out,
            "conditions": asdict(self.conditions),
            "rules": {
                name: {str(budget): asdict(found) for budget, found in budgets.items()}
                for name, budgets in self.rules.items()
            },
        }


def parse_budgets(text: str) -> tuple[int, ...]:
    """Budgets from a list with commas, each once, in ascending order. Raises UsageError."""
    budgets = set()
    for part in text.split(","):
        word = part.strip()
        if not word.isdecimal() or not 1 <= int(word) <= LARGEST_BUDGET:
            raise UsageError(
                f"--budgets {text}: {word or 'nothing'} is no number of nodes from 1 to {LARGEST_BUDGET}",
                f"for instance --budgets {','.join(map(str, BUDGETS))}",
            )
        budgets.add(int(word))
    return tuple(sorted(budgets))


def rules_to_replay(order: int) -> Rules:
    """The public rules, ours, and ours without each of the sources that a transcript holds."""
    rules: dict[str, Callable[[], Rule]] = {**PUBLIC_RULES, OURS: partial(Drafter, order)}
    for source in SOURCES:
        if source not in LIVE_SOURCES:
            rules[f"{OURS}-without-{source}"] = partial(Drafter, order, without=(source,))
    return rules


def replay_file(
    path: Path,
    settings: DecodeSettings,
    budgets: Sequence[int] = BUDGETS,
    limit: int | None = None,
    on_progress: OnProgress | None = None,
) -> ReplayResult:
    """Replay all rules on the first ``limit`` transcripts of a file, ours as ``settings`` shape it.

    Raises UsageError for a file that holds no transcripts.
    """
    transcripts = load_transcripts(path, limit)
    limits = DraftLimits(max_depth=settings.max_depth, shape=settings.shape)
    rules = rules_to_replay(settings.order)
    return run_replay(path, transcripts, rules, budgets, limits, settings.order, on_progress)


def run_replay(
    path: Path,
    transcripts: Sequence[Transcript],
    rules: Rules,
    budgets: Sequence[int],
    limits: DraftLimits,
    order: int,
    on_progress: OnProgress | None = None,
) -> ReplayResult:
    """Replay every rule at every budget; ``limits`` with each budget in turn bounds the drafts.

    A rule begins anew at each budget; within one it keeps what it learned about its own odds from answer to
    answer, and forgets everything else. Raises UsageError when no answer is long enough.
    """
    long_enough = [each for each in transcripts if len(each.answer_ids) >= LEAST_ANSWER]
    if not long_enough:
        raise UsageError(
            f"{path}: no answer has {LEAST_ANSWER} tokens", "record longer ones: ragla bench --record"
        )
    results: dict[str, dict[int, RuleResult]] = {name: {} for name in rules}
    replays = [(name, budget) for name in rules for budget in budgets]
    for done, (name, budget) in enumerate(replays):
        if on_progress is not None:
            on_progress(done, len(replays), f"{name}, {budget} nodes")
        counts = replay_all(rules[name](), long_enough, replace(limits, budget=budget))
        results[name][budget] = summarise(counts)
    left_out = len(transcripts) - len(long_enough)
    return ReplayResult(
        path.name, len(long_enough), left_out, _conditions(long_enough, limits, order), results
    )


def replay_all(rule: Rule, transcripts: Sequence[Transcript], limits: DraftLimits) -> list[ReplayCount]:
    """One rule on answer after answer: the count of each."""
    counts = [ReplayCount() for _ in transcripts]
    for each, count in zip(transcripts, counts, strict=True):
        replay(rule, each.prompt_ids, each.answer_ids, each.best_ids, limits, count)
    return counts


def summarise(counts: Sequence[ReplayCount]) -> RuleResult:
    """The numbers over all answers; each count has a step at least."""
    steps = list(chain.from_iterable(count.per_step for count in counts))
    expects = any(step.expected for step in steps)
    return RuleResult(
        steps=len(steps),
        tokens_per_step=_mean([step.tokens for step in steps]),
        tokens_per_step_even=_tokens_per_step(counts[::2]),
        tokens_per_step_odd=_tokens_per_step(counts[1::2]),
        nodes_per_step=_mean([step.nodes for step in steps]),
        host_us_per_step=median(step.draft_ns + step.update_ns for step in steps) / 1e3,
        draft_us_per_step=median(step.draft_ns for step in steps) / 1e3,
        begin_us_per_prompt_token=sum(count.begin_ns for count in counts)
        / sum(count.prompt_tokens for count in counts)
        / 1e3,
        expected_accepted=_mean([step.expected for step in steps]) if expects else None,
        accepted=_mean([step.accepted for step in steps]),
        calibration=calibration(steps) if expects else (),
    )


def calibration(steps: Sequence[ReplayStep], parts: int = FIFTHS) -> tuple[Calibration, ...]:
    """Expected and accepted tokens in equal parts of the steps, those that expected least first."""
    ordered = sorted(steps, key=lambda step: step.expected)
    bounds = [len(ordered) * part // parts for part in range(parts + 1)]
    return tuple(
        Calibration(
            end - start,
            _mean([step.expected for step in ordered[start:end]]),
            _mean([step.accepted for step in ordered[start:end]]),
        )
        for start, end in pairwise(bounds)
        if end > start
    )


def _tokens_per_step(counts: Sequence[ReplayCount]) -> float | None:
    steps = sum(count.steps for count in counts)
    return sum(count.tokens for count in counts) / steps if steps else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _conditions(transcripts: Sequence[Transcript], limits: DraftLimits, order: int) -> Conditions:
    return Conditions(
        ragla=metadata.version("ragla"),
        python=platform.python_version(),
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        order=order,
        max_depth=limits.max_depth,
        shape=limits.shape,
        prompt_tokens=median(len(each.prompt_ids) for each in transcripts),
        answer_tokens=_mean([len(each.answer_ids) for each in transcripts]),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
