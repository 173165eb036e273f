"""The conditions a bench ran under, as a record: without them its numbers say nothing."""

from __future__ import annotations

from dataclasses import dataclass

SPARE = 0.5  # of a core that others may use before a machine counts as busy


@dataclass(frozen=True)
class TokenRange:
    """Fewest, median and most tokens."""

    min: int
    median: float
    max: int


@dataclass(frozen=True)
class Environment:
    """Versions, machine, model and settings.

    ``date``: UTC, ISO 8601. ``device_name``: what CUDA calls it. ``dtypes``: the precisions compared, the
    profile's own first. ``compiled``: whether the cpu backend's kernels are. ``window``: most tokens of
    prompt and answer. ``load_average``: processes that wanted a core in the minute before the bench,
    ``other_cores``: cores that other programs used while it ran, on average; None where the system does not
    tell.
    """

    ragla: str
    python: str
    torch: str
    transformers: str
    cpu: str
    cores: int
    threads: int
    device: str
    device_name: str | None
    model: str
    dtype: str
    stock_dtype: str
    backend: str
    draft_budget: int
    cost_aware: bool
    max_depth: int
    shape: str
    max_new_tokens: int
    prompt_tokens: TokenRange
    runs: int
    date: str
    dtypes: tuple[str, ...] = ()
    system: str = ""
    compiled: bool | None = None
    window: int | None = None
    answer_tokens: TokenRange | None = None
    load_average: float | None = None
    other_cores: float | None = None

    @property
    def busy(self) -> bool:
        """Whether other programs used the cores that the bench computes on, or wanted them before it."""
        used = self.load_average if self.other_cores is None else self.other_cores
        return is_busy(used, self.threads, self.cores)


def is_busy(used: float | None, threads: int, cores: int) -> bool:
    """Whether others, using so many cores, leave fewer than ``threads`` want."""
    return used is not None and used + threads > cores + SPARE
