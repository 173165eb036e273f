"""One run that says whether the GPU backend is right and what it gains, in under eight minutes.

    python scripts/gpu_check.py --transcripts answers.jsonl --json gpu.json

Needs this checkout and one GPU, no network and no model: it makes one in the shape of a 7B model with
random weights. Its logits over draft trees are held against plain forward passes; then it measures the
memory's bandwidth, what steps and prompts cost, and how fast recorded answers are decoded, beside
transformers' ``generate`` and its prompt lookup. Without ``--transcripts`` (one answer a line, as
``ragla bench --record`` writes them) answers are made up of copies of their prompts.

The exit code is 1 when a check fails.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import transformers
from forced import ForcedBackend, run_greedy, run_lookahead, run_stock, synthetic_transcripts
from gpu_measures import (
    Measure,
    attention_times,
    launch_counts,
    random_model,
    step_times,
    stock_attention,
    tree_error,
)
from gpu_report import table

from ragla.bench.transcripts import Transcript, load_transcripts
from ragla.decode.backend.cuda import CudaBackend
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.budget import StepCost
from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.trie import Drafter, DraftLimits

SHAPES: dict[str, dict[str, Any]] = {
    "7b": {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
           "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768},
    "1.5b": {"vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
             "num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": 32768},
    "tiny": {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192},
}  # fmt: skip
EXACT = {**SHAPES["tiny"], "num_hidden_layers": 4, "initializer_range": 0.3}
SIZES, TINY_SIZES = [1, 2, 4, 8, 16, 32, 64], [1, 2, 8]
CONTEXTS, TINY_CONTEXTS = [1024, 4096, 16384], [64, 160]
METHODS = ("ragla lookahead", "ragla greedy", "generate", "generate, prompt lookup")
MINUTES = 7.0


def main() -> int:
    """Run everything that the time allows; print a table and a JSON document."""
    options = arguments()
    if options.tiny:
        torch.set_num_threads(1)  # tiny matrices gain nothing from threads, and waiting for each other costs
    check = Check(options)
    for part in (check.exactness, check.trees, check.device_figures, check.steps, check.answers):
        part()
    print(table(check.result), flush=True)
    document = json.dumps(check.result, indent=1)
    print(document)
    if options.json:
        options.json.write_text(document + "\n", encoding="utf-8")
    return 1 if check.result["failed"] else 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transcripts", type=Path, help="recorded answers, one JSON object a line")
    parser.add_argument("--answers", type=int, default=12, help="how many answers to decode (default 12)")
    parser.add_argument("--shape", choices=list(SHAPES), help="default: the largest that fits the memory")
    parser.add_argument(
        "--tiny", action="store_true", help="a tiny model on the CPU, to see that all parts run"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="stop measuring after so long (default 7)"
    )
    parser.add_argument("--json", type=Path, help="write the JSON document here, too")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error("no GPU that this torch can use; --tiny runs on the CPU")
    if options.transcripts and not options.transcripts.is_file():
        parser.error(f"{options.transcripts}: no such file")
    return options


class Check:
    """The parts of the check and what they found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.began = perf_counter()
        self.tiny = options.tiny
        self.device = torch.device("cpu" if self.tiny else "cuda:0")
        self.measure = Measure(self.device, quick=self.tiny)
        self.shape = options.shape or self._shape()
        self.chunk = 64 if self.tiny else 2048
        self.transcripts = self._transcripts()
        sizes = dict(SHAPES[self.shape])
        highest = max(
            max(one.prompt_ids + one.answer_ids + tuple(token for row in one.best_ids for token in row))
            for one in self.transcripts
        )
        sizes["vocab_size"] = max(sizes["vocab_size"], highest + 1)
        self.model = random_model("qwen2", sizes, torch.float32 if self.tiny else torch.bfloat16, self.device)
        self.backend, self.stock = CudaBackend(self.model), EagerBackend(self.model)
        self.result: dict[str, Any] = {"schema": "ragla.gpu-check/1", "failed": [], **self._conditions()}
        if self.backend.notices:
            self.result["failed"].append("; ".join(self.backend.notices))

    def _shape(self) -> str:
        if self.tiny:
            return "tiny"
        return "7b" if torch.cuda.get_device_properties(self.device).total_memory > 22e9 else "1.5b"

    def _transcripts(self) -> list[Transcript]:
        if self.options.transcripts:
            found = load_transcripts(self.options.transcripts, self.options.answers)
            return [one for one in found if len(one.answer_ids) > 1]
        tokens = (96, 40) if self.tiny else (800, 120)
        return synthetic_transcripts(self.options.answers, SHAPES[self.shape]["vocab_size"], *tokens)

    def _conditions(self) -> dict[str, Any]:
        cuda = self.device.type == "cuda"
        name = torch.cuda.get_device_name(self.device) if cuda else platform.processor() or "CPU"
        return {
            "device": name,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "transformers": transformers.__version__,
            "shape": self.shape,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "weights_gb": self._weight_bytes() / 1e9,
            "transcripts": str(self.options.transcripts or "made up"),
        }

    def _weight_bytes(self) -> int:
        """What a step reads: all weights but the input embedding, which is looked up."""
        head = self.model.get_output_embeddings().weight
        read = {id(one): one.nbytes for one in self.model.parameters()}
        embedding = self.model.get_input_embeddings().weight
        total = sum(read.values()) - (0 if embedding is head else embedding.nbytes)
        return int(total)

    def late(self) -> bool:
        """Whether the time for measuring is over."""
        minutes: float = self.options.minutes
        return perf_counter() - self.began > 60 * minutes

    def expect(self, what: str, holds: bool) -> None:
        """Note a check that failed."""
        if not holds:
            self.result["failed"].append(what)

    def exactness(self) -> None:
        """A small float32 model's answer is the same by every way of decoding it."""
        model = random_model("qwen2", EXACT, torch.float32, self.device)
        backend = CudaBackend(model)
        request = DecodeRequest([3 + (at * 37) % 500 for at in range(60)], 60, prefill_rows=32)
        answers = {
            "greedy": [t for block in greedy(backend, request, DecodeStats()) for t in block.token_ids]
        }
        drafter, stats = Drafter(), DecodeStats()
        drafter.begin(request.prompt_ids, [("the answer", answers["greedy"])])
        blocks = lookahead(backend, drafter, request, stats, DraftLimits(budget=32))
        answers["lookahead"] = [token for block in blocks for token in block.token_ids]
        with stock_attention(model):
            prompt = torch.tensor([request.prompt_ids], device=self.device)
            found = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=60,
                eos_token_id=None, pad_token_id=0,
            )  # fmt: skip
        answers["generate"] = found[0, prompt.shape[1] :].tolist()
        same = answers["greedy"] == answers["lookahead"] == answers["generate"]
        self.result["float32_answers_equal"] = same
        self.result["float32_tokens_per_step"] = stats.tokens_per_step
        self.expect("float32 answers differ", same)
        self.expect("nothing was accepted of a known answer", stats.tokens_per_step > 2)

    def trees(self) -> None:
        """Logits over a draft tree are those of plain forwards, as nearly as transformers' own are."""
        error = tree_error(self.backend, 12)
        with stock_attention(self.model):
            stock = tree_error(self.stock, 12)
        self.result["tree_error"] = {"recorded": error, "stock": stock}
        self.expect(f"tree logits are off by {error:.1e}", error <= max(3 * stock, 1e-4))

    def device_figures(self) -> None:
        """Bandwidth, the least time of a step, and launches."""
        bandwidth = self.measure.copy_bandwidth()
        self.result["copy_gb_per_s"] = bandwidth / 1e9
        self.result["floor_s"] = self._weight_bytes() / bandwidth
        rows = 8 if self.tiny else 16
        self.result["launches"] = launch_counts(self.measure, self.backend, self.stock, rows)

    def steps(self) -> None:
        """t(T) and TTFT at several contexts, recorded; stock steps at the shortest."""
        sizes, contexts = (TINY_SIZES, TINY_CONTEXTS) if self.tiny else (SIZES, CONTEXTS)
        self.result["steps"], self.result["attention"] = {}, {}
        for context in contexts:
            if self.late():
                break
            found = step_times(self.measure, self.backend, context, sizes, self.chunk)
            self.result["steps"][context] = found
            times = attention_times(self.measure, self.backend, context, sizes[::3])
            self.result["attention"][context] = times
        with stock_attention(self.model):
            some = [size for size in sizes if size in (1, 8, 16, 64)]
            found = step_times(self.measure, self.stock, contexts[0], some, self.chunk)
            self.result["stock_steps"] = {contexts[0]: found}

    def answers(self) -> None:
        """Decode the transcripts by every method in turn, and compare each answer with its own greedy."""
        forced, cost = ForcedBackend(self.backend), StepCost()
        runs: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
        warm_up = [*self.transcripts[:1], *self.transcripts]  # the first is decoded once for nothing
        for number, transcript in enumerate(warm_up):
            if number > 1 and self.late():
                break
            forced.say(transcript)
            for method, run in self._methods(forced, transcript, cost).items():
                figures = run()
                if number > 0:
                    runs[method].append(figures)
        self.result["answers"] = {
            method: {key: median(one[key] for one in found) for key in found[0]}
            for method, found in runs.items()
        }
        self.result["answers_decoded"] = len(runs["generate"])
        base = runs["ragla lookahead"]
        self.result["speedups"] = {
            f"over {method}": median(
                one["tokens_per_s"] / other["tokens_per_s"] for one, other in zip(base, found, strict=True)
            )
            for method, found in runs.items()
            if method != "ragla lookahead"
        }
        if self.device.type == "cuda":
            self.result["peak_memory_gb"] = torch.cuda.max_memory_allocated(self.device) / 1e9
        self.result["seconds"] = perf_counter() - self.began

    def _methods(
        self, forced: ForcedBackend, transcript: Transcript, cost: StepCost
    ) -> dict[str, Callable[[], dict[str, float]]]:
        def stock(lookup: bool) -> dict[str, float]:
            with stock_attention(self.model):
                return run_stock(self.model, transcript, self.measure.wait, lookup)

        return {
            "ragla lookahead": lambda: run_lookahead(forced, transcript, self.chunk, cost),
            "ragla greedy": lambda: run_greedy(forced, transcript, self.chunk),
            "generate": lambda: stock(False),
            "generate, prompt lookup": lambda: stock(True),
        }


if __name__ == "__main__":
    sys.exit(main())
