"""Question and passage read together: a cross-encoder from a local folder orders the best of the blend anew.

It knows texts and a model; it knows no index, and never the network.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ragla.errors import ModelUnavailable
from ragla.retrieve.blend import Parts
from ragla.retrieve.passage import Passage, ScoredPassage

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_BATCH = 16  # pairs; of 512 tokens each a small model then takes some hundred megabytes
_ARCHITECTURE = "ForSequenceClassification"


class Reranker(Protocol):
    """What a search needs from a model that reads question and passage together."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def scores(self, question: str, passages: Sequence[str]) -> tuple[list[float], list[bool]]:
        """For each passage, how well it answers, 0 to 1, and whether not all of the pair could be read."""
        ...


class CrossEncoderReranker:
    """A sentence-transformers cross-encoder read from ``folder``; ``name`` is what users call it.

    Raises ModelUnavailable when the folder holds no such model or it cannot be loaded.
    """

    def __init__(self, folder: Path, name: str, device: str | None = None) -> None:
        self.name = name
        _check(folder, name)
        self._model = _load(folder, name, device)
        if self._model.num_labels != 1:
            raise ModelUnavailable(
                f"{name}: gives {self._model.num_labels} numbers for a pair, a reranker gives one",
                hint="choose a cross-encoder with one label, or set retrieve.reranker to null",
            )

    def scores(self, question: str, passages: Sequence[str]) -> tuple[list[float], list[bool]]:
        """Scores in [0, 1], and which pairs were cut at the model's limit, the longer text first.

        The model's own activation makes the score; where that leaves the logit as it is, the sigmoid.
        """
        from torch import nn

        if not passages:
            return [], []
        own = self._model.activation_fn
        made = self._model.predict(
            [(question, passage) for passage in passages],
            batch_size=_BATCH,
            activation_fn=nn.Sigmoid() if isinstance(own, nn.Identity) else own,
            show_progress_bar=False,
        )
        return [min(1.0, max(0.0, float(score))) for score in made], self._cut(question, passages)

    def _cut(self, question: str, passages: Sequence[str]) -> list[bool]:
        limit, tokenizer = self._model.max_seq_length, self._model.tokenizer
        if limit is None:
            return [False] * len(passages)
        pairs = tokenizer([question] * len(passages), list(passages), truncation=False, verbose=False)
        return [len(ids) > limit for ids in pairs["input_ids"]]


@dataclass(frozen=True)
class Reranked:
    """What a reranker made of the best passages of one search.

    ``scores`` by chunk id; ``cut``: how many of the pairs were longer than the model reads.
    """

    model: str
    scores: dict[int, float]
    cut: int


def rerank(
    reranker: Reranker, question: str, parts: Sequence[Parts], passages: dict[int, Passage], depth: int
) -> Reranked:
    """Let ``reranker`` score the first ``depth`` passages of the blend, each with its headings."""
    first = [passages[part.chunk_id] for part in parts[:depth]]
    texts = [f"{passage.title}\n{passage.text}" if passage.title else passage.text for passage in first]
    scores, cut = reranker.scores(question, texts)
    by_id = {passage.id: score for passage, score in zip(first, scores, strict=True)}
    return Reranked(reranker.name, by_id, sum(cut))


def in_order(
    parts: Sequence[Parts], passages: dict[int, Passage], reranked: Reranked | None
) -> tuple[list[ScoredPassage], list[ScoredPassage]]:
    """The passages best first, and those that a reranker did not read: their score means something else."""
    blended = [
        ScoredPassage(passages[part.chunk_id], part.score, part.cosine, part.lexical) for part in parts
    ]
    if reranked is None:
        return blended, []
    read = [
        replace(one, score=score, reranked=score)
        for one in blended
        if (score := reranked.scores.get(one.passage.id)) is not None
    ]
    read.sort(key=lambda one: -one.score)  # stable: equals stay in the blend's order
    return read, [one for one in blended if one.passage.id not in reranked.scores]


def _check(folder: Path, name: str) -> None:
    """Raises ModelUnavailable for what is no such model; the library would give it a head of chance."""
    try:
        made = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures") or [""]
        known = str(made[0]).endswith(_ARCHITECTURE)
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        known = False
    if not known:
        raise ModelUnavailable(
            f"{name}: no cross-encoder in {folder} (config.json names no …{_ARCHITECTURE})",
            hint="name the folder of a cross-encoder, or set retrieve.reranker to null",
        )


def _load(folder: Path, name: str, device: str | None) -> CrossEncoder:
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw on stderr
    try:
        model: CrossEncoder = CrossEncoder(str(folder.resolve()), device=device, local_files_only=True)
    except Exception as error:  # loaders raise whatever their file formats raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelUnavailable(
            f"{name}: cannot be loaded from {folder}: {reason}",
            hint="fetch it again, or set retrieve.reranker to null",
        ) from error
    return model
