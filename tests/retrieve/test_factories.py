"""Indexes other than flat: what they need, what they find, what becomes of them when something changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import UsageError
from ragla.retrieve import Retriever
from ragla.retrieve.dense import Blocks, DenseIndex, check_factory
from ragla.retrieve.dense_trial import try_factory
from ragla.retrieve.filters import Filters
from ragla.retrieve.local_passages import load_dense
from ragla.retrieve.statistics import index_statistics
from ragla.retrieve.store import Store

DIMENSION = 32
FACTORIES = ["HNSW32", "IVF16,Flat", "IVF16,PQ16", "IVF16,SQ8", "SQ8", "PCA16,IVF8,Flat", "IVF16,PQ16,RFlat"]


def clustered(count: int, seed: int = 0) -> np.ndarray:
    """Unit vectors around centres, as texts about topics have."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(40, DIMENSION))
    vectors = centres[random.integers(0, 40, count)] + 0.4 * random.normal(size=(count, DIMENSION))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS = clustered(3_000)
IDS = np.arange(3_000) * 2 + 5


def blocks(size: int = 700) -> Blocks:
    return lambda: ((IDS[at : at + size], VECTORS[at : at + size]) for at in range(0, len(IDS), size))


@pytest.mark.parametrize("factory", FACTORIES)
def test_nearly_all_of_the_ten_nearest_are_among_fifty(
    factory: str, capfd: pytest.CaptureFixture[str]
) -> None:
    index = DenseIndex.build(blocks(), len(IDS), DIMENSION, factory)
    assert (index.count, index.is_exact) == (3_000, False)
    shares = []
    for query in clustered(30, seed=1):
        nearest = {int(IDS[at]) for at in np.argsort(-(VECTORS @ query))[:10]}
        shares.append(len(nearest & {one for one, _ in index.search(query, 50)}) / 10)
    assert np.mean(shares) > (0.85 if "PQ" in factory or "PCA" in factory else 0.95)
    assert capfd.readouterr().err == ""  # FAISS says on stderr that it had few points to train with


def test_search_parameters_are_chosen_and_can_be_set() -> None:
    import faiss

    def probed(parameters: str) -> int:
        index = DenseIndex.build(blocks(), len(IDS), DIMENSION, "IVF64,Flat", parameters)
        return int(faiss.extract_index_ivf(index._index).nprobe)

    assert probed("") == 4
    assert probed("nprobe=64") == 64


@pytest.mark.parametrize(
    ("factory", "parameters", "named"),
    [
        ("Nonsense", "", "Nonsense"),
        ("", "", "retrieve.faiss_index ''"),
        ("PQ7", "", "PQ7"),
        ("Flat", "nprobe=3", "nprobe=3"),
        ("IVF4,Flat", "efSearch=3", "efSearch=3"),
        ("IVF4,Flat", "nprobe=many", "nprobe=many"),
        ("IVF4,Flat", "nprobe", "nprobe"),
    ],
)
def test_what_faiss_does_not_know_is_named_before_anything_is_read(
    factory: str, parameters: str, named: str, folder: Path, index: Callable[..., object],
    embedder: HashingEmbedder,
) -> None:  # fmt: skip
    with pytest.raises(UsageError, match=named) as caught:
        check_factory(factory, parameters, DIMENSION)
    assert "set retrieve.faiss_" in str(caught.value.hint) or "retrieve.faiss_search" in str(
        caught.value.hint
    )
    with pytest.raises(UsageError):
        index(settings=RetrieveSettings(faiss_index=factory, faiss_search=parameters))
    assert embedder.texts == []


