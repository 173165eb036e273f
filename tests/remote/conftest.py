"""The world of the command's tests."""

from __future__ import annotations

from tests.cli.conftest import elsewhere, ragla, world

__all__ = ["elsewhere", "ragla", "world"]
