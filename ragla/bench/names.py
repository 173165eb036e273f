"""The names of decoders as ``--compare`` takes them; it loads nothing.

A decoder that runs in another precision than the profile's has it behind an ``@``: ``greedy@float32``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from ragla.errors import UsageError
from ragla.trie import SOURCES
from ragla.trie.limits import Shape

PROMPT_LOOKUP_TOKENS = 10
STOCK_DECODERS = {"hf-greedy": None, "hf-prompt-lookup": PROMPT_LOOKUP_TOKENS}
WITHOUT, SHAPE, BUDGET, DTYPE, AT = "without:", "shape:", "budget:", "dtype:", "@"
AS_REPLAYED = "as-replayed"
"""Lookahead from what a replay of recorded answers knows: no live sources, nothing of earlier questions."""
DECODERS = ("lookahead", "greedy", *STOCK_DECODERS)
SHAPES: tuple[Shape, ...] = ("tree", "parallel", "single")
DTYPES = ("float32", "bfloat16", "float16", "int8")  # from the most exact to the least
LARGEST_BUDGET = 256
KNOWN = (
    *DECODERS,
    AS_REPLAYED,
    *(WITHOUT + source for source in SOURCES),
    *(SHAPE + shape for shape in SHAPES),
    *(DTYPE + dtype for dtype in DTYPES),
    f"{BUDGET}16",
)
HINT = (
    f"decoders: {', '.join(DECODERS)}, {AS_REPLAYED}, {SHAPE}SHAPE ({', '.join(SHAPES)}), "
    f"{BUDGET}NODES (1 to {LARGEST_BUDGET}), {DTYPE}DTYPE ({', '.join(DTYPES)}), "
    f"{WITHOUT}SOURCE ({', '.join(SOURCES)})"
)


def parse_decoders(compare: Iterable[str] = ()) -> tuple[str, ...]:
    """``lookahead`` and the decoders named in ``compare``, where one entry may hold several, with commas.

    Raises UsageError for a name that is no decoder.
    """
    names = ["lookahead"]
    for name in (part.strip() for entry in compare for part in entry.split(",")):
        if name not in KNOWN and not _is_budget(name):
            near = difflib.get_close_matches(name, KNOWN, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"--compare {name}: no such decoder", hint + HINT)
        if name not in names:
            names.append(name)
    return tuple(names)


def _is_budget(name: str) -> bool:
    nodes = name.removeprefix(BUDGET)
    return nodes != name and nodes.isdecimal() and nodes.isascii() and 1 <= int(nodes) <= LARGEST_BUDGET


def dtypes_named(names: Sequence[str]) -> tuple[str, ...]:
    """The precisions that ``dtype:…`` names among them ask for."""
    return tuple(name.removeprefix(DTYPE) for name in names if name.startswith(DTYPE))


def expand(names: Sequence[str], dtype: str) -> tuple[str, ...]:
    """The decoders to run where the profile's model computes in ``dtype``.

    ``dtype:X`` stands for lookahead and greedy in X, and asks for greedy in the profile's own precision.
    """
    asked = dtypes_named(names)
    plain = [name for name in names if not name.startswith(DTYPE)]
    if asked and "greedy" not in plain:
        plain.insert(1, "greedy")
    others = [other for other in dict.fromkeys(asked) if other != dtype]
    return (*plain, *(f"{name}{AT}{other}" for other in others for name in ("lookahead", "greedy")))


def kind(name: str) -> str:
    """A decoder's name without its precision."""
    return name.partition(AT)[0]


def dtype_of(name: str) -> str | None:
    """The precision a decoder's name carries; None for the profile's own."""
    return name.partition(AT)[2] or None


def own_greedy(name: str) -> str:
    """The plain loop in the precision of ``name``: what its text must equal and its speed is measured by."""
    dtype = dtype_of(name)
    return "greedy" if dtype is None else f"greedy{AT}{dtype}"


def most_exact(names: Iterable[str], dtype: str) -> str | None:
    """The plain loop in the most exact precision of several; None where there is one precision only.

    ``dtype``: the profile's own.
    """
    precisions = {dtype_of(name) or dtype for name in names}
    if len(precisions) < 2:
        return None
    best = min(precisions, key=lambda one: DTYPES.index(one) if one in DTYPES else -1)
    return "greedy" if best == dtype else f"greedy{AT}{best}"
