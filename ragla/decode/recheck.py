"""Decodes an answer again by the plain loop and says whether it is the same, and if not, whose fault it is.

The first difference is a near-tie where rounding may have chosen, else a bug: the tolerance of each
number format is in ``ragla.decode.ties``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ragla.decode.backend import Backend
from ragla.decode.greedy import greedy
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.ties import TOLERANCE, Gap, gap_between
from ragla.decode.verify import TokenChooser
from ragla.errors import UsageError


@dataclass(frozen=True)
class Difference:
    """The first position, from 0, where two decodes part.

    ``said`` and ``plain``: the tokens of the answer and of the plain loop, None where one had already
    ended. ``gap``: by how much the plain loop preferred its own; None where there is nothing to compare.
    ``tolerance``: the largest gap that counts as a near-tie, in logits.
    """

    position: int
    said: int | None
    plain: int | None
    gap: Gap | None
    tolerance: float

    @property
    def is_bug(self) -> bool:
        """Whether rounding does not explain it."""
        return self.gap is None or self.gap.width > self.tolerance


@dataclass(frozen=True)
class Verdict:
    """How far two decodes agree: ``tokens`` equal tokens, then nothing or the difference."""

    tokens: int
    difference: Difference | None

    @property
    def word(self) -> str:
        """``equal``, ``near-tie`` or ``bug``."""
        if self.difference is None:
            return "equal"
        return "bug" if self.difference.is_bug else "near-tie"


def check_rechecks(temperature: float) -> None:
    """Raises UsageError where plain decoding has no one answer to compare with."""
    if temperature > 0:
        raise UsageError(
            f"--verify compares with greedy text, decode.temperature is {temperature:g}",
            "add --set decode.temperature=0",
        )


def recheck(
    backend: Backend,
    request: DecodeRequest,
    token_ids: Sequence[int],
    dtype: str,
    *,
    whole: bool = True,
) -> Verdict:
    """Compare an answer with the plain loop's, on an empty cache and without drafts.

    ``dtype`` is a key of TOLERANCE. Not ``whole``: the answer was interrupted and may be shorter. Raises
    UsageError for a sampled answer.
    """
    check_rechecks(request.sampling.temperature)
    if not whole and not token_ids:
        return Verdict(0, None)
    chooser = TokenChooser(request.sampling, request.prompt_ids, request.end_ids)
    seen: list[torch.Tensor] = []

    def differ(position: int, said: int | None, plain: int | None) -> Verdict:
        gap, tolerance = None, 0.0
        if said is not None and plain is not None:
            gap = gap_between(chooser, seen[-1], plain, said)
            tolerance = TOLERANCE[dtype] * max(1.0, abs(gap.better_logit))
        return Verdict(position, Difference(position, said, plain, gap, tolerance))

    position = 0
    for block in greedy(backend, request, DecodeStats(), observe=seen.append):
        plain = block.token_ids[0]
        said = token_ids[position] if position < len(token_ids) else None
        if said != plain:
            return differ(position, said, plain)
        chooser.choose(seen.pop())
        position += 1
        if not whole and position == len(token_ids):
            return Verdict(position, None)
    if position < len(token_ids):
        return differ(position, token_ids[position], None)
    return Verdict(position, None)
