"""A result that was written is read again as it was; what is none is refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragla.bench import BenchQuestion, run_bench
from ragla.bench.result import BenchResult
from ragla.bench.result_json import load_result
from ragla.cli import app
from ragla.config import Profile
from ragla.decode.model import TargetModel
from ragla.errors import UsageError
from tests.bench.made_result import made_result

OLD_KEYS = {
    "environment": [
        "ragla", "python", "torch", "transformers", "cpu", "cores", "threads", "device", "device_name",
        "model", "dtype", "stock_dtype", "backend", "draft_budget", "cost_aware", "max_depth", "shape",
        "max_new_tokens", "prompt_tokens", "runs", "date",
    ],
    "decoder": [
        "tokens_per_step", "accepted_share", "decode_tokens_per_s", "ttft_s", "speedup_vs_greedy",
        "speedup_spread", "speedup_vs_hf_greedy", "speedup_vs_hf_greedy_spread", "too_short", "identical",
        "first_difference", "contains", "token_f1",
    ],
}  # fmt: skip
"""What the schema had at first: it is still written, and a document with no more is still read."""


def saved(folder: Path, document: object) -> Path:
    path = folder / "bench.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_what_is_written_is_read_again(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion], tmp_path: Path
) -> None:
    measured = run_bench(profile, target, questions, ["greedy"])
    assert load_result(saved(tmp_path, measured.to_json())) == replace(measured, rows=())
    made = made_result(exact="greedy@float32")
    assert load_result(saved(tmp_path, made.to_json())) == made


def first_version(result: BenchResult) -> dict[str, Any]:
    document = result.to_json()
    old = {key: document[key] for key in ("schema", "questions", "unanswered", "rows")}
    old["environment"] = {key: document["environment"][key] for key in OLD_KEYS["environment"]}
    old["decoders"] = {
        name: {key: found[key] for key in OLD_KEYS["decoder"]} for name, found in document["decoders"].items()
    }
    return old


@pytest.mark.parametrize("flags", [[], ["--markdown"], ["--plot", "a.svg"], ["--json"]], ids=" ".join)
def test_a_document_of_the_first_version_is_shown(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, first_version(made_result()))
    done = CliRunner().invoke(app, ["bench", "--show", str(path), *flags])
    assert done.exit_code == 0, done.output
    assert "70.0" in done.stdout
    assert done.stderr == ("drawn: a.svg\n" if "--plot" in flags else "")


def broken(*keys: str | int, value: Any = None) -> dict[str, Any]:
    document = made_result().to_json()
    place: Any = document
    for key in keys[:-1]:
        place = place[key]
    if value is None:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "no ragla.bench/1 document"),
        ({}, "no ragla.bench/1 document"),
        ({"schema": "ragla.bench/2"}, "its schema is ragla.bench/2, not ragla.bench/1"),
        ({"schema": "ragla.ask/1"}, "its schema is ragla.ask/1"),
        ({"schema": "ragla.bench/1"}, "damaged"),
        (broken("decoders", value={}), "damaged"),
        (broken("decoders", value=[1]), "damaged"),
        (broken("decoders", "greedy", "ttft_s"), "damaged"),
        (broken("decoders", "greedy", "ttft_s", value="fast"), "damaged"),
        (broken("decoders", "greedy", "speedup_spread", value=[1.0]), "damaged"),
        (broken("environment", "cores", value=[2]), "damaged"),
        (broken("environment", "prompt_tokens", value=7), "damaged"),
        (broken("categories", value="all"), "damaged"),
        (broken("decoders", "greedy", "lengths", value=[-1]), "damaged"),
        (broken("decoders", "greedy", "positions", 0, "steps", value=0), "damaged"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(document: object, said: str, tmp_path: Path) -> None:
    path = saved(tmp_path, document)
    with pytest.raises(UsageError) as raised:
        load_result(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_result_from_elsewhere_cannot_command_a_terminal(tmp_path: Path) -> None:
    document = made_result().to_json()
    document["decoders"]["lookahead\x1b[2J\nfake"] = document["decoders"]["greedy"]
    document["categories"]["\x1b]0;owned\x07"] = document["decoders"]
    document["environment"]["cpu"] = document["environment"]["model"] = "\x1b[31mfast\x9b"
    path = saved(tmp_path, document)
    for flags in ([], ["--markdown"]):
        done = CliRunner().invoke(app, ["bench", "--show", str(path), *flags])
        assert done.exit_code == 0, done.output
        assert not {"\x1b", "\x07", "\x9b"} & set(done.output)


def test_steps_that_were_not_counted_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = made_result().to_json()
    for found in document["decoders"].values():
        found["lengths"] = [0, 0]
    path = saved(tmp_path, document)
    done = CliRunner().invoke(app, ["bench", "--show", str(path), "--plot", "a.svg"])
    assert done.exit_code == 0, done.output


def test_showing_a_result_loads_no_torch(tmp_path: Path) -> None:
    path = saved(tmp_path, made_result().to_json())
    program = (
        "import sys\n"
        "from ragla.cli import app\n"
        f"app(['bench', '--show', {str(path)!r}], standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'faiss', 'matplotlib', 'numpy'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_result_is_read_from_stdin() -> None:
    text = json.dumps(made_result().to_json())
    done = CliRunner().invoke(app, ["bench", "--show", "-", "--markdown"], input=text)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("| decoder |")


def test_files_that_are_no_json_are_named(tmp_path: Path) -> None:
    for content in (b"{", b"\xff\xfe", b"", b'{"schema": NaN}', b"[" * 100_000):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(UsageError, match=r"a\.json: not a JSON document"):
            load_result(tmp_path / "a.json")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_result(tmp_path / "b.json")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_result(tmp_path)
