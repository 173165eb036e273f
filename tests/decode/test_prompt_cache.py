"""What is kept of a prompt's rows has the bits of a fresh prefill, and so has the answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.prefill import PromptCache, chunk_ends, prefill
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.trie import Drafter, DraftLimits
from tests.decode.tiny_models import VOCABULARY, ScriptedBackend, few

KINDS = [("eager", "float32"), ("eager", "bfloat16"), ("cpu", "float32"), ("cpu", "int8")]
FAMILIES = ["llama", "mistral", "gemma3_text", "gpt2"]
TOKENS = st.integers(3, VOCABULARY - 1)
PARTS = st.lists(st.lists(TOKENS, min_size=1, max_size=30), min_size=4, max_size=4)


@st.composite
def conversations(draw: st.DrawFn) -> list[DecodeRequest]:
    """Two to four prompts made of a few parts, cut where the parts begin."""
    parts = draw(PARTS)
    rows = draw(st.sampled_from([4, 17, 512]))
    requests = []
    for _ in range(draw(st.integers(2, 4))):
        chosen = [
            parts[draw(st.sampled_from([0, 0, 1]))],
            *draw(st.lists(st.sampled_from(parts), max_size=3)),
        ]
        chosen.append(draw(st.lists(TOKENS, min_size=1, max_size=9)))
        lengths = [len(part) for part in chosen]
        cuts = tuple(sum(lengths[:count]) for count in range(1, len(chosen)))
        ids = [token for part in chosen for token in part]
        requests.append(DecodeRequest(ids, draw(st.integers(1, 12)), prefill_rows=rows, cuts=cuts))
    return requests


def first_rows(backend: Any, request: DecodeRequest, kept: PromptCache) -> tuple[list[torch.Tensor], int]:
    """The prompt's rows of every layer and the last logits, and how many rows were there already."""
    cache = kept.take(backend, request, len(request.prompt_ids) + 40)
    reused = cache.length
    logits = prefill(backend, cache, request, kept=kept)
    length = len(request.prompt_ids)
    states = [rows[:, :, :length].clone() for layer in cache.rows for rows in (layer.keys, layer.values)]
    return [*states, logits], reused


def answer(backend: Any, request: DecodeRequest, kept: PromptCache, drafted: bool) -> list[int]:
    if not drafted:
        blocks = greedy(backend, request, DecodeStats(), kept=kept)
    else:
        drafter = Drafter()
        drafter.begin(request.prompt_ids)
        limits = DraftLimits(budget=8)
        blocks = lookahead(backend, drafter, request, DecodeStats(), limits, kept=kept)
    return [token for block in blocks for token in block.token_ids]


@pytest.mark.parametrize(("backend", "dtype"), KINDS)
@pytest.mark.parametrize("family", FAMILIES)
@few(25)
@given(requests=conversations(), drafted=st.booleans())
def test_answers_with_kept_rows_are_those_without(
    load_tiny: Any, family: str, backend: str, dtype: str, requests: list[DecodeRequest], drafted: bool
) -> None:
    """Ids, rows and logits, bit for bit, with answers decoded over the rows in between."""
    target = load_tiny(family, backend, dtype).backend
    kept = PromptCache()
    for request in requests:
        fresh = answer(target, request, PromptCache(reuse=False), drafted)
        assert answer(target, request, kept, drafted) == fresh
        alone, none = first_rows(target, request, PromptCache(reuse=False))
        again, _ = first_rows(target, request, kept)
        assert none == 0
        assert all(torch.equal(one, other) for one, other in zip(alone, again, strict=True))


