"""How much memory a model's weights will take, from the headers of its files."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from ragla.config import DecodeSettings
from ragla.environment.probe import Loaded

LENGTH = 8  # bytes before a header that say how long it is
LONGEST_HEADER = 100_000_000  # as safetensors itself bounds it
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1}
WANTED = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
SCALES = 1.016  # a linear in 8 bit with a scale of 4 bytes for every 256 inputs


def bytes_needed(folder: Path, decode: DecodeSettings, loaded: Loaded) -> float | None:
    """Bytes of the weights as these settings load them; None where that cannot be told.

    In 8 bit an embedding keeps the precision it is stored in; a head that is tied to it is kept once more.
    """
    if decode.quantization:
        return None
    tensors = [tensor for path in sorted(folder.glob("*.safetensors")) for tensor in _tensors(path)]
    if not tensors:
        return None
    if decode.dtype != "int8":
        width = WANTED.get(decode.dtype) or (4.0 if _on_cpu(decode, loaded) else None)
        return float(sum(elements * (width or stored) for _, elements, stored, _ in tensors))
    has_head = any("lm_head" in name for name, *_ in tensors)
    needed = 0.0
    for name, elements, stored, dimensions in tensors:
        if "embed" in name or "wte" in name:
            needed += elements * (stored if has_head else stored + SCALES)
        else:
            needed += elements * (SCALES if dimensions == 2 else 4.0)
    return needed


def _on_cpu(decode: DecodeSettings, loaded: Loaded) -> bool:
    facts = loaded.get("torch", {})
    is_auto = decode.device == "auto" and not facts.get("devices")
    return (is_auto or decode.device == "cpu") and decode.backend in ("auto", "cpu")


def _tensors(path: Path) -> list[tuple[str, int, float, int]]:
    """Name, number of elements, bytes of one, number of dimensions; nothing of a file that is damaged."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH), "little")
            header: dict[str, Any] = json.loads(file.read(min(length, LONGEST_HEADER)))
        return [
            (name, prod(tensor["shape"]), float(WIDTHS.get(tensor["dtype"], 2)), len(tensor["shape"]))
            for name, tensor in header.items()
            if name != "__metadata__"
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
