"""What holds for the whole process: what is decided before torch is loaded, streams whose reader leaves."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import select
from pathlib import Path
from typing import TextIO

# Threads of GNU OpenMP spin for milliseconds at every barrier. With one other busy program on the machine
# the spinning holds up the very thread it waits for and a step takes ten times as long; a short spin costs
# nothing on a quiet machine. See docs/decisions/0003-short-spinning.md.
SPIN_COUNT = "8000"


def prepare() -> None:
    """Set what libraries read once, at import; what the user has set stays. Call before importing torch."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    end_at_once()


def end_at_once() -> None:
    """Spare the process Python's last look for garbage in all that torch has brought, which takes seconds."""
    atexit.unregister(gc.freeze)  # a process may run several commands
    atexit.register(gc.freeze)


def reader_has_left(*streams: TextIO | None) -> bool:
    """Whether one of the streams is a pipe that nobody reads any more, as behind ``| head -1``."""
    return any(_is_broken(stream) for stream in streams if stream is not None)


def _is_broken(stream: TextIO) -> bool:
    if not hasattr(select, "poll"):  # Windows: little else breaks a pipe
        return True
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def hush(stream: TextIO | None) -> None:
    """What a stream still holds, and what is written to it from here on, is for nobody."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nobody:
        os.dup2(nobody.fileno(), stream.fileno())


def flush_or_hush(stream: TextIO | None) -> None:
    """Pass on what a stream holds; what cannot be, Python is not to complain of at its end."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        hush(stream)
