"""``ragla bench --replay``: its numbers, its JSON, its refusals, and its agreement with the decoder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from ragla.bench.replay import (
    BUDGETS,
    OURS,
    RuleResult,
    calibration,
    parse_budgets,
    replay_file,
    summarise,
)
from ragla.bench.rules import PUBLIC_RULES
from ragla.cli import app
from ragla.config import DecodeSettings
from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.model import TargetModel
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.verify import best_ids
from ragla.errors import UsageError
from ragla.trie import LIVE_SOURCES, SOURCES, Drafter, DraftLimits
from ragla.trie.replay import ReplayCount, ReplayStep, replay

PASSAGE = list(range(10, 50))
ROWS = [
    {"id": 1, "prompt": [1, *PASSAGE, 2], "out": PASSAGE[:20], "tops": [[5, 6]] * 21},
    {"id": 2, "prompt": [1, *PASSAGE, 3], "out": [7, 8, 9, *PASSAGE[5:15]], "tops": [[5, 6]] * 13},
    {"id": 3, "prompt": [4], "out": [5, 6], "tops": []},
    {"id": 4, "prompt": [1, *PASSAGE, 2], "out": [60, 61, 62, 63, 64], "tops": [[5, 6]] * 5},
]

Bench = Callable[..., Result]


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    """Three answers long enough to replay, two of them copied, and one that is too short."""
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """``ragla bench`` with these words, in an empty folder, by a user without files of their own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))

    def run(*words: str | Path) -> Result:
        return CliRunner().invoke(app, ["bench", *map(str, words)])

    return run


def steps_of(*expected_and_accepted: tuple[float, int], nodes: int = 8) -> ReplayCount:
    steps = [
        ReplayStep(nodes, accepted, accepted + 1, expected, 2000 * (at + 1), 1000)
        for at, (expected, accepted) in enumerate(expected_and_accepted)
    ]
    return ReplayCount(steps, prompt_tokens=100, begin_ns=50_000)


def test_the_numbers_of_a_rule() -> None:
    first, second = steps_of((1.5, 1), (2.5, 3)), steps_of((0.5, 0), nodes=2)
    found = summarise([first, second])
    assert found.steps == 3
    assert found.tokens_per_step == pytest.approx((2 + 4 + 1) / 3)
    assert (found.tokens_per_step_even, found.tokens_per_step_odd) == (3.0, 1.0)
    assert found.nodes_per_step == 6.0
    assert found.host_us_per_step == 3.0  # 3, 5 and 3 microseconds
    assert found.draft_us_per_step == 2.0
    assert found.begin_us_per_prompt_token == 0.5
    assert found.expected_accepted == 1.5
    assert found.accepted == pytest.approx(4 / 3)
    assert [(part.expected, part.accepted) for part in found.calibration] == [(0.5, 0), (1.5, 1), (2.5, 3)]


def test_one_answer_has_no_odd_half_and_a_silent_rule_no_calibration() -> None:
    found = summarise([steps_of((0.0, 1), (0.0, 2))])
    assert found.tokens_per_step_odd is None
    assert found.expected_accepted is None
    assert found.calibration == ()
    assert found.accepted == 1.5


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(0, 9)), min_size=1, max_size=40))
def test_the_fifths_hold_every_step_once_and_ascend(pairs: list[tuple[float, int]]) -> None:
    parts = calibration(steps_of(*pairs).per_step)
    assert sum(part.steps for part in parts) == len(pairs)
    assert len(parts) == min(5, len(pairs))
    assert max(part.steps for part in parts) - min(part.steps for part in parts) <= 1
    expected = [part.expected for part in parts]
    assert expected == pytest.approx(sorted(expected))
    total = sum(part.steps * part.accepted for part in parts)
    assert total == pytest.approx(sum(accepted for _, accepted in pairs))


