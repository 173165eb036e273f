"""Which FAISS index suits how many passages, and what another one than the present would cost and gain."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

# Up to here comparing all takes some tens of milliseconds, and an index that may miss something is no gain.
LARGE = 200_000
# Of the free memory. Beyond, eight bits a number instead of 32.
_SHARE_OF_MEMORY = 0.25


@dataclass(frozen=True)
class Advice:
    """``factory``: what ``retrieve.faiss_index`` had better be. ``reason``: why, in words.

    ``mebibytes``: what its vectors take in memory.
    """

    factory: str
    reason: str
    mebibytes: float


def advise(passages: int, dimension: int, free_mebibytes: float) -> Advice:
    """The index for so many passages: Flat, and above 200,000 inverted lists, in 8 bit where memory is short.

    About four times the square root of the passages are as many lists as balance the two halves of a
    search, finding the nearest lists and comparing what is in them.
    """
    flat = 4 * dimension * passages / 2**20
    if passages <= LARGE:
        return Advice("Flat", f"right for an index of this size: exact, up to {LARGE:,} passages", flat)
    lists = lists_for(passages)
    looked_at = f"a search looks at a sixteenth of {lists:,} lists, not at all passages"
    if flat > _SHARE_OF_MEMORY * free_mebibytes:
        reason = f"{looked_at}; 8 bits a number, because {flat:,.0f} MiB would be much of the free memory"
        return Advice(f"IVF{lists},SQ8", reason, flat / 4)
    return Advice(f"IVF{lists},Flat", looked_at, flat)


def lists_for(passages: int) -> int:
    """A power of two near four times the square root."""
    return int(2 ** round(math.log2(4 * math.sqrt(max(1, passages)))))


def on_sample(factory: str, sample: int) -> str:
    """The advised index for a sample: with as many lists as suit it, of which the same share is looked at."""
    return re.sub(r"^IVF\d+", f"IVF{lists_for(sample)}", factory)
