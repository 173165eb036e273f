"""Clusters of this machine, for what needs ``ragla[ray]``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
ON_WORKERS = [CHECKOUT, CHECKOUT / "tests" / "retrieve", CHECKOUT / "tests" / "extras"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A Ray cluster of one node, which RAY_ADDRESS names; a test adds those that it is to lose."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, ON_WORKERS)))
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_UV_RUN_RUNTIME_ENV"):
            patch.setenv(name, "0")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        made.shutdown()
