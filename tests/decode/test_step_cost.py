"""The script that measures what a step costs runs, and says so in numbers and in words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.decode.tiny_configs import tiny_config
from tests.decode.tiny_models import save_tiny

SCRIPT = Path(__file__).parents[2] / "scripts" / "step_cost.py"


def measured(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_tiny_model_is_measured(tmp_path: Path, dtype: str) -> None:
    folder = save_tiny(tmp_path, tiny_config("llama"))
    keys = ["--dtype", dtype, "--context", "60", "--rows", "1", "4", "--rounds", "2"]
    done = measured(
        folder, *keys, "--decode", "8", "--threads", "1", "--integers", tmp_path / "integers", "--json"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["dtype"], result["context"]) == (dtype, 60)
    assert set(result["steps"]) == {"1", "4", "eager"}
    assert result["steps"]["1"]["over_1"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert all(entry["ms"]["low"] <= entry["ms"]["median"] for entry in result["steps"].values())
    assert result["floor"]["cache_bytes"] > 0
    assert result["floor"]["weight_bytes"] > 20_000
    assert result["decoding"]["equal"]
    assert result["decoding"]["greedy"]["passes_per_token"] == 1.0


def test_bad_arguments_end_in_a_line(tmp_path: Path) -> None:
    for arguments, message in (
        ([tmp_path / "nowhere"], "no such folder"),
        ([tmp_path, "--rows", "2", "4"], "1 among them"),
    ):
        done = measured(*arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
