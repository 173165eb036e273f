"""What a receiver of an answer's text may ask of it: which words were copied, which were read nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ragla.unsupported import Unsupported


class Piece(NamedTuple):
    """``answer[start:end]`` and the number of the passage it was copied from; None for the model's own."""

    start: int
    end: int
    number: int | None


class Followed(Protocol):
    """An answer while it is written; ``text`` is all of it so far."""

    text: str

    def pieces(self, *, ended: bool) -> Iterator[Piece]:
        """The answer so far as pieces in order, up to where it is not settled what is copied."""

    def unsupported(self, text: str) -> tuple[Unsupported, ...]:
        """Numbers and names in ``text``, the beginning of the answer, that were read nowhere."""


@runtime_checkable
class FollowsCopies(Protocol):
    """A receiver of an answer's text that also wants to know where it was copied from."""

    def follow(self, trace: Followed) -> None:
        """An answer begins; ``trace`` has each piece of its text before the receiver."""

    def __call__(self, text: str) -> None:
        """More of the answer has come."""
