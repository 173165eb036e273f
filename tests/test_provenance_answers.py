"""On the handbook's questions, what answers copy is attributed, and nothing else is.

Two short answers by default; ``RAGLA_PROVENANCE=40 pytest -s tests/test_provenance_answers.py`` asks all
questions and says what was found, ``RAGLA_PROVENANCE_PROFILE=offline`` asks the model of another profile.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla import models, profiles, session
from ragla.answer import Answerer
from ragla.config import Profile
from ragla.errors import ModelUnavailable
from ragla.evaluate.questions import load_eval
from ragla.retrieve import Retriever, index_folders
from tests.verbatim import attributed, check_spans, verbatim

HANDBOOK = Path(__file__).parents[1] / "corpora" / "handbook"
QUESTIONS = int(os.environ.get("RAGLA_PROVENANCE", "0"))
PROFILE = os.environ.get("RAGLA_PROVENANCE_PROFILE", "tiny")
SHORT = {"decode.max_new_tokens": 40, "prompt.token_budget": 448}
SOME = ("h05", "h31")
LEAST_SHARE = 0.95


def profile() -> Profile:
    flags = {"decode.cost_aware": False, "decode.draft_budget": 8, **({} if QUESTIONS else SHORT)}
    return profiles.load(flags, PROFILE, environ={}).profile


@pytest.mark.real
def test_what_is_copied_from_the_handbook_is_attributed(tmp_path: Path) -> None:
    try:
        models.locate(profile().decode.model)
    except ModelUnavailable as error:
        pytest.skip(f"{error}: {error.hint}")
    embedder = HashingEmbedder()
    index_folders([HANDBOOK], tmp_path / "index", profile().retrieve, embedder)
    asked = load_eval(HANDBOOK / "questions.jsonl").questions
    asked = asked[:QUESTIONS] if QUESTIONS else [one for one in asked if one.asked.id in SOME]
    retriever = Retriever.open(tmp_path / "index", embedder)
    answerer = Answerer(profile(), session.open_target(profile()))
    settings = profile().retrieve
    copied = found = 0
    for question in asked:
        passages = retriever.search(question.asked.text, settings.top_k, settings.relevance_floor)
        answer = answerer.ask(question.asked.text, retriever)
        documents = {hit.passage.path: retriever.document_text(hit.passage.document_id) for hit in passages}
        check_spans(answer.text, answer.provenance, documents)
        spans = attributed(answer.provenance)
        for span in answer.provenance:  # each lies in the passage it names
            source = answer.sources[span.number - 1]
            assert source.path == span.path
            assert source.first_line <= span.first_line <= span.last_line <= source.last_line
        texts = [hit.passage.text for hit in passages]
        there = verbatim(answer.text, texts) if answer.answered else set()
        copied += len(there)
        found += len(there & spans)
        read = "\n".join(source.passage.text for source in answer.sources if source.passage)
        for one in answer.unsupported:
            assert not re.search(rf"(?<!\w){re.escape(one.text)}(?!\w)", read)
    sys.stdout.write(f"{copied} characters stand verbatim in a passage, {found} of them are attributed\n")
    assert copied > 30 * len(asked)
    assert found >= LEAST_SHARE * copied
