"""What a receiver of an answer's text may ask of it: which words were copied, which were read nowhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ragla.text_stream import OnText
    from ragla.unsupported import Unsupported


class Piece(NamedTuple):
    """``answer[start:end]`` and the number of the passage it was copied from; None for the model's own."""

    start: int
    end: int
    number: int | None


class Followed(ABC):
    """An answer while it is written; ``text`` is all of it so far.

    It receives the answer's text and hands it on to ``on_text``.
    """

    def __init__(self, on_text: OnText | None) -> None:
        """What is asked of it must be there already: ``on_text`` may begin to follow at once."""
        self.text = ""
        self._on_text = on_text
        if isinstance(on_text, FollowsCopies):
            on_text.follow(self)

    def __call__(self, text: str) -> None:
        """More of the answer has come."""
        self.text += text
        if self._on_text is not None:
            self._on_text(text)

    @abstractmethod
    def pieces(self, *, ended: bool) -> Iterator[Piece]:
        """The answer so far as pieces in order, up to where it is not settled what is copied."""

    @abstractmethod
    def unsupported(self, text: str) -> tuple[Unsupported, ...]:
        """Numbers and names in ``text``, the beginning of the answer, that were read nowhere."""


@runtime_checkable
class FollowsCopies(Protocol):
    """A receiver of an answer's text that also wants to know where it was copied from."""

    def follow(self, trace: Followed) -> None:
        """An answer begins; ``trace`` has each piece of its text before the receiver."""

    def __call__(self, text: str) -> None:
        """More of the answer has come."""
