"""Activations whose value at a place does not depend on where in memory that place lies.

PyTorch computes the sigmoid and what is made of it in vectors of many numbers, and those that are left over
at the end of a tensor, or of a thread's part of it, one by one with another ``exp``. So a row's last bit may
change with the rows beside it, the width of the vectors and the number of threads. What is left over of
``exp``, ``log1p`` and ``tanh`` is computed as a vector, too, and arithmetic rounds alike everywhere: here all
is made of these.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """1 / (1 + exp(-x)), shaped as ``x``; all of these are."""
    return torch.exp(-x).add_(1).reciprocal_()


def silu(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Of Elfwing et al., 2017."""
    return _into(x, x / torch.exp(-x).add_(1), inplace)


def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Of Hendrycks and Gimpel, 2016; by ``erf`` its places stand alone already."""
    if approximate != "tanh":
        return functional.gelu(x, approximate=approximate)
    return torch.tanh((x + 0.044715 * (x * x * x)) * sqrt(2 / pi)).add_(1).mul_(x).mul_(0.5)


def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor:
    """log(1 + exp(beta x)) / beta, and ``x`` above the threshold."""
    return torch.where(x * beta > threshold, x, torch.log1p(torch.exp(x * beta)) / beta)


def mish(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Of Misra, 2019."""
    return _into(x, x * torch.tanh(softplus(x)), inplace)


def elu(x: torch.Tensor, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:
    """Of Clevert et al., 2015."""
    return _into(x, torch.where(x > 0, x, alpha * torch.expm1(x)), inplace)


def celu(x: torch.Tensor, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:
    """Of Barron, 2017."""
    return _into(x, torch.where(x > 0, x, alpha * torch.expm1(x / alpha)), inplace)


def selu(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """Of Klambauer et al., 2017."""
    return _into(x, SELU_SCALE * torch.where(x > 0, x, SELU_ALPHA * torch.expm1(x)), inplace)


def glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Of Dauphin et al., 2016; half as wide along ``dim``."""
    value, gate = x.chunk(2, dim)
    return value * sigmoid(gate)


def exp2(x: torch.Tensor) -> torch.Tensor:
    """2 to the power of x."""
    return torch.exp(x * log(2))


def _into(x: torch.Tensor, value: torch.Tensor, inplace: bool) -> torch.Tensor:
    return x.copy_(value) if inplace else value


ALIKE: dict[Callable[..., Any], Callable[..., torch.Tensor]] = {
    functional.silu: silu,
    functional.gelu: gelu,
    functional.softplus: softplus,
    functional.mish: mish,
    functional.elu: elu,
    functional.celu: celu,
    functional.selu: selu,
    functional.glu: glu,
    torch.sigmoid: sigmoid,
    torch.special.expit: sigmoid,
    torch.Tensor.sigmoid: sigmoid,
    torch.Tensor.sigmoid_: lambda x: x.copy_(sigmoid(x)),
    torch.exp2: exp2,
    torch.Tensor.exp2: exp2,
}
"""What stands in for which of PyTorch's functions."""


class PlacesAlone(TorchFunctionMode):
    """Within it, PyTorch's activations are those of this module, whatever code calls them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called in place of each of PyTorch's functions."""
        return ALIKE.get(func, func)(*args, **(kwargs or {}))
