"""A bench result as the JSON that other programs may rely on, and back.

Keys are kept within a schema version; new ones may come. What an older ragla did not write reads as unknown.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from ragla.bench.environment import Environment
from ragla.bench.result import (
    SCHEMA,
    BenchResult,
    DecoderResult,
    Difference,
    FirstAnswer,
    Interval,
    Point,
    Position,
    Row,
    Seconds,
)
from ragla.errors import UsageError
from ragla.render import one_line, safe

STDIN = Path("-")
HOW = "write one: ragla bench --json > FILE.json"


def result_json(result: BenchResult) -> dict[str, Any]:
    """Plain lists, dicts and numbers."""
    return {
        "schema": SCHEMA,
        "environment": asdict(result.environment),
        "questions": result.questions,
        "unanswered": list(result.unanswered),
        "decoders": {name: _decoder(found) for name, found in result.decoders.items()},
        "rows": [_row(row) for row in result.rows],
        "categories": {
            category: {name: _decoder(found) for name, found in decoders.items()}
            for category, decoders in result.categories.items()
        },
        "first_answer": result.first_answer and asdict(result.first_answer),
        "exact": result.exact,
        "follow_ups": result.follow_ups,
        "answers": result.answers,
        "planned": result.planned,
    }


def _decoder(found: DecoderResult) -> dict[str, Any]:
    greedy, hf_greedy = found.speedup_vs_greedy, found.speedup_vs_hf_greedy
    return {
        "tokens_per_step": found.tokens_per_step,
        "accepted_share": found.accepted_share,
        "decode_tokens_per_s": found.decode_tokens_per_s,
        "ttft_s": found.ttft_s,
        "speedup_vs_greedy": greedy and greedy.value,
        "speedup_spread": greedy and [greedy.low, greedy.high],
        "speedup_vs_hf_greedy": hf_greedy and hf_greedy.value,
        "speedup_vs_hf_greedy_spread": hf_greedy and [hf_greedy.low, hf_greedy.high],
        "too_short": found.too_short,
        "identical": list(found.identical),
        "first_difference": found.first_difference and asdict(found.first_difference),
        "contains": found.contains,
        "token_f1": found.token_f1,
        "tokens_per_s": found.tokens_per_s and asdict(found.tokens_per_s),
        "ttft": found.ttft and asdict(found.ttft),
        "step_tokens": found.step_tokens and asdict(found.step_tokens),
        "nodes_per_step": found.nodes_per_step,
        "lengths": list(found.lengths),
        "positions": [asdict(each) for each in found.positions],
        "seconds": found.seconds and asdict(found.seconds),
        "points": [asdict(each) for each in found.points],
        "same_as_exact": found.same_as_exact and list(found.same_as_exact),
        "agreement": found.agreement,
    }


def _row(row: Row) -> dict[str, Any]:
    decoders = {
        name: {
            "tokens": len(answer.token_ids),
            "steps": answer.steps,
            "decode_s": answer.decode_s,
            "ttft_s": row.ttft_s(name),
            "prefill_tokens": answer.prefill_tokens,
            "accepted": answer.accepted,
            "nodes": answer.nodes,
            "draft_s": answer.draft_s,
            "verify_s": answer.verify_s,
        }
        for name, answer in row.answers.items()
    }
    return {
        "id": row.id,
        "run": row.run,
        "prompt_tokens": row.prompt_tokens,
        "order": list(row.order),
        "decoders": decoders,
        "category": row.category,
        "retrieval_s": row.retrieval_s,
    }


def load_result(path: Path) -> BenchResult:
    """What ``ragla bench --json`` wrote, without its rows; ``-`` is stdin.

    A result may come from anywhere: its texts are made harmless for a terminal. Raises UsageError for
    anything else.
    """
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8-sig")
        document = json.loads(text, parse_constant=_no_number)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", HOW) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a JSON document", HOW) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        told = f"its schema is {schema}, not {SCHEMA}" if schema else f"no {SCHEMA} document"
        raise UsageError(f"{path}: {told}", HOW)
    try:
        return _read_result(_harmless(document))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"no {error}"
        raise UsageError(f"{path}: a damaged {SCHEMA} document: {reason}", HOW) from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _harmless(value: Any) -> Any:
    """The same value with texts that cannot control a terminal."""
    if isinstance(value, dict):
        return {one_line(key): _harmless(its) for key, its in value.items()}
    if isinstance(value, list):
        return [_harmless(its) for its in value]
    return safe(value) if isinstance(value, str) else value


def _read_result(document: dict[str, Any]) -> BenchResult:
    first = document.get("first_answer")
    decoders = {name: _read_decoder(found) for name, found in document["decoders"].items()}
    if not decoders:
        raise KeyError("decoders")
    return BenchResult(
        _read(Environment, document["environment"]),
        _read(int, document["questions"]),
        _read(tuple[str, ...], document["unanswered"]),
        decoders,
        (),
        {
            category: {name: _read_decoder(found) for name, found in its.items()}
            for category, its in document.get("categories", {}).items()
        },
        _read(FirstAnswer, first) if first else None,
        _read(str | None, document.get("exact")),
        _read(int, document.get("follow_ups", 0)),
        _read(int, document.get("answers", 0)),
        _read(int, document.get("planned", 0)),
    )


def _read_decoder(found: dict[str, Any]) -> DecoderResult:
    return DecoderResult(
        _read(float | None, found["tokens_per_step"]),
        _read(float, found["accepted_share"]),
        _read(float | None, found["decode_tokens_per_s"]),
        _read(float, found["ttft_s"]),
        _interval(found, "speedup_vs_greedy", "speedup_spread"),
        _interval(found, "speedup_vs_hf_greedy", "speedup_vs_hf_greedy_spread"),
        _read(int, found["too_short"]),
        _read(tuple[int, int], found["identical"]),
        _read(Difference | None, found["first_difference"]),
        _read(float | None, found["contains"]),
        _read(float | None, found["token_f1"]),
        _read(Interval | None, found.get("tokens_per_s")),
        _read(Interval | None, found.get("ttft")),
        _read(Interval | None, found.get("step_tokens")),
        _read(float | None, found.get("nodes_per_step")),
        _read(tuple[NonNegativeInt, ...], found.get("lengths", ())),
        _positions(found.get("positions", ())),
        _read(Seconds | None, found.get("seconds")),
        _read(tuple[Point, ...], found.get("points", ())),
        _read(tuple[int, int] | None, found.get("same_as_exact")),
        _read(float | None, found.get("agreement")),
    )


def _positions(found: Any) -> tuple[Position, ...]:
    positions: tuple[Position, ...] = TypeAdapter(tuple[Position, ...]).validate_python(found)
    if any(part.steps < 1 for part in positions):
        raise KeyError("steps")
    return positions


def _interval(found: dict[str, Any], value: str, spread: str) -> Interval | None:
    if found[value] is None:
        return None
    low, high = found[spread]
    return TypeAdapter(Interval).validate_python({"value": found[value], "low": low, "high": high})


def _read(kind: Any, value: Any) -> Any:
    """A value checked against a type. Raises ValidationError."""
    return TypeAdapter(kind).validate_python(value)
