"""The profile's models: whether they are here and whole, whether a network is needed, what steps cost."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from ragla import models
from ragla.environment.finding import Finding, Surroundings
from ragla.errors import ModelUnavailable, RaglaError
from ragla.render_info import megabytes
from ragla.user_path import user_path

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
ON = ("1", "ON", "YES", "TRUE")  # as huggingface_hub reads them
SERVER_S = 5.0  # a server that is well says at once which models it has
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def embedder(at: Surroundings) -> Iterator[Finding]:
    """The model that reads documents and questions."""
    yield from _model("embedder", at.profile.retrieve.embedder)


def target(at: Surroundings) -> Iterator[Finding]:
    """The model that answers, here or on a server, which is asked for it."""
    if at.model is None:
        yield _server(at)
    else:
        yield from _model("model", at.model)


def reranker(at: Surroundings) -> Iterator[Finding]:
    """The model that orders passages anew, if the profile names one."""
    if at.profile.retrieve.reranker is not None:
        yield from _model("reranker", at.profile.retrieve.reranker)


def _model(role: str, name: str) -> Iterator[Finding]:
    if _is_gguf(name):
        size = user_path(name).stat().st_size
        said = f"{name}, {megabytes(size)}; converted when it is first used, and kept"
        yield Finding(role, "ok", said)
        return
    try:
        folder = models.locate(name)
    except ModelUnavailable as error:
        said = _incomplete(name) or str(error)
        yield Finding(role, "wrong", said, error.hint, ModelUnavailable.exit_code)
        return
    size = sum(path.stat().st_size for path in folder.glob("*") if path.is_file())
    yield Finding(role, "ok", f"{name}, {megabytes(size)} in {folder}")


def _server(at: Surroundings) -> Finding:
    from ragla.remote.opening import open_server

    few = {"remote_read_s": SERVER_S, "remote_connect_s": SERVER_S, "remote_retries": 0}
    decode = at.profile.decode.model_copy(update=few)
    try:
        asked = open_server(at.profile.model_copy(update={"decode": decode}))
    except RaglaError as error:
        return Finding("model", "wrong", str(error), error.hint, error.exit_code)
    window = asked.server.window
    said = asked.model_name + (f", window {window} tokens" if window else "")
    if asked.notices:
        return Finding("model", "note", f"{said}; {asked.notices[0]}")
    return Finding("model", "ok", said)


def _is_gguf(name: str) -> bool:
    return name not in models.registry() and name.endswith(".gguf") and user_path(name).is_file()


def _incomplete(name: str) -> str | None:
    """What is wrong with a model that was pulled and is no longer whole."""
    folder = models.model_folder(name)
    if not folder.is_dir():
        return None
    try:
        sizes = json.loads((folder / models.MANIFEST).read_text(encoding="utf-8"))["files"]
        for file, size in sizes.items():
            path = folder / file
            if not path.is_file():
                return f"model {name} is not whole: {path} is missing"
            if path.stat().st_size != size:
                return f"model {name} is not whole: {path} has {path.stat().st_size} bytes of {size}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return f"model {name} is not whole: {folder / models.MANIFEST} is missing or damaged"


def ready_folder(name: str) -> Path | None:
    """Where a model is, None where it is not here or has to be converted first."""
    if _is_gguf(name):
        return None
    try:
        return models.locate(name)
    except ModelUnavailable:
        return None


def network(at: Surroundings) -> Iterator[Finding]:
    """Whether these settings need one, and what keeps ragla from it. No value is shown: it may be secret."""
    retrieve = at.profile.retrieve
    wanted = dict.fromkeys(filter(None, (retrieve.embedder, at.model, retrieve.reranker)))
    absent = [name for name in wanted if not _is_gguf(name) and ready_folder(name) is None]
    offline = [name for name in OFFLINE if os.environ.get(name, "").upper() in ON]
    beside = [f"{name} is set" for name in (*offline, *[name for name in PROXIES if os.environ.get(name)])]
    if os.environ.get("HF_ENDPOINT"):
        beside.append("HF_ENDPOINT names another hub")
    if absent:
        said = f"needed once, for {', '.join(absent)}"
    elif at.model is None:
        said = "not needed but to reach the server: the models that find passages are here"
    else:
        said = "not needed: the models of the profile are here"
    said = "; ".join([said, *beside])
    known = models.registry()
    if offline and any(name not in known or known[name].wheels is None for name in absent):
        said += f"; the hub is not asked while {offline[0]} is set"
        yield Finding("network", "note", said, f"unset {' '.join(offline)}")
    else:
        yield Finding("network", "ok", said)


def step_costs(at: Surroundings) -> Iterator[Finding]:
    """Whether it was measured what a step costs, which decides how much is drafted."""
    folder = models.cache_folder() / "step-cost"
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        yield Finding("step-costs", "ok", "none yet: measured with the first answer")
        return
    newest = datetime.fromtimestamp(files[-1].stat().st_mtime).strftime("%Y-%m-%d")
    said = f"{len(files)} measured, the last {newest}"
    damaged = next((path for path in files if not _is_readable(path)), None)
    if damaged is not None:
        what = f"{damaged.name} cannot be read and is measured anew"
        yield Finding("step-costs", "note", f"{said}; {what}", f"rm {shlex.quote(str(damaged))}")
    else:
        yield Finding("step-costs", "ok", said)


def _is_readable(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False
