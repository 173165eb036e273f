"""``ask --continue`` and ``chat --continue``: what was said last about an index, and what became of it."""

from __future__ import annotations

import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragla.answer import Answer
from ragla.conversation_file import MOST_BYTES, MOST_TURNS, ConversationFile, forget_stale_conversation
from ragla.retrieve.local_passages import LocalPassages
from ragla.retrieve.store import Store
from tests.cli.test_chat import BOATS, said
from tests.cli.tiny_world import QUESTION, Ragla, World, document


@pytest.fixture
def mine(world: World, tmp_path: Path) -> World:
    """The same documents under an index of this test."""
    return world.with_index_of_its_own(tmp_path / "my index")


def kept(mine: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ConversationFile(mine.index).path.read_text(encoding="utf-8"))
    return found


def ask(ragla: Ragla, mine: World, question: str, *more: str) -> dict[str, Any]:
    result = ragla("ask", question, *mine.flags, "--json", *more)
    assert result.exit_code == 0, result.output
    return document(result)


def test_an_answer_goes_on_with_the_one_before(ragla: Ragla, mine: World) -> None:
    alone = ask(ragla, mine, BOATS)
    assert "conversation" not in alone
    ask(ragla, mine, QUESTION)
    after = ask(ragla, mine, BOATS, "-c")
    assert after["conversation"] == {"turns": 1}
    assert after["stats"]["prompt_tokens"] > alone["stats"]["prompt_tokens"]
    [_, chatted] = said(ragla("chat", *mine.flags, "--jsonl", stdin=f"{QUESTION}\n{BOATS}\n"))
    assert after["answer"] == chatted["answer"]
    assert [turn["question"] for turn in kept(mine)["turns"]] == [QUESTION, BOATS]
    assert ask(ragla, mine, "And the keys?", "--continue")["conversation"] == {"turns": 2}
    ask(ragla, mine, QUESTION)  # stands alone, and begins another
    assert len(kept(mine)["turns"]) == 1


def test_chat_goes_on_and_is_gone_on_with_until_new(ragla: Ragla, mine: World) -> None:
    ask(ragla, mine, QUESTION)
    result = ragla("chat", "-c", *mine.flags, "--jsonl", stdin=f"{BOATS}\n")
    assert said(result)[0]["stats"]["prompt_tokens"] == ask(ragla, mine, BOATS)["stats"]["prompt_tokens"] + (
        said(ragla("chat", *mine.flags, "--jsonl", stdin=f"{QUESTION}\n{BOATS}\n"))[1]["stats"][
            "prompt_tokens"
        ]
        - said(ragla("chat", *mine.flags, "--jsonl", stdin=f"{BOATS}\n"))[0]["stats"]["prompt_tokens"]
    )
    ragla("chat", *mine.flags, stdin=f"{QUESTION}\n/new\n{BOATS}\n")
    assert [turn["question"] for turn in kept(mine)["turns"]] == [BOATS]


def test_without_a_conversation_a_new_one_begins(ragla: Ragla, mine: World) -> None:
    first = ask(ragla, mine, QUESTION, "-c")
    assert first["conversation"] == {"turns": 0}
    assert "there is no conversation to go on with" in first["notices"][0]
    assert first["answer"] == ask(ragla, mine, QUESTION)["answer"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"schema": "other/1"}', b"[" * 5000, b" " * (MOST_BYTES + 1)],
    ids=["empty", "cut", "list", "bytes", "foreign", "deep", "large"],
)
def test_a_damaged_file_is_a_new_conversation_with_a_notice(
    ragla: Ragla, mine: World, content: bytes
) -> None:
    ConversationFile(mine.index).path.write_bytes(content)
    told = ragla("ask", "-c", QUESTION, *mine.flags)
    assert told.exit_code == 0
    assert "note: the last conversation cannot be read, a new one begins" in told.stderr
    assert len(kept(mine)["turns"]) == 1


