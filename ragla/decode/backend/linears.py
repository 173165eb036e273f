"""Linear layers on torch's own kernels that give every row the same bits, for where ours are not built.

Two kinds. ``PackedLinear`` keeps float32 weights in oneDNN's blocked layout. ``IntegerLinear``
multiplies 8-bit activations with 8-bit weights through fbgemm. In both a row's result does not
depend on which rows are beside it: oneDNN sums each row in one order when it packs for more than a
row, and integers add exactly once each row has a scale of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from ragla.decode.backend import kernels

PACKING_ROWS = 16  # packed for one row, oneDNN sums in another order than for several
LEAST_MAGNITUDE = 1e-30
ACTIVATION_STEP = 2.0 / 255.0  # fbgemm's step for a tensor that spans exactly [-1, 1]


class PackedLinear(nn.Module):
    """``x @ weight.T + bias`` in float32; weight [out, in] is packed once and then not kept."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        packed = weight.detach().float().contiguous()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(packed, PACKING_ROWS)
        self.bias = None if bias is None else bias.detach().float().clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out]."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return out


class IntegerLinear(nn.Module):
    """``x @ weight.T + bias`` with 8-bit weights, one scale per output, and 8-bit rows.

    fbgemm takes one activation scale per tensor. Every row is divided by its own largest magnitude and
    two columns, +1 and -1, that meet zero weights pin the range to [-1, 1] in every batch; so the scale
    is a constant, the rows are quantised one by one, and the integer sums are exact.

    ``fine`` rounds each row twice, the second time what the first left over, through the same weights:
    activations of about 16 bits for layers whose inputs have outliers.
    """

    def __init__(
        self, integers: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, *, fine: bool = False
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = integers.shape
        self.packed = _pack_integers(integers, scales)
        self.bias = None if bias is None else bias.detach().float().clone()
        self.fine = fine

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out]."""
        rows = x.reshape(-1, self.in_features)
        magnitude = rows.abs().amax(-1, keepdim=True).clamp_min_(LEAST_MAGNITUDE)
        unit = rows / magnitude
        out = self._fine(unit) if self.fine else self._multiply(unit)
        out.mul_(magnitude)
        if self.bias is not None:
            out.add_(self.bias)
        return out.view(*x.shape[:-1], self.out_features)

    def _multiply(self, unit: torch.Tensor) -> torch.Tensor:
        pinned = unit.new_empty(len(unit), self.in_features + 2)
        pinned[:, : self.in_features] = unit
        pinned[:, -2] = 1.0
        pinned[:, -1] = -1.0
        out: torch.Tensor = torch.ops.quantized.linear_dynamic(pinned, self.packed, False)
        return out

    def _fine(self, unit: torch.Tensor) -> torch.Tensor:
        coarse = (unit / ACTIVATION_STEP).round_().clamp_(-127, 127).mul_(ACTIVATION_STEP)
        rest = (unit - coarse) / ACTIVATION_STEP
        both = self._multiply(torch.cat([coarse, rest]))
        return both[: len(unit)].add_(both[len(unit) :], alpha=ACTIVATION_STEP)


class SharedProduct:
    """One product for several linears that are given the very same input, one after the other."""

    def __init__(self, linear: nn.Module, widths: Sequence[int]) -> None:
        self.linear = linear
        self.widths = list(widths)
        self._input: torch.Tensor | None = None
        self._parts: tuple[torch.Tensor, ...] = ()

    def part(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """Output ``index`` for ``x``; computed with all others when ``x`` is new."""
        if self._input is not x:
            self._input = x
            self._parts = self.linear(x).split(self.widths, dim=-1)
        out = self._parts[index]
        if index == len(self.widths) - 1:
            self._input, self._parts = None, ()
        return out


class SharedLinear(nn.Module):
    """Stands where one of the fused linears stood."""

    def __init__(self, product: SharedProduct, index: int) -> None:
        super().__init__()
        self.product = product
        self.index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out]."""
        return self.product.part(x, self.index)


def integers_available() -> bool:
    """Whether there are 8-bit linears: the compiled kernels', or fbgemm's in this torch on this processor."""
    fbgemm = "fbgemm" in torch.backends.quantized.supported_engines
    return kernels.compiled or (fbgemm and hasattr(torch, "_make_per_channel_quantized_tensor"))


def _pack_integers(integers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """fbgemm's layout of int8 [out, in] with two zero columns more; made for the engine in force."""
    zero_points = torch.zeros(len(scales), dtype=torch.long)
    padded = nn.functional.pad(integers, (0, 2))
    quantised = torch._make_per_channel_quantized_tensor(padded, scales.double(), zero_points, 0)
    packed: torch.Tensor = torch.ops.quantized.linear_prepack(quantised, None)
    return packed


@contextmanager
def packing_integers() -> Iterator[None]:
    """Within it integer linears may be made, from several threads too: packing is for the engine in force."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings():  # quantised tensors are to go; they are the one way to these kernels
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        torch.backends.quantized.engine = before


def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight [out, in] → int8 [out, in] and float32 scales [out], symmetric per output.

    Without VNNI fbgemm adds two neighbouring products in 16 bits, and 255 · (a + b) saturates there from
    |a + b| = 129 on. So the scale also bounds the sum of every such pair: no product is ever cut.
    """
    weight = weight.float()
    pairs = nn.functional.pad(weight, (0, weight.shape[1] % 2)).view(len(weight), -1, 2).sum(-1)
    largest = torch.maximum(weight.abs().amax(dim=1), pairs.abs().amax(dim=1))
    scales = largest.clamp_min_(LEAST_MAGNITUDE) / 127.0  # rounding adds 1 at most
    return (weight / scales[:, None]).round_().to(torch.int8), scales