@pytest.mark.parametrize(("factory", "least"), [("IVF1000,Flat", "1,000"), ("PQ4", "256")])
def test_too_few_passages_to_train_with_are_said_and_nothing_is_lost(
    factory: str, least: str, index: Callable[..., object], found: Callable[[str], list[str]]
) -> None:
    with pytest.raises(UsageError, match=rf"{factory}.* {least} passages .*there are 3") as caught:
        index(settings=RetrieveSettings(faiss_index=factory))
    assert caught.value.hint == "set retrieve.faiss_index to Flat"
    assert found("boats")
    index()  # goes on where it was
    assert found("boats")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Three hundred documents of a passage each, half of them about boats."""
    root = tmp_path / "many"
    root.mkdir()
    for number in range(300):
        what = (
            f"boat number{number} at pier{number % 7}" if number % 2 else f"train word{number} second class"
        )
        (root / f"{number}.{'txt' if number % 3 else 'md'}").write_text(f"The {what}.\n", encoding="utf-8")
    return root


@pytest.mark.parametrize("factory", ["HNSW16", "IVF8,Flat", "IVF4,PQ8x4"])
def test_an_index_is_searched_filtered_changed_and_searched_again(
    factory: str, many: Path, tmp_path: Path, index: Callable[..., object], embedder: HashingEmbedder
) -> None:
    settings = RetrieveSettings(faiss_index=factory)
    index([many], settings)
    assert index_statistics(tmp_path / "index").dense.is_current
    retriever = Retriever.open(tmp_path / "index", embedder)
    assert retriever.search("boat number77", 1)[0].passage.path == "77.txt"
    of_type = retriever.explain("boat number77", 5, filters=Filters(types=("md",)))
    assert {found.passage.path.rpartition(".")[2] for found in of_type.kept} == {"md"}
    # among few all are compared: what a filter leaves is in the order of its cosines, none missing
    every = [
        part.cosine
        for part in sorted(of_type.parts, key=lambda part: of_type.by_cosine.index(part.chunk_id))
        if part.chunk_id in of_type.by_cosine
    ]
    assert every == sorted(every, reverse=True)
    assert retriever.places("boat number77", retriever.search("number298", 1)[0].passage.document_id)
    (many / "77.txt").unlink()
    (many / "new.txt").write_text("The boat numbernew arrives.\n", encoding="utf-8")
    index([many], settings)
    assert retriever.search("numbernew", 1)[0].passage.path == "new.txt"
    assert "77.txt" not in {found.passage.path for found in retriever.search("boat number77", 50)}
    retriever.close()


def test_another_factory_or_parameter_writes_the_file_alone(
    folder: Path, tmp_path: Path, index: Callable[..., object], embedder: HashingEmbedder
) -> None:
    index()
    embedded = len(embedder.texts)
    for settings in (
        RetrieveSettings(faiss_index="HNSW8"),
        RetrieveSettings(faiss_index="HNSW8", faiss_search="efSearch=99"),
        RetrieveSettings(),
    ):
        before = index_statistics(tmp_path / "index")
        index(settings=settings)
        after = index_statistics(tmp_path / "index")
        record = after.dense.record
        assert record is not None
        assert (record.factory, record.parameters) == (settings.faiss_index, settings.faiss_search)
        assert record != before.dense.record
        assert after.generation == before.generation
        assert after.dense.is_current
    assert len(embedder.texts) == embedded


def test_an_index_is_tried_on_a_sample(many: Path, tmp_path: Path, index: Callable[..., object]) -> None:
    index([many])
    trial = try_factory(tmp_path / "index", "IVF4,Flat", "nprobe=4", sample=100, asked=25)
    assert (trial.factory, trial.parameters, trial.passages) == ("IVF4,Flat", "nprobe=4", 300)
    assert 50 < trial.sample <= 100
    assert trial.recall == 1.0  # all lists are looked at
    assert try_factory(tmp_path / "index", "IVF64,Flat", "nprobe=1", 100, 25).recall < 0.9
    assert trial.ms > 0
    with pytest.raises(UsageError, match="10,000"):
        try_factory(tmp_path / "index", "IVF10000,Flat")


def test_too_few_passages_to_try_on_are_said(tmp_path: Path, index: Callable[..., object]) -> None:
    index()
    with pytest.raises(UsageError, match="3 passages are too few"):
        try_factory(tmp_path / "index", "HNSW8")


def test_a_lost_file_is_searched_as_it_was_made(
    many: Path, tmp_path: Path, index: Callable[..., object], embedder: HashingEmbedder
) -> None:
    index([many], RetrieveSettings(faiss_index="IVF8,Flat", faiss_search="nprobe=8"))
    next((tmp_path / "index").glob("*.faiss")).unlink()
    with closing(Store.read(tmp_path / "index")) as store:
        assert not load_dense(store, embedder.dimension).is_exact
    retriever = Retriever.open(tmp_path / "index", embedder)
    assert retriever.search("boat number77", 1)[0].passage.path == "77.txt"
    retriever.close()
