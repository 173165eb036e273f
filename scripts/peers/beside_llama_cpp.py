"""Decoding speed of ragla beside llama.cpp: the same GGUF, prompts and threads, both greedy.

    pip install llama-cpp-python        # compiles llama.cpp, ten minutes on two cores
    python scripts/peers/beside_llama_cpp.py MODEL.gguf --questions FILE.jsonl [--limit 5] [--json]

MODEL.gguf is the file that the profile's model was converted from. The questions bring their passages; all
decoders answer each in turn, in an order that rotates. The prompt's tokens are ragla's, and the clock of
decoding starts with the first token of the answer. The two programs round differently, so their texts may
part: "common" counts the tokens that they begin with alike.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from ragla.process import prepare

prepare()

import torch  # noqa: E402

from ragla.answer import Answerer, Prepared  # noqa: E402
from ragla.bench.decoders import Run, make_runs, request_for  # noqa: E402
from ragla.bench.questions import load_questions  # noqa: E402
from ragla.bench.run import rotated  # noqa: E402
from ragla.bench.tasks import prepare_tasks  # noqa: E402
from ragla.flags import load_profile  # noqa: E402
from ragla.session import load_step_cost, open_target  # noqa: E402


class Timed(NamedTuple):
    """One answer: its tokens, seconds to the first of them, and seconds for the others."""

    token_ids: tuple[int, ...]
    ttft_s: float
    decode_s: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens after the first, by the second."""
        return (len(self.token_ids) - 1) / self.decode_s


Decode = Callable[[Prepared], Timed]


def main() -> None:
    """Measure and print."""
    options = arguments()
    profile = load_profile(options.profile, options.set).profile
    target = open_target(profile)
    answerer = Answerer(profile, target, load_step_cost(profile, target))
    tasks, _ = prepare_tasks(load_questions(options.questions, options.limit), answerer, None)
    longest = max(len(task.prepared.prompt.token_ids) for task in tasks)
    runs = make_runs(("lookahead", "greedy"), answerer)
    decoders = {
        **{name: ours(answerer, run) for name, run in runs.items()},
        "llama.cpp": theirs(options.model, answerer, longest + profile.decode.max_new_tokens),
    }
    for decode in decoders.values():  # once to warm up
        decode(tasks[0].prepared)
    for run in runs.values():  # or the first answer would be drafted from itself
        run.reset()
    answers = [
        {name: decoders[name](task.prepared) for name in rotated(list(decoders), index)}
        for index, task in enumerate(tasks)
    ]
    result = summary(answers)
    print(json.dumps(result, indent=1) if options.json else "\n".join(lines(result)))


def ours(answerer: Answerer, run: Run) -> Decode:
    """One of ragla's own decoders."""

    def decode(prepared: Prepared) -> Timed:
        done = run.decode(prepared, request_for(answerer, prepared))
        return Timed(done.token_ids, done.ttft_s, done.decode_s)

    return decode


def theirs(model: Path, answerer: Answerer, context: int) -> Decode:
    """llama.cpp over the same prompt tokens, ending where ragla ends."""
    from llama_cpp import Llama

    threads = torch.get_num_threads()
    llama: Any = Llama(str(model), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)
    most, ends = answerer.profile.decode.max_new_tokens, answerer.target.end_ids

    def decode(prepared: Prepared) -> Timed:
        llama.reset()
        began = perf_counter()
        # without a penalty for repetition, which is the library's default
        stream = llama.generate(list(prepared.prompt.token_ids), temp=0.0, repeat_penalty=1.0, reset=True)
        token_ids = [next(stream)]
        first = perf_counter()
        while len(token_ids) < most and token_ids[-1] not in ends:
            token_ids.append(next(stream))
        return Timed(tuple(token_ids), first - began, perf_counter() - first)

    return decode


def summary(answers: list[dict[str, Timed]]) -> dict[str, Any]:
    """Medians over the questions, and of the ratios to llama.cpp within each question."""
    long = [answer for answer in answers if min(len(timed.token_ids) for timed in answer.values()) > 1]
    result: dict[str, Any] = {"questions": len(answers), "threads": torch.get_num_threads(), "decoders": {}}
    for name in answers[0]:
        ratios = [answer[name].tokens_per_s / answer["llama.cpp"].tokens_per_s for answer in long]
        result["decoders"][name] = {
            "tokens": sum(len(answer[name].token_ids) for answer in answers),
            "tokens_per_s": median(answer[name].tokens_per_s for answer in long),
            "times_llama_cpp": median(ratios),
            "least": min(ratios),
            "most": max(ratios),
            "ttft_s": median(answer[name].ttft_s for answer in answers),
            "tokens_in_common": sum(
                in_common(answer[name].token_ids, answer["llama.cpp"].token_ids) for answer in answers
            ),
        }
    return result


def in_common(ours: Iterable[int], theirs: Iterable[int]) -> int:
    """With how many equal tokens two answers begin."""
    count = 0
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            break
        count += 1
    return count


def lines(result: dict[str, Any]) -> list[str]:
    """The result as a table."""
    heads = ("tokens/s", "x llama.cpp", "(range)", "TTFT s", "tokens", "common")
    table = [
        f"{result['questions']} questions, {result['threads']} threads, medians",
        "{:10} {:>9} {:>12} {:>14} {:>7} {:>7} {:>7}".format("", *heads),
    ]
    for name, row in result["decoders"].items():
        spread = f"{row['least']:.2f}-{row['most']:.2f}"
        table.append(
            f"{name:10} {row['tokens_per_s']:9.1f} {row['times_llama_cpp']:12.2f} {spread:>14} "
            f"{row['ttft_s']:7.2f} {row['tokens']:7} {row['tokens_in_common']:7}"
        )
    return table


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="the GGUF file")
    parser.add_argument("--profile", default="offline", help="whose model was made of the same file")
    parser.add_argument("--set", "-s", action="append", help="a setting of the profile, KEY=VALUE")
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines with passages")
    parser.add_argument("--limit", type=int, default=5, help="how many of them")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
