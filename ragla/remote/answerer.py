"""Answers questions with a model elsewhere: the same ``Answer`` that a model on this machine gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from ragla.answering import Answer, Answering, Decoder, OnReading, OnStep, Stopped, say_no_answer
from ragla.citations import misplaced
from ragla.config import Profile
from ragla.decode.stats import DecodeStats
from ragla.evidence import Evidence, cite
from ragla.prompt import Prompt, Turn, is_refusal
from ragla.provenance import CopySpan, CopyTrace
from ragla.remote import faults
from ragla.remote.body import body_of
from ragla.remote.connection import Connection
from ragla.remote.figures import count, figures, part
from ragla.remote.messages import Asked, asked_of_any, asked_of_ragla
from ragla.remote.pieces import TextPieces
from ragla.remote.reply import CALLS, Reply
from ragla.remote.server import Server
from ragla.text_stream import OnText, TextStream

if TYPE_CHECKING:
    from ragla.decode.decoder import Observer

MOST_PER_TOKEN = 64  # characters; a server that writes more than that a token does not count them
FIGURES_S = 5.0  # for what comes behind an answer
NOBODY: frozenset[int] = frozenset()


@dataclass
class Written:
    """What has come of an answer. Times by ``perf_counter``, None before the first text."""

    reply: Reply
    text: TextStream
    trace: CopyTrace
    ids: list[int] = field(default_factory=list)
    characters: int = 0
    first: float | None = None
    last: float = 0.0
    interrupted: bool = False
    endless: bool = False


class RemoteAnswerer(Answering):
    """A server and its model; ``notices`` say in a line each what a user must know of it."""

    def __init__(self, profile: Profile, connection: Connection, server: Server) -> None:
        self.profile = profile
        self.connection = connection
        self.server = server
        self._pieces = TextPieces()
        self._on_reading: OnReading | None = None

    @property
    def model_name(self) -> str:
        """The server's name for it, and where that is."""
        return f"{self.server.model} at {self.server.address.url}"

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be known of the way to the server."""
        found = [self.server.address.notice]
        if self.server.kind == "ragla" and self.profile.prompt.instruction is not None:
            found.append("prompt.instruction is not sent: a ragla server makes the prompt itself")
        return tuple(notice for notice in found if notice)

    def tell_reading(self, on_reading: OnReading) -> None:
        """Told once, before the server is asked: it does not say how far it has read."""
        self._on_reading = on_reading

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
        """Answer from given passages; the server drafts as it pleases, so ``decoder`` says nothing here.

        Nobody observes its steps. Raises RaglaError.
        """
        began = perf_counter()
        asked = self._asked(question, evidence, turns)
        questions = [question, *(turn.question for turn in turns)]
        trace = CopyTrace(asked.prompt, evidence, questions, self._pieces.decode, on_text)
        text = TextStream(self._pieces, self.profile.decode.stop, trace)
        written = Written(Reply(self.server.address), text, trace)
        if self._on_reading is not None:
            self._on_reading(0, 0)
        self._read(body_of(self.server, self.profile.decode, asked, evidence), written, stopped)
        first = written.first if written.first is not None else perf_counter()
        done = self._finished(question, evidence, asked.prompt, questions, written)
        return replace(done, ttft_s=retrieval_s + first - began, retrieval_s=retrieval_s)

    def _asked(self, question: str, evidence: Evidence, turns: Sequence[Turn]) -> Asked:
        if self.server.kind == "ragla":
            return asked_of_ragla(question, evidence, turns)
        window = self.server.window
        return asked_of_any(self._pieces, self.profile, window, question, evidence, turns)

    def _read(self, body: dict[str, Any], written: Written, stopped: Stopped | None) -> None:
        """Take the answer as it comes, until it ends or is to end."""
        reply = written.reply
        most = MOST_PER_TOKEN * max(64, self.profile.decode.max_new_tokens)
        try:
            with self.connection.events("/chat/completions", body) as events:
                for text in self._texts(events, reply):
                    if text:
                        written.last = perf_counter()
                        written.first = written.last if written.first is None else written.first
                        written.characters += len(text)
                        written.ids += self._pieces.encode(text)
                        written.text.push(written.ids, NOBODY)
                    written.interrupted = written.first is not None and stopped is not None and stopped()
                    written.endless = written.characters + reply.thought > most
                    if written.interrupted or written.endless:
                        return
        except faults.BrokenOff:
            if reply.reason is None:  # else only the figures are missing
                raise
        reply.check_ended(written.characters)

    def _texts(self, events: Iterator[str | None], reply: Reply) -> Iterator[str]:
        """The text of each event, empty for none and where nothing has come. Raises RaglaError for silence.

        Events that say nothing are silence: they could go on for ever. What follows the answer, its figures
        and the word that this was all, is worth a moment.
        """
        patience_s = self.connection.patience.read_s
        heard, thought, ended = monotonic(), 0, None
        for data in events:
            text = reply.take(data) if data is not None else ""
            if text or reply.thought > thought:
                heard, thought = monotonic(), reply.thought
            elif monotonic() - max(heard, self.connection.resumes) > patience_s:
                raise faults.silent(self.server.address, patience_s)
            yield text
            if reply.reason is not None:
                ended = ended or monotonic()
            if reply.done or (ended is not None and monotonic() - ended > FIGURES_S):
                return

    def _finished(
        self, question: str, evidence: Evidence, prompt: Prompt, questions: Sequence[str], written: Written
    ) -> Answer:
        reply = written.reply
        text = written.text.finish()
        extras = part(reply.last, "ragla")
        answered = bool(text) and not is_refusal(text) and extras.get("answered") is not False
        if not text and not written.interrupted:
            if reply.reason in CALLS or not reply.thought:
                raise faults.no_answer(reply.address, reply.reason, reply.reason in CALLS)
            text = say_no_answer(question, written.trace)
        provenance, unsupported = written.trace.spans(), written.trace.read.unsupported(written.trace.text)
        copied: Counter[int] = Counter()
        for span in provenance:
            copied[span.number] += len(self._pieces.encode(text[span.start : span.end]))
        if self.server.kind == "ragla":
            used, copied = used_by_ragla(extras, len(evidence.passages))
            if used != prompt.used:
                left = [at for at in prompt.used if at not in used]
                prompt = replace(prompt, used=used, left_out=left)
                provenance = self._traced(prompt, evidence, questions, text)
        sources = cite(evidence.sources, prompt.used, text if answered else "", copied)
        left_out = [evidence.sources[at].path for at in prompt.left_out if at < len(evidence.sources)]
        told = figures(reply.last)
        # text can come later than its tokens: what the server measured is nearer to the truth
        seen_s = written.last - (written.first or written.last)
        placed = misplaced(text, provenance, evidence, prompt) if answered else ()
        notices = tuple(dict.fromkeys((*notices_of(written, extras), *placed)))  # a ragla server says it too
        stats = DecodeStats(
            prompt_tokens=told.prompt_tokens or 0,
            reused=told.reused_tokens or 0,
            tokens=told.tokens or 0,
            decode_s=seen_s if told.decode_s is None else told.decode_s,
        )
        return Answer(
            question, text, answered, sources=sources, stats=stats, left_out=left_out,
            interrupted=written.interrupted, notices=notices,
            provenance=provenance if answered else (), unsupported=unsupported if answered else (),
            figures=told,
        )  # fmt: skip

    def _traced(
        self, prompt: Prompt, evidence: Evidence, questions: Sequence[str], text: str
    ) -> tuple[CopySpan, ...]:
        trace = CopyTrace(prompt, evidence, questions, self._pieces.decode)
        trace(text)
        return trace.spans()


def used_by_ragla(extras: Mapping[str, Any], sent: int) -> tuple[list[int], Counter[int]]:
    """Which of the passages that were sent a ragla server has read, in order, and tokens copied from each.

    All of them where it does not say.
    """
    used: list[int] = []
    copied: Counter[int] = Counter()
    places = {str(number): number for number in range(sent)}
    sources = extras.get("sources")
    for source in sources if isinstance(sources, list) else []:
        place = source.get("path") if isinstance(source, dict) else None
        number = places.get(place) if isinstance(place, str) else None
        if number is not None and number not in used:
            used.append(number)
            copied[len(used)] = count(source, "copied_tokens") or 0
    return used or list(places.values()), copied


def notices_of(written: Written, extras: Mapping[str, Any]) -> tuple[str, ...]:
    """What was not as asked, in a line each."""
    reply, told = written.reply, extras.get("notices")
    notices = told if isinstance(told, list) else []
    found = [reply.address.hide(notice) for notice in notices if isinstance(notice, str)]
    if written.endless:
        found.append("the server wrote on beyond decode.max_new_tokens: its answer was ended here")
    if reply.reason == "content_filter":
        found.append("the server ended the answer: content_filter")
    if reply.reason in CALLS:
        found.append("the server ended the answer: it wants to call a tool")
    if reply.thought and not written.text.text:
        found.append(
            "the model thought without answering: give it more room with --set decode.max_new_tokens=2048"
        )
    return tuple(found)
