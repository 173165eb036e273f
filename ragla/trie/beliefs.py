"""What a drafter believes of its sources, and how it learns better from every answer.

Confidences are running means of hits with a floor under their rate, so that the old fades. The last word
has a logistic calibration of each class of nodes (Platt, 1999), learned by gradient, which keeps the sum
of a tree's probabilities an honest count of the tokens to come.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite

from ragla.trie.growth import CLASSES, KINDS, logistic

CONFIDENCE_PRIOR = (0.0, 0.30, 0.50, 0.65, 0.72, 0.78, 0.82, 0.85, 0.90)  # by match length
FREQUENT_PRIOR = 0.5
ANCHOR_PRIOR = (0.08, 0.05, 0.03, 0.02)  # going on 0, 1, 2, 3 tokens behind the end of a broken copy
PRIOR_WEIGHT = 10.0  # observations a prior is worth
LEAST_RATE = 0.03
OFFSET_RATE, SLOPE_RATE = 0.05, 0.01
SLOPES = (0.5, 1.5)
MOST_ENDINGS = 200  # occurrences of a token after which its counts are halved
MOST_OFFSET = 20.0  # of a calibration that is taken up again; log-odds of any share lie within 12


class Means:
    """Running means: at first of all observations, later of the last ones, at ``least_rate`` each."""

    def __init__(
        self, priors: Sequence[float], least_rate: float = LEAST_RATE, weight: float = PRIOR_WEIGHT
    ) -> None:
        self.values = array("d", priors)
        self._weights = array("d", [weight] * len(priors))
        self._least_rate = least_rate

    def __getitem__(self, index: int) -> float:
        return self.values[index]

    def observe(self, index: int, hit: bool) -> None:
        """Take one more observation."""
        self._weights[index] += 1.0
        rate = max(1.0 / self._weights[index], self._least_rate)
        self.values[index] += rate * (hit - self.values[index])

    def learned(self) -> list[float]:
        """The means, then how many observations each is worth."""
        return [*self.values, *self._weights]

    def relearn(self, learned: Sequence[float]) -> bool:
        """Take up what ``learned`` gave; False, and nothing changes, where it is none of these means."""
        means, weights = learned[: len(self.values)], learned[len(self.values) :]
        if len(weights) != len(self._weights):
            return False
        if not all(0.0 <= mean <= 1.0 for mean in means):
            return False
        if not all(weight > 0.0 and isfinite(weight) for weight in weights):
            return False
        self.values[:] = array("d", means)
        self._weights[:] = array("d", weights)
        return True


def length_confidences(order: int) -> Means:
    """One confidence per match length and kind of evidence."""
    last = len(CONFIDENCE_PRIOR) - 1
    return Means([CONFIDENCE_PRIOR[min(k, last)] for k in range(order + 1) for _ in range(KINDS)])


class Calibration:
    """From a share's log-odds to a probability: slope and offset of each class.

    Nodes are in one class where the longest match is about as long, both are the root or neither is, and
    the model itself thought as well of the token the last time that it stood there.
    """

    def __init__(self) -> None:
        self.values = array("d", [1.0, 0.0] * CLASSES)

    def observe(self, group: int, score: float, hit: bool, going_on: float = 1.0) -> None:
        """One step of gradient descent; ``going_on``: how likely the answer was not to end there."""
        slope, offset = self.values[2 * group], self.values[2 * group + 1]
        error = hit - going_on * logistic(slope * score + offset)
        slope = min(max(slope + SLOPE_RATE * error * score, SLOPES[0]), SLOPES[1])
        self.values[2 * group], self.values[2 * group + 1] = slope, offset + OFFSET_RATE * error

    def learned(self) -> list[float]:
        """Slope and offset of each class in turn."""
        return list(self.values)

    def relearn(self, learned: Sequence[float]) -> bool:
        """Take up what ``learned`` gave; False, and nothing changes, where it is no calibration."""
        if len(learned) != len(self.values):
            return False
        if not all(SLOPES[0] <= slope <= SLOPES[1] for slope in learned[::2]):
            return False
        if not all(abs(offset) <= MOST_OFFSET for offset in learned[1::2]):
            return False
        self.values[:] = array("d", learned)
        return True


class Endings:
    """After which tokens answers end: a copy goes on at a full stop, the answer often does not.

    ``going_on``: for each token that ended an answer, how likely an answer goes on after it.
    """

    def __init__(self) -> None:
        self.going_on: dict[int, float] = {}
        self._counts: dict[int, tuple[int, int]] = {}  # how often it was the end, and how often it came

    def observe(self, answer_ids: Sequence[int], *, ended: bool) -> None:
        """See a whole answer, without its end-of-sequence token; ``ended``: it ended by itself."""
        if ended and answer_ids:
            ends, came = self._counts.get(answer_ids[-1], (0, 0))
            self._counts[answer_ids[-1]] = ends + 1, came
        for token, (ends, came) in self._counts.items():
            self._count(token, ends, came + answer_ids.count(token))

    def _count(self, token: int, ends: int, came: int) -> None:
        if came > MOST_ENDINGS:  # the old fades
            ends, came = ends // 2, came // 2
        self._counts[token] = ends, came
        self.going_on[token] = 1.0 - ends / (came + 1.0)

    def learned(self) -> list[float]:
        """A token, how often it was the end and how often it came, token after token."""
        return [float(number) for token, counts in self._counts.items() for number in (token, *counts)]

    def relearn(self, learned: Sequence[float]) -> bool:
        """Take up what ``learned`` gave; False, and nothing changes, where it is none of these counts."""
        if len(learned) % 3 or not all(number >= 0.0 and number.is_integer() for number in learned):
            return False
        rows = list(zip(learned[::3], learned[1::3], learned[2::3], strict=True))
        if not all(ends <= came <= MOST_ENDINGS for _, ends, came in rows):
            return False
        for token, ends, came in rows:
            self._count(int(token), int(ends), int(came))
        return True


class Anchor:
    """The last position the text was copied from: after an edit of a few tokens the copy may go on there."""

    edits = 3  # tokens that may differ before the anchor is given up
    skips = 4  # 0 to 3 tokens of the original may be left out

    def __init__(self) -> None:
        self.confidence = Means(ANCHOR_PRIOR * self.edits, weight=50.0)
        self.clear([])

    def clear(self, read: list[int]) -> None:
        """Begin with the tokens that can be copied, in the order in which their positions count."""
        self._read = read
        self._place: int | None = None
        self._misses = 0

    def shares(self) -> list[tuple[int, float]]:
        """The tokens at which a broken copy may go on; none while it is whole."""
        first = (self._misses - 1) * self.skips
        return [(token, self.confidence[first + skip]) for skip, token in self._ahead()]

    def observe(self, token: int) -> None:
        """See what came where nothing better was known."""
        first = (self._misses - 1) * self.skips
        for skip, expected in self._ahead():
            self.confidence.observe(first + skip, expected == token)

    def move(self, token: int, copied_from: int | None) -> None:
        """Follow the text by a token; ``copied_from``: where it was read last in a match of two or more."""
        read, place = self._read, self._place
        if place is not None and place + 1 < len(read) and read[place + 1] == token:
            self._place, self._misses = place + 1, 0
            return
        for skip, expected in self._ahead():
            if expected == token and place is not None:
                self._place, self._misses = place + 1 + skip, 0
                return
        if copied_from is not None:
            self._place, self._misses = copied_from, 0
        else:
            self._misses += 1

    def _ahead(self) -> list[tuple[int, int]]:
        if self._place is None or not 1 <= self._misses <= self.edits:
            return []
        return list(enumerate(self._read[self._place + 1 : self._place + 1 + self.skips]))
