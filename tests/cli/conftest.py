"""Everything the command needs, made once, in an awkward path, without a download."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ragla.cli import app
from tests.cli.tiny_models import save_embedder, save_llm, write_documents, write_profile
from tests.cli.tiny_world import Ragla, World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world") / "a folder, 有中文"
    folder.mkdir()
    profile = write_profile(
        folder / "tiny.yaml", save_llm(folder / "llm"), save_embedder(folder / "an embedder")
    )
    docs = write_documents(folder / "my docs")
    made = World(folder, profile, docs, folder / "the index")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGLA_CACHE", str(folder / "cache"))
        result = CliRunner().invoke(app, ["index", str(docs), *made.flags])
    assert result.exit_code == 0, result.output
    return made


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without files of their own, in an empty folder."""
    for name in [name for name in os.environ if name.startswith("RAGLA_") and name != "RAGLA_CACHE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def ragla() -> Ragla:
    """Run a command in this process."""

    def run(*words: str | Path, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], input=stdin)

    return run
