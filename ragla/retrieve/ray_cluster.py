"""A connection to a Ray cluster, or to one of this machine for the while, and what is under way on it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ragla.errors import RaglaError, UsageError
from ragla.secrets import hide_in_address

_FORM = re.compile(r"ray(?:://(?P<host>\[[0-9a-fA-F:]+\]|[^\s/:@\[\]]+)(?::(?P<port>\d{1,5}))?/?)?")
CLIENT_PORT = 10001
# A machine that does not answer, and a server that accepts and then says nothing that Ray understands.
PROBE_S, CONNECT_S = 5.0, 60.0
# Of the cluster that is started here: what is on its way between processes, the rest goes to disk.
_LOCAL_STORE_BYTES = 256 << 20
# Ray sends figures of its use to its makers unless told not to; and it is to say nothing on our streams.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_INIT: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}


@dataclass(frozen=True)
class Address:
    """``spoken``: what Ray is given, None to start a cluster here; ``host``, ``port``: of another machine."""

    spoken: str | None
    host: str = ""
    port: int = 0


def address_of(on: str) -> Address:
    """What ``--on`` names: ``ray`` or ``ray://HOST:PORT``.

    ``ray``: the cluster that the environment names (``RAY_ADDRESS``), else one of this machine alone.
    Raises UsageError for anything else.
    """
    found = _FORM.fullmatch(on.strip())
    if found is None or int(found["port"] or 1) not in range(1, 65_536):
        raise UsageError(
            f"--on {hide_in_address(on)}: no place to index on",
            "--on ray for this machine, or --on ray://HOST:10001 for a Ray cluster",
        )
    if found["host"]:
        port = int(found["port"] or CLIENT_PORT)
        return Address(f"ray://{found['host']}:{port}", found["host"].strip("[]"), port)
    named = os.environ.get("RAY_ADDRESS", "")
    if named in ("", "local"):
        return Address(None)
    host, _, port_text = named.removeprefix("ray://").rpartition(":")
    known = host and port_text.isdecimal()
    return Address(named, host.strip("[]"), int(port_text)) if known else Address(named)


def check_ray(address: Address) -> None:
    """Raise UsageError where Ray is not installed, RaglaError where nobody listens at the address."""
    _quietly_imported()
    if not address.host:
        return
    try:
        socket.create_connection((address.host, address.port), PROBE_S).close()
    except OSError as error:
        raise _silent(address, error.strerror or str(error)) from error


@contextlib.contextmanager
def connected(address: Address) -> Iterator[Any]:
    """The module ``ray``, connected to the cluster until the end of the block.

    Raises UsageError where Ray is not installed, RaglaError where the cluster cannot be had or is lost.
    """
    ray = _quietly_imported()
    logging.getLogger("ray.util.client.logsclient").disabled = True  # it raises its own level
    with _ended_as_before():
        if address.spoken is None:
            # Not in a thread: what Ray starts on a machine ends with the thread that started it.
            _start_here(ray, address)
        else:
            _bounded(address, partial(ray.init, address.spoken, **_INIT))
    try:
        yield ray
    except (ConnectionError, ray.exceptions.RayError) as error:
        place = f"the Ray cluster at {_place(address)}" if address.spoken else "Ray on this machine"
        raise RaglaError(
            f"{place} is gone: {_first_line(error)}",
            "what was stored is kept; when it is there again, run the command again",
        ) from error
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _ended_as_before() -> Iterator[None]:
    """SIGTERM means behind the block what it meant before: Ray takes it over and prints its stack.

    Nothing is left behind either way: the processes of a cluster that was started here end with this one.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False
    try:
        yield
    except SystemExit:  # how Ray takes it
        came = True
    finally:
        signal.signal(signal.SIGTERM, before)
    if came:
        signal.raise_signal(signal.SIGTERM)
        raise SystemExit(signal.SIGTERM)  # whoever heard it has let the program go on


def _quietly_imported() -> Any:
    for name, setting in _QUIET.items():
        os.environ.setdefault(name, setting)
    try:
        import ray
    except ImportError as error:
        raise UsageError("--on ray needs Ray, which is not installed", "pip install 'ragla[ray]'") from error
    return ray


def _start_here(ray: Any, address: Address) -> None:
    # Its ports are open to the network, and obey who knows this; else Ray leaves one in the user's home.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        ray.init("local", include_dashboard=False, object_store_memory=_LOCAL_STORE_BYTES, **_INIT)
    except Exception as error:  # whatever keeps it from starting
        raise _silent(address, _first_line(error)) from error


def _bounded(address: Address, work: Callable[[], object]) -> None:
    """Do it in a thread that is not waited for longer than it may take."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised below, by the one who waits
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(CONNECT_S)
    if thread.is_alive():
        raise _silent(address, f"no answer in {CONNECT_S:.0f} s")
    if failed:
        raise _silent(address, _first_line(failed[0])) from failed[0]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _place(address: Address) -> str | None:
    return f"{address.host}:{address.port}" if address.host else address.spoken


def _silent(address: Address, why: str) -> RaglaError:
    if address.spoken is None:
        return RaglaError(f"Ray does not start on this machine: {why}", "index without it: ragla index")
    return RaglaError(
        f"no Ray cluster answers at {_place(address)}: {why}",
        "see there: ray status; the port is its client server's, 10001; for a token set RAY_AUTH_MODE=token",
    )


Then = Callable[[Any], None]
"""Called with the reference of what has ended, well or not."""


class Floor:
    """References of one driver; all that follows from their ends happens in ``step``, in its thread."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._then: dict[Any, Then] = {}

    def expect(self, reference: Any, then: Then) -> None:
        """Have ``then`` called once, when what ``reference`` stands for has ended."""
        self._then[reference] = then

    def step(self, seconds: float) -> None:
        """Wait until something has ended, at most so long, and go on with all that has."""
        if not self._then:
            return
        self.ray.wait(list(self._then), num_returns=1, timeout=seconds)
        ended, _ = self.ray.wait(list(self._then), num_returns=len(self._then), timeout=0)
        for reference in ended:
            self._then.pop(reference)(reference)


def raised(error: BaseException) -> RaglaError:
    """What was raised on a worker, as this process raises it."""
    # What Ray raises is of both kinds, its own and that of the cause, and its text is a traceback.
    cause: BaseException | None = error
    while cause is not None and (hasattr(cause, "cause") or not isinstance(cause, RaglaError)):
        inner = getattr(cause, "cause", None) or cause.__cause__
        cause = None if inner is cause else inner
    if isinstance(cause, RaglaError):
        return cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else type(error).__name__
    if "No module named" in str(error):
        hint = "install the same on every machine of the cluster: pip install 'ragla[ray]'"
    else:
        hint = "what was stored is kept; look at the cluster with ray status and run the command again"
    return RaglaError(f"a worker of the Ray cluster failed: {said}", hint)
