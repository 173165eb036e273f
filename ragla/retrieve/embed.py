"""Texts to vectors, with a sentence-transformers model from a local folder; never from the network."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ragla.errors import ModelUnavailable, RaglaError
from ragla.memory import out_of_memory
from ragla.retrieve.batches import Batches
from ragla.retrieve.devices import check_devices

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    from ragla.retrieve.workers import Workers

Vectors = NDArray[np.float32]

# Models without a stated limit (static embeddings) read anything; passages are shorter than this anyway.
_NO_LIMIT = 8192
_SAMPLE_BYTES = 65536
# Rounding of float32 leaves less; half precision more.
_UNIT_WITHIN = 1e-5
# So many batches for each process, so that none waits long for the last to end.
_BATCHES_A_WORKER = 8


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

    ``devices``: where passages are embedded; none leaves it to the library, several take a process each,
    which run from the first time there is enough for them until ``close``. The prompts replace those that
    come with the model.

    Raises ModelUnavailable when the folder holds no such model or it cannot be loaded, UsageError for a
    device that there is none of.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        devices: str | Sequence[str] = (),
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        self.name = name
        self._folder = Path(folder)
        if not (self._folder / "modules.json").is_file():
            raise ModelUnavailable(
                f"{name}: no sentence-transformers model in {folder} (modules.json is missing)",
                hint=f"ragla models pull {name}",
            )
        devices = (devices,) if isinstance(devices, str) else tuple(devices)
        check_devices(devices)
        self._model, self._workers = _load(self._folder, name, devices)
        self.tokenizer, self._unknown_id = _bare_tokenizer(self._model.tokenizer, name)
        self.dimension = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(min(self._model.max_seq_length or _NO_LIMIT, _NO_LIMIT))
        self._prompts = (query_prompt, passage_prompt)
        self._batches = Batches(self.dimension, name)

    def close(self) -> None:
        """End the processes that embed on several devices, if they were started."""
        if self._workers is not None:
            self._workers.close()

    @property
    def notice(self) -> str | None:
        """What was not done as asked, in a line: that memory allowed smaller batches only."""
        return self._batches.notice

    @property
    def query_prompt(self) -> str:
        """Text the model wants before a question; often empty."""
        return str(self._model.prompts.get("query") or "") if self._prompts[0] is None else self._prompts[0]

    @property
    def passage_prompt(self) -> str:
        """Text the model wants before a passage; often empty.

        The library takes the first of these names that exists, and adds an empty "document" to every
        model: one whose prompt is called "passage" would be embedded without it.
        """
        if self._prompts[1] is not None:
            return self._prompts[1]
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
        """Unit vectors, shape (len(texts), dimension), of texts that are read in batches of like length.

        Where memory runs out the batches are halved, for good; ``notice`` says so. Raises RaglaError when
        one text alone does not fit, when a vector is no number, and when one of several processes died.
        """
        workers = self._workers
        if workers is None or not (workers.running or len(texts) > batch_size):
            return self._batches.vectors(texts, batch_size, self._encoded)

        def shared(some: list[str], size: int) -> Vectors:
            with workers.pool() as pool:
                return self._encoded(some, size, pool=pool, chunk_size=size)

        return self._batches.vectors(texts, batch_size, shared, _BATCHES_A_WORKER * workers.count)

    def _encoded(self, texts: list[str], batch_size: int, **pooled: Any) -> Vectors:
        vectors = self._model.encode_document(
            texts,
            prompt=self.passage_prompt,
            batch_size=batch_size,
            normalize_embeddings=True,
            show_progress_bar=False,
            **pooled,
        )
        return _unit_rows(vectors, self.name)

    def encode_query(self, text: str) -> Vectors:
        """Unit vector, shape (dimension,). Raises RaglaError when memory runs out."""
        try:
            vectors = self._model.encode_query(
                [text], prompt=self.query_prompt, normalize_embeddings=True, show_progress_bar=False
            )
        except Exception as error:  # each device has its own way to say so
            if not out_of_memory(error):
                raise
            raise RaglaError(
                f"not enough memory to embed the question with {self.name}",
                "choose a smaller embedder, or --set retrieve.device=cpu",
            ) from error
        first: Vectors = _unit_rows(vectors, self.name)[0]
        return first

    def readable_share(self, text: str) -> float:
        """Share of tokens that are not the unknown token; 1.0 for an empty text."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        if not ids or self._unknown_id is None:
            return 1.0
        return 1.0 - ids.count(self._unknown_id) / len(ids)


def _load(folder: Path, name: str, devices: tuple[str, ...]) -> tuple[SentenceTransformer, Workers | None]:
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw on stderr
    path, device = str(folder.resolve()), devices[0] if devices else None
    try:
        if len(devices) > 1:
            from ragla.retrieve.workers import SharedTransformer, Workers

            shared = SharedTransformer(path, device=device, local_files_only=True)
            return shared, Workers(shared, devices)
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(path, device=device, local_files_only=True), None
    except Exception as error:  # loaders raise whatever their file formats raise
        if out_of_memory(error):
            raise RaglaError(
                f"{name}: not enough memory to load it", "choose a smaller embedder or another --device"
            ) from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "trust_remote_code" in str(error):
            raise ModelUnavailable(
                f"{name}: needs code that comes with the model, which is not run for an embedder",
                hint="choose an embedder of an architecture that transformers has",
            ) from error
        raise ModelUnavailable(
            f"{name}: cannot be loaded from {folder}: {reason}", hint=f"ragla models pull {name}"
        ) from error


def _unit_rows(made: object, name: str) -> Vectors:
    """As float32 of length 1: a model in half precision leaves its rounding in the length.

    A zero vector stays one: to its model the text says nothing.
    """
    vectors = np.ascontiguousarray(made, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise RaglaError(
            f"{name}: gave a vector that is no number",
            "its number format may overflow on this device: choose another embedder or --device",
        )
    uneven = (np.abs(lengths - 1) > _UNIT_WITHIN) & (lengths > 0)
    return np.where(uneven, vectors / np.where(lengths > 0, lengths, 1), vectors)


def _bare_tokenizer(wrapped: object, name: str) -> tuple[Tokenizer, int | None]:
    """A copy of the model's tokenizer that neither cuts nor pads, so that it counts; its unknown token."""
    from tokenizers import Tokenizer

    # static embeddings hold the tokenizer itself, others wrap it
    backend = wrapped if isinstance(wrapped, Tokenizer) else getattr(wrapped, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ModelUnavailable(
            f"{name}: the embedder has no fast tokenizer", hint="choose an embedder with a tokenizer.json"
        )
    bare = Tokenizer.from_str(backend.to_str())
    bare.no_truncation()
    bare.no_padding()
    unknown = getattr(wrapped, "unk_token", None) or getattr(backend.model, "unk_token", None)
    return bare, None if unknown is None else bare.token_to_id(unknown)


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
