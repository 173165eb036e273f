"""What the compiled packages say once they are loaded, found out in a process that may die of it.

A library for another processor or another torch can end the process that loads it. So each is loaded
elsewhere, and what it took with it is known by what was not said any more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

LONGEST_S = 60.0
# the search path of this process, before anything of the current folder could be imported
LAUNCH = (
    "import sys; sys.path[:] = sys.argv[1].split(chr(10));"
    "from ragla.environment.probe import main; main(sys.argv[2:])"
)
PACKAGE = Path(__file__).resolve().parents[1]
KERNELS = "ragla.decode.backend._kernels"
CORE = "ragla.trie._core"

Facts = dict[str, Any]
Loaded = Mapping[str, Facts]
"""Part → what it said; ``error``: why it cannot be loaded, ``absent``: that it was never built."""


def load_parts(names: Sequence[str] = ()) -> Loaded:
    """Load each part and ask it, all of them where none is named.

    A process that has torch already asks in place: nothing that breaks can come of it any more.
    """
    wanted = list(names or PARTS)
    if "torch" in sys.modules:
        return {name: asked(name) for name in wanted}
    found: dict[str, Facts] = {}
    while wanted:
        said, end = _said_elsewhere(wanted)
        found |= said
        wanted = [name for name in wanted if name not in said]
        if wanted:
            found[wanted.pop(0)] = {"error": end}
    return found


def _said_elsewhere(names: Sequence[str]) -> tuple[dict[str, Facts], str]:
    """What another process said of the parts, as far as it came, and how it ended."""
    command = [sys.executable, "-P", "-c", LAUNCH, "\n".join(filter(None, sys.path)), *names]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LONGEST_S
        )
        written, end = done.stdout, _end(done.returncode)
    except subprocess.TimeoutExpired as late:
        written, end = late.stdout or b"", f"is not loaded after {LONGEST_S:.0f} s"
    except OSError as error:
        written, end = b"", f"Python cannot be started: {error.strerror}"
    said: dict[str, Facts] = {}
    for line in written.decode("utf-8", "replace").splitlines():
        try:
            said |= json.loads(line)
        except (ValueError, TypeError):  # a library's own words, or half a line
            continue
    return {name: facts for name, facts in said.items() if name in names}, end


def _end(code: int) -> str:
    if code >= 0:
        return f"ends the process that loads it, with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"ends the process that loads it, with {name}"


def main(names: Sequence[str]) -> None:
    """Say a line of JSON of each part as soon as it is known."""
    for name in names:
        sys.stdout.write(json.dumps({name: asked(name)}) + "\n")
        sys.stdout.flush()
    os._exit(0)  # what libraries do at their end is no concern of ours


def asked(name: str) -> Facts:
    """What a part says; whatever is raised, as a line."""
    try:
        return PARTS[name]()
    except BaseException as error:
        first = next(iter(str(error).splitlines()), "")
        return {"error": f"{type(error).__name__}: {first}" if first else type(error).__name__}


def _torch() -> Facts:
    import torch

    quantized = "fbgemm" in torch.backends.quantized.supported_engines
    return {
        "version": str(torch.__version__),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda or getattr(torch.version, "hip", None),
        "devices": _cuda_devices(),
        "mps": torch.backends.mps.is_available(),
        "integers": quantized and hasattr(torch, "_make_per_channel_quantized_tensor"),
    }


def _cuda_devices() -> list[Facts]:
    """Each card with its memory, bytes; what it says where it is there and cannot be used."""
    import torch

    found: list[Facts] = []
    for number in range(torch.cuda.device_count()):
        try:
            free, total = torch.cuda.mem_get_info(number)
            found.append({"name": torch.cuda.get_device_name(number), "free": free, "total": total})
        except Exception as error:  # drivers fail in their own ways
            first = next(iter(str(error).splitlines()), type(error).__name__)
            found.append({"name": f"cuda:{number}", "error": first})
    return found


def _faiss() -> Facts:
    import faiss

    index = faiss.IndexFlatIP(1)  # its C++ part answers
    return {"version": str(faiss.__version__), "dimension": int(index.d)}


def _built(module: str) -> Callable[[], Facts]:
    def look() -> Facts:
        if module in sys.modules:
            return _kind(sys.modules[module])
        path = PACKAGE.parent.joinpath(*module.split("."))
        files = [path.with_name(path.name + suffix) for suffix in EXTENSION_SUFFIXES]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            return {"absent": True}
        spec = spec_from_file_location(module, file)  # by itself: its package would load torch
        assert spec is not None
        assert spec.loader is not None
        built = module_from_spec(spec)
        spec.loader.exec_module(built)
        return _kind(built)

    return look


def _kind(module: Any) -> Facts:
    """Which of several kinds a module uses on this processor, where it has several."""
    return {"kind": module.kind()} if hasattr(module, "kind") else {}


PARTS: Mapping[str, Callable[[], Facts]] = {
    "torch": _torch,
    "faiss": _faiss,
    "kernels": _built(KERNELS),
    "core": _built(CORE),
}
