"""The compiled kernels, where they were built: products and attention whose rows stand alone.

``RAGLA_CORE=python`` in the environment does without them, as it does without the compiled drafting core.
What then runs is torch's own: slower, and for attention in float64. Tensors are checked here; the C code
is given addresses.
"""

from __future__ import annotations

import os
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING

import torch

GROUP = 32  # outputs that are packed together
BLOCK = 256  # inputs that are summed together, with one scale in 8 bit
LANES = 8  # the kernel takes widths of heads that are multiples
LINE = 64  # bytes of a cache line
LARGE_PAGE = 1 << 21  # bytes
FORMATS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int8: 3}

if TYPE_CHECKING:
    from ragla.decode.backend import _kernels


def _compiled() -> bool:
    if os.environ.get("RAGLA_CORE") == "python":
        return False
    try:
        globals()["_kernels"] = import_module("ragla.decode.backend._kernels")
    except ImportError:
        return False
    return True


compiled = _compiled()
"""Whether the kernels run."""


def kind() -> str:
    """Which kernels run: ``amx``, ``avx512``, ``avx2``, ``portable``; ``none`` where they were not built."""
    return _kernels.kind() if compiled else "none"


def pack(weight: torch.Tensor) -> torch.Tensor:
    """A weight [out, in] of one of ``FORMATS`` in the kernels' layout, one dimension, in large pages.

    Outputs are padded to ``GROUP``, and in 8 bit inputs to an even number.
    """
    outputs, inputs = weight.shape
    weight = weight.detach().contiguous()
    depth = inputs + inputs % 2 if weight.dtype == torch.int8 else inputs
    packed = in_large_pages(_round_up(outputs, GROUP) * depth, weight.dtype)
    size = weight.element_size()
    _kernels.pack(
        weight.data_ptr(), inputs * size, packed.data_ptr(), outputs, inputs, size, torch.get_num_threads()
    )
    return packed


def pack_scales(scales: torch.Tensor) -> torch.Tensor:
    """Scales [out, blocks] of an 8-bit weight in the kernels' layout [groups, blocks, GROUP]."""
    outputs, blocks = scales.shape
    padded = scales.new_zeros(_round_up(outputs, GROUP), blocks)
    padded[:outputs] = scales
    return padded.view(-1, GROUP, blocks).transpose(1, 2).float().contiguous()


class _LargePages:
    """Memory that tensors are cut from, in pages that the system is asked to make large ones.

    Weights are read end to end, and most are smaller than a page: laid one after the other they are all in
    large ones. A piece of memory is given back when the last tensor in it is gone.
    """

    PIECE = 1 << 25  # bytes

    def __init__(self) -> None:
        self._left = torch.empty(0, dtype=torch.uint8)
        self._one_at_a_time = Lock()

    def take(self, n_bytes: int) -> torch.Tensor:
        """So many uninitialised bytes, from a whole cache line on."""
        lines = _round_up(n_bytes, LINE)
        with self._one_at_a_time:
            if lines > len(self._left):
                self._left = self._mapped(max(lines, self.PIECE))
            taken, self._left = self._left[:n_bytes], self._left[lines:]
        return taken

    @staticmethod
    def _mapped(n_bytes: int) -> torch.Tensor:
        memory = torch.empty(_round_up(n_bytes, LARGE_PAGE) + LARGE_PAGE, dtype=torch.uint8)
        start = -memory.data_ptr() % LARGE_PAGE
        memory = memory[start : start + n_bytes]
        _kernels.large_pages(memory.data_ptr(), _round_up(n_bytes, LARGE_PAGE))
        return memory


_large_pages = _LargePages()


