"""Retrieval of real questions in two languages with the real embedder, on a sample of the paragraphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragla import models
from ragla.config import RetrieveSettings
from ragla.evaluate.corpus import write_corpus
from ragla.evaluate.questions import EvalFile, load_all
from ragla.evaluate.retrieval import RetrievalScores, evaluate_retrieval
from ragla.retrieve import Retriever, SentenceEmbedder, index_folders

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PARAGRAPHS = 24  # of 120 in each language, from the first on: several of each article
QUESTIONS = 30

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (DATA / "xquad_en.json").is_file(), reason="no XQuAD here"),
]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RetrievalScores]]:
    folder = tmp_path_factory.mktemp("xquad")
    files = [cut(file) for file in load_all([DATA / "xquad_en.json", DATA / "xquad_zh.json"])]
    write_corpus(files, folder / "corpus")
    settings = RetrieveSettings()
    embedder = SentenceEmbedder(models.locate(settings.embedder), settings.embedder)
    index_folders([folder / "corpus"], folder / "index", settings, embedder)
    retriever = Retriever.open(folder / "index", embedder)
    yield {
        file.path.stem: evaluate_retrieval(file.questions, retriever, settings.relevance_floor)
        for file in files
    }
    retriever.close()


def cut(file: EvalFile) -> EvalFile:
    """The first paragraphs and, evenly spread, some of their questions."""
    kept = file.paragraphs[:PARAGRAPHS]
    questions = [one for one in file.questions if getattr(one.gold, "text", None) in kept]
    step = len(questions) // QUESTIONS
    return EvalFile(file.path, questions[::step][:QUESTIONS], kept)


@pytest.mark.parametrize(("language", "first", "fifth"), [("xquad_en", 0.93, 1.0), ("xquad_zh", 0.87, 0.96)])
def test_the_blend_finds_the_paragraph(
    searched: dict[str, RetrievalScores], language: str, first: float, fifth: float
) -> None:
    hybrid = searched[language].by_mode["hybrid"]
    assert searched[language].questions == QUESTIONS
    assert hybrid.recall_at_1 >= first
    assert hybrid.recall_at_5 >= fifth


@pytest.mark.parametrize("language", ["xquad_en", "xquad_zh"])
def test_the_blend_is_not_worse_than_either_side(searched: dict[str, RetrievalScores], language: str) -> None:
    found = searched[language].by_mode
    one_question = 1 / QUESTIONS
    for side in ("dense", "lexical"):
        assert found["hybrid"].recall_at_1 >= found[side].recall_at_1 - one_question - 1e-9
        assert found["hybrid"].recall_at_5 >= found[side].recall_at_5 - one_question - 1e-9


def test_the_dense_side_cannot_read_chinese_and_does_no_harm(searched: dict[str, RetrievalScores]) -> None:
    found = searched["xquad_zh"].by_mode
    assert found["dense"].recall_at_1 < 0.7 < found["hybrid"].recall_at_1
