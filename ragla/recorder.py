"""Keeps an answer while it is given, and writes it to one file: what ``ragla ask --record`` does."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ragla import __version__
from ragla.errors import RaglaError, UsageError
from ragla.following import FollowsCopies
from ragla.recording import MOST_BYTES, SCHEMA
from ragla.terminal import escaped
from ragla.user_path import user_path

if TYPE_CHECKING:
    from ragla.following import Followed
    from ragla.profiles import LoadedProfile
    from ragla.text_stream import OnText

BEGINNING = '{"schema": "ragla.recording/'
ANOTHER = "name another file: --record FILE"


class Recorder:
    """One answer: its text and its steps, each with the seconds since the question.

    ``lacks``: what the file does not hold, in a line, once it is written.
    """

    def __init__(self, name: str, loaded: LoadedProfile) -> None:
        """Raises UsageError for a file that cannot be written, or that holds anything but a recording."""
        self.name = name
        self.path = recordable(name)
        self.profile = bare_name(loaded.name)
        self.pieces: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.lacks: str | None = None
        self._began = self._verified_s = 0.0

    def begin(self, on_text: OnText | None) -> Hearing:
        """The question is asked: what receives the answer's text for ``on_text``, and notes it."""
        self.pieces.clear()
        self.steps.clear()
        self._began = perf_counter()
        return Hearing(self, on_text)

    def text(self, text: str) -> None:
        """More of the answer has come."""
        self.pieces.append({"at_s": self._now(), "text": text})

    def verified(self) -> None:
        """A step was verified; its text is about to come."""
        self._verified_s = self._now()

    def step(self, number: int, record: dict[str, Any]) -> None:
        """What that step was, as ``ragla.trace.step_record`` tells it."""
        self.steps.append({"step": number, "at_s": self._verified_s, **record})

    def save(self, document: dict[str, Any], model: str) -> None:
        """Write the file in one step, with the document of the answer and the name of the model that gave it.

        Raises RaglaError where it cannot be written; what was there before is still there then.
        """
        content = self._content(document, model, self.steps)
        if len(content) > MOST_BYTES:
            self.lacks = f"recorded without draft trees: with them it has {len(content) >> 20} MiB"
            content = self._content(document, model, [])
        temporary = self.path.with_name(f".ragla-{os.getpid()}.tmp")
        try:
            temporary.unlink(missing_ok=True)  # of a process that was killed
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            raise RaglaError(f"{self.name}: not recorded: {error.strerror}", ANOTHER) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _content(self, document: dict[str, Any], model: str, steps: list[dict[str, Any]]) -> bytes:
        recording = {
            "schema": SCHEMA,
            "ragla": __version__,
            "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
            "profile": self.profile,
            "model": bare_name(model),
            "answer": document,
            "pieces": self.pieces,
            "steps": steps,
        }
        text = escaped(json.dumps(recording, ensure_ascii=False))
        return f"{text}\n".encode(errors="replace")  # a path may be no text

    def _now(self) -> float:
        return perf_counter() - self._began


class Hearing:
    """A receiver of an answer's text that notes it before another receives it."""

    def __init__(self, recorder: Recorder, on_text: OnText | None) -> None:
        self._recorder = recorder
        self._on_text = on_text

    def follow(self, trace: Followed) -> None:
        """An answer begins; see ``ragla.following.FollowsCopies``."""
        if isinstance(self._on_text, FollowsCopies):
            self._on_text.follow(trace)

    def __call__(self, text: str) -> None:
        """More of the answer has come."""
        self._recorder.text(text)
        if self._on_text is not None:
            self._on_text(text)


def recordable(name: str) -> Path:
    """The file to write. Raises UsageError for one that cannot be, and for one that is no recording."""
    if not name:
        raise UsageError("--record: no file named", "name one: --record FILE")
    if name == "-":
        raise UsageError("--record -: stdout has the answer", "name a file: --record FILE")
    path = user_path(name)
    try:
        path = path.resolve()  # a link stays one
        if path.exists() and not (path.is_file() and is_replaceable(path)):
            raise UsageError(f"{name}: exists and is no recording", ANOTHER)
        os.scandir(path.parent).close()
        writes = os.access(path.parent, os.W_OK)
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        reason = getattr(error, "strerror", None) or "a link that leads nowhere"
        raise UsageError(f"{name}: cannot be written: {reason}", ANOTHER) from error
    if not writes:
        raise UsageError(f"{name}: cannot be written: its folder is not yours", ANOTHER)
    return path


def is_replaceable(path: Path) -> bool:
    """Whether a file is a recording, or empty."""
    with path.open(encoding="utf-8", errors="replace") as file:
        beginning = file.read(len(BEGINNING))
    return beginning in ("", BEGINNING)


def bare_name(name: str) -> str:
    """A name as it is; without folders and a server's address, which are nobody else's business."""
    name = name.partition(" at http")[0]
    path = Path(name)
    return path.name or name if path.is_absolute() or name.startswith(("~", ".")) else name
