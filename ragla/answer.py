"""The seam: a question becomes passages, a prompt, a seeded drafter and then an answer with its sources.

It is the only place where retrieval and decoding meet. It draws nothing and prints nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from ragla.config import DecodeSettings, Profile
from ragla.decode.budget import StepCost
from ragla.decode.decoder import Observer, lookahead
from ragla.decode.greedy import greedy
from ragla.decode.model import TargetModel
from ragla.decode.request import Block, DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.verify import SamplingSettings
from ragla.evidence import Evidence, Source, cite, copied_passages, gather
from ragla.memory import cap_mebibytes
from ragla.prompt import Prompt, build_prompt, encode, is_refusal
from ragla.spelling import Spelling, stop_sequences
from ragla.trie import Answers, Drafter, DraftLimits

if TYPE_CHECKING:
    from ragla.retrieve.retriever import Retriever

NO_ANSWER = "The documents do not answer this question."
NO_ANSWER_ZH = "文档中没有这个问题的答案。"

Decoder = Literal["lookahead", "greedy"]
OnText = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """What came out. ``text`` is the answer or, where ``answered`` is False, a sentence that says so.

    ``ttft_s`` counts from the question to the first token, retrieval and prefill included.
    ``document_ids``: the documents it was made from, as the index numbers them. ``kept``: later answers may
    be drafted from it.
    """

    question: str
    text: str
    answered: bool
    token_ids: list[int] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    stats: DecodeStats = field(default_factory=DecodeStats)
    ttft_s: float = 0.0
    retrieval_s: float = 0.0
    left_out: list[str] = field(default_factory=list)
    document_ids: frozenset[int] = frozenset()
    kept: bool = False


@dataclass(frozen=True)
class Prepared:
    """A question ready to decode: the prompt and the sequences that seed the trie, with their names."""

    prompt: Prompt
    seeds: list[tuple[str, list[int]]]


class Answerer:
    """One target model with its drafter; answers questions one after the other."""

    def __init__(self, profile: Profile, target: TargetModel, cost: StepCost | None = None) -> None:
        self.profile = profile
        self.target = target
        self.cost = cost if profile.decode.cost_aware else None
        self.drafter = self.new_drafter()
        self.spelling = Spelling(target.tokenizer)
        self.limits = draft_limits(profile.decode, target.tokenizer, target.end_ids)

    def new_drafter(self, without: Collection[str] = ()) -> Drafter:
        """A drafter as the profile wants it, members of ``SOURCES`` switched off."""
        settings = self.profile.decode
        answers = None
        if settings.answer_trie_nodes:
            cap = cap_mebibytes(settings.answers_mib)
            answers = Answers(settings.order, settings.answer_trie_nodes, cap)
        return Drafter(settings.order, answers, without, cap_mebibytes(settings.question_mib))

    def ask(
        self,
        question: str,
        retriever: Retriever,
        on_text: OnText | None = None,
        observe: Observer | None = None,
    ) -> Answer:
        """Answer from an index. All of ``Answer.text`` goes to ``on_text``, as soon as it is certain."""
        began = perf_counter()
        settings = self.profile.retrieve
        found = retriever.search(question, settings.top_k, settings.relevance_floor)
        evidence = gather(found, retriever)
        retrieval_s = perf_counter() - began
        if not found:
            return Answer(question, say_no_answer(question, on_text), False, retrieval_s=retrieval_s)
        answer = self.answer(question, evidence, on_text, observe, retrieval_s=retrieval_s)
        return replace(answer, document_ids=frozenset(hit.passage.document_id for hit in found))

    def answer(
        self,
        question: str,
        evidence: Evidence,
        on_text: OnText | None = None,
        observe: Observer | None = None,
        decoder: Decoder = "lookahead",
        retrieval_s: float = 0.0,
    ) -> Answer:
        """Answer from given passages, with drafts or without."""
        began = perf_counter()
        prepared = self.prepare(question, evidence)
        stats = DecodeStats()
        stream = TextStream(self.target.tokenizer, self.profile.decode.stop, on_text)
        token_ids: list[int] = []
        copied: Counter[int] = Counter()
        ttft_s = 0.0
        for block in self._decode(prepared, decoder, stats, observe):
            ttft_s = ttft_s or retrieval_s + perf_counter() - began - stats.calibration_s
            token_ids += block.token_ids
            copied.update(copied_passages(block, prepared.prompt, evidence))
            stream.push(token_ids, self.target.end_ids)
        stats.copied = copied.total()
        text = stream.finish()
        answered = bool(text) and not is_refusal(text)
        kept = answered and decoder == "lookahead" and self._keeps()
        if kept:
            self.drafter.end(token_ids)
        sources = cite(evidence.sources, prepared.prompt.used, text if answered else "", copied)
        left_out = [evidence.sources[i].path for i in prepared.prompt.left_out if i < len(evidence.sources)]
        return Answer(
            question, text or say_no_answer(question, on_text), answered, token_ids, sources, stats, ttft_s,
            retrieval_s, left_out, kept=kept,
        )  # fmt: skip

    def _keeps(self) -> bool:
        """Whether answers are kept: a sampled one would not come again."""
        return self.drafter.answers is not None and self.profile.decode.temperature == 0.0

    def prepare(self, question: str, evidence: Evidence) -> Prepared:
        """Prompt and trie seeds: whole parent documents and the passages that did not fit."""
        settings = self.profile.prompt
        tokenizer = self.target.tokenizer
        prompt = build_prompt(
            tokenizer, question, evidence.passages, settings.token_budget, settings.instruction
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

    def _decode(
        self, prepared: Prepared, decoder: Decoder, stats: DecodeStats, observe: Observer | None
    ) -> Iterator[Block]:
        request = decode_request(self.profile.decode, self.target, prepared.prompt.token_ids)
        if decoder == "greedy":
            return greedy(self.target.backend, request, stats)
        self.drafter.begin(prepared.prompt.token_ids, prepared.seeds, self.spelling.alike)
        return lookahead(self.target.backend, self.drafter, request, stats, self.limits, self.cost, observe)


class TextStream:
    """Turns growing token ids into text, and hands on what can no longer change.

    Held back: half a character, white space at the end, and what may become a stop string.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str], on_text: OnText | None) -> None:
        self.tokenizer = tokenizer
        self.stop = tuple(stop)
        self.on_text = on_text
        self.text = ""
        self._sent = 0

    def push(self, token_ids: list[int], end_ids: frozenset[int]) -> None:
        """Take the whole answer so far."""
        plain = [token for token in token_ids if token not in end_ids]
        text = self.tokenizer.decode(plain, skip_special_tokens=True)
        found = [at for at in (text.find(string) for string in self.stop) if at >= 0]
        self.text = text[: min(found)] if found else text
        whole = self.text.rstrip("\ufffd")
        self._send(whole, self.held(whole))

    def held(self, text: str) -> int:
        """Characters at the end that could be the start of a stop string, with the white space before."""
        starts = (string[:length] for string in self.stop for length in range(1, len(string)))
        longest = max((len(start) for start in starts if text.endswith(start)), default=0)
        return len(text) - len(text[: len(text) - longest].rstrip())

    def finish(self) -> str:
        """The final text; sends what was held back."""
        self._send(self.text.rstrip(), hold=0)
        self.text = self.text.strip()
        return self.text

    def _send(self, text: str, hold: int) -> None:
        start = self._sent or len(text) - len(text.lstrip())
        end = len(text) - hold
        if self.on_text is not None and end > start:
            self.on_text(text[start:end])
            self._sent = end


