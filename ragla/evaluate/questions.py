"""Questions with what is known about them: JSON Lines as the handbook's, or a file in SQuAD's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ragla.bench.json_lines import Line, read_lines
from ragla.bench.questions import FORM, BenchQuestion, check_ids, load_questions
from ragla.errors import UsageError

SQUAD_FORM = 'SQuAD\'s form is {"data": [{"paragraphs": [{"context": "…", "qas": [{"question": "…"}]}]}]}'


class Found(Protocol):
    """What a gold place is compared with; ``ragla.retrieve.Passage`` is one."""

    @property
    def document_id(self) -> int: ...  # noqa: D102
    @property
    def path(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def first_line(self) -> int: ...  # noqa: D102
    @property
    def last_line(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Lines:
    """The answer stands in these lines of a file, or anywhere in it where none are given."""

    path: str
    first: int | None = None
    last: int | None = None

    @property
    def whole_document(self) -> bool:
        """Whether any passage of the document will do."""
        return self.first is None

    @property
    def document(self) -> Lines:
        """The whole file."""
        return Lines(self.path)

    def holds(self, passage: Found) -> bool:
        """Whether the passage shares a line with it; the index may know the file by a longer path."""
        if passage.path != self.path and not passage.path.endswith("/" + self.path):
            return False
        first, last = self.first, self.last if self.last is not None else self.first
        if first is None or last is None:
            return True
        return passage.first_line <= last and first <= passage.last_line


@dataclass(frozen=True)
class Paragraph:
    """The answer stands in this text, wherever it was indexed."""

    text: str
    whole_document = True

    @property
    def document(self) -> Paragraph:
        """Itself: a paragraph is a document."""
        return self

    def holds(self, passage: Found) -> bool:
        """Whether the passage is cut from the paragraph or holds it whole."""
        ours, its = _words(self.text), _words(passage.text)
        return its in ours or ours in its


@dataclass(frozen=True)
class EvalQuestion:
    """A question. ``gold``: where its answer stands, if that is known; ``answerable``: whether it has one."""

    asked: BenchQuestion
    gold: Lines | Paragraph | None
    answerable: bool = True


@dataclass(frozen=True)
class EvalFile:
    """The questions of one file, and the paragraphs it brings along."""

    path: Path
    questions: list[EvalQuestion]
    paragraphs: tuple[str, ...] = ()


def load_all(paths: Sequence[Path], limit: int | None = None) -> list[EvalFile]:
    """Each file's first ``limit`` questions; of several, ids begin with the file's name.

    Translations of one set number their questions alike. Raises UsageError.
    """
    files = [load_eval(path, limit) for path in paths]
    if len(files) > 1:
        files = [_renamed(file) for file in files]
    return files


def _renamed(file: EvalFile) -> EvalFile:
    questions = [
        replace(one, asked=replace(one.asked, id=f"{file.path.name}:{one.asked.id}"))
        for one in file.questions
    ]
    return replace(file, questions=questions)


def load_eval(path: Path, limit: int | None = None) -> EvalFile:
    """The first ``limit`` questions of a file and all its paragraphs.

    Raises UsageError, with the place, for a file of neither form and for one without questions.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: nothing to evaluate", "give a limit of at least 1")
    squad = _squad(path)
    if squad is not None:
        questions, paragraphs = _read_squad(path, squad)
        check_ids(path, [question.asked for question in questions])
        return EvalFile(path, questions[:limit], tuple(dict.fromkeys(paragraphs)))
    asked = load_questions(path)
    lines = read_lines(path, "QUESTIONS", FORM)
    return EvalFile(path, [_known(one, line) for one, line in zip(asked, lines, strict=True)][:limit])


def _known(asked: BenchQuestion, line: Line) -> EvalQuestion:
    record, _, where = line
    answerable = record.get("answerable", True)
    if not isinstance(answerable, bool):
        raise UsageError(f"{where}: `answerable` must be true or false", FORM)
    source = record.get("source")
    if source is not None and not isinstance(source, str):
        raise UsageError(f"{where}: `source` must be the path of a document", FORM)
    first, last = (record.get(key) for key in ("first_line", "last_line"))
    if any(isinstance(at, bool) or not isinstance(at, int | None) for at in (first, last)):
        raise UsageError(f"{where}: `first_line` and `last_line` must be numbers", FORM)
    return EvalQuestion(asked, None if source is None else Lines(source, first, last), answerable)


def _squad(path: Path) -> dict[str, Any] | None:
    """The content of a file that is one JSON object with ``data``; None for any other."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("data"), list) else None


def _read_squad(path: Path, content: dict[str, Any]) -> tuple[list[EvalQuestion], list[str]]:
    questions: list[EvalQuestion] = []
    paragraphs: list[str] = []
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                context = _text(paragraph["context"])
                paragraphs.append(context)
                questions += [_asked(record, context, len(questions) + 1) for record in paragraph["qas"]]
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise UsageError(
            f"{path}: not in SQuAD's form after {len(questions)} questions", SQUAD_FORM
        ) from error
    if not questions:
        raise UsageError(f"{path}: holds no questions", SQUAD_FORM)
    return questions, paragraphs


def _asked(record: dict[str, Any], context: str, number: int) -> EvalQuestion:
    answerable = not record.get("is_impossible", False)
    answers = [_text(answer["text"]) for answer in record.get("answers", [])]
    references = tuple(dict.fromkeys(answers)) if answerable else ()
    asked = BenchQuestion(
        str(record.get("id", f"question {number}")), _text(record["question"]), None, references
    )
    return EvalQuestion(asked, Paragraph(context) if answerable else None, answerable)


def _text(value: object) -> str:
    """A text that can be encoded. Raises TypeError, UnicodeEncodeError."""
    if not isinstance(value, str):
        raise TypeError
    value.encode("utf-8")
    return value


def _words(text: str) -> str:
    return " ".join(text.split())
