"""``ragla doctor`` on installation, machine and models, also where there is no index, or nothing works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.screens import terminal
from tests.cli.tiny_world import Ragla, World, document
from tests.documented import faults
from tests.golden.recorder import pumped, run

RAGLA = Path(sys.executable).with_name("ragla")
NAMES = [
    "ragla", "packages", "torch", "faiss", "kernels", "drafting", "8-bit", "extras", "threads", "gpu",
    "memory", "cache", "index-disk", "embedder", "model", "network", "step-costs", "terminal",
]  # fmt: skip


def states(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["state"] for one in found["environment"]}


def test_each_thing_has_its_line(ragla: Ragla, world: World) -> None:
    told = ragla("doctor", *world.flags)
    assert told.exit_code == 0, told.output
    first, _, _ = told.stdout.partition("\n\nindex ")
    lines = [line.split() for line in first.splitlines() if not line.startswith("  →")]
    assert [words[1] for words in lines] == NAMES
    assert {words[0] for words in lines} <= {"ok", "note"}
    found = document(ragla("doctor", *world.flags, "--json"))
    assert (list(states(found)), found["ok"], faults(found)) == (NAMES, True, [])


def test_without_an_index_the_rest_is_looked_at(ragla: Ragla, world: World, elsewhere: Path) -> None:
    told = ragla("doctor", "--profile", world.profile)
    assert told.exit_code == 0, told.output
    assert told.stdout.splitlines()[-2:] == [
        f"note    index      none in {elsewhere} or above", "  → ragla index FOLDER",
    ]  # fmt: skip
    found = document(ragla("doctor", "--profile", world.profile, "--json"))
    assert (found["index"], found["checks"], states(found)["index"]) == (None, [], "note")
    assert faults(found) == []


def test_an_index_that_was_named_and_is_not_there_is_wrong(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ragla("doctor", "--profile", world.profile, "--index", tmp_path / "nowhere")
    assert told.exit_code == 3
    assert f"wrong   index      there is none at {tmp_path / 'nowhere'}\n" in told.stdout
    assert f"  → ragla index FOLDER --index {tmp_path / 'nowhere'}" in told.stdout
    monkeypatch.setenv("RAGLA_INDEX", str(tmp_path / "nor here"))
    found = document(told := ragla("doctor", "--profile", world.profile, "--json"))
    assert (told.exit_code, found["ok"], faults(found)) == (3, False, [])
    assert found["environment"][-1]["mend"] == f"ragla index FOLDER --index '{tmp_path / 'nor here'}'"


def test_a_model_that_is_not_here_is_wrong_and_an_index_that_is_damaged_is_worse(
    ragla: Ragla, world: World, tmp_path: Path
) -> None:
    told = ragla("doctor", *world.flags, "--model", "smollm2-135m")
    assert told.exit_code == 5
    assert "wrong   model      model smollm2-135m is not on this machine\n" in told.stdout
    assert "  → ragla models pull smollm2-135m\n" in told.stdout
    (tmp_path / "empty").mkdir()
    assert ragla("doctor", "--index", tmp_path / "empty", "--model", "smollm2-135m").exit_code == 3


def test_a_broken_torch_is_a_line_and_the_index_is_still_checked(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts() -> dict[str, dict[str, Any]]:
        return {"torch": {"error": "ends the process that loads it, with SIGILL"}, "faiss": {"version": "1"}}

    monkeypatch.setattr("ragla.environment.probe.load_parts", parts)
    told = ragla("doctor", *world.flags)
    assert told.exit_code == 1
    assert "wrong   torch      cannot be loaded: ends the process that loads it, with SIGILL\n" in told.stdout
    assert "ok      vectors" in told.stdout
    monkeypatch.setattr("ragla.environment.probe.load_parts", lambda: {"faiss": {"error": "ImportError: x"}})
    told = ragla("doctor", *world.flags)
    assert told.exit_code == 1
    assert f"wrong   index      {world.index} is not looked at while FAISS cannot be loaded\n" in told.stdout


def test_nothing_that_is_installed_is_needed_to_say_so(world: World, tmp_path: Path) -> None:
    """The process as users start it, in an installation that has nothing that works."""
    for name in ("torch", "faiss", "numpy", "transformers", "sentence_transformers", "huggingface_hub"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('no {name} for this processor')\n")
    done = subprocess.run(
        [str(RAGLA), "doctor", *world.flags], env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "wrong   torch      cannot be loaded: ImportError: no torch for this processor\n" in done.stdout
    assert "Traceback" not in done.stdout


def test_secrets_and_escapes_of_the_environment_are_not_shown(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret-word@proxy")
    monkeypatch.setenv("OMP_NUM_THREADS", "1\x1b[31m\n/hf_abcdefghijklmnopqrstuvwx")
    monkeypatch.setattr("ragla.environment.machine.usable_cores", lambda: 99.0)
    for flags in ([], ["--json"]):
        told = ragla("doctor", *world.flags, "-s", "decode.threads=0", *flags).output
        assert not [secret for secret in ("hf_abc", "secret-word", "\x1b", "proxy:") if secret in told]
        assert "OMP_NUM_THREADS=1" in told


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_lines_end_between_words(world: World, columns: int) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        terminal(patch, columns, rows=120) as screen,
        pumped(screen) as written,
    ):
        assert run(["doctor", "--profile", str(world.profile)]) == 0
        sys.stdout.flush()
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in written.decode().splitlines()]
    wide = [line for line in lines if cell_len(line) > columns and "→" not in line and len(line.split()) > 1]
    assert wide == []
    assert f"a terminal of {columns} columns" in " ".join(" ".join(lines).split())
