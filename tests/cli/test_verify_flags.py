"""``--verify`` and ``--exact``: what they say of good answers, near-ties and bugs, and the exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from ragla.decode.recheck import Difference, Verdict
from ragla.decode.ties import Gap
from ragla.render_answer import sparkline, verdict_json, verdict_line
from tests.cli.tiny_world import QUESTION, Ragla, World, document

BFLOAT16 = ["-s", "decode.dtype=bfloat16", "-s", "decode.backend=eager"]
FLOAT32 = ["-s", "decode.dtype=float32"]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_an_exact_answer_is_verified(ragla: Ragla, world: World, dtype: str) -> None:
    more = ["-s", f"decode.dtype={dtype}"]
    told = document(ragla("ask", QUESTION, *world.flags, "--verify", "--json", *more))
    assert told["verify"] == {"verdict": "equal", "tokens": 24, "dtype": dtype, "difference": None}
    result = ragla("ask", QUESTION, *world.flags, "--verify", *more)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == "verified: plain decoding gives the same 24 tokens"


def test_what_no_model_said_is_a_bug(ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that takes another first token: the answer differs by far more than rounding."""
    import ragla.decode.decoder as decoder

    honest = decoder.accepted_path

    def careless(tree: Any, choose: Any) -> tuple[list[int], list[int]]:
        nodes, chosen = honest(tree, choose)
        return nodes, [chosen[0] ^ 1, *chosen[1:]]

    monkeypatch.setattr(decoder, "accepted_path", careless)
    result = ragla("ask", QUESTION, *world.flags, "--verify", *FLOAT32)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("bug at token 1: the answer has ")
    told = ragla("ask", QUESTION, *world.flags, "--verify", "--json", *FLOAT32)
    assert told.exit_code == 1
    found = document(told)["verify"]
    assert (found["verdict"], found["tokens"]) == ("bug", 0)
    difference = found["difference"]
    assert difference["position"] == 0
    assert difference["plain"]["logit"] - difference["answer"]["logit"] == pytest.approx(difference["gap"])
    assert difference["gap"] > difference["tolerance"] > 0
    assert difference["answer"]["token_id"] ^ 1 == difference["plain"]["token_id"]
    assert ragla("ask", QUESTION, *world.flags).exit_code == 0


def test_a_sampled_answer_is_not_verified(ragla: Ragla, world: World) -> None:
    result = ragla("ask", QUESTION, *world.flags, "--verify", "-s", "decode.temperature=0.7")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: --verify compares with greedy text, decode.temperature is 0.7",
        "  → add --set decode.temperature=0",
    ]


def test_a_question_without_passages_has_nothing_to_verify(ragla: Ragla, world: World) -> None:
    flags = [*world.flags, "--verify", "-s", "retrieve.relevance_floor=1.0"]
    result, told = ragla("ask", QUESTION, *flags), ragla("ask", QUESTION, *flags, "--json")
    assert result.exit_code == told.exit_code == 4
    assert document(told)["verify"] is None


def test_exact_is_for_half_precision(ragla: Ragla, world: World) -> None:
    flags = [*world.flags, *FLOAT32, "--exact"]
    told = document(ragla("ask", QUESTION, *flags, "--json"))
    assert told["notices"] == ["--exact changes nothing in float32, which is exact as it is"]
    assert "note: --exact changes nothing in float32" in ragla("ask", QUESTION, *flags).stderr
    sampled = ["--exact", "-s", "decode.temperature=0.5", *BFLOAT16]
    [notice] = document(ragla("ask", QUESTION, *world.flags, "--json", *sampled))["notices"]
    assert notice == "--exact decides greedy text only, decode.temperature is above 0"


def test_in_half_precision_exact_decides_near_ties_alone(ragla: Ragla, world: World) -> None:
    """Of a model whose logits are of every size, within a tolerance of three in a hundred."""
    flags = [
        *world.flags,
        "--json",
        *BFLOAT16,
        "-s",
        "decode.cost_aware=false",
        "-s",
        "decode.max_new_tokens=96",
    ]
    exact = document(ragla("ask", QUESTION, *flags, "--exact", "--verify"))
    assert exact["notices"] == []
    assert exact["stats"]["decided_alone"] > 0
    assert exact["verify"]["verdict"] in ("equal", "near-tie")
    assert document(ragla("ask", QUESTION, *flags))["stats"]["decided_alone"] == 0


# --- words -------------------------------------------------------------------------------------------------


def decode(ids: list[int]) -> str:
    return f"t{ids[0]}\x1b"


def test_a_near_tie_is_told_with_both_candidates() -> None:
    verdict = Verdict(12, Difference(12, 7, 8, Gap(8, 7, 21.375, 21.25), 0.66))
    assert verdict_line(verdict_json(verdict, decode, "bfloat16")).plain == (
        "near-tie at token 13: the answer has 't7\\x1b' (logit 21.25), plain decoding 't8\\x1b' (21.375); "
        "the gap 0.125 is within the 0.66 that rounding explains in bfloat16"
    )
    assert verdict_json(verdict, decode, "bfloat16") == {
        "verdict": "near-tie",
        "tokens": 12,
        "dtype": "bfloat16",
        "difference": {
            "position": 12,
            "answer": {"token_id": 7, "text": "t7\x1b", "logit": 21.25},
            "plain": {"token_id": 8, "text": "t8\x1b", "logit": 21.375},
            "gap": 0.125,
            "tolerance": 0.66,
        },
    }


def test_an_answer_of_another_length_is_told() -> None:
    verdict = Verdict(5, Difference(5, None, 8, None, 0.0))
    assert verdict_line(verdict_json(verdict, decode, "int8")).plain == (
        "bug at token 6: the answer has nothing, plain decoding 't8\\x1b'"
    )
    found = verdict_json(verdict, decode, "int8")["difference"]
    assert (found["answer"], found["plain"]) == (None, {"token_id": 8, "text": "t8\x1b", "logit": None})


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([1], "▁"),
        ([1, 1, 1], "▁▁▁"),
        ([1, 8, 64], "▁▂█"),
        ([2], "█"),
        ([64] * 100 + [1] * 100, "█" * 20 + "▁" * 20),
    ],
)
def test_nodes_over_time(values: list[int], bars: str) -> None:
    assert sparkline(values) == bars
