"""An index without a passage: who asks it is told so, and its folder is known from the first run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.tiny_world import QUESTION, Ragla, World, document

CUT_OFF = "error: {place}: the index is empty: its first run was interrupted"


@pytest.fixture
def cut_off(ragla: Ragla, world: World, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags of a user whose first run, of documents elsewhere, ended by Ctrl-C before anything was stored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ragla.retrieve.taking.Taking.one", interrupt)
        assert ragla("index", world.docs, "-p", world.profile).exit_code == 130
    return ["-p", str(world.profile)]


@pytest.mark.parametrize("command", ["ask", "search"])
def test_a_first_run_that_was_interrupted_is_named(
    command: str, ragla: Ragla, world: World, elsewhere: Path, cut_off: list[str]
) -> None:
    result = ragla(command, QUESTION, *cut_off)
    error, mend = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (3, "")
    assert error == CUT_OFF.format(place=elsewhere / ".ragla")
    assert mend == f"  → ragla index '{world.docs}'"


def test_a_run_that_names_no_folder_goes_on_with_it(ragla: Ragla, world: World, cut_off: list[str]) -> None:
    assert ragla("index", *cut_off).exit_code == 0
    assert document(ragla("search", QUESTION, "--json", *cut_off))["passages"]


def test_doctor_does_not_call_it_whole(ragla: Ragla, elsewhere: Path, cut_off: list[str]) -> None:
    found = document(result := ragla("doctor", "--json", *cut_off))
    assert (result.exit_code, found["ok"]) == (3, False)
    said = found["environment"][-1]
    assert (said["name"], said["state"]) == ("index", "wrong")
    assert "its first run was interrupted" in said["said"]
    assert "faiss" not in result.stdout.lower().partition('"name": "index"')[2]
    assert ragla("doctor", *cut_off).exit_code == 3
    assert ragla("index", *cut_off).exit_code == 0
    whole = document(ragla("doctor", "--json", *cut_off))
    assert "index" not in [one["name"] for one in whole["environment"]]
    assert all(check["ok"] and not check["waiting"] for check in whole["checks"])


def test_files_without_text_are_told_from_no_files(ragla: Ragla, world: World, elsewhere: Path) -> None:
    (elsewhere / "papers").mkdir()
    flags = ["-p", world.profile]
    made = ragla("index", "papers", *flags)
    assert made.exit_code == 0
    assert "there is nothing in it to find" in made.stderr
    result = ragla("ask", QUESTION, *flags)
    assert result.exit_code == 3
    assert result.stderr.splitlines()[1] == f"  → ragla index {elsewhere / 'papers'}"
    (elsewhere / "papers" / "scan.txt").write_bytes(b"\0\1\2")
    assert ragla("index", *flags).exit_code == 0
    result = ragla("ask", QUESTION, *flags)
    assert (result.exit_code, result.stderr.splitlines()[1]) == (3, "  → ragla info --skipped")
    (elsewhere / "papers" / "limits.txt").write_text("The hotel limit in Paris is EUR 190.")
    assert ragla("index", *flags).exit_code == 0
    assert ragla("search", QUESTION, *flags).exit_code == 0


def test_an_index_elsewhere_is_named_in_the_hint(ragla: Ragla, world: World, elsewhere: Path) -> None:
    (elsewhere / "papers").mkdir()
    flags = ["-p", world.profile, "--index", "an index"]
    ragla("index", "papers", *flags)
    hint = ragla("search", QUESTION, *flags).stderr.splitlines()[1]
    assert hint == f"  → ragla index {elsewhere / 'papers'} --index 'an index'"


def test_a_second_folder_that_was_interrupted_is_gone_on_with(
    ragla: Ragla, world: World, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["-p", str(world.profile)]
    more = elsewhere / "more"
    more.mkdir()
    (more / "trains.txt").write_text("Trains are booked by the desk.")
    assert ragla("index", world.docs, *flags).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(
            "ragla.retrieve.update.Update._flush", lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert ragla("index", more, *flags).exit_code == 130
    assert document(ragla("index", "--json", *flags))["indexed"] == 1
    ragla("remove", more, *flags)
    assert (
        document(ragla("index", "--json", *flags))["indexed"] == 0
    )  # what was removed is not asked for again
