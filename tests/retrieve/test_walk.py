from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragla.errors import UsageError
from ragla.retrieve.selection import Selection
from ragla.retrieve.walk import FoundFile, Unreached, resolve_roots, walk


def paths(*roots: Path, excluded: Path | None = None) -> list[str]:
    return [item.path for item in walk(resolve_roots(roots), excluded) if isinstance(item, FoundFile)]


def chosen(root: Path, **selection: object) -> list[str]:
    (root,) = resolve_roots([root])
    found = walk([root], selections={root: Selection(**selection)})
    return [item.path for item in found if isinstance(item, FoundFile)]


def reasons(*roots: Path) -> dict[str, str]:
    return {i.absolute.name: i.reason for i in walk(resolve_roots(roots)) if isinstance(i, Unreached)}


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_order_is_stable_and_hidden_names_are_passed_over(tmp_path: Path) -> None:
    for name in ("b.md", "a/z.md", "a/.hidden.md", ".git/config", ".ragla/passages-1.sqlite", "a.md"):
        write(tmp_path / name)
    assert paths(tmp_path) == ["a.md", "b.md", "a/z.md"]


def test_ignore_files_at_every_level_the_innermost_last(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "*.log\nbuild/\n")
    write(tmp_path / "sub/.gitignore", "!keep.log\n")
    write(tmp_path / ".raglaignore", "/secret.md\n")
    for name in ("a.log", "build/out.md", "sub/keep.log", "sub/other.log", "secret.md", "sub/secret.md"):
        write(tmp_path / name)
    assert paths(tmp_path) == ["sub/keep.log", "sub/secret.md"]


def test_a_senseless_ignore_line_does_not_disable_the_others(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"!\n\xff\xfe\n*.log\n")
    write(tmp_path / "a.log")
    write(tmp_path / "b.md")
    assert paths(tmp_path) == ["b.md"]


def test_the_index_itself_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    write(tmp_path / "my-index/current")
    assert paths(tmp_path, excluded=tmp_path / "my-index") == ["a.md"]


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "a.md")
    write(tmp_path / "outside/secret.md")
    write(root / ".versions/3.md")
    (root / "broken.md").symlink_to(root / "nowhere.md")
    (root / "loop").symlink_to(root / "loop")
    (root / "parent").symlink_to(root)
    (root / "out.md").symlink_to(tmp_path / "outside/secret.md")
    (root / "outdir").symlink_to(tmp_path / "outside")
    (root / "same.md").symlink_to(root / "a.md")
    (root / "latest.md").symlink_to(root / ".versions/3.md")
    assert paths(root) == ["a.md", ".versions/3.md"]
    assert reasons(root) == {
        "broken.md": "broken link",
        "loop": "link loop",
        "out.md": "link leads out of the folder",
        "outdir": "link leads out of the folder",
    }


def test_one_unreadable_folder_does_not_stop_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "locked/a.md")
    write(tmp_path / "open/b.md")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert paths(tmp_path) == ["open/b.md"]
    assert reasons(tmp_path) == {"locked": "folder cannot be read: Permission denied"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert reasons(tmp_path) == {"pipe.md": "not a regular file"}


def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("x")
    except OSError:
        pytest.skip("the file system takes Unicode names only")
    assert list(reasons(tmp_path).values()) == ["the name is not valid UTF-8: rename it"]


def test_nested_roots_yield_a_file_once(tmp_path: Path) -> None:
    write(tmp_path / "sub/a.md")
    assert paths(tmp_path, tmp_path / "sub") == ["sub/a.md"]
    assert paths(tmp_path / "sub", tmp_path) == ["a.md"]


@pytest.mark.parametrize("name", ["missing", "file.md"])
def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path, name: str) -> None:
    write(tmp_path / "file.md")
    with pytest.raises(UsageError) as caught:
        resolve_roots([tmp_path / name])
    assert caught.value.hint


def test_no_root_is_an_error() -> None:
    with pytest.raises(UsageError, match="no folder"):
        resolve_roots([])


def test_what_is_included_and_excluded(tmp_path: Path) -> None:
    for name in ("a.md", "b.txt", "sub/c.md", "sub/d.txt", "drafts/e.md", "sub/drafts/f.md"):
        write(tmp_path / name)
    assert chosen(tmp_path, include=("*.md",), exclude=("/drafts/",)) == [
        "a.md",
        "sub/c.md",
        "sub/drafts/f.md",
    ]
    assert chosen(tmp_path, include=("sub/",)) == ["sub/c.md", "sub/d.txt", "sub/drafts/f.md"]
    assert chosen(tmp_path, exclude=("drafts/", "*.txt")) == ["a.md", "sub/c.md"]
    assert chosen(tmp_path, exclude=("*.txt", "!b.txt", "*.md")) == ["b.txt"]


@pytest.mark.parametrize("pattern", ["", "#", "!", "[z-a]"])
def test_a_pattern_without_meaning_is_an_error(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="is no pattern"):
        chosen(tmp_path, include=(pattern,))


def test_hidden_names_but_not_what_tools_keep(tmp_path: Path) -> None:
    for name in (".env.md", ".github/a.md", ".git/config", ".ragla/current", "sub/.git/config"):
        write(tmp_path / name)
    (tmp_path / "config.md").symlink_to(tmp_path / ".git/config")
    assert chosen(tmp_path, hidden=True) == [".env.md", ".github/a.md"]
    assert reasons(tmp_path) == {"config.md": "link leads into what a tool keeps for itself"}


def test_ignore_files_can_be_passed_over(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "*.log\n")
    write(tmp_path / "sub/.raglaignore", "*\n")
    write(tmp_path / "sub/a.log")
    assert chosen(tmp_path) == []
    assert chosen(tmp_path, ignore=False) == ["sub/a.log"]


def test_rules_of_the_repository_above_hold_below_it(tmp_path: Path) -> None:
    (tmp_path / "repo/.git").mkdir(parents=True)
    write(tmp_path / ".gitignore", "*\n")  # above the repository: none of its rules
    write(tmp_path / "repo/.gitignore", "*.log\nbuild/\n/docs/private.md\n")
    for name in ("docs/a.log", "docs/a.md", "docs/private.md", "build/out.md"):
        write(tmp_path / "repo" / name)
    assert paths(tmp_path / "repo/docs") == ["a.md"]
    assert paths(tmp_path / "repo/build") == ["out.md"]  # named by the user: not for the ignore file to say
    write(tmp_path / "repo/docs/.gitignore", "*.tmp\n")  # which has no say in folders above it
    for name in ("a.tmp", "b.md"):
        write(tmp_path / "repo/docs/deep" / name)
    assert paths(tmp_path / "repo/docs/deep") == ["b.md"]


def test_a_name_cannot_command_a_terminal(tmp_path: Path) -> None:
    write(tmp_path / "a\x1b[31m\nb.md")
    (found,) = [item for item in walk([tmp_path]) if isinstance(item, FoundFile)]
    assert found.path == "a [31m\nb.md"
    assert found.absolute.is_file()


def test_an_excluded_folder_may_be_a_root_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    write(tmp_path / "sub/b.md")
    roots = resolve_roots([tmp_path, tmp_path / "sub"])
    found = walk(roots, selections={roots[0]: Selection(exclude=("sub/",))})
    assert [(item.root, item.path) for item in found if isinstance(item, FoundFile)] == [
        (roots[0], "a.md"),
        (roots[1], "b.md"),
    ]
