"""The end of an answer, wherever in an accepted block it falls, and what is counted then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.request import DecodeRequest, Ending
from ragla.decode.stats import DecodeStats, StepStats
from ragla.errors import UsageError
from ragla.trie import Answers, Drafter, DraftLimits, DraftTree
from tests.decode.tiny_models import VOCABULARY, ScriptedBackend, drafted, plain

PROMPT = [50, 51, 52]
ANSWER = [60, 61, 62, 63, 64, 65, 66, 67, 68, 69]
LIMITS = DraftLimits(budget=16)


def letters(token_ids: list[int]) -> str:
    """A letter a token, 60 is ``a``; 70 is a whole word, 71 and up are empty."""
    return "".join("word" if token == 70 else chr(token + 37) if token < 70 else "" for token in token_ids)


def script(answer: list[int], prompt: list[int] = PROMPT) -> Callable[[int, int], int]:
    """The rule that writes ``answer`` after ``prompt``, then zeros."""
    text = prompt + answer
    return lambda token, position: text[position + 1] if position + 1 < len(text) else 0


def both(
    request: DecodeRequest, answer: list[int], context_end: int = 10_000
) -> tuple[list[int], DecodeStats]:
    """Decode plainly and with the answer known beforehand; check they agree."""
    backend = ScriptedBackend(script(answer, list(request.prompt_ids)), context_end)
    expected = plain(backend, request)
    found, stats = drafted(backend, request, LIMITS, [[*request.prompt_ids, *answer]])
    assert found == expected
    return found, stats


@pytest.mark.parametrize("at", range(len(ANSWER)))
def test_an_end_token_inside_a_block(at: int) -> None:
    found, stats = both(DecodeRequest(PROMPT, 100, frozenset([ANSWER[at]])), ANSWER)
    assert found == ANSWER[: at + 1]
    assert stats.tokens == at + 1
    assert len(stats.steps) <= 1


@pytest.mark.parametrize("length", range(1, 11))
def test_max_new_tokens_inside_a_block(length: int) -> None:
    found, stats = both(DecodeRequest(PROMPT, length), ANSWER)
    assert found == ANSWER[:length]
    assert stats.tokens == length


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("d", 4),
        ("bc", 3),
        ("cdef", 6),
        ("zz", 10),
        ("abcdefghij", 10),
    ],
)
def test_a_stop_string_inside_a_block_and_across_tokens(stop: str, expected: int) -> None:
    found, stats = both(DecodeRequest(PROMPT, 10, stop=("q", stop), detokenize=letters), ANSWER)
    assert letters(found) == "abcdefghij"[:expected]
    assert stats.tokens == expected


def test_a_stop_string_inside_one_token() -> None:
    found, _ = both(DecodeRequest(PROMPT, 10, stop=("or",), detokenize=letters), [60, 70, 61, 62])
    assert found == [60, 70]


def test_a_stop_string_across_tokens_without_text() -> None:
    answer = [60, 61, *[80] * 30, 62, 63]
    request = DecodeRequest(PROMPT, 40, stop=("bc",), detokenize=letters)
    found, _ = both(request, answer)
    assert found == answer[:33]


def test_an_empty_stop_string_stops_nothing() -> None:
    found, _ = both(DecodeRequest(PROMPT, 10, stop=("",), detokenize=letters), ANSWER)
    assert found == ANSWER


@pytest.mark.parametrize("room", range(1, 8))
def test_the_context_end_inside_a_block(room: int) -> None:
    """The scripted backend asserts that no row stands past the context."""
    found, stats = both(DecodeRequest(PROMPT, 100), ANSWER, context_end=len(PROMPT) + room)
    assert found == ANSWER[:room]
    assert stats.tokens == room


@pytest.mark.parametrize("length", [10, 11, 400])
def test_a_prompt_as_long_as_the_window_is_refused(length: int) -> None:
    request = DecodeRequest([5] * length, 10)
    backend = ScriptedBackend(script([]), context_end=10)
    with pytest.raises(
        UsageError, match=f"the prompt has {length} tokens, the model's window is 10"
    ) as caught:
        plain(backend, request)
    assert "prompt.token_budget" in str(caught.value.hint)
    with pytest.raises(UsageError):
        drafted(backend, request, LIMITS)
    assert backend.forwards == []


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="the prompt is empty"):
        plain(ScriptedBackend(script([])), DecodeRequest([], 10))


def test_no_token_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="max_new_tokens"):
        Ending(DecodeRequest(PROMPT, 0), 100)


def test_a_prompt_of_one_token() -> None:
    found, _ = both(DecodeRequest([50], 10), ANSWER)
    assert found == ANSWER


def test_nothing_is_doubled_at_the_boundary_of_a_block() -> None:
    """A token repeated in the text stays as often as the model said it."""
    answer = [60, 60, 61, 61, 61, 62] * 5
    found, stats = both(DecodeRequest(PROMPT, len(answer)), answer)
    assert found == answer
    assert stats.tokens_per_step > 3


def test_a_shorter_request_after_a_longer_one() -> None:
    """One drafter, one backend, question after question."""
    drafter = Drafter(answers=Answers(8, max_nodes=1000))
    for prompt, answer in [(PROMPT * 20, ANSWER * 4), ([50], [60, 61]), (PROMPT, ANSWER), ([51], [60])]:
        backend = ScriptedBackend(script(answer, prompt))
        request = DecodeRequest(prompt, len(answer))
        drafter.begin(prompt, [("passage", answer)])
        blocks = list(lookahead(backend, drafter, request, DecodeStats(), LIMITS))
        found = [token for block in blocks for token in block.token_ids]
        drafter.end(found)
        assert found == answer == plain(backend, request)


RULES = st.tuples(st.integers(1, 12), st.integers(0, 3), st.integers(5, 30)).map(
    lambda rule: lambda token, position: (token * rule[0] + position * rule[1]) % rule[2]
)


@given(
    rule=RULES,
    prompt=st.lists(st.integers(0, 29), min_size=1, max_size=20),
    length=st.integers(1, 40),
    ends=st.frozensets(st.integers(0, 29), max_size=3),
    stop=st.lists(st.text("abcdef", min_size=1, max_size=3), max_size=2),
    limits=st.builds(DraftLimits, budget=st.integers(1, 20), max_depth=st.integers(1, 8)),
    room=st.integers(1, 60),
)
def test_any_end_is_the_end_of_the_plain_text(
    rule: Callable[[int, int], int],
    prompt: list[int],
    length: int,
    ends: frozenset[int],
    stop: list[str],
    limits: DraftLimits,
    room: int,
) -> None:
    """Against a loop written out here: a token decides alone whether it is the last."""
    backend = ScriptedBackend(rule, len(prompt) + room)
    text, answer = "", []
    token = prompt[-1]
    for position in range(len(prompt) - 1, len(prompt) - 1 + min(length, room)):
        token = rule(token, position)
        answer.append(token)
        text += chr(97 + token)
        if token in ends or any(string in text for string in stop):
            break
    request = DecodeRequest(
        prompt, length, ends, tuple(stop), lambda ids: "".join(chr(97 + token) for token in ids)
    )
    assert plain(backend, request) == answer
    found, stats = drafted(backend, request, limits, [answer[::2], answer])
    assert found == answer
    assert (
        stats.tokens
        == len(answer)
        == 1 + stats.accepted + sum(step.committed - step.accepted for step in stats.steps)
    )
    assert all(step.accepted <= step.drafted < limits.budget for step in stats.steps)
    assert all(step.committed - step.accepted in (0, 1) for step in stats.steps)
    assert all(step.committed >= 1 for step in stats.steps)


def test_statistics_count_committed_tokens_only() -> None:
    """Eight were drafted, the answer ended after the third: three are accepted, not eight."""
    request = DecodeRequest(PROMPT, 100, frozenset([ANSWER[3]]))
    _, stats = both(request, ANSWER)
    assert stats.tokens == 4
    assert [step.committed for step in stats.steps] == [3]
    assert stats.accepted == 3
    assert stats.drafted > 3
    assert stats.acceptance_rate == 3 / stats.drafted
    assert stats.accepted_share == 3 / 4
    assert stats.tokens_per_step == 3.0


def test_the_observer_sees_the_nodes_that_were_committed() -> None:
    seen: list[tuple[DraftTree, list[int]]] = []
    drafter = Drafter()
    drafter.begin(PROMPT, [("passage", ANSWER)])
    request = DecodeRequest(PROMPT, 6)
    blocks = list(
        lookahead(
            ScriptedBackend(script(ANSWER)),
            drafter,
            request,
            DecodeStats(),
            LIMITS,
            observe=lambda number, tree, nodes: seen.append((tree, nodes)),
        )
    )
    assert len(seen) == len(blocks) - 1
    for (tree, nodes), block in zip(seen, blocks[1:], strict=True):
        assert [tree.token_ids[node] for node in nodes] == block.token_ids[: len(nodes)]
        assert [tree.origins[node] for node in nodes] == block.origins[: len(nodes)]
    assert [origin for block in blocks for origin in block.origins][:2] == [None, ("passage", 1)]


def test_without_drafts_there_is_one_row_a_step() -> None:
    backend = ScriptedBackend(script(ANSWER))
    backend.drafts = False
    found, stats = drafted(backend, DecodeRequest(PROMPT, 10), LIMITS, [ANSWER])
    assert found == ANSWER
    assert backend.forwards == [3, *[1] * 9]
    assert stats.drafted == 0


def test_numbers_of_an_answer_that_took_no_step() -> None:
    stats = DecodeStats()
    assert (stats.tokens_per_step, stats.acceptance_rate, stats.accepted_share) == (0.0, 0.0, 0.0)
    assert (stats.copied_share, stats.decode_tokens_per_s) == (0.0, 0.0)
    stats.tokens, stats.decode_s = 5, 2.0
    stats.steps = [StepStats(3, 2, 3, 0.1, 0.1), StepStats(3, 0, 1, 0.1, 0.1)]
    assert (stats.tokens_per_step, stats.acceptance_rate, stats.decode_tokens_per_s) == (2.0, 2 / 6, 2.0)


def test_greedy_yields_a_token_a_block() -> None:
    stats = DecodeStats()
    blocks = list(greedy(ScriptedBackend(script(ANSWER)), DecodeRequest(PROMPT, 5), stats))
    assert [block.token_ids for block in blocks] == [[token] for token in ANSWER[:5]]
    assert stats.tokens == 5
    assert stats.prompt_tokens == 3
    assert stats.tokens_per_step == 1.0
    assert max(ANSWER) < VOCABULARY
