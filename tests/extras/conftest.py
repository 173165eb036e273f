"""Clusters of this machine, for what needs ``ragla[ray]``."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_helpers import processes_with

from tests.cli.conftest import world

__all__ = ["world"]

CHECKOUT = Path(__file__).parents[2]
ON_WORKERS = [CHECKOUT, CHECKOUT / "tests" / "retrieve", CHECKOUT / "tests" / "extras"]


STORE_BYTES = 100 << 20


@pytest.fixture(scope="session")
def client_port() -> int:
    """A free port, outside those that Ray gives to its workers."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def cluster(client_port: int) -> Iterator[Any]:
    """A Ray cluster of one node, which RAY_ADDRESS names; a test adds those that it is to lose."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, ON_WORKERS)))
        patch.setenv("RAGLA_TEST_CLUSTER", str(client_port))  # by which its processes are known
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_UV_RUN_RUNTIME_ENV"):
            patch.setenv(name, "0")
        from ray.cluster_utils import Cluster

        head = {"include_dashboard": False, "ray_client_server_port": client_port}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the log of the client server stays open
            arguments = {"num_cpus": 2, "object_store_memory": STORE_BYTES, **head}
            made = started(lambda: Cluster(initialize_head=True, head_node_args=arguments), client_port)
            gc.collect()
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        made.shutdown()


def started(start: Callable[[], Any], client_port: int) -> Any:
    """A cluster. Ray gives a node 30 s to start, which a busy machine that never ran it may not keep."""
    for attempts_left in (2, 1, 0):
        try:
            return start()
        except Exception:  # Ray raises no class of its own for it
            if not attempts_left:
                raise
            for process in processes_with(f"RAGLA_TEST_CLUSTER={client_port}"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    raise AssertionError("the last attempt returns or raises")
