"""A byte of the index is another, or a file of it was cut: no wrong passage, no crash, and doctor sees it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest
from fault_children import Child, finished
from fault_corpus import Documents, word_of
from fault_jobs import Job, SystemFault, perform
from hashing_embedder import HashingEmbedder
from index_state import check_clean, content, is_one_line_with_a_command

from ragla.earlier import forget_stale
from ragla.errors import RaglaError
from ragla.retrieve import Retriever
from ragla.retrieve.check import check_index
from ragla.retrieve.generations import rollback
from ragla.retrieve.repair import repair
from ragla.trie.answer_file import FILE_NAME
from ragla.trie.answer_store import AnswerStore
from tests.trie.stored_answers import lesson

OFFSETS = 200
CUTS = 25
CURRENT, PREVIOUS = "passages-1.sqlite", "passages-2.sqlite"
Found = list[tuple[str, int, int, str]]


@dataclass(frozen=True)
class Whole:
    """A whole index of documents, what is asked of it and what it answers, where that is known."""

    documents: Documents
    index_dir: Path
    questions: list[str]
    answers: list[Found] | None


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
    """An index with the one before it."""
    place = tmp_path_factory.mktemp("whole")
    documents = Documents(place / "docs", seed=3)
    documents.fill(8)
    assert finished(Job(documents.folder, place / "index")).report
    documents.change_some()
    assert finished(Job(documents.folder, place / "index")).report
    assert sorted(path.name for path in (place / "index").glob("passages-*")) == [CURRENT, PREVIOUS]
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
    assert (place / "index" / f"{CURRENT}-wal").stat().st_size > 50_000
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
    if whole.answers not in (None, answers) and not problems:
        return "answers otherwise, and doctor sees nothing"
    return None


def problem_going_back(whole: Whole, index_dir: Path) -> str | None:
    """What is wrong when a damaged index is made current again, or None."""
    try:
        rollback(index_dir)
    except RaglaError as error:
        told = (type(error).__name__, str(error), error.hint)
        return None if is_one_line_with_a_command(told) else f"says {told}"
    except BaseException as error:
        return f"going back: {type(error).__name__}: {str(error)[:200]}"
    return problem_with(replace(whole, answers=None), index_dir)


def damaged(whole: Whole, name: str, place: Path) -> Iterator[str]:
    """The index in ``place`` with a file damaged, again and again; what was done to it."""
    raw = (whole.index_dir / name).read_bytes()
    for offset, bits in damages(len(raw), name):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole.index_dir, place)
        flipped = raw[:offset] + (bytes([raw[offset] ^ bits]) + raw[offset + 1 :] if bits else b"")
        (place / name).write_bytes(flipped)
        yield f"{name} {'flipped' if bits else 'cut'} at {offset}"


def survey(
    whole: Whole, name: str, place: Path, problem: Callable[[Whole, Path], str | None] = problem_with
) -> list[str]:
    """What is wrong after each damage of a file."""
    wrong = ((how, problem(whole, place)) for how in damaged(whole, name, place))
    return [f"{how}: {what}" for how, what in wrong if what is not None]


@pytest.mark.parametrize("name", ["current", CURRENT, "vectors-1.faiss"])
def test_damage_of_a_file(whole: Whole, tmp_path: Path, name: str) -> None:
    assert survey(whole, name, tmp_path / "index") == []


def test_damage_of_the_index_to_go_back_to(whole: Whole, tmp_path: Path) -> None:
    assert survey(whole, PREVIOUS, tmp_path / "index", problem_going_back) == []


@pytest.mark.parametrize("name", [CURRENT, f"{CURRENT}-wal", f"{CURRENT}-shm"])
def test_damage_beside_a_log(with_log: Whole, tmp_path: Path, name: str) -> None:
    assert survey(with_log, name, tmp_path / "index") == []


@pytest.mark.parametrize("name", ["current", CURRENT, "vectors-1.faiss"])
def test_what_is_damaged_can_be_mended(whole: Whole, tmp_path: Path, name: str) -> None:
    """By ``ragla doctor --repair`` and ``ragla index``, or where that says so by ``--rebuild``."""
    index_dir = tmp_path / "index"
    after = content(whole.index_dir)
    for how in islice(damaged(whole, name, index_dir), 0, None, 9):
        hint = mend_without_reading_all(whole, index_dir)
        if hint:
            assert "--rebuild" in hint, how
            perform(Job(whole.documents.folder, index_dir, "rebuild"))
        assert content(index_dir) == after, how
        check_clean(index_dir)


def mend_without_reading_all(whole: Whole, index_dir: Path) -> str:
    """Repair and bring up to date; "", or what a user is told instead."""
    try:
        list(repair(index_dir))
        perform(Job(whole.documents.folder, index_dir))
    except RaglaError as error:
        return str(error.hint)
    return " ".join(problem.mend for problem in check_index(index_dir))


def test_damage_of_earlier_answers_touches_no_search(whole: Whole, tmp_path: Path) -> None:
    place = tmp_path / "with answers"
    shutil.copytree(whole.index_dir, place)
    document = str(whole.documents.folder / whole.documents.here[0])
    with closing(AnswerStore.open(place)) as store:
        for number in range(30):
            store.save(lesson(*range(number, number + 40), documents=((document, "an older digest"),)))
    with_answers = replace(whole, index_dir=place)
    for how in islice(damaged(with_answers, FILE_NAME, tmp_path / "index"), 0, None, 7):
        dropped, notice = forget_stale(tmp_path / "index")
        assert 0 <= dropped <= 30, how
        assert notice is None or "\n" not in notice, how
        assert problem_with(with_answers, tmp_path / "index") is None, how
