"""What workers of the tests run, found there by name: slow, blind and deadly twins of the real thing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hashing_embedder import HashingEmbedder

from ragla.errors import ModelUnavailable
from ragla.retrieve import ray_work
from ragla.retrieve.taking import Content, Request, Taken

POISON = b"This document ends whoever reads it."
DEADLY = "This passage ends whoever embeds it."


class SlowEmbedder(HashingEmbedder):
    """Takes a while for each batch, so that there is a middle to be killed in."""

    def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        time.sleep(0.3)
        if any(DEADLY in text for text in texts):
            os._exit(1)
        return super().encode_passages(texts, batch_size)


def load_quick(device: str) -> HashingEmbedder:
    assert device == "cpu"
    return HashingEmbedder()


def load_slow(device: str) -> HashingEmbedder:
    return SlowEmbedder()


def load_other(device: str) -> HashingEmbedder:
    embedder = HashingEmbedder()
    embedder.identity = embedder.identity | {"revision": "2"}
    return embedder


def load_none(device: str) -> HashingEmbedder:
    raise ModelUnavailable("model fake is not on this machine", "ragla models pull fake")


def read_deadly(
    cutting: ray_work.Cutting, requests: Sequence[tuple[Request, Content | None]]
) -> list[Taken | None]:
    """Ends the process where one of the files is the deadly one."""
    if any(POISON in Path(request.file.absolute).read_bytes() for request, _ in requests):
        os._exit(1)
    return ray_work.read(cutting, requests)


def read_blind(
    cutting: ray_work.Cutting, requests: Sequence[tuple[Request, Content | None]]
) -> list[Taken | None]:
    """As on a machine that has none of the files."""
    return [
        ray_work.read(cutting, [(request, content)])[0] if content is not None else None
        for request, content in requests
    ]


def read_otherwise(
    cutting: ray_work.Cutting, requests: Sequence[tuple[Request, Content | None]]
) -> list[Taken | None]:
    """As another version of ragla would."""
    object.__setattr__(cutting, "ragla", ("0.0.1", "1", "1"))
    return ray_work.read(cutting, requests)


def processes_with(variable: str) -> dict[int, str]:
    """The command lines of all processes that have a variable in their environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # ended meanwhile
            if entry.name.isdigit() and f"{variable}\0".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_text(errors="replace")
    return found
