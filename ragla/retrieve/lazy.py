"""An embedder that is loaded when it first reads something: a run over unchanged files never does."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ragla.retrieve.batches import OnBatch, ignore_batch
from ragla.retrieve.durable import write_durably
from ragla.retrieve.embed import SentenceEmbedder, Vectors
from ragla.retrieve.model_folder import revision

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class _Facts:
    """What an index wants to know of an embedder before anything is embedded."""

    dimension: int
    max_tokens: int
    overhead_tokens: int
    identity: dict[str, str]


class LazyEmbedder:
    """The embedder that ``load`` returns, loaded at the first text.

    What is known of it without was noted in the folder ``notes`` when it was last loaded, under all that it
    depends on: the model's files, the prompts that replace its own, the library. Without a note it is loaded
    at once. Raises what ``load`` raises, then or later.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        prompts: tuple[str | None, str | None],
        notes: Path,
        load: Callable[[], SentenceEmbedder],
    ) -> None:
        self.name = name
        self._load = load
        self._embedder: SentenceEmbedder | None = None
        self._on_load: Callable[[], None] = _ignore
        self._on_batch: OnBatch = ignore_batch
        depends = (name, revision(folder), prompts, version("sentence-transformers"))
        key = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:32]
        self._facts = self._noted(notes / f"{key}.json")

    def _noted(self, note: Path) -> _Facts:
        # Whatever is wrong with a note, the model itself knows.
        with contextlib.suppress(OSError, ValueError, TypeError):
            return _Facts(**json.loads(note.read_text(encoding="utf-8")))
        embedder = self._loaded
        facts = _Facts(embedder.dimension, embedder.max_tokens, embedder.overhead_tokens, embedder.identity)
        with contextlib.suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            write_durably(note, json.dumps(asdict(facts)).encode())
        return facts

    @property
    def _loaded(self) -> SentenceEmbedder:
        if self._embedder is None:
            self._on_load()
            self._embedder = self._load()
            self._embedder.watch(self._on_load, self._on_batch)
        return self._embedder

    def watch(self, on_load: Callable[[], None], on_batch: OnBatch) -> None:
        """Call ``on_load`` before it is loaded, if it is, ``on_batch`` with the passages of each batch."""
        self._on_load, self._on_batch = on_load, on_batch
        if self._embedder is not None:
            self._embedder.watch(on_load, on_batch)

    @property
    def is_loaded(self) -> bool:
        """Whether it was needed so far."""
        return self._embedder is not None

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._facts.dimension

    @property
    def max_tokens(self) -> int:
        """The longest input."""
        return self._facts.max_tokens

    @property
    def overhead_tokens(self) -> int:
        """Tokens of the passage prompt and the special tokens."""
        return self._facts.overhead_tokens

    @property
    def identity(self) -> dict[str, str]:
        """What names everything that changes the vectors."""
        return dict(self._facts.identity)

    @property
    def tokenizer(self) -> Tokenizer:
        """Neither cuts nor pads."""
        return self._loaded.tokenizer

    @property
    def notice(self) -> str | None:
        """What was not done as asked, in a line."""
        return None if self._embedder is None else self._embedder.notice

    def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> Vectors:
        """Unit vectors, shape (len(texts), dimension)."""
        return self._loaded.encode_passages(texts, batch_size)

    def encode_query(self, text: str) -> Vectors:
        """Unit vector, shape (dimension,)."""
        return self._loaded.encode_query(text)

    def readable_share(self, text: str) -> float:
        """Share of tokens that are not the unknown token."""
        return self._loaded.readable_share(text)

    def close(self) -> None:
        """End what the embedder started, if it was loaded."""
        if self._embedder is not None:
            self._embedder.close()


def _ignore() -> None:
    """Nobody waits for it."""
