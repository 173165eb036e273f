"""A recording, ``ragla.recording/1``: an answer, when each piece of it came, each step's draft tree.

``ragla ask --record`` writes it, ``ragla replay`` shows it. It may come from a stranger: it is bounded, and
nothing is made of it before all of it was checked.
"""

from __future__ import annotations

import re
import sys
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from ragla.answer_document import AnswerDocument, Checked, Number, Seconds, Whole
from ragla.answering import Answer
from ragla.errors import UsageError
from ragla.user_path import user_path

SCHEMA = "ragla.recording/1"
NAME = re.compile(r"ragla\.recording/(\d{1,9})")
STDIN = "-"
MOST_BYTES = 64 << 20
MOST_NODES = 1024  # of a step's tree
HOW = "record one: ragla ask QUESTION --record FILE"

Kind = Literal["prompt", "document", "passage", "answer", "earlier answer"]


class OriginRecord(Checked):
    """Where a token was read, as ``ragla.trace.origin_record`` writes it."""

    kind: Kind
    path: str | None
    token: Whole


class StepRecord(Checked):
    """A step: its draft tree as ``ragla.trace.step_record`` writes it, and when it was verified."""

    step: int
    at_s: Seconds
    token_ids: Annotated[list[Whole], Field(min_length=1, max_length=MOST_NODES)]
    texts: list[str]
    parents: list[int]
    probabilities: list[Number]
    origins: list[OriginRecord | None]
    accepted: list[int]

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        nodes = len(self.token_ids)
        lists: tuple[list[Any], ...] = (self.texts, self.parents, self.probabilities, self.origins)
        if any(len(found) != nodes for found in lists):
            raise ValueError("its lists differ in length")
        if self.parents[0] != -1 or any(not 0 <= up < at for at, up in enumerate(self.parents[1:], 1)):
            raise ValueError("parents are no tree")
        if any(not 0 < node < nodes for node in self.accepted):
            raise ValueError("accepted names nodes that are not there")
        return self


class PieceRecord(Checked):
    """Text that came at once, and when."""

    at_s: Seconds
    text: str


class Recording(Checked):
    """A file's content. ``document``: what ``ragla ask --json`` gave for the answer, word for word."""

    schema_: Literal["ragla.recording/1"] = Field(alias="schema")
    ragla: str
    recorded: str
    profile: str
    model: str
    checked: AnswerDocument = Field(alias="answer")
    document: dict[str, Any]
    pieces: list[PieceRecord]
    steps: list[StepRecord]

    @field_validator("recorded")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        datetime.fromisoformat(text)
        return text

    @model_validator(mode="after")
    def _tells_one_answer(self) -> Self:
        if "".join(piece.text for piece in self.pieces) != self.answer.text:
            raise ValueError("pieces are not the text of the answer")
        first = 0 if self.steps and self.steps[0].step == 0 else 1  # 0: what was verified with the prompt
        if self.steps and len(self.steps) != len(self.answer.stats.steps) + 1 - first:
            raise ValueError("steps are not those of the answer")
        if any(step.step != number for number, step in enumerate(self.steps, first)):
            raise ValueError("steps are out of order")
        moments: tuple[list[Any], ...] = (self.pieces, self.steps)
        if any(later.at_s < one.at_s for row in moments for one, later in pairwise(row)):
            raise ValueError("time goes backwards")
        return self

    @cached_property
    def answer(self) -> Answer:
        """The answer, as far as its document tells."""
        return self.checked.to_answer()

    @property
    def verify(self) -> dict[str, Any] | None:
        """Whether plain decoding gave the same, where that was asked, as ``ragla ask --json`` tells it."""
        found = self.checked.verify
        return None if found is None else found.model_dump()

    @property
    def day_and_time(self) -> str:
        """When it was recorded, to the minute."""
        return f"{datetime.fromisoformat(self.recorded):%Y-%m-%d %H:%M}"


def read_recording(name: str) -> Recording:
    """The recording in a file, on stdin for ``-``. Raises UsageError for what is none."""
    shown = "stdin" if name == STDIN else name
    content = _content(name)
    if len(content) > MOST_BYTES:
        raise UsageError(f"{shown}: larger than any recording", HOW)
    try:
        found = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise UsageError(f"{shown}: no recording, or one that was cut off: {error}", HOW) from error
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        known = NAME.fullmatch(schema) if isinstance(schema, str) else None
        if known is not None and int(known[1]) > 1:
            raise UsageError(
                f"{shown}: {schema} is of a later ragla than this one", "update it: pip install -U ragla"
            )
        raise UsageError(f"{shown}: no recording of an answer", HOW)
    try:
        return Recording.model_validate(found | {"document": found.get("answer")})
    except ValidationError as error:
        raise UsageError(f"{shown}: a damaged recording: {reason(error)}", HOW) from error


def _content(name: str) -> bytes:
    """A byte more than there may be at most."""
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError("there is no stdin to read a recording from", "ragla replay FILE")
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        with user_path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}", HOW) from error


def reason(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    said = first["msg"].removeprefix("Value error, ")
    return f"{place}: {said}" if place else said