def test_the_chunks_that_are_common_are_not_computed_again() -> None:
    backend = ScriptedBackend(lambda token, position: (token * 3 + position) % 30)
    kept = PromptCache()
    system, one, two = list(range(10, 15)), list(range(40, 60)), list(range(60, 70))
    cuts = (5, 25, 35)
    for passages, ending, computed in [
        ([one, two], [7, 8], [5, 20, 10, 2]),
        ([one, two], [9], [1]),
        ([one, two], [9], [1]),  # the very same prompt: its last chunk gives the logits
        ([one, [*two[:9], 3]], [9], [10, 1]),
        ([two, one], [9], [10, 20, 1]),
    ]:
        backend.forwards.clear()
        ids = [*system, *passages[0], *passages[1], *ending]
        ends = cuts if passages[0] is one else (5, 15, 35)
        request = DecodeRequest(ids, 1, cuts=ends)
        answer(backend, request, kept, drafted=False)
        assert backend.forwards == computed


def test_chunks_of_another_size_are_other_chunks() -> None:
    backend = ScriptedBackend(lambda token, position: (token * 3 + position) % 30)
    kept = PromptCache()
    ids = [3 + index % 90 for index in range(30)]
    for rows, computed in [(10, [10, 10, 10]), (10, [10]), (15, [15, 15]), (6, [6] * 5)]:
        backend.forwards.clear()
        answer(backend, DecodeRequest(ids, 1, prefill_rows=rows), kept, drafted=False)
        assert backend.forwards == computed


def test_a_cache_serves_one_backend_and_only_one_that_can_drop_rows() -> None:
    first, second = (ScriptedBackend(lambda token, position: 5) for _ in range(2))
    kept = PromptCache()
    request = DecodeRequest([4, 5, 6, 7], 1, cuts=(2,))
    for backend, computed in [(first, [2, 2]), (first, [2]), (second, [2, 2])]:
        backend.forwards.clear()
        answer(backend, request, kept, drafted=False)
        assert backend.forwards == computed
    second.drafts = False
    second.forwards.clear()
    answer(second, request, kept, drafted=False)
    assert second.forwards == [2, 2]


def test_a_longer_prompt_finds_room() -> None:
    backend = ScriptedBackend(lambda token, position: 5)
    kept = PromptCache()
    for length in (3, 2000, 40):
        request = DecodeRequest([4] * length, 3)
        assert answer(backend, request, kept, drafted=True) == answer(
            backend, request, PromptCache(reuse=False), drafted=True
        )


def test_an_interrupted_prefill_leaves_whole_chunks_only() -> None:
    """A pass that was cut off halfway has written rows that nobody may read."""

    class Interrupted(ScriptedBackend):
        after = 2

        def forward(self, *args: Any, **more: Any) -> torch.Tensor:
            logits = super().forward(*args, **more)
            self.after -= 1
            if not self.after:
                raise KeyboardInterrupt
            return logits

    backend = Interrupted(lambda token, position: (token + position) % 30)
    kept = PromptCache()
    request = DecodeRequest(list(range(3, 15)), 2, cuts=(4, 8))
    with pytest.raises(KeyboardInterrupt):
        answer(backend, request, kept, drafted=False)
    assert kept.ends == [4]
    backend.forwards.clear()
    again = answer(backend, request, kept, drafted=False)
    assert backend.forwards == [4, 4, 1]
    assert again == answer(backend, request, PromptCache(reuse=False), drafted=False)


@given(
    length=st.integers(1, 40),
    cuts=st.lists(st.integers(-2, 45), max_size=6).map(tuple),
    rows=st.integers(1, 12),
    shorter=st.integers(0, 39),
)
def test_chunks_end_at_cuts_and_depend_on_nothing_that_comes_later(
    length: int, cuts: tuple[int, ...], rows: int, shorter: int
) -> None:
    ends = chunk_ends(DecodeRequest([5] * length, 1, cuts=cuts), rows)
    assert ends[-1] == length
    assert all(0 < end - start <= rows for start, end in zip([0, *ends], ends, strict=False))
    assert {cut for cut in cuts if 0 < cut < length} <= set(ends)
    at = ends[shorter % len(ends)]
    assert chunk_ends(DecodeRequest([5] * at, 1, cuts=cuts), rows) == [end for end in ends if end <= at]
