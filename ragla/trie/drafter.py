"""Drafts what an answer's next tokens may be, from everything that was read, and learns from what comes.

The trees are grown in ``growth.py`` (or the compiled core), from counts in ``windows.py`` and beliefs in
``beliefs.py``; this module holds the sources together and knows where the text stands in each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ragla.trie import beliefs
from ragla.trie.answers import Answers
from ragla.trie.beginnings import Beginnings
from ragla.trie.core import grow, step
from ragla.trie.draft_tree import DraftTree
from ragla.trie.growth import NO_SOURCE, Beliefs, Grown, Limits
from ragla.trie.limits import SOURCES, DraftLimits
from ragla.trie.source import Source
from ragla.trie.thoughts import SecondThoughts
from ragla.trie.token_trie import TokenTrie

TAIL = 32  # tokens of the text that are kept at hand: contexts and stop sequences are shorter
EARLIER = 1  # earlier answers among a draft's sources: this question, earlier answers, how they begin


class Drafter:
    """Drafts trees for one model from a question's trie, the trie of earlier answers and recycled ranks.

    The question's trie is dropped whole by ``begin``; earlier answers, beliefs and ranks stay.
    ``without`` switches off members of SOURCES.
    """

    def __init__(
        self,
        order: int = 8,
        answers: Answers | None = None,
        without: Collection[str] = (),
        question_mebibytes: float = 64.0,
    ) -> None:
        unknown = set(without) - set(SOURCES)
        if unknown:
            raise ValueError(f"no such sources: {', '.join(sorted(unknown))}")
        self.without = frozenset(without)
        self.question = Source(TokenTrie(order))
        self.answers = answers if "answers" not in self.without else None
        self._sources = [self.question]
        if self.answers is not None:
            self._sources.append(Source(self.answers.trie))
        self.beginnings = Beginnings(order)
        self._beginning: Source | None = None
        self.question_mebibytes = question_mebibytes
        self.thoughts = SecondThoughts(self.without)
        self.frequent_confidence = beliefs.Means([beliefs.FREQUENT_PRIOR])
        self.calibration = beliefs.Calibration()
        self.endings = beliefs.Endings()
        self._forbidden: frozenset[int] = frozenset()
        self.anchor = beliefs.Anchor()
        self.begin([])

    def begin(
        self,
        prompt_ids: Sequence[int],
        sources: Iterable[tuple[str, Sequence[int]]] = (),
        alike: Callable[[Collection[int]], Mapping[int, Collection[int]]] | None = None,
    ) -> None:
        """Forget the last question; count named sources, then the prompt.

        The prompt comes last so that ``commit`` continues it and recent origins win. ``alike`` gives for
        each token those that are written alike but for a space or a capital: at the start of a span an
        unread token is then followed like the one that was read.
        """
        self.question.trie.clear()
        self._read: list[int] = []
        seeds = [] if "documents" in self.without else list(sources)
        for _ in range(2):  # an answer without drafts is an answer
            try:
                self._seed(list(prompt_ids), seeds)
                break
            except MemoryError:
                self._spare_memory()
        self.anchor.clear(self._read)
        self.thoughts.begin()
        self._tail = list(prompt_ids[-TAIL:])
        self.variants = {} if alike is None else self._variants(alike)
        for source in self._sources:
            source.contexts = source.trie.contexts(self._tail)
        self._beginning = None
        self._tree: Grown | None = None

    def _seed(self, prompt: list[int], sources: list[tuple[str, Sequence[int]]]) -> None:
        """Count what fits: the prompt's two ends first, then the sources, the last given first."""
        room = self._room()
        parts = [("prompt", 0, prompt)]
        if "prompt" in self.without:
            parts = [("prompt", 0, [])]
        elif len(prompt) > room:
            half = max(1, room // 2)
            parts = [("prompt", 0, prompt[:half]), ("prompt", len(prompt) - half, prompt[-half:])]
        room -= sum(len(token_ids) for _, _, token_ids in parts)
        for name, token_ids in reversed(sources):
            if room > 0:
                first = max(0, (len(token_ids) - room) // 2)
                parts.insert(0, (name, first, list(token_ids[first : first + room])))
                room -= len(token_ids)
        for name, first, token_ids in parts:
            self.question.trie.insert(token_ids, name, first)
            self._read += token_ids

    def _room(self) -> int:
        """How many tokens the question's trie may count in all."""
        windows = self.question.trie.windows
        return int(self.question_mebibytes * 2**20 / windows.node_bytes / (windows.order + 1))

    def _variants(self, alike: Callable[[Collection[int]], Mapping[int, Collection[int]]]) -> dict[int, int]:
        known = self.question.trie.windows.known
        written = alike(set(self._read))
        return {other: token for token, others in written.items() for other in others if not known(other)}

    def commit(self, token_ids: Iterable[int]) -> None:
        """Go on by tokens that are part of the answer."""
        for token in token_ids:
            self._observe(token)
            self.thoughts.beside.clear()  # it spoke of one position only
            self._follow(token)
            self._tail.append(token)
        self._beginning = None
        del self._tail[:-TAIL]

    def _observe(self, token: int) -> None:
        """Learn from the token that truly came."""
        named = [source.observe(token) for source in self._drafted_from()]
        if any(named):
            return
        if not self.thoughts.observe(self._tail[-1] if self._tail else None, token):
            self.anchor.observe(token)
            self.frequent_confidence.observe(0, self.question.trie.windows.known(token))

    def _follow(self, token: int) -> None:
        """Step onto the token in every source; it may be copied itself from now on."""
        for source in self._drafted_from():
            source.contexts = step(source.trie.windows, source.contexts, token, self.variants)
        windows = self.question.trie.windows
        copied = len(self.question.contexts) > 2
        self.anchor.move(token, windows.position(self.question.contexts) if copied else None)
        if "answer" not in self.without and len(self._read) < self._room():
            try:
                self.question.trie.extend([token])
                self._read.append(token)
            except MemoryError:
                self._spare_memory()

    def _spare_memory(self) -> None:
        """Memory ran out: forget earlier answers and what was counted of this question."""
        if self.answers is not None:
            self.answers.clear()
        self._read = []
        self.anchor.clear(self._read)
        self.question.trie.clear()
        self.question.trie.insert([], "answer")
        for source in self._sources:
            source.contexts = source.trie.contexts([])

    def learn(self, tree: DraftTree, accepted: Sequence[int]) -> None:
        """See which nodes of the last draft were accepted: calibrate, and count what answers were used."""
        if self._tree is None:
            return
        taken = set(accepted)
        visited = taken | {0}
        last = accepted[-1] if accepted else 0
        self.thoughts.leave([node for node in range(1, len(tree)) if tree.parents[node] == last])
        for node in range(1, len(tree)):
            parent = tree.parents[node]
            if parent in visited:
                going_on = self.endings.going_on.get(tree.token_ids[parent], 1.0)
                group, score = self._tree.classes[node], self._tree.scores[node]
                self.calibration.observe(group, score, node in taken, going_on)
        if self.answers is not None:
            self._credit(self.answers, tree, accepted, self._tree.sources)
        self._tree = None

    def _credit(
        self, answers: Answers, tree: DraftTree, accepted: Sequence[int], sources: Sequence[int]
    ) -> None:
        """Count uses of earlier answers; what stands in this question's sources too was read there."""
        question, contexts = self.question.trie, self.question.contexts
        for node in accepted:
            contexts = step(question.windows, contexts, tree.token_ids[node], self.variants)
            origin = tree.origins[node]
            if sources[node] > 0 and origin is not None:
                if sources[node] == EARLIER:  # how answers begin says nothing of one of them
                    answers.use(origin.source)
                if len(contexts) > 2:  # the root, and a match of two tokens or more
                    tree.origins[node] = question.origin(question.windows.position(contexts))

    def recycle(
        self,
        token_ids: Sequence[int],
        best_ids: Sequence[Sequence[int]],
        visited: Sequence[int] | None = None,
        chances: Sequence[Sequence[float]] | None = None,
    ) -> None:
        """Remember the ids the model ranked best after each token, best first.

        ``visited``: the rows that became text, in order; the others are rejected draft nodes. None: all.
        ``chances``: the model's probabilities of those ids; None: they are not known.
        """
        self.thoughts.recycle(token_ids, best_ids, visited, chances)

    def recycle_prompt(self, token_ids: Sequence[int], best_ids: Sequence[Sequence[int]]) -> None:
        """Remember the ids the model ranked best after tokens of the prompt."""
        self.thoughts.recycle_prompt(token_ids, best_ids)

    @property
    def ranks(self) -> dict[int, Sequence[int]]:
        """The recycled ids after each token, best first; the token seen last comes last."""
        return self.thoughts.ranks

    def forget(self) -> None:
        """Forget earlier answers and recycled ids; beliefs stay."""
        self.forget_ranks()
        if self.answers is not None:
            self.answers.clear()
            self._sources[EARLIER].contexts = self.answers.trie.contexts(self._tail)

    def forget_ranks(self) -> None:
        """Forget the recycled ids; what was learned about how far to trust them stays."""
        self.ranks.clear()

    def learned(self) -> dict[str, list[float]]:
        """What was learned of each source and of all drafts, for ``relearn`` in a later process."""
        return {name: learner.learned() for name, learner in self._learners().items()}

    def relearn(self, learned: Mapping[str, Sequence[float]]) -> None:
        """Take up what was learned before; what does not fit this drafter's order and sources is ignored."""
        for name, learner in self._learners().items():
            if name in learned:
                learner.relearn(learned[name])

    def _learners(self) -> dict[str, beliefs.Means | beliefs.Calibration | beliefs.Endings]:
        named = zip(("question", "answers"), self._sources, strict=False)
        return {
            **{name: source.confidence for name, source in named},
            "beginnings": self.beginnings.confidence,
            "ranks": self.thoughts.confidence,
            "frequent": self.frequent_confidence,
            "recent": self.thoughts.recent.confidence,
            "beside": self.thoughts.beside.confidence,
            "anchor": self.anchor.confidence,
            "calibration": self.calibration,
            "endings": self.endings,
        }

    def end(self, answer_ids: Sequence[int], name: str | None = None, *, ended: bool = False) -> None:
        """Keep a finished answer for later questions; without a name it is named after its tokens.

        ``ended``: it ended by itself, not by a limit or a stop string. An answer whose last token may not
        be drafted, which is how end-of-sequence tokens are known here, did so anyway.
        """
        spoken = [token for token in answer_ids if token not in self._forbidden]
        self.endings.observe(spoken, ended=ended or spoken != list(answer_ids))
        if self.answers is not None and answer_ids:
            self.answers.keep(answer_ids, name)
            self._sources[EARLIER].contexts = self.answers.trie.contexts(self._tail)

    def draft_beginning(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """The best tree after a prompt, to be verified with it; node 0 alone without earlier answers.

        To be called between ``begin`` and the first ``commit``.
        """
        if self.answers is not None and "prefill-draft" not in self.without:
            self._beginning = self.beginnings.source(self.answers.kept)
        return DraftTree([last_token]) if self._beginning is None else self.draft(last_token, limits)

    def _drafted_from(self) -> list[Source]:
        """The sources of the draft at hand, the question's first."""
        return self._sources if self._beginning is None else [*self._sources, self._beginning]

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """The best tree of at most ``limits.budget`` nodes after ``last_token``, likeliest node first."""
        self._forbidden = limits.forbidden
        everywhere = limits.budget
        bounds = Limits(
            limits.budget,
            limits.max_depth,
            1 if limits.shape == "single" else everywhere,
            everywhere if limits.shape == "tree" else 1,
            limits.forbidden,
            limits.barred_anchors,
            limits.stops,
            self._tail,
        )
        sources = self._drafted_from()
        tries = [source.trie.windows for source in sources]
        states = [source.contexts for source in sources]
        grown = grow(tries, states, last_token, bounds, self._beliefs(sources))
        self._tree = grown
        origins = [
            None if source == NO_SOURCE else sources[source].trie.origin(position)
            for source, position in zip(grown.sources, grown.positions, strict=True)
        ]
        return DraftTree(grown.token_ids, grown.parents, grown.probabilities, origins)

    def _beliefs(self, sources: Sequence[Source]) -> Beliefs:
        anchored = [] if "anchor" in self.without else self.anchor.shares()
        return Beliefs(
            [source.confidence.values for source in sources],
            self.thoughts.confidence.values,
            0.0 if "frequent" in self.without else self.frequent_confidence[0],
            self.calibration.values,
            self.thoughts.ranks,
            self.thoughts.shares() + anchored,
            self.variants,
            self.endings.going_on,
        )
