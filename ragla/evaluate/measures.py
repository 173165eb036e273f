"""Measures of retrieval, refusal and answers; every number of an evaluation is defined here."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from ragla.bench.quality import TOKEN, contains, token_f1
from ragla.prompt import CITATION

NDCG_DEPTH = 10
ARTICLES = frozenset(("a", "an", "the"))
SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’»)]*\s+|(?<=[。！？])|\n+")
EDGES = " \t\"'“”‘’«»「」*_-–—>"


@dataclass(frozen=True)
class Ranks:
    """How well answers were found. One place is right for each question, so recall@k is success@k.

    ``mrr``: mean of 1 / rank. ``ndcg_at_10``: mean of 1 / log2(1 + rank), 0 past rank 10.
    """

    recall_at_1: float
    recall_at_3: float
    recall_at_5: float
    mrr: float
    ndcg_at_10: float

    @classmethod
    def of(cls, ranks: Sequence[int | None]) -> Ranks:
        """``ranks``: of the right place for each question, from 1; None where it was not found at all."""
        at = [math.inf if rank is None else rank for rank in ranks]
        return cls(
            mean(float(rank <= 1) for rank in at),
            mean(float(rank <= 3) for rank in at),
            mean(float(rank <= 5) for rank in at),
            mean(1 / rank for rank in at),
            mean(1 / math.log2(1 + rank) if rank <= NDCG_DEPTH else 0.0 for rank in at),
        )


@dataclass(frozen=True)
class Refusal:
    """How well questions without an answer were told from others.

    ``precision``: of those refused, the share without an answer; ``recall``: of those without an answer,
    the share refused. None where there is nothing to take a share of. Ids of both kinds of mistake.
    """

    precision: float | None
    recall: float | None
    refused: int
    wrongly_refused: tuple[str, ...]
    wrongly_answered: tuple[str, ...]

    @classmethod
    def of(cls, outcomes: Sequence[tuple[str, bool, bool]]) -> Refusal:
        """``outcomes``: id, answerable, refused."""
        refused = [answerable for _, answerable, was_refused in outcomes if was_refused]
        unanswerable = [was_refused for _, answerable, was_refused in outcomes if not answerable]
        return cls(
            refused.count(False) / len(refused) if refused else None,
            sum(unanswerable) / len(unanswerable) if unanswerable else None,
            len(refused),
            tuple(name for name, answerable, was_refused in outcomes if answerable and was_refused),
            tuple(name for name, answerable, was_refused in outcomes if not answerable and not was_refused),
        )


@dataclass(frozen=True)
class Quality:
    """Of one answer, 0 to 1; ``faithful`` None where nothing was said."""

    exact_match: float
    f1: float
    contains: float
    faithful: float | None


def quality(
    text: str, expected: Sequence[str], references: Sequence[str], passages: Sequence[str]
) -> Quality:
    """How an answer agrees with references and passages; numbers of passages in it are not read.

    Without references, phrases that are expected stand for them in exact match and F1.
    """
    said = CITATION.sub("", text).strip()
    right = references or expected
    return Quality(
        max((float(_normal(said) == _normal(one)) for one in right), default=0.0),
        token_f1(said, right) if right else 0.0,
        contains(said, expected, references),
        faithfulness(said, passages),
    )


def faithfulness(text: str, passages: Sequence[str]) -> float | None:
    """The share of the text's sentences that stand in a passage, but for quotes, dashes and white space."""
    haystacks = [_plain(passage) for passage in passages]
    sentences = [_plain(sentence.strip(EDGES)) for sentence in SENTENCE_END.split(text)]
    said = [sentence.rstrip(".。!！") for sentence in sentences if TOKEN.search(sentence)]
    if not said:
        return None
    return mean(float(any(sentence in haystack for haystack in haystacks)) for sentence in said)


def _normal(text: str) -> list[str]:
    """Words without case, punctuation and English articles, as SQuAD compares (arXiv 1606.05250)."""
    return [token for token in TOKEN.findall(text.casefold()) if token not in ARTICLES]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
