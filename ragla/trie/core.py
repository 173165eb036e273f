"""Chooses the compiled core where it was built, else its twins in Python; both give the same drafts.

``RAGLA_CORE=python`` in the environment forces the twins, which take some twenty times as long. They also
take more memory, so that less of a long prompt fits the drafter's cap.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING


def _core() -> ModuleType | None:
    if os.environ.get("RAGLA_CORE") == "python":
        return None
    try:
        return import_module("ragla.trie._core")
    except ImportError:
        return None


compiled = _core() is not None
"""Whether the compiled core runs."""

if TYPE_CHECKING or not compiled:
    from ragla.trie.growth import grow, step
    from ragla.trie.windows import Contexts, Windows
else:
    from ragla.trie._core import Contexts, Windows, grow, step

__all__ = ["Contexts", "Windows", "compiled", "grow", "step"]
