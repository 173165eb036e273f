"""SentenceEmbedder on a tiny random BERT, saved and loaded as any sentence-transformers model."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest

from ragla.errors import ModelUnavailable
from ragla.retrieve import SentenceEmbedder

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "boats",
    "trains",
    "query",
    "passage",
    ":",
    "a",
    "报",
]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    base = tmp_path_factory.mktemp("bert")
    (base / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(base)
    BertTokenizer(str(base / "vocab.txt")).save_pretrained(base)
    words = Transformer(str(base), max_seq_length=32)
    model = SentenceTransformer(
        modules=[words, Pooling(16)], prompts={"query": "query: ", "passage": "passage: "}
    )
    folder = tmp_path_factory.mktemp("model")
    model.save(str(folder))
    return folder


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
