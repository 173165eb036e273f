"""From a profile to a server that answers, and what of ragla a server cannot be asked for."""

from __future__ import annotations

from ragla.config import Profile
from ragla.errors import UsageError
from ragla.remote.address import address_of
from ragla.remote.answerer import RemoteAnswerer
from ragla.remote.connection import Connection, OnWait, Patience
from ragla.remote.server import look

HERE = "leave it away, or answer here: --set decode.backend=auto"


def open_server(profile: Profile, on_wait: OnWait | None = None) -> RemoteAnswerer:
    """The server and the model that the profile names, asked for what they are.

    ``on_wait`` is told of pauses before a busy server is asked again. Raises ModelUnavailable where there is
    no such server, UsageError for settings that it cannot follow.
    """
    settings = profile.decode
    check_possible(profile)
    patience = Patience(settings.remote_connect_s, settings.remote_read_s, settings.remote_retries)
    connection = Connection(address_of(settings), patience, on_wait)
    return RemoteAnswerer(profile, connection, look(connection, settings))


def check_possible(profile: Profile, flags: dict[str, bool] | None = None) -> None:
    """Raises UsageError for a flag that is given, or a setting, that needs a model on this machine."""
    settings = profile.decode
    wanted = {
        **(flags or {}),
        "--trace": settings.debug,
        "--check-answerable, retrieve.judge": profile.retrieve.judge is not None,
        "decode.bad_words": bool(settings.bad_words),
        "decode.min_new_tokens": bool(settings.min_new_tokens),
    }
    for name, given in wanted.items():
        if given:
            raise UsageError(f"{name}: needs a model on this machine, decode.backend is remote", HERE)
