"""The machine: cores, graphics cards, memory, disks, and whether the profile's model fits them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from math import ceil
from pathlib import Path

from ragla.bench.machine import cpu_name, usable_cores
from ragla.environment.finding import Finding, Surroundings, judged
from ragla.environment.models import ready_folder
from ragla.environment.weights import bytes_needed
from ragla.memory import free_mebibytes, swap_mebibytes, total_mebibytes
from ragla.models import cache_folder, registry
from ragla.render import gigabytes

MIB = 2**20
BESIDE = 0.4e9  # bytes that Python, torch and the embedder take beside the model
LITTLE, NEXT_TO_NOTHING = 1e9, 50e6  # bytes of disk
CPU_AGAIN = "-s decode.device=cpu -s decode.backend=auto -s decode.dtype=auto"


def threads(at: Surroundings) -> Iterator[Finding]:
    """How many threads compute, on how many cores."""
    cores = usable_cores()
    asked = at.profile.decode.threads
    count = asked or at.loaded.get("torch", {}).get("threads") or ceil(cores)
    said = f"{count} on {_counted(cores)} ({cpu_name()})"
    limit = os.environ.get("OMP_NUM_THREADS")
    yield from judged(
        "threads",
        said,
        (
            count > ceil(cores),
            "more threads than cores wait for each other",
            f"-s decode.threads={max(1, int(cores))}",
        ),
        (
            not asked and limit is not None and count < int(cores),
            f"OMP_NUM_THREADS={limit} leaves cores unused",
            "unset OMP_NUM_THREADS",
        ),
    )


def _counted(cores: float) -> str:
    every = os.cpu_count() or 1
    said = f"{cores:g} core" + ("" if cores == 1 else "s")
    return said if cores == every else f"{said} of {every} that this process may use"


def gpu(at: Surroundings) -> Iterator[Finding]:
    """Which graphics cards torch can use; wrong where the profile needs one and there is none."""
    facts = at.loaded.get("torch", {})
    if "version" not in facts:
        yield Finding("gpu", "note", "unknown: torch cannot be loaded")
        return
    cards = facts["devices"]
    for number, card in enumerate(cards):
        name = f"cuda:{number} {card['name']}"
        if error := card.get("error"):
            yield Finding("gpu", "wrong", f"{name} cannot be used: {error}", CPU_AGAIN)
        else:
            yield Finding(
                "gpu", "ok", f"{name}, {gigabytes(card['free'])} free of {gigabytes(card['total'])}"
            )
    if cards or facts["mps"]:
        if facts["mps"]:
            yield Finding("gpu", "ok", "mps")
        return
    why = "torch sees none" if facts["cuda"] else "none: torch is built for the CPU alone"
    device = at.profile.decode.device
    if device.startswith("cuda") or at.profile.decode.backend == "cuda":
        yield Finding("gpu", "wrong", f"{why}, and the profile needs one", CPU_AGAIN)
        return
    driver = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
    is_missed = driver and not facts["cuda"]
    what = "this machine has an NVIDIA driver"
    yield from judged("gpu", why, (is_missed, what, "install a torch with CUDA: https://pytorch.org"))


def memory(at: Surroundings) -> Iterator[Finding]:
    """What is free, and what the profile's model will take of it."""
    free, total, swap = free_mebibytes() * MIB, total_mebibytes(), swap_mebibytes()
    said = f"{gigabytes(free)} free"
    said += f" of {gigabytes(total * MIB)}" if total is not None else ""
    said += f", swap {gigabytes(swap * MIB)}" if swap is not None else ""
    decode = at.profile.decode
    folder = ready_folder(at.model) if at.model is not None else None
    needed = bytes_needed(folder, decode, at.loaded) if folder is not None else None
    if needed is None:
        yield Finding("memory", "ok", said)
        return
    needed += BESIDE
    said += f"; {decode.model} takes about {gigabytes(needed)}"
    mend = "a smaller model: ragla models list"
    if decode.dtype in ("auto", "float32") and decode.device in ("auto", "cpu"):
        mend = f"-s decode.dtype=int8, or {mend}"
    at_most = total * MIB + (swap or 0.0) * MIB if total is not None else None
    if at_most is not None and needed > at_most:
        yield Finding("memory", "wrong", f"{said}: it does not fit", mend)
        return
    yield from judged("memory", said, (needed > free, "close other programs", mend))


def disk(at: Surroundings) -> Iterator[Finding]:
    """Room where models and the index are kept, and whether anything may be written there."""
    known = registry()
    absent = [
        known[name].bytes
        for name in (at.model, at.profile.retrieve.embedder)
        if name is not None and name in known and ready_folder(name) is None
    ]
    yield from _room("cache", cache_folder(), sum(absent), "RAGLA_CACHE=FOLDER")
    yield from _room("index-disk", at.place, 0, "--index PATH")


def _room(name: str, folder: Path, needed: int, elsewhere: str) -> Iterator[Finding]:
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(there).free
    said = f"{folder}, {gigabytes(free)} free"
    if free < NEXT_TO_NOTHING:
        yield Finding(name, "wrong", f"{said}: nothing can be kept", f"make room, or elsewhere: {elsewhere}")
        return
    more = f"the models to be pulled take {gigabytes(needed)} and, while they come, more"
    yield from judged(
        name,
        said,
        (not os.access(there, os.W_OK), "only to be read", f"mend the rights, or elsewhere: {elsewhere}"),
        (needed > 0 and free < 2 * needed, more, f"make room, or elsewhere: {elsewhere}"),
        (free < LITTLE, "that is little", f"make room, or elsewhere: {elsewhere}"),
    )
