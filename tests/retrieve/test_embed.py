"""SentenceEmbedder on a tiny random BERT, saved and loaded as any sentence-transformers model."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_embedder import VOCABULARY, save_tiny_embedder
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from ragla.errors import ModelUnavailable, RaglaError
from ragla.retrieve import SentenceEmbedder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_embedder(tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("bert"))


@pytest.fixture
def tiny(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> SentenceEmbedder:
    def refuse(*arguments: object) -> None:
        pytest.fail("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return SentenceEmbedder(model_folder, "tiny")


def test_sizes_and_identity(tiny: SentenceEmbedder) -> None:
    assert (tiny.dimension, tiny.max_tokens) == (16, 32)
    assert tiny.overhead_tokens == 4  # passage : and two special tokens
    assert tiny.identity["embedder"] == "tiny"
    assert (tiny.identity["query_prompt"], tiny.identity["passage_prompt"]) == ("query: ", "passage: ")


def test_vectors_are_unit_float32_in_the_order_given(tiny: SentenceEmbedder) -> None:
    texts = ["boats", "a trains boats trains a", "trains", "boats"]
    vectors = tiny.encode_passages(texts, batch_size=2)
    assert (vectors.shape, vectors.dtype) == ((4, 16), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[0], vectors[3], atol=1e-5)
    assert tiny.encode_passages([]).shape == (0, 16)


def test_prompts_are_used(tiny: SentenceEmbedder) -> None:
    raw = tiny._model.encode(["passage: boats", "query: boats"], prompt="", normalize_embeddings=True)
    assert np.allclose(tiny.encode_passages(["boats"])[0], raw[0], atol=1e-5)
    assert np.allclose(tiny.encode_query("boats"), raw[1], atol=1e-5)


def test_other_prompts_can_be_chosen(model_folder: Path, tiny: SentenceEmbedder) -> None:
    chosen = SentenceEmbedder(model_folder, "tiny", query_prompt="", passage_prompt="query: ")
    assert np.allclose(chosen.encode_passages(["boats"])[0], tiny.encode_query("boats"), atol=1e-5)
    bare = tiny._model.encode(["boats"], prompt="", normalize_embeddings=True)[0]
    assert np.allclose(chosen.encode_query("boats"), bare, atol=1e-5)
    assert chosen.identity != tiny.identity


def test_static_embeddings_are_a_model_too(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    words = Tokenizer(WordLevel({word: at for at, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=8)]).save(str(tmp_path / "static"))
    static = SentenceEmbedder(tmp_path / "static", "static")
    assert (static.dimension, static.overhead_tokens) == (8, 0)
    assert static.readable_share("boats ships") == 0.5
    vectors = static.encode_passages(["boats", "trains a trains", "boats"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.array_equal(vectors[0], vectors[2])


def test_vectors_of_a_model_in_half_precision_are_unit_vectors(tiny: SentenceEmbedder) -> None:
    whole = tiny.encode_passages(["boats", "trains"])
    tiny._model.bfloat16()
    half = tiny.encode_passages(["boats", "trains"])
    assert half.dtype == np.float32
    assert np.allclose(np.linalg.norm(half, axis=1), 1, atol=1e-6)
    assert np.allclose(half, whole, atol=0.05)


def test_a_vector_that_is_no_number_is_an_error(tiny: SentenceEmbedder) -> None:
    with torch.no_grad():
        next(tiny._model.parameters()).fill_(float("nan"))
    with pytest.raises(RaglaError, match="no number"):
        tiny.encode_passages(["boats"])


def test_batches_hold_texts_of_like_token_counts(
    tiny: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a b c d e f", "boats" * 30, "a b c d e", "trains" * 30]  # the long words are one token each
    batches: list[list[str]] = []
    encode = tiny._model.encode_document
    monkeypatch.setattr(
        tiny._model, "encode_document", lambda some, **more: (batches.append(some), encode(some, **more))[1]
    )
    together = tiny.encode_passages(texts, batch_size=2)
    assert [set(batch) for batch in batches] == [{texts[0], texts[2]}, {texts[1], texts[3]}]
    alone = np.concatenate([tiny.encode_passages([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)


def test_a_question_for_which_memory_is_short(
    tiny: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **more: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(tiny._model, "encode_query", fail)
    with pytest.raises(RaglaError, match="not enough memory") as caught:
        tiny.encode_query("boats")
    assert "retrieve.device=cpu" in str(caught.value.hint)


def test_the_tokenizer_counts_beyond_the_model_limit(tiny: SentenceEmbedder) -> None:
    assert len(tiny.tokenizer.encode("boats " * 100, add_special_tokens=False).ids) == 100


def test_readable_share(tiny: SentenceEmbedder) -> None:
    assert tiny.readable_share("boats trains") == 1
    assert tiny.readable_share("报销 boats 标准") == pytest.approx(2 / 5)
    assert tiny.readable_share("") == 1


def test_revision_follows_the_weights(tiny: SentenceEmbedder, model_folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(model_folder, copy)
    assert SentenceEmbedder(copy, "tiny").identity == tiny.identity
    weights = copy / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    assert SentenceEmbedder(copy, "tiny").identity != tiny.identity


@pytest.mark.parametrize(
    "content", [None, {}, [{"idx": 0, "name": "0", "path": "", "type": "no.such.Class"}]]
)
def test_a_folder_without_a_usable_model(tmp_path: Path, content: object) -> None:
    if content is not None:
        (tmp_path / "modules.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ModelUnavailable) as caught:
        SentenceEmbedder(tmp_path, "ghost")
    assert "\n" not in str(caught.value)
    assert caught.value.hint
