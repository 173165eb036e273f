"""A row's activations are the same bits whatever rows lie beside it, and PyTorch's but for the last ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers.activations import ACT2FN

from ragla.decode.backend.elementwise import ALIKE, PlacesAlone

# beside whole vectors of any processor: what is left over at a row's end, at the tensor's, at a thread's
WIDTHS = (8, 34, 48, 72, 200, 256, 8960)
ROWS = (5, 13)

Activation = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def activations() -> dict[str, Activation]:
    """All that transformers' configurations name, and all that is replaced."""
    found: dict[str, Activation] = {f"transformers: {name}": ACT2FN[name] for name in ACT2FN}
    for number, function in enumerate(ALIKE):
        found[f"{number}: {function.__name__}"] = function
    found["gelu tanh"] = lambda x: functional.gelu(x, approximate="tanh")
    return found


def values(rows: int, width: int) -> torch.Tensor:
    torch.manual_seed(rows * width)
    x = torch.randn(rows, width) * 4
    x[0, :8] = torch.tensor([0.0, -0.0, 1e-8, -1e-8, 100.0, -100.0, 30.0, -30.0])
    return x


@pytest.mark.parametrize("name", activations())
@pytest.mark.usefixtures("threads")
def test_a_row_is_the_same_alone_and_among_others(name: str) -> None:
    function: Any = activations()[name]
    with torch.inference_mode(), PlacesAlone():
        for width in WIDTHS:
            for rows in ROWS:
                x = values(rows, width)
                whole = function(x.clone())
                for row in range(rows):
                    assert torch.equal(whole[row : row + 1], function(x[row : row + 1].clone())), (
                        rows,
                        width,
                    )


@pytest.mark.parametrize("name", activations())
def test_the_values_are_those_of_the_library(name: str) -> None:
    function: Any = activations()[name]
    x = values(3, 64)
    with torch.inference_mode():
        expected = function(x.clone())
        with PlacesAlone():
            found = function(x.clone())
    torch.testing.assert_close(found, expected, rtol=5e-6, atol=2e-6)


def test_code_that_calls_them_in_any_way_gets_them() -> None:
    x = values(5, 48)
    with PlacesAlone():
        ways = [
            torch.nn.Sigmoid()(x), torch.sigmoid(x), x.sigmoid(), functional.sigmoid(x), x.clone().sigmoid_(),
        ]  # fmt: skip
        gated = [torch.nn.SiLU()(x), functional.silu(x), functional.silu(x.clone(), inplace=True)]
    assert all(torch.equal(way, ALIKE[torch.sigmoid](x)) for way in ways)
    assert all(torch.equal(way, ALIKE[functional.silu](x)) for way in gated)
