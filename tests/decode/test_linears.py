"""Packed and integer linears: the right numbers, and every row the same bits in any company."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ragla.decode.backend.linears import (
    IntegerLinear,
    PackedLinear,
    SharedLinear,
    SharedProduct,
    packing_integers,
    quantise,
)
from tests.decode.tiny_models import few

SHAPES = st.tuples(st.sampled_from([1, 7, 32, 48, 129, 576]), st.sampled_from([1, 8, 33, 64, 320]))


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def integer_linear(
    weight: torch.Tensor, bias: torch.Tensor | None = None, fine: bool = False
) -> IntegerLinear:
    with packing_integers():
        return IntegerLinear(*quantise(weight), bias, fine=fine)


def make(kind: str, inputs: int, outputs: int, bias: bool, seed: int) -> nn.Module:
    weight = numbers(outputs, inputs, seed=seed)
    offset = numbers(outputs, seed=seed + 1) if bias else None
    if kind == "packed":
        return PackedLinear(weight, offset)
    return integer_linear(weight, offset, fine=kind == "fine")


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("kind", ["packed", "integer", "fine"])
@few(4)
@given(shape=SHAPES, rows=st.integers(1, 64), bias=st.booleans(), seed=st.integers(0, 1000), data=st.data())
def test_a_row_does_not_depend_on_its_neighbours(
    kind: str, shape: tuple[int, int], rows: int, bias: bool, seed: int, data: st.DataObject
) -> None:
    linear = make(kind, *shape, bias, seed)
    x = numbers(rows, shape[0], seed=seed + 2) * torch.logspace(-3, 3, rows)[:, None]
    together = linear(x)
    alone = torch.cat([linear(row[None]) for row in x])
    assert torch.equal(together, alone)
    start = data.draw(st.integers(0, rows - 1))
    assert torch.equal(linear(x[start:]), together[start:])
    assert torch.equal(linear(x[None])[0], together)


@few(4)
@given(shape=SHAPES, rows=st.integers(1, 64), bias=st.booleans(), seed=st.integers(0, 1000))
def test_packed_is_the_float_linear(shape: tuple[int, int], rows: int, bias: bool, seed: int) -> None:
    weight, x = numbers(shape[1], shape[0], seed=seed), numbers(rows, shape[0], seed=seed + 2)
    offset = numbers(shape[1], seed=seed + 1) if bias else None
    found = PackedLinear(weight, offset)(x)
    torch.testing.assert_close(found, nn.functional.linear(x, weight, offset), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("inputs", [8, 33, 256, 1536])
@pytest.mark.parametrize("weights", ["normal", "all equal", "positive", "outlier"])
def test_integer_products_are_exact(inputs: int, weights: str) -> None:
    """Large weights beside each other must not be cut at 16 bits: with fine rows only rounding is left."""
    weight, x = numbers(64, inputs), numbers(16, inputs, seed=1)
    if weights == "all equal":
        weight, x = torch.ones_like(weight), torch.ones_like(x)
    if weights == "positive":
        weight, x = weight.abs(), x.abs()
    if weights == "outlier":
        x[:, 3] = 50.0
    integers, scales = quantise(weight)
    expected = x @ (integers.float() * scales[:, None]).T
    assert relative(integer_linear(weight, fine=True)(x), expected) < 1e-3
    assert relative(integer_linear(weight)(x), expected) < (0.3 if weights == "outlier" else 0.02)


def test_neighbouring_weights_never_saturate_sixteen_bits() -> None:
    for seed in range(20):
        integers, _ = quantise(numbers(50, 33, seed=seed))
        padded = nn.functional.pad(integers.int(), (0, 1)).view(50, -1, 2)
        assert int(padded.sum(-1).abs().max()) * 255 < 2**15
        assert int(integers.int().abs().max()) <= 127


@pytest.mark.parametrize("inputs", [32, 576])
def test_fine_is_more_accurate_where_rows_have_outliers(inputs: int) -> None:
    weight, x = numbers(64, inputs), numbers(16, inputs, seed=1)
    x[:, 3] = 80.0
    rest = torch.arange(inputs) != 3
    exact = x @ weight.T
    coarse, fine = integer_linear(weight)(x), integer_linear(weight, fine=True)(x)
    assert relative(fine, exact) < relative(coarse, exact)
    assert rest.sum() == inputs - 1
    assert relative(fine, exact) < 0.02


def test_a_row_of_zeros_is_the_bias() -> None:
    bias = numbers(5)
    for fine in (False, True):
        assert torch.equal(integer_linear(numbers(5, 9), bias, fine)(torch.zeros(2, 9)), bias.expand(2, 5))


def test_an_output_of_zero_weights_is_zero() -> None:
    weight = numbers(4, 16)
    weight[2] = 0.0
    assert torch.equal(integer_linear(weight)(numbers(3, 16))[:, 2], torch.zeros(3))


def test_shared_products_give_each_its_part_in_any_order() -> None:
    weight = numbers(12, 8)
    product = SharedProduct(PackedLinear(weight, None), [2, 6, 4])
    parts = [SharedLinear(product, index) for index in range(3)]
    expected = [numbers(3, 8, seed=4) @ part.T for part in weight.split([2, 6, 4])]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [0], [0, 1, 2]):
        x = numbers(3, 8, seed=4)
        for index in order:
            torch.testing.assert_close(parts[index](x), expected[index], rtol=1e-5, atol=1e-5)
    other = numbers(3, 8, seed=5)
    torch.testing.assert_close(parts[0](other), other @ weight[:2].T, rtol=1e-5, atol=1e-5)
