"""A tiny random BERT, saved as sentence-transformers saves any model."""

from __future__ import annotations

from pathlib import Path

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


def save_tiny_embedder(folder: Path, parts: Path) -> Path:
    """The model in ``folder``, 16 dimensions, 32 tokens at most; ``parts`` holds what it is made of."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    (parts / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(parts)
    BertTokenizer(str(parts / "vocab.txt")).save_pretrained(parts)
    words = Transformer(str(parts), max_seq_length=32)
    prompts = {"query": "query: ", "passage": "passage: "}
    SentenceTransformer(modules=[words, Pooling(16)], prompts=prompts).save(str(folder))
    return folder