def test_it_is_private_and_bounded(ragla: Ragla, mine: World) -> None:
    ask(ragla, mine, QUESTION)
    file = ConversationFile(mine.index)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    with closing(LocalPassages(Store.read(mine.index), 32)) as passages:
        assert file.resume(passages).asked == QUESTION
    for number in range(MOST_TURNS + 5):
        assert file.add(Answer(f"q{number}", "a", True), Nothing()) is None
    assert [turn["question"] for turn in kept(mine)["turns"]][-1] == f"q{MOST_TURNS + 4}"
    assert len(kept(mine)["turns"]) == MOST_TURNS
    file.add(Answer("\x01" * (MOST_BYTES // 3), "…" * MOST_BYTES, True), Nothing())
    assert file.path.stat().st_size <= MOST_BYTES
    assert file.resume(Nothing()).notice is None


class Nothing:
    """An index whose documents do not matter."""

    def documents(self, ids: Any) -> list[tuple[str, str]]:
        return []

    def digests(self, absolutes: Any) -> dict[str, str]:
        return {}


class Elsewhere:
    """Passages that are in no index folder: one document, whose id is 1."""

    def __init__(self, digest: str = "d" * 64) -> None:
        self.known = {"/there/a.md": digest}

    def documents(self, ids: Any) -> list[tuple[str, str]]:
        return list(self.known.items()) if list(ids) else []

    def digests(self, absolutes: Any) -> dict[str, str]:
        return {path: self.known[path] for path in absolutes if path in self.known}


def resting_on_a_document(question: str) -> Answer:
    """An answer made from document 1."""
    return Answer(question, "At night.", True, document_ids=frozenset({1}))


@pytest.mark.parametrize("beside", [False, True], ids=["no index", "another index"])
def test_passages_elsewhere_have_a_conversation_of_their_own(
    mine: World, tmp_path: Path, beside: bool
) -> None:
    folder = mine.index if beside else tmp_path / "none"
    folder.mkdir(exist_ok=True)
    place = "milvus://127.0.0.1:19530/one"
    file = ConversationFile(folder, place)
    assert file.add(resting_on_a_document("When?"), Elsewhere()) is None
    again = ConversationFile(folder, place).resume(Elsewhere())
    assert [turn.question for turn in again.turns] == ["When?"]
    assert again.notice is None
    changed = ConversationFile(folder, place).resume(Elsewhere("e" * 64))
    assert changed.turns == ()
    assert "1 of 1 earlier turns not told" in str(changed.notice)
    forget_stale_conversation(folder)  # of the index beside it
    assert ConversationFile(folder, place).resume(Elsewhere()).turns == again.turns
    for other in (None, "milvus://127.0.0.1:19530/two"):
        notice = ConversationFile(folder, other).resume(Elsewhere()).notice
        assert "no conversation to go on with" in str(notice)
    if beside:  # and was brought there since
        forget_stale_conversation(folder, place)
        assert not file.path.exists()
    ConversationFile(folder).remove()
    assert list(folder.glob("conversation-*")) == []


def test_a_folder_with_a_conversation_alone_is_no_index(
    ragla: Ragla, elsewhere: Path, mine: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGLA_INDEX", raising=False)
    folder = elsewhere / ".ragla"
    folder.mkdir()
    file = ConversationFile(folder, "milvus:/there.db")
    assert file.add(resting_on_a_document("When?"), Elsewhere()) is None
    (folder / "index.lock").touch()
    profile = ["--profile", str(mine.profile)]
    looked = ragla("doctor", "--json", *profile)
    [found] = [one for one in document(looked)["environment"] if one["name"] == "index"]
    assert found["state"] == "note", looked.output
    assert looked.exit_code != 3
    failed = ragla("ask", QUESTION, *profile)
    assert failed.exit_code == 3
    assert f"no index in {elsewhere} or above" in failed.stderr
    assert ragla("answers", "clear").exit_code == 0
    assert not file.path.exists()


def test_processes_that_add_to_one_conversation_lose_no_turn(tmp_path: Path) -> None:
    first = ConversationFile(tmp_path)
    first.add(Answer("first", "a", True), Nothing())
    others = [ConversationFile(tmp_path) for _ in range(4)]
    for other in others:
        assert other.resume(Nothing()).asked == "first"
    with ThreadPoolExecutor(4) as pool:
        problems = list(pool.map(lambda at: others[at].add(Answer(f"q{at}", "a", True), Nothing()), range(4)))
    assert problems == [None] * 4
    assert {turn.question for turn in first.resume(Nothing()).turns} == {"first", "q0", "q1", "q2", "q3"}
    first.begin()
    first.add(Answer("new", "a", True), Nothing())
    assert [turn.question for turn in others[0].resume(Nothing()).turns] == ["new"]
    assert list(tmp_path.glob("*.tmp")) == []


def test_what_rests_on_changed_documents_is_not_told(ragla: Ragla, world: World, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(world.docs, docs)
    mine = replace(world, docs=docs, index=tmp_path / "index")
    assert ragla("index", docs, *mine.flags).exit_code == 0
    ask(ragla, mine, QUESTION, "-s", "retrieve.top_k=1")
    ask(ragla, mine, BOATS, "-c", "-s", "retrieve.top_k=1")
    assert len(kept(mine)["turns"]) == 2
    (docs / "boats and piers.txt").write_text("No boats any more.", encoding="utf-8")
    assert ragla("index", *mine.flags).exit_code == 0
    assert [turn["question"] for turn in kept(mine)["turns"]] == [QUESTION]
    assert ragla("remove", docs / "travel.md", "--index", mine.index).exit_code == 0
    assert not ConversationFile(mine.index).path.exists()


def test_a_failed_or_refused_question_is_no_turn(ragla: Ragla, mine: World) -> None:
    ask(ragla, mine, QUESTION)
    floor = ["-s", "retrieve.relevance_floor=1.0"]
    assert ragla("ask", "-c", "Why?", *mine.flags, *floor).exit_code == 4
    assert [turn["question"] for turn in kept(mine)["turns"]] == [QUESTION]
    assert kept(mine)["asked"] == "Why?"


def test_nothing_is_kept_where_no_answers_are(ragla: Ragla, mine: World) -> None:
    off = ["-s", "decode.keep_answers=false"]
    ask(ragla, mine, QUESTION, *off)
    assert not ConversationFile(mine.index).path.exists()
    assert "keep_answers" in ask(ragla, mine, QUESTION, "-c", *off)["notices"][0]
    ask(ragla, mine, QUESTION)
    assert ragla("answers", "clear", "--index", mine.index).exit_code == 0
    assert list(mine.index.glob("conversation-*")) == []


def test_an_answer_that_is_removed_is_in_no_conversation(ragla: Ragla, mine: World) -> None:
    ask(ragla, mine, QUESTION)
    [name] = (row["name"] for row in document(ragla("answers", "list", *mine.flags, "--json"))["answers"])
    assert ragla("answers", "remove", name, "--index", mine.index).exit_code == 0
    assert list(mine.index.glob("conversation-*")) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_an_index_that_cannot_be_written_is_a_notice_where_it_matters(ragla: Ragla, mine: World) -> None:
    mine.index.chmod(0o500)
    try:
        assert "conversation" not in ragla("ask", QUESTION, *mine.flags).stderr
        assert "the conversation is not kept" in ragla("ask", "-c", QUESTION, *mine.flags).stderr
    finally:
        mine.index.chmod(0o700)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["-c", "--file", "questions.txt"], "--continue is for one question"),
        (["-c", "why?", "--explain"], "--explain is for a question that stands alone"),
    ],
)
def test_flags_that_exclude_each_other(ragla: Ragla, mine: World, flags: list[str], says: str) -> None:
    told = ragla("ask", *flags, *mine.flags)
    assert told.exit_code == 2
    assert says in told.stderr
