"""The document of an answer, ``ragla.ask/1``, read back: an ``Answer`` that looks as it did then.

A document may come from a stranger, so every value is checked before anything is made of it. Fields that are
not known are left alone: a later version may have more.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragla.answering import Answer
from ragla.decode.stats import DecodeStats, StepStats
from ragla.evidence import Source
from ragla.provenance import CopySpan
from ragla.remote.figures import ServerFigures
from ragla.unsupported import Unsupported

LARGEST = 1e12  # what is printed stays a number that a person can read

Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Seconds = Annotated[float, Field(ge=0, le=LARGEST)]


class Checked(BaseModel):
    """A part of a document: types as they must be, nothing converted."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class SourceDocument(Checked):
    """One of ``sources``."""

    number: Annotated[int, Field(ge=1, le=LARGEST)]
    path: str
    first_line: Whole
    last_line: Whole
    score: Number
    cited: bool
    copied_tokens: Whole | None
    stale: bool | None
    stale_reason: Literal["changed", "changed elsewhere", "gone"] | None

    def source(self) -> Source:
        """The source, without its passage: the index is elsewhere."""
        freshness = self.stale_reason if self.stale else None if self.stale is None else "same"
        return Source(
            self.number, self.path, self.first_line, self.last_line, self.score, self.cited,
            self.copied_tokens or 0, freshness=freshness,
        )  # fmt: skip


class SpanDocument(Checked):
    """One of ``provenance``."""

    start: Whole
    end: Whole
    path: str
    first_line: Whole
    last_line: Whole
    source_start: Whole
    source_end: Whole
    number: Annotated[int, Field(ge=1, le=LARGEST)]


class UnsupportedDocument(Checked):
    """One of ``unsupported``."""

    start: Whole
    end: Whole
    text: str
    kind: Literal["number", "name"]


class TokenDocument(Checked):
    """A token where two decodes part."""

    text: str
    logit: Number | None


class DifferenceDocument(Checked):
    """``verify.difference``."""

    position: Whole
    answer: TokenDocument | None
    plain: TokenDocument | None
    gap: Number | None
    tolerance: Number

    @model_validator(mode="after")
    def _gap_is_between_two(self) -> Self:
        logits = [token and token.logit for token in (self.answer, self.plain)]
        if self.gap is not None and None in logits:
            raise ValueError("gap: there are no two logits")
        return self


class VerifyDocument(Checked):
    """``verify``."""

    verdict: Literal["equal", "near-tie", "bug"]
    tokens: Whole
    dtype: str
    difference: DifferenceDocument | None


class StatsDocument(Checked):
    """``stats``; null for what a server elsewhere did not say."""

    prompt_tokens: Whole | None
    reused_tokens: Whole | None
    tokens: Whole | None
    steps: Whole | None
    tokens_per_step: Number | None
    nodes_per_step: Number | None
    decided_alone: Whole | None
    drafted: Whole | None
    accepted: Whole | None
    accepted_share: Number | None
    copied_share: Number | None
    prefill_s: Number | None
    ttft_s: Number
    retrieval_s: Number
    decode_s: Number

    def figures(self) -> ServerFigures:
        """What a server said."""
        return ServerFigures(**{one.name: getattr(self, one.name) for one in fields(ServerFigures)})


class StepDocument(Checked):
    """One of ``steps``."""

    drafted: Whole
    accepted: Whole
    committed: Whole
    forward_s: Seconds
    draft_s: Seconds


class AnswerDocument(Checked):
    """``ragla ask --json``, as far as it is shown again."""

    schema_: Literal["ragla.ask/1"] = Field(alias="schema")
    question: str
    answer: str
    answered: bool
    judged: Number | None
    interrupted: bool
    sources: list[SourceDocument]
    provenance: list[SpanDocument]
    unsupported: list[UnsupportedDocument]
    left_out: list[str]
    stats: StatsDocument
    steps: list[StepDocument]
    notices: list[str]
    verify: VerifyDocument | None = None
    remote: bool = False

    @model_validator(mode="after")
    def _only_a_server_is_silent(self) -> Self:
        known = [*dict(self.stats).values(), *(one.copied_tokens for one in self.sources)]
        if None in known and not self.remote:
            raise ValueError("stats: null, though no server elsewhere has answered")
        return self

    @model_validator(mode="after")
    def _stretches_are_of_the_answer(self) -> Self:
        for name, stretches in (("provenance", self.provenance), ("unsupported", self.unsupported)):
            last = 0
            for one in stretches:
                if one.start < last or not self.answer[one.start : one.end].strip():
                    raise ValueError(f"{name}: {one.start} to {one.end} is no next part of the answer")
                last = one.end
            if last > len(self.answer):
                raise ValueError(f"{name}: goes on behind the answer")
        return self

    def to_answer(self) -> Answer:
        """The answer, as far as a document tells: no token ids, no passages, nothing to decode again."""
        stats = self.stats
        tokens = stats.tokens or 0
        steps = [StepStats(**dict(step)) for step in self.steps]
        with_prompt = (0, 0)
        if not self.remote:  # a server elsewhere tells of no single step
            with_prompt = (
                (stats.drafted or 0) - sum(step.drafted for step in steps),
                (stats.accepted or 0) - sum(step.accepted for step in steps),
            )
        return Answer(
            self.question,
            self.answer,
            self.answered,
            sources=[one.source() for one in self.sources],
            stats=DecodeStats(
                prompt_tokens=stats.prompt_tokens or 0,
                reused=stats.reused_tokens or 0,
                tokens=tokens,
                copied=round((stats.copied_share or 0.0) * tokens),
                decided_alone=stats.decided_alone or 0,
                prefill_s=stats.prefill_s or 0.0,
                decode_s=stats.decode_s,
                prefill_drafted=with_prompt[0],
                prefill_accepted=with_prompt[1],
                steps=steps,
            ),
            ttft_s=stats.ttft_s,
            retrieval_s=stats.retrieval_s,
            left_out=self.left_out,
            interrupted=self.interrupted,
            notices=tuple(self.notices),
            judged=self.judged,
            provenance=tuple(CopySpan(**dict(span)) for span in self.provenance),
            unsupported=tuple(Unsupported(**dict(one)) for one in self.unsupported),
            figures=stats.figures() if self.remote else None,
        )
