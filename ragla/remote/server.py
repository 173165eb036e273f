"""What a server says of itself before it is asked anything: its models, and how much each can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ragla.errors import ModelUnavailable, UsageError
from ragla.remote.address import Address
from ragla.remote.faults import shortened
from ragla.remote.figures import count, part

if TYPE_CHECKING:
    from ragla.config import DecodeSettings
    from ragla.remote.connection import Connection

Kind = Literal["ragla", "vllm", "sglang", "llamacpp", "other"]
# what servers write into ``owned_by``; "me" is llama.cpp's Python package
OWNERS: dict[Any, Kind] = {
    "ragla": "ragla", "vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "me": "llamacpp",
}  # fmt: skip
MOST_NAMED = 5  # models, in a message


@dataclass(frozen=True)
class Server:
    """A server and the model to ask. ``window``: tokens of prompt and answer, None where it is not known."""

    address: Address
    model: str
    window: int | None = None
    kind: Kind = "other"


def look(connection: Connection, settings: DecodeSettings) -> Server:
    """Ask a server for its models, and choose the profile's. Raises RaglaError."""
    status, document = connection.document("/models")
    rows = rows_of(document) if status == 200 else []
    address, wanted = connection.address, settings.remote_model
    names = [str(row["id"]) for row in rows]
    connection.models = [shortened(address, name) for name in names]
    if wanted is None:
        wanted = only(address, names)
    row = next((row for row in rows if row["id"] == wanted), rows[0] if len(rows) == 1 else {})
    owner = row.get("owned_by")
    kind = OWNERS.get(owner, "other") if isinstance(owner, str) else "other"
    return Server(address, wanted, settings.remote_window or window_of(row), kind)


def only(address: Address, names: list[str]) -> str:
    """The one model that there is. Raises UsageError for several, ModelUnavailable for none."""
    if not names:
        raise ModelUnavailable(
            f"{address.url} names no model", "name it: --set decode.remote_model=NAME; is the address right?"
        )
    if len(names) > 1:
        some = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
        raise UsageError(
            f"{address.url} has several models: {shortened(address, some)}",
            f"--set decode.remote_model={shortened(address, names[0])}",
        )
    return names[0]


def rows_of(document: Any) -> list[dict[str, Any]]:
    """The models of a list that has some."""
    data = document.get("data") if isinstance(document, dict) else None
    rows = data if isinstance(data, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str) and row["id"]]


def window_of(row: dict[str, Any]) -> int | None:
    """How many tokens a model can hold: vLLM and SGLang say it in one way, llama.cpp in another."""
    return count(row, "max_model_len") or count(part(row, "meta"), "n_ctx") or None
