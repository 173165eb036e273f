"""Reads Spec-Bench's own question file (arXiv 2401.07851): ``question_id``, ``category``, ``turns``.

The model is told each turn's text as it stands there, inside its chat template, as Spec-Bench does it; the
questions of category ``rag`` carry their passages in that text, one a line, and the question in the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragla.bench.json_lines import Line, read_lines
from ragla.bench.questions import BenchQuestion, check_ids, check_unicode
from ragla.errors import UsageError

RAG = "rag"
OTHER_FORM = "these are questions of another form: --questions FILE.jsonl"
FORM = 'each line is a JSON object like {"question_id": 1, "category": "qa", "turns": ["Who …?"]}'


def load_spec_bench(path: Path, *, split_passages: bool = False) -> list[BenchQuestion]:
    """The questions of a file, each turn after the first as a question that follows the one before it.

    ``split_passages``: questions of category ``rag`` get their passages in ragla's own prompt. Raises
    UsageError with file and line for a line of another form, and for a file that holds none.
    """
    questions = [question for line in read_lines(path, "--spec-bench", FORM) for question in _turns(line)]
    if not questions:
        raise UsageError(f"{path}: holds no questions", FORM)
    check_ids(path, questions)
    return [split(question) for question in questions] if split_passages else questions


def split(question: BenchQuestion) -> BenchQuestion:
    """The same question with its passages apart, if it is one that carries passages."""
    *passages, text = question.text.strip().split("\n")
    if question.category != RAG or not any(passage.strip() for passage in passages):
        return question
    return replace(question, text=text, passages=tuple(passages), verbatim=False)


def _turns(line: Line) -> Iterator[BenchQuestion]:
    record, _, where = line
    check_unicode(record, where)
    name, category, turns = record.get("question_id"), record.get("category"), record.get("turns")
    if not isinstance(name, (int, str)) or isinstance(name, bool):
        other = isinstance(record.get("question"), str) and "turns" not in record
        raise UsageError(f"{where}: no `question_id`", OTHER_FORM if other else FORM)
    if not isinstance(category, str) or not category.strip():
        raise UsageError(f"{where}: no `category`", FORM)
    if not isinstance(turns, list) or not turns:
        raise UsageError(f"{where}: no `turns`", FORM)
    if not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise UsageError(f"{where}: each of `turns` must be a text", FORM)
    references = _references(record.get("reference"), len(turns), where)
    before = None
    for number, (text, right) in enumerate(zip(turns, references, strict=True), 1):
        own = str(name) if number == 1 else f"{name}/{number}"
        yield BenchQuestion(
            own, text, references=right, category=category.strip(), verbatim=True, follows=before
        )
        before = own


def _references(value: Any, turns: int, where: str) -> list[tuple[str, ...]]:
    """The right answers to each turn: ``reference`` has a text or a list of alternatives for each."""
    if value is None:
        return [()] * turns
    if not isinstance(value, list):
        raise UsageError(f"{where}: `reference` must be a list", FORM)
    found = []
    for entry in value[:turns]:
        texts = entry if isinstance(entry, list) else [entry]
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(f"{where}: `reference` must hold texts", FORM)
        found.append(tuple(text for text in texts if text.strip()))
    return [*found, *[()] * (turns - len(found))]
