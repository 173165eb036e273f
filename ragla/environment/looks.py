"""All looks in the order in which they are shown; none keeps the others from being had."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ragla.environment import machine, models, software, terminal
from ragla.environment.finding import Finding, Surroundings

Look = Callable[[Surroundings], Iterator[Finding]]
LOOKS: tuple[tuple[str, Look], ...] = (
    ("ragla", software.ragla_itself),
    ("packages", software.packages),
    ("torch", software.torch),
    ("faiss", software.faiss),
    ("kernels", software.kernels),
    ("drafting", software.drafting),
    ("8-bit", software.integers),
    ("extras", software.extras),
    ("threads", machine.threads),
    ("gpu", machine.gpu),
    ("memory", machine.memory),
    ("disk", machine.disk),
    ("embedder", models.embedder),
    ("model", models.target),
    ("reranker", models.reranker),
    ("network", models.network),
    ("step-costs", models.step_costs),
    ("terminal", terminal.streams),
)


def look_around(at: Surroundings) -> Iterator[Finding]:
    """Every finding. An installation that is broken breaks looks, too: such a one is a finding itself."""
    for name, look in LOOKS:
        try:
            yield from look(at)
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            yield Finding(name, "wrong", f"cannot be looked at: {type(error).__name__}: {first}")
