"""What the check of a GPU found, as a table for people."""

from __future__ import annotations

from typing import Any


def table(found: dict[str, Any]) -> str:
    """Everything that was found, for people."""
    lines = [
        f"{found['device']}, torch {found['torch']}, transformers {found['transformers']}",
        f"{found['shape']} shape, {found['dtype']}, random weights",
        f"copy bandwidth {found['copy_gb_per_s']:.0f} GB/s; a step reads {found['weights_gb']:.2f} GB,"
        f" in {1e3 * found['floor_s']:.2f} ms at least",
        "launches a step: " + ", ".join(f"{kind} {count}" for kind, count in found["launches"].items()),
        "tree logits off by: " + ", ".join(f"{k} {v:.1e}" for k, v in found["tree_error"].items()),
        f"float32 answers equal: {'yes' if found['float32_answers_equal'] else 'NO'}",
    ]
    for name, rows in (("recorded", found["steps"]), ("stock", found["stock_steps"])):
        lines += ["", f"{name}: milliseconds of a step over T nodes"]
        lines += [_step_line(context, row) for context, row in rows.items()]
    lines += ["", "microseconds of one layer's attention over T nodes"]
    lines += [
        f"  {context:6} keys, {way}: "
        + "  ".join(f"T={size} " + ("-" if one is None else f"{1e6 * one:.0f}") for size, one in row.items())
        for context, ways in found["attention"].items()
        for way, row in ways.items()
    ]
    lines += ["", f"{found['answers_decoded']} recorded answers ({found['transcripts']}), medians"]
    lines += [
        f"  {method:24} {one['tokens_per_s']:8.1f} tokens/s  {one['tokens_per_step']:5.2f} tokens/step"
        f"  TTFT {1e3 * one['ttft_s']:.0f} ms"
        for method, one in found["answers"].items()
    ]
    lines += [f"  {ratio:.2f} x {what}" for what, ratio in found["speedups"].items()]
    lines += [
        "",
        *(f"FAILED: {what}" for what in found["failed"]),
        f"{found['seconds']:.0f} s in all",
        "",
    ]
    return "\n".join(lines)


def _step_line(context: int, row: dict[str, Any]) -> str:
    if "problem" in row:
        return f"  {context:6} tokens: {row['problem']}"
    times = "  ".join(f"T={size} {1e3 * seconds:.2f}" for size, seconds in row["t"].items())
    return f"  {context:6} tokens: {times}  TTFT {1e3 * row['ttft_s']:.0f}"
