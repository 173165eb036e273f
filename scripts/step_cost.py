"""What a step over T rows costs on this processor, against one token of stock transformers and the memory.

    python scripts/step_cost.py MODEL_FOLDER [--dtype int8] [--context 1024] [--rows 1 8 16] [--json]

Interleaved: in every round an eager token, a step for each T, a pass over memory. Ratios are taken within
a round; printed are medians with the middle half of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

from ragla.process import prepare

prepare()

import torch  # noqa: E402

from ragla.decode.backend import kernels  # noqa: E402
from ragla.decode.backend.kernel_linears import KernelIntegerLinear, KernelLinear  # noqa: E402
from ragla.decode.backend.linears import IntegerLinear, PackedLinear, SharedLinear  # noqa: E402
from ragla.decode.decoder import lookahead  # noqa: E402
from ragla.decode.greedy import greedy  # noqa: E402
from ragla.decode.model import LoadSettings, TargetModel, load_target  # noqa: E402
from ragla.decode.request import DecodeRequest  # noqa: E402
from ragla.decode.stats import DecodeStats  # noqa: E402
from ragla.decode.tree_attention import causal_rows  # noqa: E402
from ragla.session import integers_folder  # noqa: E402
from ragla.trie import Drafter, DraftLimits  # noqa: E402

Rounds = dict[str, list[float]]
Clock = Callable[[], float]
Task = Callable[[], Any]
PROBE_BYTES = 1 << 28  # several times any cache
LINEARS = (KernelLinear, KernelIntegerLinear, PackedLinear, IntegerLinear, torch.nn.Linear)
TEXT = Path(__file__).parent.parent / "corpora" / "handbook" / "en"


def main() -> None:
    """Measure and print."""
    options, eager = arguments(), None
    integers = options.integers or integers_folder(options.model)
    settings = LoadSettings(dtype=options.dtype, threads=options.threads, integers=integers)
    target = load_target(options.model, settings)
    if not options.no_eager:
        plain = LoadSettings(backend="eager", dtype="float32", threads=options.threads)
        eager = load_target(options.model, plain)
    ids = prompt(target, options.context)
    bench = Bench(target, eager, ids, options.rows, process_time if options.cpu_time else perf_counter)
    rounds = bench.rounds(options.rounds)
    prefills = bench.prefills(max(1, options.rounds // 3))
    result = {
        "model": options.model.name,
        "dtype": target.dtype,
        "kernels": kernels.kind(),
        "context": len(ids),
        "threads": torch.get_num_threads(),
        "rounds": options.rounds,
        "clock": "processor time" if options.cpu_time else "time",
        "load": os.getloadavg()[:2],
        "steps": steps_of(rounds, options.rows),
        "prefill": prefill_of(prefills, len(ids)),
        "floor": floor_of(bench, rounds),
    }
    if options.decode:
        result["decoding"] = decoding_of(target, ids, options.decode, options.budget, bench, rounds)
    sys.stdout.write((json.dumps(result, indent=1) if options.json else table(result)) + "\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("--dtype", default="float32", choices=["float32", "int8"])
    parser.add_argument("--context", type=int, default=1024, help="tokens in the cache")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 16, 32, 64], help="T")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--decode", type=int, default=0, help="also decode so many tokens, plain and drafted")
    parser.add_argument("--budget", type=int, default=16, help="draft nodes of a step, the first included")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--integers", type=Path, help="folder for 8-bit weights; else ragla's cache")
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine, with --threads 1")
    parser.add_argument("--no-eager", action="store_true", help="where memory does not hold it too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.model.is_dir():
        sys.exit(f"{options.model}: no such folder; give the folder of a model")
    if 1 not in options.rows or min(options.rows) < 1 or options.context < 1 or options.rounds < 2:
        sys.exit("give --rows from 1 on, 1 among them, a --context of 1 at least and 2 --rounds at least")
    return options


def prompt(target: TargetModel, tokens: int) -> list[int]:
    """So many tokens of the handbook, as often as it takes."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted(TEXT.rglob("*.md")))
    ids: list[int] = target.tokenizer(text, add_special_tokens=False)["input_ids"]
    return (ids * (tokens // len(ids) + 1))[:tokens]


class Bench:
    """The target and, where asked for, the same model as stock transformers, behind the same text."""

    def __init__(
        self, target: TargetModel, eager: TargetModel | None, ids: list[int], rows: list[int], clock: Clock
    ) -> None:
        self.target, self.eager, self.ids, self.rows, self.clock = target, eager, ids, rows, clock
        self.models = {"ours": target} | ({} if eager is None else {"eager": eager})
        self.caches = {
            name: model.backend.new_cache(len(ids) + max(rows)) for name, model in self.models.items()
        }
        self.probe = torch.ones(PROBE_BYTES // 4)

    def prefill(self, name: str) -> None:
        """The whole text at once, logits of its last token only."""
        backend, cache = self.models[name].backend, self.caches[name]
        cache.truncate(0)
        backend.forward(causal_rows(self.ids, 0, backend.device), cache, last=1)
        cache.committed(len(self.ids))

    def step(self, name: str, rows: int) -> None:
        """T rows behind the text, which stays as it was."""
        backend, cache = self.models[name].backend, self.caches[name]
        backend.forward(causal_rows((self.ids * rows)[:rows], len(self.ids), backend.device), cache)
        cache.truncate(len(self.ids))

    def prefills(self, count: int) -> Rounds:
        """Seconds of prefills, in turns."""
        return self.interleaved({name: partial(self.prefill, name) for name in self.models}, count)

    def interleaved(self, tasks: dict[str, Task], count: int) -> Rounds:
        """Seconds of each task in each of ``count`` rounds."""
        seconds: Rounds = {name: [] for name in tasks}
        with torch.inference_mode():
            for _ in range(count):
                for name, task in tasks.items():
                    began = self.clock()
                    task()
                    seconds[name].append(self.clock() - began)
        return seconds

    def rounds(self, count: int) -> Rounds:
        """Seconds of everything else, in turns, after a round that is not counted."""
        for name in self.models:
            self.prefill(name)
        tasks: dict[str, Task] = {str(rows): partial(self.step, "ours", rows) for rows in self.rows}
        if self.eager is not None:
            tasks["eager"] = partial(self.step, "eager", 1)
        tasks["memory"] = self.probe.sum
        self.interleaved(tasks, 1)
        return self.interleaved(tasks, count)


def spread(values: list[float]) -> dict[str, float]:
    """Median and the bounds of the middle half."""
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": median(values), "low": low, "high": high}


def over(values: list[float], others: list[float]) -> dict[str, float]:
    """The spread of the ratios within rounds."""
    return spread([a / b for a, b in zip(values, others, strict=True)])


def steps_of(rounds: Rounds, rows: list[int]) -> dict[str, Any]:
    """Milliseconds of a step, over one row's and over an eager token's."""
    found: dict[str, Any] = {}
    for name in [*map(str, rows), *(["eager"] if "eager" in rounds else [])]:
        found[name] = {"ms": spread([1e3 * second for second in rounds[name]])}
        for key, base in (("over_1", "1"), ("over_eager", "eager")):
            if base in rounds:
                found[name][key] = over(rounds[name], rounds[base])
    return found


def prefill_of(prefills: Rounds, tokens: int) -> dict[str, Any]:
    """Seconds, tokens a second, and eager's time over ours."""
    found: dict[str, Any] = {
        name: spread(seconds) | {"tokens_per_s": tokens / median(seconds)}
        for name, seconds in prefills.items()
    }
    if "eager" in prefills:
        found["eager_over_ours"] = over(prefills["eager"], prefills["ours"])
    return found


def linears(model: Any) -> Iterator[Any]:
    """Every linear of a model once, fused ones as one."""
    found = [m.product.linear if isinstance(m, SharedLinear) else m for m in model.modules()]
    yield from {id(linear): linear for linear in found if isinstance(linear, LINEARS)}.values()


def weight_bytes(linear: Any) -> int:
    """Bytes that a product reads."""
    if isinstance(linear, (KernelLinear, KernelIntegerLinear)):
        parts = [linear.packed] if linear.scales is None else [linear.packed, linear.scales]
        return sum(part.numel() * part.element_size() for part in parts)
    return int(linear.in_features * linear.out_features * (1 if isinstance(linear, IntegerLinear) else 4))


def floor_of(bench: Bench, rounds: Rounds) -> dict[str, float]:
    """The least time of a step: its bytes over what memory was seen to give, its median pass."""
    model: Any = bench.target.backend.model  # type: ignore[attr-defined]
    weights = sum(weight_bytes(linear) for linear in linears(model))
    kept = [part for layer in bench.caches["ours"].rows for part in (layer.keys, layer.values)]
    text = sum(part[:, :, : len(bench.ids)].numel() * part.element_size() for part in kept)
    rate = PROBE_BYTES / median(rounds["memory"])
    floor_ms = 1e3 * (weights + text) / rate
    return {
        "weight_bytes": weights,
        "cache_bytes": text,
        "bytes_per_s": rate,
        "most_bytes_per_s": PROBE_BYTES / min(rounds["memory"]),
        "ms": floor_ms,
        "step_over_floor": 1e3 * median(rounds["1"]) / floor_ms,
    }


def decoding_of(
    target: TargetModel, ids: list[int], tokens: int, budget: int, bench: Bench, rounds: Rounds
) -> dict[str, Any]:
    """Plain and drafted decoding of the same text: passes over the weights, bandwidth, the host's share."""
    request = DecodeRequest(ids, tokens)
    drafter, drafted, plain = Drafter(), DecodeStats(), DecodeStats()
    drafter.begin(ids)
    expected = [token for block in greedy(target.backend, request, plain) for token in block.token_ids]
    blocks = lookahead(target.backend, drafter, request, drafted, DraftLimits(budget=budget))
    found = [token for block in blocks for token in block.token_ids]
    floor = floor_of(bench, rounds)
    answer: dict[str, Any] = {"equal": found == expected, "budget": budget}
    for name, stats in (("greedy", plain), ("lookahead", drafted)):
        forward = sum(step.forward_s for step in stats.steps)
        moved = len(stats.steps) * (floor["weight_bytes"] + floor["cache_bytes"])
        answer[name] = {
            "tokens_per_s": stats.decode_tokens_per_s,
            "tokens_per_step": stats.tokens_per_step,
            "passes_per_token": 1.0 / stats.tokens_per_step if stats.steps else 0.0,
            "bandwidth_share": moved / stats.decode_s / floor["most_bytes_per_s"],
            "host_us_per_step": 1e6 * (stats.decode_s - forward) / max(1, len(stats.steps)),
            "host_share": (stats.decode_s - forward) / stats.decode_s,
        }
    return answer


def table(result: dict[str, Any]) -> str:
    """What people read."""
    floor, load = result["floor"], result["load"]
    lines = [
        f"{result['model']}, {result['dtype']}, kernels: {result['kernels']}, {result['context']} tokens of "
        f"context, {result['threads']} threads, {result['rounds']} rounds of {result['clock']}, "
        f"load {load[0]:.1f}, before {load[1]:.1f}",
        f"{'T':>6}{'ms':>22}{'over T = 1':>20}{'over eager, T = 1':>20}",
    ]
    for name, entry in result["steps"].items():
        cells = (("ms", 22, 1), ("over_1", 20, 2), ("over_eager", 20, 2))
        lines.append(f"{name:>6}" + "".join(cell(entry.get(key), *form) for key, *form in cells))
    for name, entry in result["prefill"].items():
        rate = f", {entry['tokens_per_s']:.0f} tokens/s" if "tokens_per_s" in entry else ""
        lines.append(f"prefill, {name.replace('_', ' ')}:{cell(entry, 0, 2)}{rate}")
    lines.append(
        f"floor: {floor['weight_bytes'] / 1e6:.0f} MB of weights and {floor['cache_bytes'] / 1e6:.0f} MB of "
        f"cache at {floor['bytes_per_s'] / 1e9:.1f} GB/s (at most {floor['most_bytes_per_s'] / 1e9:.1f}) are "
        f"{floor['ms']:.1f} ms; T = 1 takes {floor['step_over_floor']:.2f} times that"
    )
    return "\n".join([*lines, *decoding_lines(result.get("decoding"))])


def decoding_lines(decoding: dict[str, Any] | None) -> Iterator[str]:
    """Greedy's line, lookahead's, and whether their ids are the same."""
    if decoding is None:
        return
    for name in ("greedy", "lookahead"):
        entry = decoding[name]
        yield (
            f"{name}: {entry['tokens_per_s']:.1f} tokens/s, {entry['passes_per_token']:.2f} passes over the "
            f"weights a token, {entry['bandwidth_share']:.0%} of the bandwidth, host "
            f"{entry['host_us_per_step']:.0f} µs a step, {entry['host_share']:.1%}"
        )
    yield "the same ids" if decoding["equal"] else "DIFFERENT IDS"


def cell(entry: dict[str, float] | None, width: int, digits: int) -> str:
    """Median, and the middle half in brackets."""
    if entry is None:
        return "-".rjust(width)
    low, high = (f"{entry[key]:.{digits}f}" for key in ("low", "high"))
    return f" {entry['median']:.{digits}f} ({low}–{high})".rjust(width)


if __name__ == "__main__":
    main()