def test_every_rule_is_replayed_at_every_budget(transcripts: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = replay_file(
        transcripts, DecodeSettings(), (4, 16), on_progress=lambda done, of, _: seen.append((done, of))
    )
    assert set(PUBLIC_RULES) < set(result.rules)
    without = {f"{OURS}-without-{source}" for source in SOURCES if source not in LIVE_SOURCES}
    assert set(result.rules) == {*PUBLIC_RULES, OURS, *without}
    assert all(list(found) == [4, 16] for found in result.rules.values())
    assert seen == [(done, 2 * len(result.rules)) for done in range(2 * len(result.rules))]
    assert (result.file, result.answers, result.left_out) == ("answers.jsonl", 3, 1)
    assert result.rules[OURS][16].tokens_per_step > 2
    assert result.rules[f"{OURS}-without-prompt"][16].tokens_per_step < 1.5


def test_settings_shape_our_rule(transcripts: Path) -> None:
    shallow = replay_file(transcripts, DecodeSettings(max_depth=1, order=3, shape="single"), (8,))
    assert shallow.rules[OURS][8].nodes_per_step <= 2
    assert (shallow.conditions.order, shallow.conditions.max_depth) == (3, 1)
    assert shallow.conditions.shape == "single"


def test_the_limit_counts_transcripts(transcripts: Path) -> None:
    assert replay_file(transcripts, DecodeSettings(), (8,), limit=1).answers == 1


def test_the_json_keeps_its_contract(bench: Bench, transcripts: Path) -> None:
    done = bench("--replay", transcripts, "--budgets", "16,8", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found) == {"schema", "file", "answers", "left_out", "conditions", "rules"}
    assert found["schema"] == "ragla.replay/1"
    assert list(found["rules"][OURS]) == ["8", "16"]
    keys = {field.name for field in fields(RuleResult)}
    for rule in found["rules"].values():
        assert set(rule["8"]) == keys
        assert rule["8"]["accepted"] == pytest.approx(rule["8"]["tokens_per_step"] - 1, abs=0.5)
    ours = found["rules"][OURS]["8"]
    assert len(ours["calibration"]) == 5
    assert ours["expected_accepted"] > 0
    assert found["rules"]["prompt-lookup"]["8"]["expected_accepted"] is None
    assert {"cpu", "cores", "python", "ragla", "order", "max_depth", "shape", "date"} < set(
        found["conditions"]
    )


def test_the_table_goes_to_stdout(bench: Bench, transcripts: Path) -> None:
    done = bench("--replay", transcripts, "--budgets", "8", "--limit", "2")
    assert done.exit_code == 0, done.output
    assert "prompt-lookup" in done.stdout
    assert "answers.jsonl: 2 answers" in done.stdout
    assert done.stderr == ""


def test_budgets_are_numbers_in_order() -> None:
    assert parse_budgets(" 32,8, 8,1") == (1, 8, 32)
    assert parse_budgets(",".join(map(str, BUDGETS))) == BUDGETS


@pytest.mark.parametrize("text", ["", "0", "8,,16", "8;16", "-8", "eight", "8.5", "4096", "²"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--budgets"):
        parse_budgets(text)


GOOD = '{"prompt": [1, 2], "out": [3, 4, 5, 6], "tops": [[1], [2], [3], [4]]}'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "holds no transcripts"),
        ("\n  \n", "holds no transcripts"),
        (f"{GOOD}\n{{", ":2: broken JSON"),
        (f"{GOOD}\n\n[1]", ":3: not a JSON object"),
        ("[" * 100_000, ":1: broken JSON"),
        ('{"out": [1]}', ":1: `prompt` must be a list of token ids"),
        ('{"prompt": [], "out": [1]}', ":1: `prompt` is empty"),
        ('{"prompt": [1]}', ":1: `out` must be a list of token ids"),
        ('{"prompt": [1], "out": "text"}', ":1: `out` must be a list of token ids"),
        ('{"prompt": [1], "out": [1.5]}', ":1: `out` holds 1.5, which is no token id"),
        ('{"prompt": [1], "out": [true]}', ":1: `out` holds true, which is no token id"),
        ('{"prompt": [1], "out": ["a"]}', ':1: `out` holds "a", which is no token id'),
        ('{"prompt": [-1], "out": [1]}', ":1: `prompt` holds -1, which is no token id"),
        ('{"prompt": [1], "out": [1, 2], "tops": [[1]]}', ":1: `tops` must have 2 or 3 rows, not 1"),
        ('{"prompt": [1], "out": [1], "tops": [[1], [2], [3]]}', ":1: `tops` must have 1 or 2 rows, not 3"),
        ('{"prompt": [1], "out": [1], "tops": {"a": 1}}', ":1: `tops` must be a list"),
        ('{"prompt": [1], "out": [1], "tops": [7]}', ":1: row 0 of `tops` must be a list of token ids"),
        ('{"prompt": [1], "out": [1], "tops": [["a"]]}', ':1: row 0 of `tops` holds "a"'),
        ('{"prompt": [1], "out": [1, 2, 3]}', "no answer has 4 tokens"),
    ],
)
def test_a_bad_file_is_one_line_with_its_place(bench: Bench, tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(lines, encoding="utf-8")
    done = bench("--replay", path, "--budgets", "8", "--json")
    assert done.exit_code == 2
    assert f"{path}{said}" in done.stderr or f"{path}: {said}" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    document = json.loads(done.stdout)
    assert (document["schema"], document["exit_code"]) == ("ragla.error/1", 2)
    assert document["hint"]


def test_files_that_cannot_be_read(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}\n')
    for path, said in (
        (tmp_path / "absent.jsonl", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "latin.jsonl", "not a UTF-8 text"),
    ):
        done = bench("--replay", path)
        assert done.exit_code == 2
        assert said in done.stderr


def test_ids_may_be_missing_and_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_text('\ufeff{"prompt": [1, 2, 3], "out": [1, 2, 3, 1]}\n', encoding="utf-8")
    result = replay_file(path, DecodeSettings(), (8,))
    assert result.answers == 1
    assert result.rules["suffix-chain"][8].tokens_per_step == 3.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--replay", "a.jsonl", "--compare", "greedy"], "--compare has no place there"),
        (["--replay", "a.jsonl", "--runs", "1"], "--runs has no place there"),
        (["--replay", "a.jsonl", "--record", "b.jsonl"], "--record has no place there"),
        (["--replay", "a.jsonl", "--model", "x"], "--model has no place there"),
        (["--replay", "a.jsonl", "--force"], "--force has no place there"),
        (["--record", "a.jsonl", "--plot", "b.png"], "--plot has no place there"),
        (["--record", "a.jsonl", "--compare", "greedy"], "--compare has no place there"),
        (["--budgets", "8"], "--budgets belongs to --replay"),
        (["--show", "a.json", "--compare", "greedy"], "--compare has no place there"),
        (["--questions", "a.jsonl", "--spec-bench", "b.jsonl"], "do not go together"),
        (["--json", "--markdown"], "do not go together"),
        (["--force"], "--force belongs to --record"),
    ],
)
def test_flags_that_do_not_go_together(bench: Bench, words: list[str], said: str) -> None:
    done = bench(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_replay_loads_no_torch(transcripts: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from ragla.cli import app\n"
        f"app(['bench', '--replay', {str(transcripts)!r}, '--budgets', '8'], standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'faiss', 'matplotlib', 'numpy'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "[]"


PROMPTS = [
    "The cat sat. The cat sat on the mat.",
    "Anyone on the payroll may claim within 60 days. " * 3,
    "每月五日之前交。",
    "It is in the cellar. It is in the cellar.",
]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("budget", [4, 16])
def test_a_replay_takes_the_steps_that_the_decoder_takes(
    target: TargetModel, prompt: str, budget: int
) -> None:
    prompt_ids = target.tokenizer.encode(prompt)
    answer, tops, end = recorded(target, prompt_ids)
    limits = DraftLimits(budget=budget, max_depth=10, forbidden=frozenset({end}))
    known = Drafter(without={"rejected", "prompt-ranks", "chances"})  # a transcript holds none of them
    known.begin(prompt_ids)
    stats = DecodeStats()
    request = DecodeRequest(prompt_ids, len(answer) + 20, frozenset({end}))
    blocks = lookahead(target.backend, known, request, stats, limits)
    token_ids = [token for block in blocks for token in block.token_ids]
    assert token_ids == [*answer, end]
    count = ReplayCount()
    replay(Drafter(), prompt_ids, answer, tops, limits, count)
    taken: list[Any] = [
        [step.drafted + 1, step.accepted, step.committed, pytest.approx(step.expected)]
        for step in stats.steps
    ]
    taken[-1][2] -= 1  # a replay does not count the end-of-sequence token
    if taken[-1][2] == 0:
        taken.pop()
    assert [list(step[:4]) for step in count.per_step] == taken
    assert count.tokens == len(answer) - 1


def recorded(target: TargetModel, prompt_ids: list[int]) -> tuple[list[int], list[list[int]], int]:
    """A greedy answer up to a token that it holds only once, late, and the best ids at its positions."""
    tops: list[list[int]] = []
    blocks = greedy(
        target.backend,
        DecodeRequest(prompt_ids, 80),
        DecodeStats(),
        lambda logits: tops.append(best_ids(logits[None])[0]),
    )
    token_ids = [token for block in blocks for token in block.token_ids]
    at = max(token_ids.index(token) for token in set(token_ids))
    assert at > 30
    return token_ids[:at], tops[: at + 1], token_ids[at]
