"""Settings as the command takes and shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.tiny_world import QUESTION, Ragla, document


def test_config_show_names_values_and_their_origins(
    ragla: Ragla, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "ragla.yaml").write_text("retrieve:\n  top_k: 7\n")
    monkeypatch.setenv("RAGLA_DECODE__MAX_DEPTH", "9")
    shown = document(ragla("config", "show", "-s", "decode.order=5", "--json"))
    assert shown["schema"] == "ragla.config/1"
    chosen = {key: entry["value"] for key, entry in shown["settings"].items()}
    assert (chosen["retrieve.top_k"], chosen["decode.max_depth"], chosen["decode.order"]) == (7, 9, 5)
    assert shown["settings"]["retrieve.top_k"]["origin"] == f"project file {elsewhere / 'ragla.yaml'}"
    lines = ragla("config", "show").stdout.splitlines()
    assert len(lines) == len(chosen)
    assert any(re.fullmatch(r"retrieve\.top_k +7  \(project file .*ragla\.yaml\)", line) for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-s", "decode.max_dept=3"], "did you mean decode.max_depth?"),
        (["-s", "decode.max_depth"], "no value"),
        (["-s", "decode.max_depth=many"], "decode.max_depth"),
        (["-p", "tini"], "did you mean tiny?"),
        (["-p", "nowhere.yaml"], "there is no profile file nowhere.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_that_makes_no_sense(ragla: Ragla, words: list[str], said: str) -> None:
    result = ragla("config", "show", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_project_file_cannot_run_code(ragla: Ragla, elsewhere: Path) -> None:
    (elsewhere / "ragla.yaml").write_text("decode:\n  trust_remote_code: true\n")
    result = ragla("ask", QUESTION)
    assert result.exit_code == 2
    assert "decode.trust_remote_code" in result.stderr
