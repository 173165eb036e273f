"""``ragla info`` on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.tiny_world import Ragla, World, document


def test_an_index_is_described_in_words_and_as_json(ragla: Ragla, world: World) -> None:
    told = ragla("info", "--index", world.index)
    assert told.exit_code == 0
    assert told.stderr == ""
    found = document(ragla("info", "--index", world.index, "--json"))
    assert found["schema"] == "ragla.info/1"
    assert f"{found['documents']} documents, {found['passages']} passages" in told.stdout
    assert found["dense"]["factory"] == found["advice"]["factory"] == "Flat"
    assert str(world.docs) in told.stdout
    # the memory that processes share is there only while one has the database open
    files = [path for path in world.index.iterdir() if not path.name.endswith("-shm")]
    assert found["bytes"]["total"] == sum(path.stat().st_size for path in files)


def test_names_of_skipped_files_cannot_control_a_terminal(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    (docs / "a\x1b[31m[bold]b.txt").write_bytes(b"")
    flags = ["--index", str(index), "--profile", str(world.profile)]
    assert ragla("index", docs, *flags).exit_code == 0
    told = ragla("info", "--index", index, "--skipped")
    assert "empty file" in told.stdout
    assert "[bold]b.txt" in told.stdout
    assert "\x1b" not in told.stdout


def test_no_index_ends_with_the_command_that_makes_one(ragla: Ragla, tmp_path: Path) -> None:
    result = ragla("info", "--index", tmp_path)
    assert result.exit_code == 3
    assert "ragla index FOLDER" in result.stderr


def test_an_index_is_tried_where_there_is_one_to_try(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    for number in range(30):
        (docs / f"{number}.txt").write_text(
            f"Hotel {number} in Paris is limit {number * 7}.\n", encoding="utf-8"
        )
    flags = ["--index", str(index), "--profile", str(world.profile)]
    assert ragla("index", docs, *flags).exit_code == 0
    refused = ragla("info", "--measure", *flags)
    assert refused.exit_code == 2
    assert "ragla info --measure -s retrieve.faiss_index=HNSW32" in refused.stderr
    hnsw = ["--measure", "-s", "retrieve.faiss_index=HNSW8", *flags]
    assert "HNSW8 on " in ragla("info", *hnsw).stdout
    assert 0 <= document(ragla("info", *hnsw, "--json"))["trial"]["recall"] <= 1


def test_nothing_heavy_is_loaded(world: World) -> None:
    script = (
        f"import sys; sys.argv = ['ragla', 'info', '--index', {str(world.index)!r}]\n"
        "from ragla.cli import app\n"
        "try: app()\n"
        "finally: print([name for name in ('torch', 'faiss', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