def no_answer(question: str) -> str:
    """The sentence that says there is no answer, in the question's language as far as it is Chinese."""
    return NO_ANSWER_ZH if re.search("[\u4e00-\u9fff]", question) else NO_ANSWER


def say_no_answer(question: str, on_text: OnText | None) -> str:
    """Hand that sentence on, where nothing else was said, and return it."""
    text = no_answer(question)
    if on_text is not None:
        on_text(text)
    return text


def decode_request(settings: DecodeSettings, target: TargetModel, prompt_ids: list[int]) -> DecodeRequest:
    """The profile's conditions for one answer."""
    sampling = SamplingSettings(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        repetition_penalty=settings.repetition_penalty,
        seed=settings.seed,
        min_p=settings.min_p,
        presence_penalty=settings.presence_penalty,
        frequency_penalty=settings.frequency_penalty,
        bad_words=stop_sequences(target.tokenizer, settings.bad_words),
        min_new_tokens=settings.min_new_tokens,
    )
    return DecodeRequest(
        prompt_ids,
        settings.max_new_tokens,
        target.end_ids,
        settings.stop,
        target.tokenizer.decode,
        sampling,
        rank_prompt=ranks_prompt(settings, target),
    )


def ranks_prompt(settings: DecodeSettings, target: TargetModel) -> bool:
    """Whether prefill also ranks every prompt position: asked for, or nearly free as on a GPU."""
    if settings.rank_prompt == "auto":
        return target.backend.device.type != "cpu"
    return settings.rank_prompt == "always"


def draft_limits(settings: DecodeSettings, tokenizer: Any, end_ids: frozenset[int]) -> DraftLimits:
    """The profile's bounds of a draft; end-of-sequence tokens are never drafted, they come as bonus."""
    barred = set()
    for text in settings.barred_anchors:
        for variant in (text, f" {text}"):
            ids = encode(tokenizer, variant, special=False)
            barred |= set(ids) if len(ids) == 1 else set()
    return DraftLimits(
        settings.draft_budget,
        settings.max_depth,
        settings.shape,
        end_ids,
        frozenset(barred),
        stop_sequences(tokenizer, settings.stop),
    )
