"""Reads the questions of a bench: one JSON object a line, with passages or to be searched for."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragla.bench.json_lines import Line, read_lines
from ragla.errors import UsageError

SPEC_BENCH = "these are Spec-Bench's questions: ragla bench --spec-bench FILE.jsonl"
FORM = 'each line is a JSON object like {"question": "…", "passages": ["…"], "reference": "…"}'


@dataclass(frozen=True)
class BenchQuestion:
    """A question. ``passages`` None: to be searched in the index.

    ``references`` are alternative right answers; ``expected`` are phrases that a right answer contains.
    ``verbatim``: the text is all that the model is told, nothing is searched. ``follows``: the id of the
    question that it goes on from, whose answer stands before it.
    """

    id: str
    text: str
    passages: tuple[str, ...] | None = None
    references: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    category: str = ""
    verbatim: bool = False
    follows: str | None = None


def load_questions(path: Path, limit: int | None = None) -> list[BenchQuestion]:
    """The first ``limit`` questions of a JSON Lines file.

    Every line is checked, those past the limit too; blank lines are skipped. Raises UsageError with file and
    line for a line that is no question, and for a file that holds none.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: nothing to compare", "give a limit of at least 1")
    questions = [_question(line) for line in read_lines(path, "--questions", FORM)]
    if not questions:
        raise UsageError(f"{path}: holds no questions", FORM)
    check_ids(path, questions)
    return questions[:limit]


def needs_index(questions: Iterable[BenchQuestion]) -> bool:
    """Whether any question comes without passages."""
    return any(question.passages is None and not question.verbatim for question in questions)


def select(
    questions: Sequence[BenchQuestion],
    categories: Sequence[str] = (),
    each: int | None = None,
    limit: int | None = None,
) -> list[BenchQuestion]:
    """The questions of some categories, the first ``each`` of each, of these the first ``limit``.

    Empty ``categories``: all. Follow-ups stay with their question and are not counted. Raises UsageError for
    a category that none of them has.
    """
    known = sorted({question.category for question in questions if question.category})
    for category in categories:
        if category not in known:
            near = difflib.get_close_matches(category, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            listed = f"categories: {', '.join(known)}" if known else "no question has a `category`"
            raise UsageError(f"--category {category}: no question is of that category", hint + listed)
    chosen: dict[str, BenchQuestion] = {}
    taken: Counter[str] = Counter()
    for question in questions:
        if question.follows is not None:
            if question.follows in chosen:
                chosen[question.id] = question
            continue
        if categories and question.category not in categories:
            continue
        if (each is None or taken[question.category] < each) and (limit is None or taken.total() < limit):
            chosen[question.id] = question
            taken[question.category] += 1
    return list(chosen.values())


def _question(line: Line) -> BenchQuestion:
    record, at, where = line
    check_unicode(record, where)
    text = record.get("question")
    if not isinstance(text, str):
        spec_bench = "question_id" in record and "turns" in record
        raise UsageError(f"{where}: no question", SPEC_BENCH if spec_bench else FORM)
    if not text.strip():
        raise UsageError(f"{where}: the question is empty", FORM)
    passages = _texts(record, "passages", where)
    if passages is not None and not any(passage.strip() for passage in passages):
        raise UsageError(f"{where}: no passage has text", "leave `passages` out to search the index")
    name = record.get("id")
    return BenchQuestion(
        f"line {at}" if name is None else str(name),
        text,
        passages,
        _texts(record, "reference", where) or (),
        _texts(record, "expected", where) or (),
        str(record.get("category") or ""),
    )


def check_unicode(record: object, where: str) -> None:
    """JSON can spell half a surrogate pair, which is no text and which no tokenizer takes."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"{where}: holds half of a surrogate pair", FORM) from error


def _texts(record: dict[str, object], key: str, where: str) -> tuple[str, ...] | None:
    """A text or a list of texts; None where the key is absent or null. Only passages must be a list."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, str) and key != "passages":
        return (value,)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise UsageError(f"{where}: `{key}` must be a list of texts", FORM)
    return tuple(value)


def check_ids(path: Path, questions: list[BenchQuestion]) -> None:
    """Raises UsageError where two questions have one id."""
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise UsageError(f"{path}: two questions have the id {question.id}", "give each its own id")
        seen.add(question.id)
