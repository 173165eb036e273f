"""A fork server for processes that are to die, with or without the library that makes system calls fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_children import compiled_shim, fork_server


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return compiled_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def children(shim: Path | None) -> Iterator[None]:
    """Needed by all that starts a ``Child``."""
    with fork_server(shim):
        yield


@pytest.fixture(scope="session")
def system_faults(children: None, shim: Path | None) -> None:
    """Needed by all that gives a ``Child`` a ``SystemFault``."""
    if shim is None:
        pytest.skip("needs a C compiler and LD_PRELOAD")
