"""How far 8-bit logits are from float32's, at every token of recorded answers.

    python scripts/int8_quality.py MODEL_FOLDER ANSWERS.jsonl [--limit 10] [--json]

The answers are transcripts as `ragla bench --record` writes them, for the same tokenizer. Both precisions
read the same prompt and the same answer, so that one different token does not change all that follow.
Printed: Kullback–Leibler divergence of 8 bit from float32 and the share of equal best tokens, of first tokens
and of all.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, quantiles
from typing import NamedTuple

from ragla.process import prepare

prepare()

import torch  # noqa: E402

from ragla.decode.model import Dtype, LoadSettings, TargetModel, load_target  # noqa: E402
from ragla.decode.tree_attention import causal_rows  # noqa: E402


class Difference(NamedTuple):
    """Of one position: divergence in nats, and whether both precisions choose the same token."""

    divergence: float
    equal: bool


def main() -> None:
    """Measure and print."""
    options = arguments()
    lines = options.answers.read_text("utf-8").splitlines()[: options.limit]
    recorded = [json.loads(line) for line in lines]
    exact = [answer_logits(target(options, "float32"), answer) for answer in recorded]
    coarse = [answer_logits(target(options, "int8"), answer) for answer in recorded]
    differences = [compare(fine, rough) for fine, rough in zip(exact, coarse, strict=True)]
    result = {
        "model": options.model.name,
        "answers": len(recorded),
        "first": summary([answer[0] for answer in differences]),
        "all": summary([position for answer in differences for position in answer]),
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for name in ("first", "all"):
        row = result[name]
        print(
            f"{name:5} {row['positions']:5} positions  KL {row['kl']:.4f} (90 % below {row['kl_90']:.4f})"
            f"  same best token {row['equal']:.1%}"
        )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--integers", type=Path, help="where 8-bit weights are kept; else nowhere")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


_loaded: dict[str, TargetModel] = {}


def target(options: argparse.Namespace, dtype: Dtype) -> TargetModel:
    """The model in one precision; the other is let go."""
    if dtype not in _loaded:
        _loaded.clear()
        _loaded[dtype] = load_target(options.model, LoadSettings(dtype=dtype, integers=options.integers))
    return _loaded[dtype]


def answer_logits(model: TargetModel, answer: dict[str, list[int]]) -> torch.Tensor:
    """Logits [answer tokens, vocabulary] at the positions of a recorded answer."""
    prompt, out = answer["prompt"], answer["out"]
    cache = model.backend.new_cache(len(prompt) + len(out))
    first = model.backend.forward(causal_rows(prompt, 0, model.backend.device), cache, last=1)
    cache.committed(len(prompt))
    if len(out) == 1:
        return first
    rest = model.backend.forward(causal_rows(out[:-1], len(prompt), model.backend.device), cache)
    return torch.cat([first, rest])


def compare(fine: torch.Tensor, rough: torch.Tensor) -> list[Difference]:
    """Position by position; logits [positions, vocabulary]."""
    wanted, found = (torch.log_softmax(logits.double(), dim=-1) for logits in (fine, rough))
    divergence = (wanted.exp() * (wanted - found)).sum(-1).tolist()
    equal = (fine.argmax(-1) == rough.argmax(-1)).tolist()
    return [Difference(*pair) for pair in zip(divergence, equal, strict=True)]


def summary(differences: list[Difference]) -> dict[str, float]:
    """Mean divergence, its ninth decile, and the share of equal choices."""
    divergences = [difference.divergence for difference in differences]
    highest = quantiles(divergences, n=10)[-1] if len(divergences) > 1 else divergences[0]
    return {
        "positions": len(differences),
        "kl": mean(divergences),
        "kl_90": highest,
        "equal": mean(difference.equal for difference in differences),
    }


if __name__ == "__main__":
    main()
