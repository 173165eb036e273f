"""Starts child processes from a warm fork server, kills them, collects how they ended."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fault_jobs import Job, Outcome, SystemFault, child

HERE = Path(__file__).parent
LIMIT_S = 60


class Process:
    """A process of the fork server that runs ``call(pipe, *values)``, which says "ready" first."""

    def __init__(self, call: Callable[..., None], *values: object) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=call, args=(theirs, *values))
        self._process.start()
        theirs.close()
        assert self.told() == "ready"

    def told(self) -> Any:
        """What it says next; None where it died of SIGKILL instead."""
        try:
            assert self.pipe.poll(LIMIT_S), "the child hangs"
            return self.pipe.recv()
        except EOFError:
            return None

    def ended(self) -> Any:
        """The last it says, when it has ended."""
        told = self.told()
        self._process.join(LIMIT_S)
        # one that has told all may still be killed on its way out
        allowed = (-signal.SIGKILL,) if told is None else (0, -signal.SIGKILL)
        assert self._process.exitcode in allowed
        self.pipe.close()
        self._process.close()
        return told

    def kill_after(self, seconds: float) -> Any:
        """Kill it then; what it said if it was faster."""
        time.sleep(seconds)
        self._process.kill()
        return self.ended()


class Child(Process):
    """A process at work on a job."""

    def __init__(self, job: Job, fault: SystemFault | None = None) -> None:
        super().__init__(child, job, fault)

    def interrupt_after(self, seconds: float) -> tuple[Outcome | None, float]:
        """Press Ctrl-C then; how it ended, and the seconds until then."""
        time.sleep(seconds)
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGINT)
        pressed = time.monotonic()
        return self.outcome(), time.monotonic() - pressed

    def outcome(self) -> Outcome | None:
        """How the job ended; None where the process died of SIGKILL before it could say."""
        told: Outcome | None = self.ended()
        return told


def finished(job: Job, fault: SystemFault | None = None) -> Outcome:
    """How a job ends that nobody kills."""
    told = Child(job, fault).outcome()
    assert told is not None
    return told


def compiled_shim(folder: Path) -> Path | None:
    """The library that makes system calls fail; None where there is no compiler or no LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or os.uname().sysname != "Linux":
        return None
    library = folder / "syscall_faults.so"
    command = [
        compiler,
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        str(library),
        str(HERE / "syscall_faults.c"),
        "-ldl",
    ]
    return library if subprocess.run(command, check=False, capture_output=True).returncode == 0 else None


@contextmanager
def fork_server(shim: Path | None) -> Iterator[None]:
    """A fork server with everything imported and one thread, under ``shim`` where there is one."""
    path = os.pathsep.join([str(HERE), str(HERE.parent / "retrieve"), str(HERE.parent.parent)])
    wanted = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | ({"LD_PRELOAD": str(shim)} if shim else {})
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    from multiprocessing.forkserver import _forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(["fault_jobs", "fault_readers"])
    try:
        _forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    yield
    _forkserver._stop()
