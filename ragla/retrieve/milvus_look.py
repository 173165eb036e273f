"""What a collection in Milvus holds, and whether it is whole: for ``ragla info`` and ``ragla doctor``."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from ragla.config import RetrieveSettings
from ragla.errors import IndexUnusable, RaglaError
from ragla.retrieve.check import Check, Problem
from ragla.retrieve.chunk import CHUNKER
from ragla.retrieve.dense import DenseRecord
from ragla.retrieve.milvus_client import Target, target_of
from ragla.retrieve.milvus_rows import SCHEMA
from ragla.retrieve.milvus_store import MilvusStore
from ragla.retrieve.passage_store import State, StoredFile
from ragla.retrieve.read import READERS
from ragla.retrieve.selection import EVERYTHING
from ragla.retrieve.statistics import (
    DenseStatistics,
    FolderStatistics,
    IndexStatistics,
    reasons_of,
    types_of,
)
from ragla.retrieve.store import Store


def milvus_statistics(settings: RetrieveSettings) -> IndexStatistics:
    """What ``retrieve.milvus_uri`` holds; bytes are not known. Raises as ``Retriever.on_milvus``."""
    with closing(MilvusStore(target_of(settings.milvus_uri), settings)) as store:
        state, files, passages = store.state(), store.files(), store.passage_count()
        record = DenseRecord("", passages, store.dimension(), state.generation, store.index_type())
    made = state.fingerprint
    skipped = [(one.absolute, one.reason or "") for one in files if one.status == "skipped"]
    return IndexStatistics(
        index=store.place,
        bytes=dict.fromkeys(("database", "vectors", "previous", "other"), 0),
        schema=SCHEMA,
        generation=state.generation,
        changed_at=datetime.fromisoformat(state.changed_at) if state.changed_at else None,
        made_with=made,
        is_outdated=(made.get("chunker"), made.get("readers")) != (CHUNKER, READERS),
        folders=_folders(files),
        types=types_of([(one.path, one.status, one.passages) for one in files]),
        reasons=reasons_of([reason for _, reason in skipped]),
        skipped=skipped,
        passages=passages,
        dense=DenseStatistics(record, 0, is_current=True),
        store="milvus",
    )


def _folders(files: list[StoredFile]) -> list[FolderStatistics]:
    counted = Counter((one.root, one.status) for one in files)
    return [
        FolderStatistics(
            root, Path(root).is_dir(), counted[root, "indexed"], counted[root, "skipped"], EVERYTHING
        )
        for root in sorted({root for root, _ in counted})
    ]


def milvus_checks(settings: RetrieveSettings, index_dir: Path | None) -> Iterator[Check]:
    """Whether Milvus answers and holds whole what is in the index of this machine, where there is one."""
    try:
        target = target_of(settings.milvus_uri)
        with closing(MilvusStore(target, settings)) as store:
            state, wrong = store.state(), store.problems()
    except RaglaError as error:
        place, _, what = str(error).partition(": ")
        yield Check("milvus", (Problem(what or place, place if what else "milvus", error.hint or ""),))
        return
    mend = f"ragla index --to {target}"
    problems = tuple(Problem(what, where, f"{mend} --rebuild") for what, where in wrong)
    yield Check("milvus", problems, tuple(_behind(state, target, index_dir)))


def _behind(state: State, target: Target, index_dir: Path | None) -> Iterator[Problem]:
    """Where the index of this machine has changed since it was brought there."""
    if index_dir is None:
        return
    try:
        with closing(Store.read(index_dir)) as store:
            here = State.of(store)
    except IndexUnusable:  # of which other checks say what is wrong
        return
    if state != here:
        what = (
            f"generation {state.generation} is there, {here.generation} is here, or how it was made differs"
        )
        yield Problem(what, str(target), f"ragla index --to {target} --index {shlex.quote(str(index_dir))}")
