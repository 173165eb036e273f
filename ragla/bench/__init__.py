"""Runs several decoders on the same questions, in turn: what each cost, and whether their texts agree.

It knows decoders and clocks; it knows no command line, opens no index and loads no target model. Its parts
are imported when they are asked for: replaying drafting rules needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragla.bench.names import DECODERS, parse_decoders
    from ragla.bench.questions import BenchQuestion, load_questions, needs_index
    from ragla.bench.report import Report
    from ragla.bench.result import BenchResult
    from ragla.bench.run import run_bench
    from ragla.bench.spec_bench import load_spec_bench

HOMES = {
    "DECODERS": "names",
    "BenchQuestion": "questions",
    "BenchResult": "result",
    "Report": "report",
    "load_questions": "questions",
    "load_spec_bench": "spec_bench",
    "needs_index": "questions",
    "parse_decoders": "names",
    "run_bench": "run",
}

__all__ = [
    "DECODERS",
    "BenchQuestion",
    "BenchResult",
    "Report",
    "load_questions",
    "load_spec_bench",
    "needs_index",
    "parse_decoders",
    "run_bench",
]


def __getattr__(name: str) -> Any:
    """A public name, from the module it lives in (PEP 562)."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
