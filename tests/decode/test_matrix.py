"""The architecture matrix: every family that drafts, held against the plain loop and against transformers.

The prompt is longer than every sliding window and than a chunk of the prefill, the drafts are longer than
a window, and the budgets run from 1 to 64 in all shapes. Families that do not draft: ``test_plain.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from ragla.decode.families import DRAFTING_FAMILIES
from ragla.decode.model import CPU_FAMILIES
from ragla.decode.request import DecodeRequest
from ragla.decode.verify import SamplingSettings
from ragla.trie import DraftLimits
from tests.decode.tiny_configs import VOCABULARY
from tests.decode.tiny_models import drafted, generated, plain

VARIANTS = ["falcon-new", "mistral-whole", "qwen2-window", "qwen3-window"]
EAGER = sorted([*DRAFTING_FAMILIES, *VARIANTS])
PACKED = [name for name in EAGER if name.split("-")[0] in CPU_FAMILIES]
KINDS = {"eager": ("eager", "float32"), "cpu": ("cpu", "float32"), "int8": ("cpu", "int8")}
CELLS = [(name, "eager") for name in EAGER] + [(name, kind) for name in PACKED for kind in ("cpu", "int8")]
CELLS.append(("gemma3", "cpu"))  # gemma3_text with an image part, which is not read in 8 bit

PASSAGE = [3 + (index * 37) % 110 for index in range(30)]
PROMPT = [*PASSAGE, 7, 9, *PASSAGE[4:28], 8, 5, 11, *PASSAGE[:16]]
LONG = [3 + (index * index * 7 + index) % 110 for index in range(530)]
CHUNK = 32
BUDGETS = [1, 2, 3, 5, 8, 13, 24, 40, 64]
SHAPES = ["tree", "parallel", "single"]
SAMPLED = [
    SamplingSettings(temperature=0.9, seed=5),
    SamplingSettings(temperature=1.3, top_k=30, top_p=0.9, min_p=0.02, seed=6),
    SamplingSettings(0.7, repetition_penalty=1.2, presence_penalty=0.5, frequency_penalty=0.3, seed=7),
]


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix; ``offset`` differs, so that families meet other pairs of budget and shape."""

    name: str
    kind: str
    backend: Any
    end_ids: frozenset[int]
    offset: int


@pytest.fixture
def cell(request: pytest.FixtureRequest, load_tiny: Any) -> Cell:
    name, kind = request.param
    target = load_tiny(name, *KINDS[kind])
    assert target.backend.drafts
    assert target.backend.name == KINDS[kind][0]
    assert target.notices == ()
    return Cell(name, kind, target.backend, target.end_ids, CELLS.index((name, kind)))


every_cell = pytest.mark.parametrize("cell", CELLS, ids="-".join, indirect=True)


def nearly(answer: list[int]) -> list[list[int]]:
    """What a drafter has read: the answer with every fifth token another, and false followers of each."""
    near = [token if index % 5 else (token + 1) % VOCABULARY for index, token in enumerate(answer)]
    return [near, [ids for token in answer for ids in (token, (token * 7 + 1) % VOCABULARY)]]


@every_cell
def test_greedy(cell: Cell) -> None:
    asked = DecodeRequest(PROMPT, 32, prefill_rows=CHUNK)
    expected = plain(cell.backend, asked)
    assert len(set(expected)) > 4, "a model that repeats itself proves little"
    accepted = drafts = 0
    for index, (shape, seeds) in enumerate(product(SHAPES, ([expected], nearly(expected)))):
        limits = DraftLimits(BUDGETS[(index + cell.offset) % len(BUDGETS)], max_depth=20, shape=shape)
        found, stats = drafted(cell.backend, asked, limits, seeds)
        assert found == expected, (limits, seeds)
        accepted, drafts = accepted + stats.accepted, drafts + stats.drafted
    assert 0 < accepted < drafts


@every_cell
def test_sampled(cell: Cell) -> None:
    sampling = SAMPLED[cell.offset % 3]
    asked = DecodeRequest(PROMPT, 24, cell.end_ids, sampling=sampling, prefill_rows=CHUNK)
    expected = plain(cell.backend, asked)
    limits = DraftLimits(BUDGETS[3 + cell.offset % 6], max_depth=20, shape=SHAPES[cell.offset // 3 % 3])
    found, stats = drafted(cell.backend, asked, limits, nearly(expected), nearly(expected))
    assert found == expected
    assert stats.prefill_drafted > 0


@every_cell
def test_a_prompt_longer_than_a_chunk(cell: Cell, load_tiny: Any) -> None:
    """530 tokens, 512 and then 18 at a time, answered as transformers' own greedy search answers it.

    A first draft of what earlier answers began with is read with the 18.
    """
    asked = DecodeRequest(LONG, 10)
    expected = plain(cell.backend, asked)
    earlier = [expected[:3], *nearly(expected)]
    found, stats = drafted(cell.backend, asked, DraftLimits(24, max_depth=20), nearly(expected), earlier)
    assert found == expected
    assert stats.prefill_accepted > 0
    if cell.kind != "int8":  # transformers has no such model
        stock = load_tiny(cell.name, "eager", "float32").backend.model
        assert expected == generated(stock, LONG, 10)
