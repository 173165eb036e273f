"""A deterministic embedder for tests: needs no model and no network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer


class HashingEmbedder:
    """Bag of words hashed into ``dimension`` buckets; counts the texts it embedded."""

    def __init__(self, name: str = "fake", dimension: int = 64, max_tokens: int = 256) -> None:
        self.name = name
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.overhead_tokens = 2
        self.tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        self.tokenizer.normalizer = BertNormalizer(lowercase=True)
        self.tokenizer.pre_tokenizer = BertPreTokenizer()
        self.identity = {"embedder": name, "revision": "1", "dimension": str(dimension)}
        self.texts: list[str] = []

    def _vector(self, text: str) -> np.ndarray:
        vector = np.full(self.dimension, 1e-3, dtype=np.float32)
        for word in self.words(text):
            vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % self.dimension] += 1
        return vector / np.linalg.norm(vector)

    def words(self, text: str) -> list[str]:
        normal = self.tokenizer.normalizer.normalize_str(text)
        return [word for word, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(normal)]

    def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        self.texts.extend(texts)
        return np.array([self._vector(text) for text in texts], dtype=np.float32).reshape(-1, self.dimension)

    def watch(self, on_load: Callable[[], None], on_batch: Callable[[int], None]) -> None:
        """It takes no time."""

    def encode_query(self, text: str) -> np.ndarray:
        return self._vector(text)

    def readable_share(self, text: str) -> float:
        words = self.words(text)
        return sum(word.isascii() for word in words) / len(words) if words else 1.0
