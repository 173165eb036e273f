"""What is found out about the surroundings, and what it is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragla.config import Profile
from ragla.environment.probe import Loaded
from ragla.errors import IndexUnusable, RaglaError

State = Literal["ok", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, and the command or change that mends it.

    ``note``: questions are answered, but slower or with less than could be. ``wrong``: with these settings
    some command fails, with ``exit_code``.
    """

    name: str
    state: State
    said: str
    mend: str | None = None
    exit_code: int = RaglaError.exit_code


@dataclass(frozen=True)
class Surroundings:
    """What there is to look at. ``loaded``: what compiled packages said; ``place``: index or folder."""

    profile: Profile
    profile_name: str
    loaded: Loaded
    place: Path

    @property
    def model(self) -> str | None:
        """The model that answers on this machine; None where a server elsewhere does."""
        decode = self.profile.decode
        return None if decode.backend == "remote" else decode.model


def exit_code(found: Iterable[Finding]) -> int:
    """0 where nothing is wrong; else an index before the installation or machine, and that before a model."""
    codes = {one.exit_code for one in found if one.state == "wrong"}
    return next((code for code in (IndexUnusable.exit_code, *sorted(codes)) if code in codes), 0)


def judged(name: str, said: str, *problems: tuple[bool, str, str | None]) -> Iterator[Finding]:
    """One finding: a note with the first problem that there is, else ``ok``.

    ``problems``: whether there is one, what is said of it behind ``said``, what mends it.
    """
    for is_there, what, mend in problems:
        if is_there:
            yield Finding(name, "note", f"{said}; {what}" if said else what, mend)
            return
    yield Finding(name, "ok", said)
