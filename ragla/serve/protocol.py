"""OpenAI's chat completions as this server understands them: requests checked, responses made.

What would change an answer and is not done is refused; what would not is ignored. Both are listed in
``docs/serve.md``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ragla.evidence import Evidence, Source
from ragla.prompt import PromptPassage, Turn

MOST_MESSAGES = 200
MOST_CHARACTERS = 20_000  # of a question
MOST_TOKENS = 4096  # of an answer, whatever is asked for
MOST_DOCUMENTS = 100
Body = TypeVar("Body", bound=BaseModel)
Nothing = Annotated[list[Any] | dict[str, Any] | None, Field(max_length=0)]
"""A feature that is not there: absent, null or empty."""


class Refusal(Exception):
    """A request that is not answered: HTTP status, OpenAI's words for it, and what mends it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers or {}

    def as_json(self) -> dict[str, Any]:
        """OpenAI's shape of an error."""
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class TextPart(_Part):
    """A piece of a message; pictures and sounds are not read."""

    type: Literal["text"]
    text: str


class Message(_Part):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None
    tool_calls: Nothing = None

    @property
    def text(self) -> str:
        """What it says."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(_Part):
    """``include_usage``: a last chunk with the counts of tokens."""

    include_usage: bool = False


class Document(_Part):
    """A passage to answer from. ``id``: how the response names it; else its place in the list, from 0."""

    text: str = Field(min_length=1)
    title: str = ""
    id: str | None = Field(default=None, min_length=1)


class _TextFormat(_Part):
    type: Literal["text"]


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ChatRequest(BaseModel):
    """The body of ``POST /v1/chat/completions``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: list[Message] = Field(min_length=1, max_length=MOST_MESSAGES)
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]] | None,
        BeforeValidator(_one_or_more),
        Field(max_length=4),
    ] = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    presence_penalty: float | None = Field(default=None, ge=-2.0, le=2.0)
    frequency_penalty: float | None = Field(default=None, ge=-2.0, le=2.0)
    seed: int | None = Field(default=None, ge=0, lt=1 << 63)
    # passages to answer from, in place of those that the index has
    documents: Annotated[list[Document] | None, Field(min_length=1, max_length=MOST_DOCUMENTS)] = None
    # not done: only what asks for nothing is let through
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    logit_bias: Nothing = None
    tools: Nothing = None
    functions: Nothing = None
    tool_choice: Literal["none", "auto"] | None = None
    function_call: Literal["none", "auto"] | None = None
    response_format: _TextFormat | None = None
    modalities: list[Literal["text"]] | None = None
    audio: None = None
    # of no meaning here
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    parallel_tool_calls: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    prediction: Any = None

    @property
    def settings(self) -> dict[str, Any]:
        """Keys of ``decode`` that the request sets."""
        most = self.max_completion_tokens or self.max_tokens
        given = {
            "max_new_tokens": min(most, MOST_TOKENS) if most else None,
            "stop": tuple(self.stop) if self.stop else None,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "seed": self.seed,
        }
        return {key: value for key, value in given.items() if value is not None}

    def question(self) -> Question:
        """What is asked, and what was said before. Raises Refusal where nothing is asked."""
        said = [message for message in self.messages if message.role in ("user", "assistant")]
        if not said or said[-1].role != "user" or not clean(said[-1].text):
            raise Refusal(400, "the last message is to be a user's, with a question", param="messages")
        turns: list[Turn] = []
        asked: str | None = None
        for message in said[:-1]:
            if message.role == "user":
                asked = clean(message.text) or asked
            elif asked is not None and clean(message.text):
                turns.append(Turn(asked, clean(message.text)))
        longest = max(len(message.text) for message in said)
        if longest > MOST_CHARACTERS:
            raise Refusal(
                413, f"a message has {longest} characters, {MOST_CHARACTERS} are read", param="messages"
            )
        has_system = len(said) < len(self.messages)
        return Question(clean(said[-1].text), tuple(turns), asked, has_system, self.evidence())

    def evidence(self) -> Evidence | None:
        """The passages that came with the request; None where the index has to find some."""
        if self.documents is None:
            return None
        passages, sources = [], []
        for number, document in enumerate(self.documents):
            text = whole(document.text)
            passages.append(PromptPassage(whole(document.title), text))
            name = str(number) if document.id is None else whole(document.id)
            sources.append(Source(number + 1, name, 1, max(1, len(text.splitlines())), 0.0))
        return Evidence(passages, sources)


@dataclass(frozen=True)
class Question:
    """``asked``: the question before; ``has_system``: there are messages that the model is not shown.

    ``evidence``: passages to answer from; None for those of the index.
    """

    text: str
    turns: tuple[Turn, ...] = ()
    asked: str | None = None
    has_system: bool = False
    evidence: Evidence | None = None


class SearchRequest(BaseModel):
    """The body of ``POST /search``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(min_length=1, max_length=MOST_CHARACTERS)
    top_k: int | None = Field(default=None, ge=1, le=100)
    paths: list[str] = Field(default=[], max_length=100)
    types: list[str] = Field(default=[], max_length=100)


def clean(text: str) -> str:
    """Text that can be encoded, without white space around it."""
    return whole(text).strip()


def whole(text: str) -> str:
    """Text that can be encoded: JSON can spell half a surrogate pair, which no tokenizer takes."""
    return text.encode(errors="replace").decode()


def parse(kind: type[Body], payload: bytes) -> Body:
    """A request's body. Raises Refusal that names the first field that is wrong."""
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "the body is no JSON", code="invalid_json") from error
    return check(kind, values)


def check(kind: type[Body], values: Any) -> Body:
    """Values as a request. Raises Refusal likewise."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _wrong(error) from error


def _wrong(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"][:3])
    if first["type"] == "extra_forbidden":
        return Refusal(400, f"{place}: no such field is known here", code="unknown_parameter", param=place)
    said = f"{place}: {first['msg']}" if place else str(first["msg"])
    return Refusal(400, said, code="unsupported_value", param=place or None)
