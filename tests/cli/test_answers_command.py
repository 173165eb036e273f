"""Earlier answers: kept by one process, used by the next, listed, removed, gone with their documents."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragla.trie.answer_file import FILE_NAME
from ragla.trie.answer_store import AnswerStore
from ragla.trie.answers import packed
from tests.cli.tiny_models import save_llm
from tests.cli.tiny_world import QUESTION, Ragla, World, document

RAGLA = Path(sys.executable).with_name("ragla")
ONE = ["-s", "retrieve.top_k=1"]
BOATS = "Where are boats moored, at which pier?"


@pytest.fixture
def own(world: World, tmp_path: Path) -> World:
    """The same models and documents, with an index in which no answers are kept."""
    return world.with_index_of_its_own(tmp_path / "own index")


@pytest.fixture
def mine(world: World, ragla: Ragla, tmp_path: Path) -> World:
    """The same models, with documents to change and an index of them."""
    docs = tmp_path / "my docs"
    shutil.copytree(world.docs, docs)
    made = replace(world, docs=docs, index=tmp_path / "my index")
    assert ragla("index", docs, *made.flags).exit_code == 0
    return made


def ask(ragla: Ragla, world: World, question: str = QUESTION, *more: str) -> dict[str, Any]:
    return document(ragla("ask", question, *world.flags, "--json", *more))


def listed(ragla: Ragla, world: World) -> list[dict[str, Any]]:
    found = document(ragla("answers", "list", *world.flags, "--json"))
    assert set(found) == {"schema", "answers"}
    assert found["schema"] == "ragla.answers/1"
    answers: list[dict[str, Any]] = found["answers"]
    return answers


def test_asked_again_a_question_takes_fewer_steps_and_has_the_same_answer(ragla: Ragla, own: World) -> None:
    first, second = ask(ragla, own), ask(ragla, own)
    assert first["answer"] == second["answer"]
    assert second["stats"]["tokens_per_step"] > 2 * first["stats"]["tokens_per_step"]
    assert first["notices"] == second["notices"] == []
    [kept] = listed(ragla, own)
    assert set(kept) == {"name", "text", "tokens", "uses", "last_used", "documents"}
    assert kept["tokens"] == 24
    assert kept["uses"] > 10
    assert kept["text"].strip().startswith(first["answer"][:8])
    assert {Path(path).parent for path in kept["documents"]} == {own.docs}


def test_beliefs_and_second_thoughts_are_kept_with_the_answers(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    with closing(sqlite3.connect(own.index / FILE_NAME)) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("answers", "beliefs", "ranks", "ranked_from")
        ]
    assert counts[0] == 1
    assert counts[1] >= 7
    assert counts[2] > 10
    assert counts[3] == 4


def test_answers_are_listed_for_people(
    ragla: Ragla, own: World, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = ragla("answers", "list", *own.flags)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "no answers are kept\n")
    assert not (own.index / FILE_NAME).exists()
    ask(ragla, own, QUESTION, *ONE)
    monkeypatch.chdir(own.docs)
    lines = ragla("answers", "list", *own.flags).stdout.splitlines()
    [kept] = listed(ragla, own)
    assert lines[0] == f"{kept['name']}  24 tokens · 0 uses · travel.md"
    assert lines[1].startswith("  ")
    monkeypatch.chdir(elsewhere)
    assert str(own.docs / "travel.md") in ragla("answers", "list", *own.flags).stdout


def test_answers_of_a_tokenizer_that_is_not_here_are_listed_without_words(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    words = ["answers", "list", *own.flags, "-m", "smollm2-135m"]
    [kept] = document(ragla(*words, "--json"))["answers"]
    assert (kept["text"], kept["tokens"]) == (None, 24)
    _, reason = ragla(*words).stdout.splitlines()
    assert reason == "  (its words cannot be read: smollm2-135m is not on this machine)"


def test_answers_of_another_model_say_so(ragla: Ragla, own: World, tmp_path: Path) -> None:
    ask(ragla, own)
    other = save_llm(tmp_path / "other")
    numbered = other / "tokenizer.json"
    numbered.write_text(numbered.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    words = ["answers", "list", *own.flags, "-m", str(other)]
    assert document(ragla(*words, "--json"))["answers"][0]["text"] is None
    _, reason = ragla(*words).stdout.splitlines()
    assert reason == f"  (of another model than {other}: its words are shown with --profile or --model)"


def test_what_an_answer_says_cannot_command_the_terminal(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    name = listed(ragla, own)[0]["name"]
    with closing(sqlite3.connect(own.index / FILE_NAME)) as connection:
        connection.execute("UPDATE answers SET name = ?", (f"{name}\x1b[2J\n",))
        connection.execute("INSERT INTO made_from VALUES (1, ?, 'x')", ("/a\x1b[2J\n/b",))
        connection.commit()
    result = ragla("answers", "list", *own.flags)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert len(result.output.splitlines()) == 2


def test_an_answer_is_removed_by_the_beginning_of_its_name(ragla: Ragla, own: World) -> None:
    ask(ragla, own, QUESTION, *ONE)
    ask(ragla, own, BOATS, *ONE)
    names = [answer["name"] for answer in listed(ragla, own)]
    assert len(names) == 2
    result = ragla("answers", "remove", names[0][:6], "--index", own.index)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 answer removed\n")
    assert [answer["name"] for answer in listed(ragla, own)] == names[1:]
    told = document(ragla("answers", "remove", names[1], "--index", own.index, "--json"))
    assert told == {"schema": "ragla.answers/1", "removed": 1}
    assert listed(ragla, own) == []


def test_all_is_cleared(ragla: Ragla, own: World) -> None:
    before = document(ragla("answers", "clear", "--index", own.index, "--json"))
    assert before == {"schema": "ragla.answers/1", "removed": 0}
    ask(ragla, own)
    assert ragla("answers", "clear", "--index", own.index).stderr == "1 answer removed\n"
    assert listed(ragla, own) == []
    with closing(AnswerStore.open(own.index)) as store:
        assert store.documents() == set()


@pytest.mark.parametrize("name", ["fff", ""])
def test_a_name_that_names_none_or_several_is_refused(ragla: Ragla, own: World, name: str) -> None:
    ask(ragla, own, QUESTION, *ONE)
    ask(ragla, own, BOATS, *ONE)
    result = ragla("answers", "remove", name, "--index", own.index)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no answer fff" if name else "error: 2 answers begin with")
    assert "→" in result.stderr
    assert len(listed(ragla, own)) == 2


@pytest.mark.parametrize("words", [["list"], ["remove", "x"], ["clear"]], ids=" ".join)
def test_without_an_index_there_are_no_answers(ragla: Ragla, words: list[str]) -> None:
    result = ragla("answers", *words)
    assert result.exit_code == 3
    assert "no index in" in result.stderr


# --- what is not kept --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        ["decode.keep_answers=false"], ["decode.temperature=0.7"], ["retrieve.relevance_floor=1.0"],
        ["decode.answer_trie_nodes=0"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_not_wanted_or_no_answer_is_not_kept(ragla: Ragla, own: World, settings: list[str]) -> None:
    flags = [word for setting in settings for word in ("-s", setting)]
    ask(ragla, own, QUESTION, *flags)
    assert listed(ragla, own) == []
    assert (own.index / FILE_NAME).exists() == (settings != ["decode.keep_answers=false"])


def test_silence_and_refusals_are_not_kept(ragla: Ragla, own: World, tmp_path: Path) -> None:
    mute = save_llm(tmp_path / "mute", chatty=False)
    assert ragla("ask", QUESTION, *own.flags, "-m", mute).exit_code == 4
    assert listed(ragla, own) == []


def test_a_sampled_answer_leaves_nothing_behind(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    before = (own.index / FILE_NAME).read_bytes()
    ask(ragla, own, QUESTION, "-s", "decode.temperature=0.7")
    assert (own.index / FILE_NAME).read_bytes() == before


def test_the_bench_neither_reads_nor_keeps_answers(ragla: Ragla, own: World, tmp_path: Path) -> None:
    asked = tmp_path / "questions.jsonl"
    asked.write_text(f'{{"question": "{QUESTION}"}}\n')
    flags = [*own.flags, "--questions", asked, "-s", "decode.max_new_tokens=8", "--json"]
    assert ragla("bench", *flags).exit_code == 0
    assert not (own.index / FILE_NAME).exists()


@pytest.mark.usefixtures("heard_interrupts")
def test_an_interrupted_answer_is_not_kept_and_costs_no_other(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    before = listed(ragla, own)
    command = [str(RAGLA), "ask", BOATS, *own.flags, "-s", "decode.max_new_tokens=3500"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as answering:
        assert answering.stdout is not None
        assert answering.stdout.read(20)
        answering.send_signal(signal.SIGINT)
        answering.communicate(timeout=60)
    assert answering.returncode == 130
    # what was drafted from it before the interrupt counts as a use
    used = {"uses": 0, "last_used": 0}
    assert [answer | used for answer in listed(ragla, own)] == [answer | used for answer in before]


def test_a_reader_that_leaves_early_costs_no_earlier_answer(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    before = listed(ragla, own)
    flags = " ".join(f"'{word}'" for word in own.flags)
    command = f"'{RAGLA}' ask '{BOATS}' {flags} | head -c 1"
    subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=120)
    assert before[0]["name"] in {answer["name"] for answer in listed(ragla, own)}


# --- documents that change or go ----------------------------------------------------------------------


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob(FILE_NAME + "*"))


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_answers_leave_with_their_documents(ragla: Ragla, mine: World, how: str) -> None:
    ask(ragla, mine, QUESTION, *ONE)
    ask(ragla, mine, BOATS, *ONE)
    with closing(AnswerStore.open(mine.index)) as store:
        token_ids = {answer.documents[0][0]: answer.token_ids for answer in store.answers()}
    travel, boats = str(mine.docs / "travel.md"), str(mine.docs / "boats and piers.txt")
    assert set(token_ids) == {travel, boats}
    assert packed(token_ids[travel]) in bytes_of(mine.index)
    if how == "removed":
        Path(travel).unlink()
    else:
        Path(travel).write_text("# Travel\n\nThe hotel limit in Paris is 90 euros a night.\n")
    result = ragla("index", *mine.flags)
    assert result.exit_code == 0
    assert "dropped with its documents: 1 earlier answer" in result.stderr
    assert [answer["documents"] for answer in listed(ragla, mine)] == [[boats]]
    left = bytes_of(mine.index)
    assert packed(token_ids[boats]) in left
    assert packed(token_ids[travel][:4]) not in left
    with closing(sqlite3.connect(mine.index / FILE_NAME)) as connection:
        assert connection.execute("SELECT count(*) FROM ranks").fetchone() == (0,)


def test_an_index_brought_up_to_date_without_change_drops_nothing(ragla: Ragla, mine: World) -> None:
    ask(ragla, mine)
    assert "dropped" not in ragla("index", *mine.flags).stderr
    assert "dropped" not in ragla("index", mine.docs, "--rebuild", *mine.flags).stderr
    assert len(listed(ragla, mine)) == 1


def test_where_indexing_was_cut_short_the_next_question_drops_them(ragla: Ragla, mine: World) -> None:
    ask(ragla, mine, QUESTION, *ONE)
    kept = (mine.index / FILE_NAME).read_bytes()
    (mine.docs / "travel.md").unlink()
    ragla("index", *mine.flags)
    (mine.index / FILE_NAME).write_bytes(kept)  # as if the run had ended before it came to the answers
    ask(ragla, mine, BOATS, *ONE)
    assert [[Path(path).name for path in answer["documents"]] for answer in listed(ragla, mine)] == [
        ["boats and piers.txt"]
    ]


# --- a file that cannot be used -----------------------------------------------------------------------


def test_a_damaged_file_is_made_anew_without_a_word(ragla: Ragla, own: World) -> None:
    ask(ragla, own)
    (own.index / FILE_NAME).write_bytes(b"no database" * 1000)
    answer = ask(ragla, own)
    assert answer["notices"] == []
    assert len(listed(ragla, own)) == 1


def test_where_nothing_can_be_kept_the_answer_is_given_with_one_note(ragla: Ragla, own: World) -> None:
    (own.index / FILE_NAME).mkdir()
    result, told = ragla("ask", QUESTION, *own.flags), ragla("ask", QUESTION, *own.flags, "--json")
    assert result.exit_code == told.exit_code == 0
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    [note] = document(told)["notices"]
    assert notes == [f"note: {note}"]
    assert note.startswith("earlier answers are neither used nor kept: unable to open database file")
    assert "--set decode.keep_answers=false" in note
    assert document(told)["answered"]
    assert len(result.stdout.strip()) > 10
    assert "earlier answers could not be checked" not in ragla("index", *own.flags).stderr
    quiet = ragla("ask", QUESTION, *own.flags, "-s", "decode.keep_answers=false")
    assert "note: " not in quiet.stderr


@pytest.fixture
def locked(ragla: Ragla, mine: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One answer is kept, and another process writes for as long as it takes."""
    ask(ragla, mine, QUESTION, *ONE)
    monkeypatch.setattr("ragla.trie.answer_store.AnswerStore.open.__func__.__defaults__", (0.05,))
    with closing(sqlite3.connect(mine.index / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield mine


def test_a_lock_that_lasts_does_not_hold_up_an_answer(ragla: Ragla, locked: World) -> None:
    result = ragla("ask", QUESTION, *locked.flags, *ONE)
    assert result.exit_code == 0
    steps = [line for line in result.stderr.splitlines() if "tokens/step" in line]
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert notes == ["note: this answer is not kept for later ones: database is locked"]
    assert steps[0].startswith("24 tokens in ")
    assert int(steps[0].split()[3]) < 10  # the earlier answer is of use all the same
    assert len(listed(ragla, locked)) == 1


def test_removing_from_a_locked_file_is_an_error_that_says_so(ragla: Ragla, locked: World) -> None:
    result = ragla("answers", "clear", "--index", locked.index)
    assert result.exit_code == 6
    assert "another process is using it" in result.stderr
    (locked.docs / "travel.md").unlink()
    indexing = ragla("index", *locked.flags)
    assert indexing.exit_code == 0
    assert "note: earlier answers could not be checked: database is locked" in indexing.stderr


def test_several_processes_may_ask_at_once(ragla: Ragla, own: World) -> None:
    questions = [QUESTION, BOATS]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [str(RAGLA), "ask", question, *own.flags, *ONE, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )
        for question in questions
    ]  # fmt: skip
    problems = [process.communicate(timeout=180)[1] for process in processes]
    assert problems == [""] * len(questions)
    assert [process.returncode for process in processes] == [0] * len(questions)
    assert len(listed(ragla, own)) == 2
