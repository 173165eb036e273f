"""Texts to vectors, with a sentence-transformers model from a local folder; never from the network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragla.errors import ModelUnavailable, RaglaError
from ragla.memory import out_of_memory
from ragla.retrieve.batches import Batches, OnBatch
from ragla.retrieve.devices import check_devices
from ragla.retrieve.model_folder import bare_tokenizer, load_model, revision

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Vectors = NDArray[np.float32]

# Models without a stated limit (static embeddings) read anything; passages are shorter than this anyway.
_NO_LIMIT = 8192
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


@runtime_checkable
class Watchable(Protocol):
    """An embedder that says what takes it time."""

    def watch(self, on_load: Callable[[], None], on_batch: OnBatch) -> None:
        """Call ``on_load`` before the model is loaded, ``on_batch`` with the passages of each batch."""
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
        self._model, self._workers = load_model(self._folder, name, devices)
        self.tokenizer, self._unknown_id = bare_tokenizer(self._model.tokenizer, name)
        self.dimension = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(min(self._model.max_seq_length or _NO_LIMIT, _NO_LIMIT))
        self._prompts = (query_prompt, passage_prompt)
        padded = self._model.max_seq_length != math.inf  # static embeddings read anything and pad nothing
        self._batches = Batches(self._tokens if padded else _characters, self.dimension, name)

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
            "revision": revision(self._folder),
            "query_prompt": self.query_prompt,
            "passage_prompt": self.passage_prompt,
            "dimension": str(self.dimension),
        }

    def watch(self, on_load: Callable[[], None], on_batch: OnBatch) -> None:
        """Tell from now on of each batch of passages; it is loaded already."""
        self._batches.on_batch = on_batch

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

    def _tokens(self, texts: Sequence[str]) -> list[int]:
        """Characters tell little of it: code and tables have twice the tokens of prose."""
        encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(one.ids) for one in encoded]

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


def _characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


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
