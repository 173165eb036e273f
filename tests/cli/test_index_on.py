"""``ragla index --on``: what it names, and how it ends where there is no Ray or no cluster."""

from __future__ import annotations

import socket
import sys
import types
from collections.abc import Iterator

import pytest

from ragla.errors import UsageError
from ragla.retrieve import ray_cluster
from ragla.retrieve.ray_cluster import Address, address_of
from tests.cli.tiny_world import Ragla, World


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that is called so; it is never connected with."""
    module = types.ModuleType("ray")
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("on", "address"),
    [
        ("ray", Address(None)),
        (" ray ", Address(None)),
        ("ray://head", Address("ray://head:10001", "head", 10001)),
        ("ray://head:7", Address("ray://head:7", "head", 7)),
        ("ray://10.0.0.1:10001/", Address("ray://10.0.0.1:10001", "10.0.0.1", 10001)),
        ("ray://[::1]:10001", Address("ray://[::1]:10001", "::1", 10001)),
    ],
)
def test_what_it_names(on: str, address: Address) -> None:
    assert address_of(on) == address


@pytest.mark.parametrize(
    ("named", "address"),
    [
        ("local", Address(None)),
        ("head:6379", Address("head:6379", "head", 6379)),
        ("ray://head:10001", Address("ray://head:10001", "head", 10001)),
        ("auto", Address("auto")),
    ],
)
def test_without_a_host_the_environment_names_the_cluster(
    named: str, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    assert address_of("ray") == address
    assert address_of("ray://head").host == "head"


@pytest.mark.parametrize(
    "on",
    ["", "dask", "ray:", "ray:/", "ray://", "ray:///", "ray://:10001",
     "ray:/head", "ray://a:b", "ray://head:0", "ray://head:65536", "ray://user:pw@head:1",
     "ray://head:1/path", "ray://a b", "http://head:10001", "ray://[::1", "\x1b[31mray"],
)  # fmt: skip
def test_what_names_nothing_is_one_line(on: str) -> None:
    with pytest.raises(UsageError, match="no place to index on") as caught:
        address_of(on)
    assert "\n" not in str(caught.value)
    assert "user:pw" not in str(caught.value)


def test_without_ray_the_command_that_installs_it_is_said(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = ragla("index", world.docs, *world.flags, "--on", "ray")
    assert result.exit_code == 2
    assert "pip install 'ragla[ray]'" in result.stderr


def test_an_address_where_nobody_listens_is_one_line(
    ragla: Ragla, world: World, ray: types.ModuleType, deaf_port: int
) -> None:
    result = ragla("index", world.docs, *world.flags, "--on", f"ray://127.0.0.1:{deaf_port}")
    assert result.exit_code == 1
    assert f"no Ray cluster answers at 127.0.0.1:{deaf_port}: Connection refused" in result.stderr
    assert "ray status" in result.stderr


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_it_may_take(
    ray: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "CONNECT_S", 0.2)
    ray.init = lambda *_, **__: __import__("time").sleep(2)  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="no answer in 0 s"), ray_cluster.connected(Address("auto")):
        pass


@pytest.mark.parametrize("other", [["--watch"], ["--dry-run"], ["--device", "cpu"], ["--rollback"]])
def test_flags_that_do_not_go_with_it(ragla: Ragla, world: World, other: list[str]) -> None:
    result = ragla("index", *world.flags, "--on", "ray", *other)
    assert result.exit_code == 2
    assert other[0] in result.stderr
