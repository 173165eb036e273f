"""What a decode cost and gained; every number is defined here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepStats:
    """One forward pass after prefill. Times in seconds.

    ``drafted``: draft nodes verified, node 0 not counted. ``accepted``: draft tokens committed,
    without the bonus token and without what was cut off. ``committed``: tokens committed.
    ``expected``: accepted tokens the drafter expected.
    """

    drafted: int
    accepted: int
    committed: int
    forward_s: float
    draft_s: float
    expected: float = 0.0

    @property
    def nodes(self) -> int:
        """T, the rows of the forward pass: the last token and the draft nodes after it."""
        return self.drafted + 1


@dataclass
class DecodeStats:
    """Totals of one answer. Times in seconds, without what the consumer of the stream does in between.

    ``calibration_s``: spent once per model and machine on measuring what steps cost. ``reused``: prompt
    tokens whose rows were still in the cache. ``decided_alone``: near-ties that one more forward pass over
    a single row has decided. ``prefill_drafted``, ``prefill_accepted``: of the draft that was verified with
    the prompt, which is no step's.
    """

    prompt_tokens: int = 0
    reused: int = 0
    tokens: int = 0
    copied: int = 0
    decided_alone: int = 0
    prefill_drafted: int = 0
    prefill_accepted: int = 0
    prefill_s: float = 0.0
    calibration_s: float = 0.0
    decode_s: float = 0.0
    steps: list[StepStats] = field(default_factory=list)

    @property
    def drafted(self) -> int:
        """Draft nodes verified."""
        return self.prefill_drafted + sum(step.drafted for step in self.steps)

    @property
    def nodes(self) -> list[int]:
        """T of each step, in order."""
        return [step.nodes for step in self.steps]

    @property
    def accepted(self) -> int:
        """Draft tokens committed, bonus tokens not counted."""
        return self.prefill_accepted + sum(step.accepted for step in self.steps)

    @property
    def tokens_per_step(self) -> float:
        """Mean acceptance length: tokens after the first, which costs no step, per step.

        Those that were accepted with the prompt count: they are tokens for which no step was needed.
        """
        return (self.tokens - 1) / len(self.steps) if self.steps else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def accepted_share(self) -> float:
        """Share of the answer's tokens that were accepted draft tokens."""
        return self.accepted / self.tokens if self.tokens else 0.0

    @property
    def copied_share(self) -> float:
        """Share of committed tokens that came from a passage's or document's branch."""
        return self.copied / self.tokens if self.tokens else 0.0

    @property
    def decode_tokens_per_s(self) -> float:
        """Tokens that did not come with the prompt, per second spent on them."""
        later = max(0, self.tokens - 1 - self.prefill_accepted)
        return later / self.decode_s if self.decode_s > 0 else 0.0
