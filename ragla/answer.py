"""The seam: a question becomes passages, a prompt, a seeded drafter and then an answer with its sources.

It is the only place where retrieval and decoding meet. It draws nothing and prints nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from ragla.answering import (
    ANSWER_SHARE,
    Answer,
    Answering,
    Decoder,
    OnReading,
    OnStep,
    Stopped,
    say_no_answer,
)
from ragla.citations import misplaced
from ragla.conditions import decode_request, draft_limits
from ragla.config import Profile
from ragla.decode.budget import StepCost
from ragla.decode.decoder import Observer, lookahead
from ragla.decode.greedy import greedy
from ragla.decode.model import TargetModel
from ragla.decode.prefill import PromptCache
from ragla.decode.recheck import Verdict, recheck
from ragla.decode.request import Block, DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.ties import HALF, TOLERANCE
from ragla.errors import UsageError
from ragla.evidence import Evidence, cite
from ragla.judge import judge, refusal, unasked
from ragla.memory import cap_mebibytes
from ragla.prompt import Prompt, Turn, build_prompt, encode, is_refusal
from ragla.spelling import Spelling
from ragla.text_stream import OnText
from ragla.trie import Answers, Drafter
from ragla.writing import Writing

__all__ = ["Answer", "Answerer", "Decoder", "OnStep", "Prepared", "Stopped"]


@dataclass(frozen=True)
class Prepared:
    """A question ready to decode: the prompt and the sequences that seed the trie, with their names."""

    prompt: Prompt
    seeds: list[tuple[str, list[int]]]


class Answerer(Answering):
    """One target model with its drafter; answers questions one after the other.

    With ``reuse`` the rows of a prompt that the next one begins with stay in the cache. ``exact`` decides
    near-ties of half precision as the plain loop does.
    """

    def __init__(
        self,
        profile: Profile,
        target: TargetModel,
        cost: StepCost | None = None,
        *,
        reuse: bool = True,
        exact: bool = False,
    ) -> None:
        self.profile = profile
        self.target = target
        self.cost = cost if profile.decode.cost_aware else None
        self.drafter = self.new_drafter()
        self.spelling = Spelling(target.tokenizer)
        self.limits = draft_limits(profile.decode, target.tokenizer, target.end_ids)
        self.cache = PromptCache(reuse=reuse)
        self.tie = TOLERANCE[target.dtype] if exact and target.dtype in HALF else 0.0

    @property
    def model_name(self) -> str:
        """The profile's name for it."""
        return self.profile.decode.model

    def tell_reading(self, on_reading: OnReading) -> None:
        """Whom to tell after each chunk of a prompt."""
        self.cache.on_rows = on_reading

    def new_drafter(self, without: Collection[str] = ()) -> Drafter:
        """A drafter as the profile wants it, members of ``SOURCES`` switched off."""
        settings = self.profile.decode
        answers = None
        if settings.answer_trie_nodes:
            cap = cap_mebibytes(settings.answers_mib)
            answers = Answers(settings.order, settings.answer_trie_nodes, cap)
        return Drafter(settings.order, answers, without, cap_mebibytes(settings.question_mib))

    def answer(
        self,
        question: str,
        evidence: Evidence,
        on_text: OnText | None = None,
        observe: Observer | None = None,
        decoder: Decoder = "lookahead",
        retrieval_s: float = 0.0,
        *,
        turns: Sequence[Turn] = (),
        stopped: Stopped | None = None,
        on_step: OnStep | None = None,
    ) -> Answer:
        """Answer from given passages, with drafts or without, after the ``turns`` of a conversation."""
        began = perf_counter()
        prepared = self.prepare(question, evidence, turns)
        request = self.request(prepared, evidence)
        judged = judge(
            question, prepared.prompt, self.profile, self.target, self.cache, self.drafter.recycle_prompt
        )
        if (why := refusal(judged, self.profile.retrieve.judge)) is not None:
            sources = cite(evidence.sources, prepared.prompt.used, "", Counter())
            text = say_no_answer(question, on_text)
            return Answer(
                question, text, False, sources=sources, retrieval_s=retrieval_s, notices=(why,), judged=judged
            )
        stats = DecodeStats()
        asked = [question, *(turn.question for turn in turns)]
        stop = self.profile.decode.stop
        writing = Writing(self.target, prepared.prompt, evidence, asked, stop, on_text)
        ttft_s = 0.0
        interrupted = False
        for block in self._decode(prepared, request, decoder, stats, observe):
            ttft_s = ttft_s or retrieval_s + perf_counter() - began - stats.calibration_s
            writing.push(block)
            if on_step is not None:
                on_step(stats)
            interrupted = stopped is not None and stopped()
            if interrupted:
                break
        stats.copied = writing.copied.total()
        text = writing.finish()
        answered = bool(text) and not is_refusal(text)
        kept = answered and not interrupted and decoder == "lookahead" and self._keeps()
        if kept:
            self.drafter.end(writing.token_ids)
        if not text and not interrupted:
            text = say_no_answer(question, writing.trace)
        sources = cite(evidence.sources, prepared.prompt.used, text if answered else "", writing.copied)
        left_out = [evidence.sources[i].path for i in prepared.prompt.left_out if i < len(evidence.sources)]
        provenance = writing.provenance() if answered else ()
        told = (
            self.cache.limits.notice(),
            unasked(judged, self.profile.retrieve.judge, prepared.prompt),
            *misplaced(text, provenance, evidence, prepared.prompt),
        )
        return Answer(
            question, text, answered, writing.token_ids, sources, stats, ttft_s, retrieval_s, left_out,
            kept=kept, interrupted=interrupted, request=request, notices=tuple(filter(None, told)),
            judged=judged, provenance=provenance,
            unsupported=writing.unsupported() if answered else (),
        )  # fmt: skip

    def recheck(self, answer: Answer) -> Verdict | None:
        """Compare an answer with plain decoding; None where nothing was decoded.

        Raises UsageError for a sampled answer.
        """
        if answer.request is None:
            return None
        whole = not answer.interrupted
        return recheck(self.target.backend, answer.request, answer.token_ids, self.target.dtype, whole=whole)

    def _keeps(self) -> bool:
        """Whether answers are kept: a sampled one would not come again."""
        return self.drafter.answers is not None and self.profile.decode.temperature == 0.0

    def prepare(self, question: str, evidence: Evidence, turns: Sequence[Turn] = ()) -> Prepared:
        """Prompt and trie seeds: whole parent documents and the passages that did not fit."""
        settings = self.profile.prompt
        tokenizer = self.target.tokenizer
        window = self.target.backend.context_end
        most = window - min(self.profile.decode.max_new_tokens, window // ANSWER_SHARE)
        prompt = build_prompt(
            tokenizer, question, evidence.passages, settings.token_budget, settings.instruction, turns, most
        )
        seeds = [
            (f"document:{part.start}:{part.path}", encode(tokenizer, part.text, special=False))
            for part in evidence.documents
        ]
        for index in prompt.left_out:
            seeds.append(
                (f"passage:{index}", encode(tokenizer, evidence.passages[index].text, special=False))
            )
        return Prepared(prompt, seeds)

    def request(self, prepared: Prepared, evidence: Evidence) -> DecodeRequest:
        """The conditions of the answer. Raises UsageError where none of the passages fits the prompt."""
        prompt, window = prepared.prompt, self.target.backend.context_end
        if evidence.passages and not prompt.used and len(prompt.token_ids) < window:
            budget = self.profile.prompt.token_budget
            raise UsageError(
                f"no passage fits the prompt: prompt.token_budget is {budget}, the model's window {window}",
                "ask a shorter question, choose a model with a longer window, or raise the budget: "
                f"--set prompt.token_budget={2 * budget}",
            )
        return decode_request(self.profile.decode, self.target, prompt.token_ids, prompt.cuts)

    def _decode(
        self,
        prepared: Prepared,
        request: DecodeRequest,
        decoder: Decoder,
        stats: DecodeStats,
        observe: Observer | None,
    ) -> Iterator[Block]:
        backend = self.target.backend
        if decoder == "greedy":
            return greedy(backend, request, stats, kept=self.cache)
        self.drafter.begin(prepared.prompt.token_ids, prepared.seeds, self.spelling.alike)
        return lookahead(
            backend, self.drafter, request, stats, self.limits, self.cost, observe, self.cache, self.tie
        )
