"""What a draft may be made from, and what bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shape = Literal["tree", "parallel", "single"]

SOURCES = (
    "prompt",
    "documents",
    "answer",
    "answers",
    "recycled",
    "rejected",
    "prompt-ranks",
    "chances",
    "recent",
    "anchor",
    "frequent",
    "prefill-draft",
)
"""What drafts come from, each of which can be switched off.

``prompt``; ``documents``: parent documents and passages that did not fit; ``answer`` so far; ``answers``
to earlier questions; ``recycled``: the model's second thoughts after the same token, from ``rejected``
draft nodes and prompt positions (``prompt-ranks``) too; ``rejected`` is also what the model would have
said next on the branches it did not take; ``chances``: how probable the model found its second thoughts,
not their rank alone; ``recent``: its second thoughts at the last positions;
``anchor``: where a broken copy may go on; ``frequent`` tokens; ``prefill-draft``: how earlier answers
began, of which a first draft is made that is verified with the prompt.
"""


LIVE_SOURCES = ("rejected", "prompt-ranks", "chances", "documents", "answers", "prefill-draft")
"""What only a decoder that runs can know; no transcript holds it."""


@dataclass(frozen=True)
class DraftLimits:
    """What bounds a draft: nodes (node 0 included), depth, form, and tokens.

    ``forbidden`` tokens are never drafted. One of ``barred_anchors`` alone is no context. Nothing is
    drafted behind one of the token sequences ``stops``.
    """

    budget: int = 64
    max_depth: int = 64
    shape: Shape = "tree"
    forbidden: frozenset[int] = frozenset()
    barred_anchors: frozenset[int] = frozenset()
    stops: tuple[tuple[int, ...], ...] = ()
