"""Batches that do not fit the memory are halved, once and for good."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from ragla.errors import RaglaError
from ragla.retrieve.batches import Batches

TEXTS = [f"{number} " * (number % 7 + 1) for number in range(40)]


class Device:
    """Encodes batches of up to ``most`` texts and fails on larger ones, as devices do."""

    def __init__(self, most: int, error: Exception | None = None) -> None:
        self.most = most
        self.error = error or RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"
        )
        self.sizes: list[int] = []

    def encode(self, texts: list[str], size: int) -> np.ndarray:
        self.sizes.append(min(size, len(texts)))
        if self.sizes[-1] > self.most:
            raise self.error
        return vectors_of(texts)


def vectors_of(texts: Sequence[str]) -> np.ndarray:
    return np.array([[len(text), int(text.split()[0])] for text in texts], dtype=np.float32)


def batches() -> Batches:
    return Batches(lambda texts: [len(text) for text in texts], 2, "tiny")


@pytest.mark.parametrize(
    "error",
    [
        None,
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
        RuntimeError("Traceback: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_and_the_rest_goes_on(error: Exception | None) -> None:
    device, made = Device(5, error), batches()
    assert np.array_equal(made.vectors(TEXTS, 32, device.encode), vectors_of(TEXTS))
    assert device.sizes == [32, 16, 8, *[4] * 10]
    assert made.limit == 4
    assert "4 passages are embedded at a time" in str(made.notice)
    device.sizes.clear()
    made.vectors(TEXTS[:6], 32, device.encode)
    assert device.sizes == [4, 2]  # a limit is run into once


def test_each_batch_that_fits_is_told() -> None:
    device, made = Device(5, MemoryError()), batches()
    told: list[int] = []
    made.on_batch = told.append
    made.vectors(TEXTS[:11], 8, device.encode)
    assert told == [4, 4, 3]


def test_a_batch_size_below_the_limit_stays() -> None:
    device, made = Device(5), batches()
    made.vectors(TEXTS, 3, device.encode)
    assert (set(device.sizes), made.limit, made.notice) == ({3, 1}, None, None)


def test_a_short_last_batch_is_halved_by_what_it_held() -> None:
    device, made = Device(2), batches()
    assert np.array_equal(made.vectors(TEXTS[:5], 32, device.encode), vectors_of(TEXTS[:5]))
    assert device.sizes == [5, 2, 2, 1]


def test_several_processes_get_several_batches_and_try_them_all_again() -> None:
    device, made = Device(4), batches()
    assert np.array_equal(made.vectors(TEXTS, 8, device.encode, together=3), vectors_of(TEXTS))
    assert device.sizes == [8, 4, 4, 4, 4]  # the batch size told; 12 texts a call


def test_a_single_text_that_does_not_fit_is_an_error() -> None:
    device, made = Device(0), batches()
    with pytest.raises(RaglaError, match="single passage with tiny") as caught:
        made.vectors(TEXTS, 4, device.encode)
    assert device.sizes == [4, 2, 1]
    assert caught.value.hint


def test_other_errors_are_errors() -> None:
    device = Device(0, RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        batches().vectors(TEXTS, 4, device.encode)
    assert device.sizes == [4]
