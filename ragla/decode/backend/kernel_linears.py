"""Linear layers on the compiled kernels: every row the same bits in any batch, weights read once a step."""

from __future__ import annotations

import torch
from torch import nn

from ragla.decode.backend import kernels

LEAST_MAGNITUDE = 1e-30
LEVELS = 127.0  # of an 8-bit weight on either side of zero
HALVES = (torch.float16, torch.bfloat16)


class KernelLinear(nn.Module):
    """``x @ weight.T + bias`` in float32; weight [out, in] is packed once and then not kept.

    A step's time is that of reading the weights. Those of a checkpoint in 16 bit are kept in 16 bit, where
    every one of them is the same number, and widened in the processor's registers.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.packed = kernels.pack(narrowest(weight.detach()))
        self.scales = None
        self.bias = None if bias is None else bias.detach().float().clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out]."""
        return kernels.linear(x, self.packed, None, self.bias, self.out_features)


class KernelIntegerLinear(nn.Module):
    """``x @ weight.T + bias`` with 8-bit weights, a scale for each ``kernels.BLOCK`` inputs of an output.

    Rows are rounded to 16 bit by their own largest magnitude, so that rows with outliers need no finer
    layer. Products are exact in 32 bits for a block of inputs; blocks are scaled and added in order.
    ``packed`` and ``scales`` are as ``packed_integers`` makes them.
    """

    def __init__(
        self, packed: torch.Tensor, scales: torch.Tensor, shape: tuple[int, int], bias: torch.Tensor | None
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = shape
        self.packed = packed
        self.scales = scales
        self.bias = None if bias is None else bias.detach().float().clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out]."""
        return kernels.linear(x, self.packed, self.scales, self.bias, self.out_features)


def narrowest(weight: torch.Tensor) -> torch.Tensor:
    """The weight in the first 16-bit format that holds each of its numbers exactly, else in float32."""
    for dtype in HALVES:
        narrow = weight.to(dtype)
        if torch.equal(narrow.to(weight.dtype), weight):
            return narrow
    return weight.float()


def packed_integers(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight [out, in] in 8 bit, packed, and its scales: largest magnitude of a block of inputs / 127."""
    outputs, inputs = weight.shape
    blocks = -(-inputs // kernels.BLOCK)
    padded = nn.functional.pad(weight.float(), (0, blocks * kernels.BLOCK - inputs))
    parts = padded.view(outputs, blocks, kernels.BLOCK)
    scales = parts.abs().amax(-1).clamp_min_(LEAST_MAGNITUDE) / LEVELS
    integers = (parts / scales[:, :, None]).round_().to(torch.int8).view(outputs, -1)[:, :inputs]
    return kernels.pack(integers), kernels.pack_scales(scales)
