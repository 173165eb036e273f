"""transformers' decoders are given the conditions that ours are given, so that their greedy texts are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragla.bench.stock import StockModel
from ragla.config import DecodeSettings
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.request import DecodeRequest
from ragla.decode.verify import SamplingSettings
from tests.decode.tiny_configs import tiny_config
from tests.decode.tiny_models import plain, save_tiny

PROMPT = [3 + (index * 37) % 110 for index in range(40)]


@pytest.mark.parametrize("lookup_tokens", [None, 4])
def test_the_texts_are_one_under_every_condition(tmp_path: Path, lookup_tokens: int | None) -> None:
    folder = save_tiny(tmp_path, tiny_config("llama"))
    target = load_target(folder, LoadSettings(backend="eager"))
    settings = DecodeSettings(repetition_penalty=1.1)
    stock = StockModel.load(folder, target, settings)
    usual = plain(
        target.backend, DecodeRequest(PROMPT, 20, sampling=SamplingSettings(repetition_penalty=1.1))
    )
    conditions = SamplingSettings(
        repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=0.4,
        bad_words=((usual[0],), (usual[2], usual[3])), min_new_tokens=8,
    )  # fmt: skip
    request = DecodeRequest(PROMPT, 20, frozenset([2, usual[4]]), sampling=conditions)
    expected = plain(target.backend, request)
    assert expected[:8] != usual[:8]
    assert len(expected) >= 8
    assert list(stock.generate(request, lookup_tokens)[0]) == expected
