"""Where the right passage stands among those found, for each way of searching."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragla.bench.run import OnProgress, ignore_progress
from ragla.evaluate.measures import Ranks, Refusal
from ragla.evaluate.questions import EvalQuestion, Found, Lines, Paragraph

if TYPE_CHECKING:
    from ragla.retrieve.retriever import Retriever

DEPTH = 50  # passages looked at for the right one


@dataclass(frozen=True)
class RetrievalScores:
    """The ``ranks`` of the right document, by mode and question; None where it was not found.

    ``line_ranks``: of the right lines, where a question names them, which is harder. ``outcomes``: id,
    answerable and refused of every question, those without a known place, too.
    """

    ranks: dict[str, dict[str, int | None]]
    line_ranks: dict[str, dict[str, int | None]]
    outcomes: list[tuple[str, bool, bool]]

    @property
    def by_mode(self) -> dict[str, Ranks]:
        """For dense, lexical and hybrid search; empty where no right place is known."""
        return {mode: Ranks.of(list(its.values())) for mode, its in self.ranks.items() if its}

    @property
    def lines_by_mode(self) -> dict[str, Ranks]:
        """The same of lines; empty where no question names any."""
        return {mode: Ranks.of(list(its.values())) for mode, its in self.line_ranks.items() if its}

    @property
    def questions(self) -> int:
        """How many questions have a known place."""
        return max((len(its) for its in self.ranks.values()), default=0)

    @property
    def refusal(self) -> Refusal:
        """How well the relevance floor told questions without an answer from others."""
        return Refusal.of(self.outcomes)

    def part(self, questions: Iterable[EvalQuestion]) -> RetrievalScores:
        """The same for some of the questions."""
        ids = {question.asked.id for question in questions}
        ranks, line_ranks = (
            {mode: {name: rank for name, rank in its.items() if name in ids} for mode, its in found.items()}
            for found in (self.ranks, self.line_ranks)
        )
        return RetrievalScores(ranks, line_ranks, [one for one in self.outcomes if one[0] in ids])


def evaluate_retrieval(
    questions: Sequence[EvalQuestion],
    retriever: Retriever,
    floor: float,
    on_progress: OnProgress = ignore_progress,
) -> RetrievalScores:
    """Search for every question in every mode; a question is refused where no passage reaches ``floor``."""
    ranks: dict[str, dict[str, int | None]] = {}
    line_ranks: dict[str, dict[str, int | None]] = {}
    outcomes = []
    for number, question in enumerate(questions, 1):
        on_progress(number, len(questions), "searching")
        asked = question.asked
        found = retriever.explain(asked.text, DEPTH)
        for mode, passages in retriever.rankings(found).items():
            if question.gold is None:
                continue
            ranks.setdefault(mode, {})[asked.id] = rank(question.gold.document, passages)
            if not question.gold.whole_document:
                line_ranks.setdefault(mode, {})[asked.id] = rank(question.gold, passages)
        refused = not any(scored.score >= floor for scored in found.kept)
        outcomes.append((asked.id, question.answerable, refused))
    return RetrievalScores(ranks, line_ranks, outcomes)


def rank(gold: Lines | Paragraph, passages: Sequence[Found]) -> int | None:
    """The rank of the first right passage, from 1; None where none is right.

    Where a whole document is right, documents are ranked, each by its best passage.
    """
    position = 0
    seen: set[int] = set()
    for passage in passages:
        if gold.whole_document and passage.document_id in seen:
            continue
        seen.add(passage.document_id)
        position += 1
        if gold.holds(passage):
            return position
    return None
