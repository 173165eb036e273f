"""What every test stands on: fixed hypothesis profiles, no network, and nobody's real cache."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from ragla.process import prepare

os.environ["HF_HUB_OFFLINE"] = "1"
prepare()  # before anything loads torch

EXAMPLES = float(os.environ.get("RAGLA_EXAMPLES", "1"))
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=max(1, int(100 * EXAMPLES)))
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def private_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty ``RAGLA_CACHE`` for each test but those marked ``real``."""
    if request.node.get_closest_marker("real"):
        yield
        return
    before = os.environ.get("RAGLA_CACHE")
    os.environ["RAGLA_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["RAGLA_CACHE"]
    else:
        os.environ["RAGLA_CACHE"] = before


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Programs started in the background of a shell ignore interrupts, and so would all they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
