"""``ragla index``: which files are wanted, and that the index remembers it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.tiny_world import Ragla, World, document


def test_what_flags_choose_is_kept_until_a_folder_is_named_again(
    ragla: Ragla, world: World, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    for name in ("a.md", "b.txt", "drafts/c.md", ".hidden.md", "left-out.md"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(f"A zebra in {name}.")
    (docs / ".gitignore").write_text("left-out.md\n")
    flags = ["--index", tmp_path / "new", "--profile", world.profile, "--json"]

    def counts(*words: str | Path) -> tuple[int, int, int]:
        made = document(ragla("index", *words, *flags))
        return made["indexed"], made["unchanged"], made["removed"]

    assert counts(docs, "--include", "*.md", "--exclude", "drafts/") == (1, 0, 0)
    assert counts() == (0, 1, 0)
    assert counts("--hidden", "--no-ignore") == (4, 1, 0)
    assert counts(docs) == (0, 3, 2)


def test_a_skipped_file_is_tried_again_on_request(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "noise.bin").write_bytes(bytes(range(256)) * 20)
    flags = ["--index", tmp_path / "new", "--profile", world.profile, "--json"]
    for more in ([], [], ["--retry"]):
        made = document(ragla("index", docs, *more, *flags))
        assert [row["reason"] for row in made["skipped"]] == ["binary file"]


def test_a_pattern_that_makes_no_sense_is_one_line(ragla: Ragla, world: World, tmp_path: Path) -> None:
    result = ragla(
        "index", world.docs, "--include", "[z-a]", "--index", tmp_path / "new", "--profile", world.profile
    )
    assert result.exit_code == 2
    assert "'[z-a]' is no pattern" in result.stderr


@pytest.mark.parametrize("name", ["one file.md", "*.md", "[a]?.md", "#1.md", "!x.md", "it's.md"])
def test_who_names_a_file_is_given_the_command_that_reads_it_alone(
    name: str, ragla: Ragla, world: World, elsewhere: Path
) -> None:
    for path in (elsewhere / name, elsewhere / "other.md", elsewhere / "below" / name):
        path.parent.mkdir(exist_ok=True)
        path.write_text("Boats are moored at the pier.")
    flags = ["-p", world.profile, "--json"]
    refused = ragla("index", name, *flags)
    assert refused.exit_code == 2
    _, _, command = document(refused)["hint"].partition(": ")
    made = ragla(*shlex.split(command)[1:], *flags)
    assert document(made)["indexed"] == 1, made.output
    [found] = document(ragla("search", "boats", *flags))["passages"]
    assert found["path"] == name
