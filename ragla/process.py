"""What has to be decided for the whole process before torch is loaded."""

from __future__ import annotations

import os

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
