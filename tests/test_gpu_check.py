"""The check for machines with a GPU, as a whole, with a tiny model on the CPU."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "scripts" / "gpu_check.py"
METHODS = {"ragla lookahead", "ragla greedy", "generate", "generate, prompt lookup"}

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="the scripts are in a checkout only")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=200, check=False
    )


def test_all_parts_run_on_a_recorded_answer(tmp_path: Path) -> None:
    """Answers with second thoughts, whose tokens need a larger vocabulary than the tiny model has."""
    rng = random.Random(5)
    lines = []
    for number in range(2):
        prompt = [rng.randrange(700) for _ in range(60)]
        answer = [*prompt[10:26], 699, *prompt[30:38]]
        tops = [[token, *(other for other in range(9) if other != token)][:8] for token in answer]
        lines.append(json.dumps({"id": number, "cat": "rag", "prompt": prompt, "out": answer, "tops": tops}))
    transcripts, out = tmp_path / "answers.jsonl", tmp_path / "gpu.json"
    transcripts.write_text("\n".join(lines) + "\n")
    ran = run("--tiny", "--transcripts", str(transcripts), "--json", str(out))
    assert ran.returncode == 0, ran.stderr
    table, _, document = ran.stdout.partition("\n{\n")
    found = json.loads("{" + document)
    assert found == json.loads(out.read_text())
    assert found["failed"] == []
    assert found["float32_answers_equal"] is True
    assert found["tree_error"]["recorded"] < 1e-5
    assert found["copy_gb_per_s"] > 0
    assert min(found["launches"].values()) > 50
    for steps in [*found["steps"].values(), *found["stock_steps"].values()]:
        assert steps["ttft_s"] > 0
        assert all(seconds > 0 for seconds in steps["t"].values())
    assert set(found["answers"]) == METHODS
    assert found["answers_decoded"] == 2
    assert found["answers"]["ragla greedy"]["tokens_per_step"] == 1.0
    assert found["answers"]["ragla lookahead"]["tokens_per_step"] > 1.5
    assert len(found["speedups"]) == 3
    for method in METHODS:
        assert method in table
    assert "FAILED" not in table


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no GPU that this torch can use; --tiny runs on the CPU"),
        (["--tiny", "--transcripts", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
    ],
)
def test_what_it_refuses(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", *arguments])
    with pytest.raises(SystemExit) as caught:
        importlib.import_module("gpu_check").arguments()
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
