"""Recorded steps: a function over fixed buffers is captured once and replayed without its Python.

On a GPU the recording is a CUDA graph. On a CPU it is a tape of the very operations that ran, which
freezes what a CUDA graph freezes (shapes, Python numbers, addresses) and refuses what a CUDA graph
refuses (asking the host for a value), so all code around a capture runs and is tested without a GPU.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ragla.decode.checkpoint import first_line
from ragla.memory import out_of_memory

Step = Callable[[], torch.Tensor]

WARM_UPS = 2  # the first builds workspaces, the second shows whether the host is asked for a value

# operations that need a value on the host, or whose result's shape is one
_ASKING = frozenset(
    {
        torch.ops.aten._local_scalar_dense,
        torch.ops.aten.equal,
        torch.ops.aten.is_nonzero,
        torch.ops.aten.item,
        torch.ops.aten.masked_select,
        torch.ops.aten.nonzero,
        torch.ops.aten.unique_dim,
        torch.ops.aten._unique2,
    }
)
# operations that ask when they are given a mask for an index
_INDEXING = frozenset({torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_})


class CaptureFailed(Exception):
    """A function cannot be recorded; the message is one line that says why."""


class GraphRunner(Protocol):
    """Records functions that read and write fixed tensors only."""

    def capture(self, function: Step) -> Step:
        """A replay of ``function``: runs the same work on the same tensors and returns the same output one.

        The function runs a few times before it is recorded. Raises CaptureFailed; running out of memory
        is passed on as it comes.
        """
        ...


class CudaGraphs:
    """CUDA graphs on one device, their intermediate tensors in one pool of memory.

    Graphs of one pool must not be replayed at the same time, and a replay overwrites what another left
    in the pool, outputs excepted.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, function: Step) -> Step:
        """Record ``function`` in a CUDA graph."""
        stream = torch.cuda.current_stream(self.device)
        try:
            with torch.cuda.device(self.device):
                self._warm_up(function)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                    output = function()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a model's code raises when it is recorded
            raise CaptureFailed(first_line(error)) from error
        finally:
            # a capture that fails leaves its own stream the current one
            torch.cuda.set_stream(stream)

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay

    def _warm_up(self, function: Step) -> None:
        """Run on a side stream, as captures ask for, and find what would spoil a capture before it begins."""
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS - 1):
                function()
            with _no_synchronisation():
                function()
        current.wait_stream(side)


@contextlib.contextmanager
def _no_synchronisation() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode is a prototype and says so
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


class TapeGraphs:
    """The same on any device, by noting every operation and running the notes again."""

    def capture(self, function: Step) -> Step:
        """Record ``function`` on a tape."""
        try:
            for _ in range(WARM_UPS):
                function()
            with _Tape() as tape:
                output = function()
        except Exception as error:
            if out_of_memory(error):
                raise
            raise CaptureFailed(first_line(error)) from error

        def replay() -> torch.Tensor:
            output.copy_(tape.run_again(output))
            return output

        return replay


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Notes operations with their arguments and results.

    On running again a noted result stands for its new value; every other tensor is itself, as an
    address in a CUDA graph is.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket in _ASKING or (func.overloadpacket in _INDEXING and _by_mask(args[1])):
            raise CaptureFailed(f"{func.overloadpacket} asks the device for a value")
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))
        return result

    def run_again(self, wanted: torch.Tensor) -> torch.Tensor:
        """Run the noted operations; the new value of ``wanted``."""
        now: dict[int, torch.Tensor] = {}

        def current(value: Any) -> Any:
            return now.get(id(value), value) if isinstance(value, torch.Tensor) else value

        for func, args, kwargs, noted in self.calls:
            result = func(*tree_map(current, args), **tree_map(current, kwargs))
            for before, after in zip(_tensors(noted), _tensors(result), strict=True):
                now[id(before)] = after
        return now.get(id(wanted), wanted)


def _by_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _tensors(result: Any) -> list[torch.Tensor]:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [part for part in parts if isinstance(part, torch.Tensor)]


def graphs_for(device: torch.device) -> GraphRunner:
    """CUDA graphs on a CUDA device, a tape elsewhere."""
    return CudaGraphs(device) if device.type == "cuda" else TapeGraphs()
