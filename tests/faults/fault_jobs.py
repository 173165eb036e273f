"""What child processes of these tests do: index, while the parent kills them or the disk fails them.

Runs in processes of a fork server that has imported everything, so that a child is at work at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import faiss  # noqa: F401  # loaded before a fork, not in each child
import semantic_text_splitter  # noqa: F401
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.errors import RaglaError
from ragla.retrieve import index_folders, update
from ragla.retrieve.generations import rollback
from ragla.retrieve.remove import remove


@dataclass(frozen=True)
class Job:
    """One run over ``folder``, in batches of ``batch_files``, or another verb that changes an index."""

    folder: Path
    index_dir: Path
    verb: str = "update"  # update, rebuild, rollback, remove
    batch_files: int = 3
    name: str = ""  # of the file that is removed


@dataclass(frozen=True)
class SystemFault:
    """What the system does to the ``call``-th call that changes a file of the index: see syscall_faults.c."""

    action: str  # count, fail once, fail from, kill, torn
    call: int = 0
    errno: int = 0


@dataclass(frozen=True)
class Outcome:
    """How a job ended. ``error``: class, message and hint. ``trace`` only where it was not one line."""

    report: object = None
    error: tuple[str, str, str | None] | None = None
    trace: str = ""
    seconds: float = 0.0
    calls: str = ""


_ACTIONS = ("count", "fail once", "fail from", "kill", "torn")


def perform(job: Job) -> object:
    """The job itself; what it reports."""
    if job.verb == "rollback":
        return rollback(job.index_dir)
    if job.verb == "remove":
        return remove(job.index_dir, [str(job.folder / job.name)], keep_previous=True)
    usual, update._BATCH_FILES = update._BATCH_FILES, job.batch_files
    try:
        return index_folders(
            [job.folder], job.index_dir, RetrieveSettings(), HashingEmbedder(), rebuild=job.verb == "rebuild"
        )
    finally:  # the tests that come after it in this process
        update._BATCH_FILES = usual


def child(pipe: Connection, job: Job, fault: SystemFault | None) -> None:
    """Say that all is ready, do the job, tell how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shim = ctypes.CDLL(None) if fault is not None else None
    pipe.send("ready")
    if shim is not None and fault is not None:
        action = _ACTIONS.index(fault.action)
        shim.faults_arm(os.fsencode(job.index_dir), action, ctypes.c_long(fault.call), fault.errno)
    started = time.perf_counter()
    report, error, trace = None, None, ""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        report = perform(job)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except RaglaError as raised:
        error = (type(raised).__name__, str(raised), raised.hint)
    except BaseException:
        trace = traceback.format_exc()
    seconds = time.perf_counter() - started
    calls = ""
    if shim is not None:
        shim.faults_disarm()
        shim.faults_log.restype = ctypes.c_char_p
        calls = shim.faults_log().decode()
    pipe.send(Outcome(report, error, trace, seconds, calls))
