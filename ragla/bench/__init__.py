"""Runs several decoders on the same questions, in turn: what each cost, and whether their texts agree.

It knows decoders and clocks; it knows no command line, opens no index and loads no target model.
"""

from ragla.bench.decoders import DECODERS, parse_decoders
from ragla.bench.questions import BenchQuestion, load_questions, needs_index
from ragla.bench.report import Report
from ragla.bench.result import BenchResult
from ragla.bench.run import run_bench

__all__ = [
    "DECODERS",
    "BenchQuestion",
    "BenchResult",
    "Report",
    "load_questions",
    "needs_index",
    "parse_decoders",
    "run_bench",
]
