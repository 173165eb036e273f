"""What an evaluation found: the JSON that other programs may rely on, and lines for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ragla.evaluate.answers import AnswerScores
from ragla.evaluate.measures import Refusal
from ragla.evaluate.retrieval import RetrievalScores
from ragla.render import counted

SCHEMA = "ragla.eval/1"
NONE = "–"


@dataclass(frozen=True)
class EvalResult:
    """``files``: retrieval for each file of questions, by its name, where there are several.

    ``conditions``: what the numbers hold for.
    """

    questions: int
    passages: int
    conditions: dict[str, str]
    retrieval: RetrievalScores | None
    answers: dict[str, AnswerScores] = field(default_factory=dict)
    files: dict[str, RetrievalScores] = field(default_factory=dict)

    @property
    def refusal(self) -> Refusal | None:
        """Of the first decoder where questions were answered, else of retrieval alone."""
        for scores in self.answers.values():
            return scores.refusal
        return self.retrieval.refusal if self.retrieval else None

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers. Keys are kept within a schema version; new ones may come."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "questions": self.questions,
            "passages": self.passages,
            "conditions": self.conditions,
            "retrieval": ranks_json(self.retrieval),
        }
        if self.files:
            document["files"] = {name: {"retrieval": ranks_json(its)} for name, its in self.files.items()}
        if self.answers:
            document["answers"] = {name: answers_json(its) for name, its in self.answers.items()}
        document["refusal"] = refusal_json(self.refusal)
        return document


def ranks_json(scores: RetrievalScores | None) -> dict[str, Any]:
    """The numbers of each mode, how many questions they are of, and each question's ranks."""
    if scores is None:
        return {}
    modes: dict[str, Any] = {mode: asdict(ranks) for mode, ranks in scores.by_mode.items()}
    document = {**modes, "questions": scores.questions, "ranks": scores.ranks}
    if scores.lines_by_mode:
        strict: dict[str, Any] = {mode: asdict(ranks) for mode, ranks in scores.lines_by_mode.items()}
        document["lines"] = {**strict, "ranks": scores.line_ranks}
    return document


def answers_json(scores: AnswerScores) -> dict[str, Any]:
    """The numbers of a decoder and each of its answers."""
    return {
        "questions": scores.questions,
        "exact_match": scores.exact_match,
        "f1": scores.f1,
        "contains": scores.contains,
        "faithful": scores.faithful,
        "refusal": refusal_json(scores.refusal),
        "identical": list(scores.identical),
        "replies": [reply.to_json() for reply in scores.replies],
    }


def refusal_json(refusal: Refusal | None) -> dict[str, Any]:
    """Precision and recall, with the ids of both kinds of mistake."""
    return {"precision": None, "recall": None} if refusal is None else asdict(refusal)


def lines(result: EvalResult) -> Iterator[str]:
    """The same for a reader."""
    for name, scores in {**result.files, "": result.retrieval}.items():
        if scores is not None and scores.by_mode:
            yield from retrieval_lines(name, scores)
            yield ""
    if result.answers:
        yield from answer_lines(result.answers)
        yield ""
    refusal = result.refusal
    if refusal is not None:
        yield refusal_line(refusal)
    yield "; ".join(f"{key} {value}" for key, value in result.conditions.items()) + (
        f"; {counted(result.questions, 'question')}, {counted(result.passages, 'passage')}"
    )


def retrieval_lines(name: str, scores: RetrievalScores) -> Iterator[str]:
    """A table of the modes: the right document, and below it the right lines where they are known."""
    yield f"{name or 'retrieval':<24} {'recall@1':>9} {'@3':>7} {'@5':>7} {'MRR':>7} {'nDCG@10':>8}"
    for found, unit in ((scores.by_mode, ""), (scores.lines_by_mode, ", to the line")):
        for mode, ranks in found.items():
            numbers = (ranks.recall_at_1, ranks.recall_at_3, ranks.recall_at_5, ranks.mrr, ranks.ndcg_at_10)
            one, three, five, mrr, ndcg = map(_number, numbers)
            yield f"{mode + unit:<24} {one:>9} {three:>7} {five:>7} {mrr:>7} {ndcg:>8}"


def answer_lines(answers: dict[str, AnswerScores]) -> Iterator[str]:
    """A table of the decoders."""
    yield f"{'answers':<24} {'exact':>9} {'F1':>7} {'holds':>7} {'faithful':>9} {'same ids':>9}"
    for name, scores in answers.items():
        same, of = scores.identical
        ids = "–" if name == "remote" else f"{same}/{of}"  # a server tells none
        yield (
            f"{name:<24} {_number(scores.exact_match):>9} {_number(scores.f1):>7} "
            f"{_number(scores.contains):>7} {_number(scores.faithful):>9} {ids:>9}"
        )


def refusal_line(refusal: Refusal) -> str:
    """How questions without an answer fared."""
    wrong = [
        f"{title}: {', '.join(ids)}"
        for title, ids in (
            ("refused though answerable", refusal.wrongly_refused),
            ("answered though not answerable", refusal.wrongly_answered),
        )
        if ids
    ]
    numbers = (
        f"refusal: precision {_number(refusal.precision)}, recall {_number(refusal.recall)}, "
        f"{refusal.refused} refused"
    )
    return "; ".join([numbers, *wrong])


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"
