"""A byte of the index is another, or a file of it was cut: no wrong passage, no crash, and doctor sees it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_children import Child, finished
from fault_corpus import Documents, word_of
from fault_jobs import Job, SystemFault
from hashing_embedder import HashingEmbedder
from index_state import is_one_line_with_a_command

from ragla.errors import RaglaError
from ragla.retrieve import Retriever
from ragla.retrieve.check import check_index

OFFSETS = 200
CUTS = 50
Found = list[tuple[str, int, int, str]]


@dataclass(frozen=True)
class Whole:
    """A whole index of documents, what is asked of it and what it answers."""

    documents: Documents
    index_dir: Path
    questions: list[str]
    answers: list[Found]


def ask(documents: Documents, index_dir: Path, questions: list[str]) -> list[Found]:
    """What is found, each passage held against its file; RaglaError where the index cannot be used."""
    answers = []
    with closing(Retriever.open(index_dir, HashingEmbedder())) as retriever:
        for question in questions:
            found = [item.passage for item in retriever.search(question, 3)]
            for passage in found:
                documents.check(passage)
                text = retriever.document_text(passage.document_id)
                assert text in documents.versions[passage.path]
            answers.append([(one.path, one.start, one.end, one.title) for one in found])
    return answers


def asked(documents: Documents, index_dir: Path) -> Whole:
    """Asked is a copy: whoever closes an index last folds its log."""
    words = [word_of(documents.versions[name][-1]) for name in documents.here[:2]]
    questions = [*words, "ferry harbour island"]
    copy = shutil.copytree(index_dir, index_dir.with_name("asked"))
    return Whole(documents, index_dir, questions, ask(documents, copy, questions))


@pytest.fixture(scope="module")
def whole(children: None, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    place = tmp_path_factory.mktemp("whole")
    documents = Documents(place / "docs", seed=3)
    documents.fill(9)
    assert finished(Job(documents.folder, place / "index")).report
    return asked(documents, place / "index")


@pytest.fixture(scope="module")
def with_log(system_faults: None, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An index whose writer died when it had committed all and folded nothing of its log back."""
    place = tmp_path_factory.mktemp("log")
    documents = Documents(place / "docs", seed=4)
    documents.fill(9)
    job = Job(documents.folder, place / "index")
    shutil.copytree(place / "docs", place / "before")
    assert finished(job).report
    documents.change_some()
    shutil.copytree(place / "index", place / "twin")
    calls = finished(Job(documents.folder, place / "twin"), SystemFault("count")).calls
    assert Child(job, SystemFault("kill", calls.rindex("tsu") + 1)).outcome() is None
    assert (place / "index" / "passages-1.sqlite-wal").stat().st_size > 50_000
    return asked(documents, place / "index")


def damages(size: int, seed: str) -> Iterator[tuple[int, int]]:
    """Offsets all over a file with what to change there: bits of a byte, or 0 for a cut."""
    chance = random.Random(seed)
    for many, is_cut in ((OFFSETS, False), (CUTS, True)):
        for number in range(many):
            yield int((number + chance.random()) / many * size), 0 if is_cut else chance.randrange(1, 256)


def problem_with(whole: Whole, index_dir: Path) -> str | None:
    """What is wrong with how a damaged index answers, or None."""
    try:
        answers = ask(whole.documents, index_dir, whole.questions)
    except RaglaError as error:
        told = (type(error).__name__, str(error), error.hint)
        return None if is_one_line_with_a_command(told) else f"says {told}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    try:
        problems = check_index(index_dir)
    except RaglaError as error:
        return f"doctor says {error}"
    except BaseException as error:
        return f"doctor: {type(error).__name__}: {str(error)[:200]}"
    if any(not problem.mend.startswith("ragla ") for problem in problems):
        return f"doctor: {problems}"
    if answers != whole.answers and not problems:
        return "answers otherwise, and doctor sees nothing"
    return None


def survey(whole: Whole, name: str, place: Path) -> list[str]:
    """What is wrong after each damage of a file."""
    raw = (whole.index_dir / name).read_bytes()
    wrong = []
    for offset, bits in damages(len(raw), name):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole.index_dir, place)
        damaged = raw[:offset] + (bytes([raw[offset] ^ bits]) + raw[offset + 1 :] if bits else b"")
        (place / name).write_bytes(damaged)
        problem = problem_with(whole, place)
        if problem is not None:
            wrong.append(f"{name} {'flipped' if bits else 'cut'} at {offset}: {problem}")
    return wrong


@pytest.mark.parametrize("name", ["current", "passages-1.sqlite", "vectors-1.faiss"])
def test_damage_of_a_file(whole: Whole, tmp_path: Path, name: str) -> None:
    assert survey(whole, name, tmp_path / "index") == []


@pytest.mark.parametrize("name", ["passages-1.sqlite", "passages-1.sqlite-wal", "passages-1.sqlite-shm"])
def test_damage_beside_a_log(with_log: Whole, tmp_path: Path, name: str) -> None:
    assert survey(with_log, name, tmp_path / "index") == []
