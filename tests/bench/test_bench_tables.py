"""The tables of README and docs are those of the committed benches, and those are what their names say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from ragla.bench.result_json import load_result
from ragla.cli import app

ROOT = Path(__file__).parents[2]
COMMITTED = sorted((ROOT / "docs" / "bench").glob("*.json"))


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_tables", ROOT / "scripts" / "bench_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_its_bench(tables: ModuleType) -> None:
    for path in tables.documents():
        text = path.read_text(encoding="utf-8")
        assert tables.written(text) == text, f"{path.name}: renew it with python scripts/bench_tables.py"


def test_the_readme_shows_a_committed_bench(tables: ModuleType) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [found["file"] for found in tables.BLOCK.finditer(text)]
    assert shown
    assert all(ROOT / name in COMMITTED for name in shown)


def test_every_committed_bench_has_its_line() -> None:
    text = (ROOT / "docs" / "bench" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\S+\.json)` \|", text, re.MULTILINE)
    assert sorted(listed) == [path.name for path in COMMITTED]


def test_the_command_beside_a_table_prints_it(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = tables.BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    words = found["begin"].removeprefix("<!-- ragla ").removesuffix(" -->").split()
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == found["table"].strip()


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_committed_bench_is_exact_and_names_what_it_measured(path: Path) -> None:
    result = load_result(path)
    env = result.environment
    assert path.stem.startswith(f"{env.model}-{env.dtype}")
    assert result.answers == result.planned
    for name in ("lookahead", "greedy"):
        assert result.decoders[name].identical == (result.questions, result.questions)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*", env.date)


def test_a_stale_table_is_noticed_and_written_anew(tables: ModuleType) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    stale = text.replace("| lookahead |", "| lookahead | 99", 1)
    assert stale != text
    assert tables.written(stale) == text
