"""Processes that search an index for as long as others write it. Runs in children of the fork server."""

from __future__ import annotations

import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from hashing_embedder import HashingEmbedder

from ragla.errors import IndexUnusable
from ragla.retrieve import Retriever

Texts = dict[str, list[str]]


def read_until_told(pipe: Connection, index_dir: Path, texts: Texts, question: str, reopens: bool) -> None:
    """Search until the parent says stop; then tell how often, or the traceback of what went wrong."""
    searches = 0
    seen: set[str] = set()
    pipe.send("ready")
    try:
        retriever = Retriever.open(index_dir, HashingEmbedder())
        while not pipe.poll(0.002):
            if reopens:
                retriever.close()
                retriever = Retriever.open(index_dir, HashingEmbedder())
            seen |= _search(retriever, texts, question)
            searches += 1
        retriever.close()
    except BaseException:
        pipe.send(traceback.format_exc())
        return
    pipe.send((searches, seen))


def _search(retriever: Retriever, texts: Texts, question: str) -> set[str]:
    """Every passage is of one committed version, all of a document of the same; which versions they were."""
    versions: dict[str, set[int]] = {}
    found = [item.passage for item in retriever.search(question, 8)]
    assert found, "nothing found"
    for passage in found:
        own = {
            number
            for number, text in enumerate(texts[passage.path])
            if text[passage.start : passage.end] == passage.text
        }
        assert own, f"{passage.path}:{passage.start} was never {passage.text!r}"
        versions.setdefault(passage.path, own)
        versions[passage.path] &= own
        assert versions[passage.path], f"two versions of {passage.path} at once"
    try:
        text = retriever.document_text(found[0].document_id)
    except IndexUnusable as error:
        if "meanwhile" not in str(error):
            raise
    else:
        assert text in texts[found[0].path]
    return {f"{path} {min(numbers)}" for path, numbers in versions.items()}


def write_when_told(pipe: Connection, folder: Path, index_dir: Path, verb: str) -> None:
    """Begin to index at the moment the parent names; tell the class of the error, or "" for none."""
    from fault_jobs import Job, perform

    pipe.send("ready")
    moment = pipe.recv()
    time.sleep(max(0.0, moment - time.time()))
    try:
        perform(Job(folder, index_dir, verb))
    except BaseException as error:
        pipe.send(type(error).__name__ if type(error).__name__ == "IndexLocked" else traceback.format_exc())
        return
    pipe.send("")
