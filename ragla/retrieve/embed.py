"""Texts to vectors, with a sentence-transformers model from a local folder; never from the network."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ragla.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Vectors = NDArray[np.float32]

# Models without a stated limit (static embeddings) read anything; passages are shorter than this anyway.
_NO_LIMIT = 8192
_SAMPLE_BYTES = 65536


class Embedder(Protocol):
    """What indexing and searching need from an embedding model.

    ``max_tokens`` is the longest input, prompt and special tokens included; ``overhead_tokens`` how many of
    them the passage prompt and the special tokens take. ``tokenizer`` neither truncates nor pads.
    ``identity`` names everything that changes the vectors: two embedders with one identity are the same.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def dimension(self) -> int: ...  # noqa: D102
    @property
    def max_tokens(self) -> int: ...  # noqa: D102
    @property
    def overhead_tokens(self) -> int: ...  # noqa: D102
    @property
    def tokenizer(self) -> Tokenizer: ...  # noqa: D102
    @property
    def identity(self) -> dict[str, str]: ...  # noqa: D102

    def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> Vectors:
        """Unit vectors of passages, shape (len(texts), dimension), float32."""
        ...

    def encode_query(self, text: str) -> Vectors:
        """Unit vector of a question, shape (dimension,), float32."""
        ...

    def readable_share(self, text: str) -> float:
        """Share of the text's tokens the model has in its vocabulary, 0 to 1."""
        ...


class SentenceEmbedder:
    """A sentence-transformers model read from ``folder``; ``name`` is what users call it.

    Raises ModelUnavailable when the folder holds no such model or it cannot be loaded.
    """

    def __init__(self, folder: Path, name: str, device: str | None = None) -> None:
        self.name = name
        self._folder = Path(folder)
        if not (self._folder / "modules.json").is_file():
            raise ModelUnavailable(
                f"{name}: no sentence-transformers model in {folder} (modules.json is missing)",
                hint=f"ragla models pull {name}",
            )
        self._model = _load(self._folder, name, device)
        self.tokenizer = _bare_tokenizer(self._model.tokenizer)
        self._unknown_id: int | None = self._model.tokenizer.unk_token_id
        self.dimension = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(min(self._model.max_seq_length or _NO_LIMIT, _NO_LIMIT))

    @property
    def query_prompt(self) -> str:
        """Text the model wants before a question; often empty."""
        return str(self._model.prompts.get("query") or "")

    @property
    def passage_prompt(self) -> str:
        """Text the model wants before a passage; often empty.

        The library takes the first of these names that exists, and adds an empty "document" to every
        model: one whose prompt is called "passage" would be embedded without it.
        """
        prompts = (self._model.prompts.get(name) for name in ("document", "passage", "corpus"))
        return next((prompt for prompt in prompts if prompt), "")

    @property
    def overhead_tokens(self) -> int:
        """Tokens of the passage prompt and the special tokens."""
        return len(self.tokenizer.encode(self.passage_prompt, add_special_tokens=True).ids)

    @property
    def identity(self) -> dict[str, str]:
        """Name, revision (a digest of the folder), prompts and dimension."""
        return {
            "embedder": self.name,
            "revision": _revision(self._folder),
            "query_prompt": self.query_prompt,
            "passage_prompt": self.passage_prompt,
            "dimension": str(self.dimension),
        }

    def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> Vectors:
        """Unit vectors, shape (len(texts), dimension). The library sorts by length within the call."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = self._model.encode_document(
            list(texts),
            prompt=self.passage_prompt,
            batch_size=batch_size,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return _unit_rows(vectors)

    def encode_query(self, text: str) -> Vectors:
        """Unit vector, shape (dimension,)."""
        vectors = self._model.encode_query([text], normalize_embeddings=True, show_progress_bar=False)
        first: Vectors = _unit_rows(vectors)[0]
        return first

    def readable_share(self, text: str) -> float:
        """Share of tokens that are not the unknown token; 1.0 for an empty text."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        if not ids or self._unknown_id is None:
            return 1.0
        return 1.0 - ids.count(self._unknown_id) / len(ids)


if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def _load(folder: Path, name: str, device: str | None) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw on stderr
    try:
        return SentenceTransformer(str(folder.resolve()), device=device, local_files_only=True)
    except Exception as error:  # loaders raise whatever their file formats raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelUnavailable(
            f"{name}: cannot be loaded from {folder}: {reason}", hint=f"ragla models pull {name}"
        ) from error


def _unit_rows(vectors: object) -> Vectors:
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _bare_tokenizer(wrapped: object) -> Tokenizer:
    """A copy of the model's tokenizer that neither cuts nor pads, so that it counts."""
    from tokenizers import Tokenizer

    backend = getattr(wrapped, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ModelUnavailable(
            "the embedder has no fast tokenizer", hint="choose an embedder with a tokenizer.json"
        )
    bare = Tokenizer.from_str(backend.to_str())
    bare.no_truncation()
    bare.no_padding()
    return bare


def _revision(folder: Path) -> str:
    """Digest of the model folder: names and sizes of all files, small files whole, large ones sampled.

    Hashing gigabytes of weights at each start would cost more than searching; three samples of each tell
    two trainings of one architecture apart.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.suffix == ".md" or any(part.startswith(".") for part in relative.parts) or not path.is_file():
            continue
        size = path.stat().st_size
        digest.update(f"{relative.as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            for offset in sorted({0, max(0, size // 2), max(0, size - _SAMPLE_BYTES)}):
                file.seek(offset)
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]
