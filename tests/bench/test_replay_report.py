"""How a replay looks in a terminal of 80 and of 40 columns, and as a picture."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.text import Annotation, Text
from rich.console import Console
from typer.testing import CliRunner

from ragla.bench.figures import check_plot, save
from ragla.bench.plot import draw, lines
from ragla.bench.replay import OURS, Calibration, Conditions, ReplayResult, RuleResult
from ragla.bench.replay_report import PARTS, ReplayReport
from ragla.cli import app
from ragla.errors import UsageError

NAMES = ("prompt-lookup", "frequency-trie-parallel", OURS, f"{OURS}-without-frequent")
BUDGETS = (8, 16, 32, 64)


def rule(at: int, budget: int, silent: bool) -> RuleResult:
    tokens = 2 + at / 4 + budget / 64
    fifths = () if silent else tuple(Calibration(20, 0.5 * part, 10.25 + part) for part in range(5))
    host_us = 7.4 if at == 0 else 1234.0 + budget
    expected = None if silent else 1.37
    halves = (tokens - 0.11, tokens + 0.12)
    return RuleResult(100, tokens, *halves, budget - 0.5 * at, host_us, 5.0, 0.5, expected, 1.25, fifths)


@pytest.fixture
def result() -> ReplayResult:
    conditions = Conditions(
        "1.2.3", "3.11.7", "Some CPU", 2, 8, 64, "tree", 776.0, 85.6, "2024-01-01T00:00:00"
    )
    rules = {
        name: {budget: rule(at, budget, OURS not in name) for budget in BUDGETS}
        for at, name in enumerate(NAMES)
    }
    return ReplayResult("answers.jsonl", 40, 2, conditions, rules)


def printed(result: ReplayResult, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(ReplayReport(result))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 40])
def test_every_line_fits_and_no_number_is_lost(result: ReplayResult, width: int) -> None:
    text = printed(result, width)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    for found in (each for budgets in result.rules.values() for each in budgets.values()):
        for number in (found.tokens_per_step, found.tokens_per_step_even, found.tokens_per_step_odd):
            assert f"{number:.2f}" in text
        assert f"{found.nodes_per_step:.1f}" in text
    for shown in (*NAMES, *PARTS, "7.4", "1298", "14.25"):
        assert shown in text


def test_a_wide_terminal_has_a_row_a_rule_and_a_narrow_one_a_block(result: ReplayResult) -> None:
    wide = printed(result, 80).splitlines()
    assert [line.split() for line in wide if line.startswith("prompt-lookup")] == [
        ["prompt-lookup", "2.12", "2.25", "2.50", "3.00"],
        ["prompt-lookup", "8.0", "·", "7.4", "16.0", "·", "7.4", "32.0", "·", "7.4", "64.0", "·", "7.4"],
    ]
    assert wide[wide.index(next(line for line in wide if line.startswith("prompt-lookup"))) + 1].split() == [
        "2.02/2.25", "2.14/2.37", "2.39/2.62", "2.89/3.12",
    ]  # fmt: skip
    narrow = [line.rstrip() for line in printed(result, 40).splitlines()]
    assert narrow[:7] == [
        "prompt-lookup",
        "budget          8   16   32   64",
        "tokens/step  2.12 2.25 2.50 3.00",
        "even answers 2.02 2.14 2.39 2.89",
        "odd answers  2.25 2.37 2.62 3.12",
        "nodes/step    8.0 16.0 32.0 64.0",
        "host µs/step  7.4  7.4  7.4  7.4",
    ]


@pytest.mark.parametrize("width", [80, 40])
def test_the_conditions_are_all_there(result: ReplayResult, width: int) -> None:
    text = " ".join(printed(result, width).split())
    for said in (
        "answers.jsonl: 40 answers of 86 tokens on average",
        "prompts of 776 tokens",
        "Some CPU, Python 3.11.7",
        "ragla 1.2.3: order 8, depth 64, tree",
        "left out, under 4 tokens: 2 answers",
    ):
        assert said in text


def test_what_is_missing_is_not_invented(result: ReplayResult) -> None:
    single = {8: replace(result.rules["prompt-lookup"][8], tokens_per_step_odd=None)}
    text = printed(replace(result, rules={"prompt-lookup": single}, left_out=0), 80)
    assert "2.02/–" in text
    for unsaid in ("expected", "fifth", "left out", "None"):
        assert unsaid not in text


def test_few_steps_have_fewer_parts(result: ReplayResult) -> None:
    ours = {8: replace(result.rules[OURS][8], calibration=(Calibration(1, 0.5, 1.0),))}
    [row] = [
        line for line in printed(replace(result, rules={OURS: ours}), 80).splitlines() if "→1.00" in line
    ]
    assert row.split() == ["8", "1.37→1.25", "0.50→1.00", "–", "–", "–", "–"]


def test_a_line_a_rule_ours_on_top(result: ReplayResult) -> None:
    drawn = lines(result)
    assert [line.name for line in drawn] == [
        "prompt-lookup", "frequency-trie-parallel", "without-frequent", OURS,
    ]  # fmt: skip
    assert drawn[0].nodes == (8.0, 16.0, 32.0, 64.0)
    assert drawn[0].tokens == (2.125, 2.25, 2.5, 3.0)
    assert len({line.colour for line in drawn}) == 3  # ours and its ablations share one
    assert drawn[-1].width > max(line.width for line in drawn[:-1])


def test_no_label_covers_another(result: ReplayResult) -> None:
    crowded = {f"rule-{at}": result.rules["prompt-lookup"] for at in range(9)}
    figure = draw(replace(result, rules={**result.rules, **crowded}))
    [axes] = figure.axes
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    assert {label.get_text() for label in labels} >= {OURS, "prompt-lookup", "rule-8"}
    boxes = [Text.get_window_extent(label) for label in labels]
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    assert axes.get_legend() is None


@pytest.mark.parametrize("budgets", [(1,), (8,), (200, 900)])
def test_any_budgets_can_be_drawn(result: ReplayResult, budgets: tuple[int, ...]) -> None:
    few = {name: dict.fromkeys(budgets, found[8]) for name, found in result.rules.items()}
    assert len(draw(replace(result, rules=few)).axes[0].lines) == len(NAMES)


def test_the_pictures_are_what_their_names_say(result: ReplayResult, tmp_path: Path) -> None:
    save(draw(result), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n")
    save(draw(result), tmp_path / "a.SVG")
    words = {element.text for element in ElementTree.parse(tmp_path / "a.SVG").iter() if element.text}
    assert {OURS, "without-frequent", "answers.jsonl: 40 recorded answers"} <= words
    save(draw(result), tmp_path / "b.svg")
    assert (tmp_path / "a.SVG").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (lambda folder: folder / "a.pdf", "pictures are PNG or SVG"),
        (lambda folder: folder / "a", "pictures are PNG or SVG"),
        (lambda folder: folder / "absent" / "a.png", "there is no folder"),
    ],
)
def test_places_that_cannot_be_drawn_to(tmp_path: Path, place: Callable[[Path], Path], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plot(place(tmp_path))


def test_a_folder_is_no_picture(result: ReplayResult, tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(UsageError, match=r"a\.png: cannot be written: Is a directory"):
        save(draw(result), tmp_path / "a.png")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "--replay", "absent.jsonl", "--plot", "a.png"])
    assert done.exit_code == 2
    assert "pip install 'ragla[plot]'" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_an_unwritable_font_cache_is_no_ones_business(result: ReplayResult, tmp_path: Path) -> None:
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(result))
    program = (
        "import pickle, pathlib, ragla.bench.plot as drawing, ragla.bench.figures as figures\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "drawn = drawing.draw(pickle.loads((folder / 'result.pickle').read_bytes()))\n"
        "figures.save(drawn, folder / 'a.png')"
    )
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "result.pickle" / "no folder")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=60,
    )
    assert done.stderr == ""


def test_the_command_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"prompt": [1, 2, 3, 4, 5], "out": [1, 2, 3, 4, 5]}\n', encoding="utf-8")
    done = CliRunner().invoke(app, ["bench", "--replay", "a.jsonl", "--budgets", "4,8", "--plot", "a.png"])
    assert done.exit_code == 0, done.output
    assert done.stderr == "drawn: a.png\n"
    assert Path("a.png").stat().st_size > 10_000