def in_large_pages(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor of one dimension for weights, which shares its memory with others."""
    return _large_pages.take(elements * dtype.itemsize).view(dtype)


def linear(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor | None,
    bias: torch.Tensor | None,
    outputs: int,
) -> torch.Tensor:
    """x [..., in] float32 times a packed weight, plus a bias: [..., outputs]."""
    inputs = x.shape[-1]
    rows = x.reshape(-1, inputs)
    if rows.dtype != torch.float32 or rows.stride(-1) != 1:
        rows = rows.float().contiguous()
    out = torch.empty(*x.shape[:-1], outputs)
    _kernels.linear(
        rows.data_ptr(),
        rows.stride(0),
        len(rows),
        inputs,
        outputs,
        packed.data_ptr(),
        FORMATS[packed.dtype],
        _address(scales),
        _address(bias),
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


def can_attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.Tensor) -> bool:
    """Whether these are float32, seen by a boolean mask, and of shapes that the kernel takes."""
    return (
        query.dtype == key.dtype == value.dtype == torch.float32
        and visible.dtype == torch.bool
        and query.shape[-1] == key.shape[-1]
        and query.shape[1] % key.shape[1] == 0
    )


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    visible: torch.Tensor,
    scaling: float,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attention as transformers calls it: query [1, H, T, D], key and value [1, H_kv, L, D].

    ``visible``: bool [1, 1, T, L]. Returns float32 [1, T, H, D_value]. Row t depends on
    query t and on the keys and values it sees, in their order, and on nothing else. Of a width that is no
    multiple of ``LANES`` keys and values are copied, with zeros behind.
    """
    value_width = value.shape[-1]
    query, key, value = (_in_lanes(tensor) for tensor in (query, key, value))
    query, key, value, visible = (_dense(tensor) for tensor in (query, key, value, visible))
    _, heads, rows, width = query.shape
    groups, n_keys = key.shape[1:3]
    if visible.shape != (1, 1, rows, n_keys):
        raise ValueError(f"a mask of {tuple(visible.shape)} for {rows} rows and {n_keys} keys")
    out = torch.empty(1, rows, heads, value.shape[-1])
    _kernels.attention(
        query.data_ptr(),
        query.stride(1),
        query.stride(2),
        key.data_ptr(),
        key.stride(1),
        key.stride(2),
        value.data_ptr(),
        value.stride(1),
        value.stride(2),
        visible.data_ptr(),
        visible.stride(2),
        out.data_ptr(),
        rows,
        heads,
        groups,
        n_keys,
        width,
        value.shape[-1],
        scaling,
        softcap or 0.0,
        torch.get_num_threads(),
    )
    return out[..., :value_width].contiguous()


def can_rank(logits: torch.Tensor) -> bool:
    """Whether these rows can be ranked here: float32 on the host, each in one piece."""
    return (
        compiled
        and logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and logits.dim() == 2
        and (logits.stride(1) == 1 or logits.shape[1] == 1)
    )


def best(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids, int64, and logits [rows, count] of the best of each row [rows, vocabulary], best first.

    Of equals the first one is the better, and no number is better than all, as with ``torch.argmax``.
    """
    rows, vocabulary = logits.shape
    ids, values = torch.empty(rows, count, dtype=torch.int64), torch.empty(rows, count)
    if not 0 < count <= vocabulary:
        raise ValueError(f"the {count} best of {vocabulary}")
    _kernels.rank(
        logits.data_ptr(),
        logits.stride(0),
        rows,
        vocabulary,
        count,
        ids.data_ptr(),
        values.data_ptr(),
        torch.get_num_threads(),
    )
    return ids, values


def weights(
    packed: torch.Tensor, scales: torch.Tensor | None, bias: torch.Tensor | None, inputs: int, outputs: int
) -> list[int]:
    """A packed weight as ``layers`` takes it: Weights in _kernels.h."""
    return [packed.data_ptr(), _address(scales), _address(bias), FORMATS[packed.dtype], inputs, outputs]


def layers(
    table: torch.Tensor,
    last_norm: torch.Tensor,
    hidden: torch.Tensor,
    prefix: int,
    capacity: int,
    heads: tuple[int, int, int],
    turns: tuple[torch.Tensor, torch.Tensor],
    visible: tuple[torch.Tensor, torch.Tensor],
    epsilon: float,
    scaling: float,
) -> None:
    """Run decoder layers and a last norm over hidden states [T, hidden], in place.

    ``table``: int64 [layers, …], a Layer of _kernels.h each. ``heads``: query heads, key heads, width.
    ``turns``: cosines and sines [T, width] of the rotary embedding. ``visible``: bool [T, prefix + T],
    everywhere and within the window. All contiguous; the caches named in the table hold ``capacity`` rows.
    """
    n_heads, groups, width = heads
    _kernels.layers(
        table.data_ptr(),
        len(table),
        last_norm.data_ptr(),
        hidden.data_ptr(),
        len(hidden),
        prefix,
        capacity,
        hidden.shape[-1],
        n_heads,
        groups,
        width,
        turns[0].data_ptr(),
        turns[1].data_ptr(),
        visible[0].data_ptr(),
        visible[1].data_ptr(),
        epsilon,
        scaling,
        torch.get_num_threads(),
    )


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _in_lanes(tensor: torch.Tensor) -> torch.Tensor:
    missing = -tensor.shape[-1] % LANES
    return torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
