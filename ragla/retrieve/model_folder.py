"""A sentence-transformers model in a local folder: loaded, its tokenizer, and what tells it from others."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ragla.errors import ModelUnavailable, RaglaError
from ragla.memory import out_of_memory

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    from ragla.retrieve.workers import Workers

_SAMPLE_BYTES = 65536


def load_model(
    folder: Path, name: str, devices: tuple[str, ...]
) -> tuple[SentenceTransformer, Workers | None]:
    """The model on the first of ``devices`` or where the library puts it, and the processes of several.

    Raises ModelUnavailable for a folder that holds none, RaglaError where memory does not suffice.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw on stderr
    path, device = str(folder.resolve()), devices[0] if devices else None
    try:
        if len(devices) > 1:
            from ragla.retrieve.workers import SharedTransformer, Workers

            shared = SharedTransformer(path, devices[0])
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


def bare_tokenizer(wrapped: object, name: str) -> tuple[Tokenizer, int | None]:
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


def revision(folder: Path) -> str:
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
