"""Records real greedy answers as transcripts, to replay drafting rules on without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ragla.answer import Answerer
from ragla.bench.decoders import check_settings, request_for
from ragla.bench.questions import BenchQuestion
from ragla.bench.run import OnProgress, ignore_progress
from ragla.bench.tasks import Task, prepare_tasks
from ragla.bench.transcripts import Transcript, TranscriptFile
from ragla.config import Profile
from ragla.decode.greedy import greedy
from ragla.decode.model import TargetModel
from ragla.decode.stats import DecodeStats
from ragla.decode.verify import best_ids
from ragla.errors import UsageError

if TYPE_CHECKING:
    from ragla.retrieve.retriever import Retriever

CATEGORY = "rag"


def record(
    profile: Profile,
    target: TargetModel,
    questions: Sequence[BenchQuestion],
    file: TranscriptFile,
    retriever: Retriever | None = None,
    on_progress: OnProgress = ignore_progress,
) -> list[str]:
    """Answer every question by the plain loop and write each answer as soon as it is whole.

    Returns the ids of the questions for which the index holds nothing relevant. Raises UsageError for an
    empty set and for settings that do not decode greedily, and what preparing the prompts raises.
    """
    check_settings(profile.decode, [])
    if not questions:
        raise UsageError("there are no questions to record answers to", "--questions FILE.jsonl")
    answerer = Answerer(profile, target)
    tasks, unanswered = prepare_tasks(questions, answerer, retriever)
    for number, task in enumerate(tasks, 1):
        on_progress(number, len(tasks), "recording")
        file.write(transcript(task, answerer))
    return unanswered


def transcript(task: Task, answerer: Answerer) -> Transcript:
    """One greedy answer with the ids the model ranked best at each of its positions."""
    request = request_for(answerer, task.prepared)
    rows: list[tuple[int, ...]] = []

    def note(logits: torch.Tensor) -> None:
        rows.append(tuple(best_ids(logits[None])[0]))

    blocks = greedy(answerer.target.backend, request, DecodeStats(), note)
    token_ids = [token for block in blocks for token in block.token_ids]
    if token_ids[-1] in request.end_ids:
        token_ids.pop()
    return Transcript(task.question.id, CATEGORY, tuple(request.prompt_ids), tuple(token_ids), tuple(rows))
