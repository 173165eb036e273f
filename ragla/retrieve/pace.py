"""How fast passages of an index are embedded here: as the last run noted it, or tried on a sample."""

from __future__ import annotations

import contextlib
import json
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from ragla.retrieve.chunk import embedded_text
from ragla.retrieve.embed import Embedder
from ragla.retrieve.store import Store

_KEY = "pace"
# Of fewer, starting the model is most of the time.
LEAST_PASSAGES = 64
_SAMPLE = 256
_TEXTS = """
SELECT title, substr(text, start + 1, "end" - start)
FROM chunks JOIN documents ON documents.id = chunks.document_id
WHERE chunks.id IN (SELECT id FROM chunks WHERE id % ? = 0 LIMIT ?)
"""


@dataclass(frozen=True)
class Pace:
    """``passages`` took ``seconds``, reading and storing included; ``is_trial``: embedding alone."""

    passages: int
    seconds: float
    is_trial: bool = False


def note_pace(store: Store, pace: Pace) -> None:
    """Keep it in place of the one before, unless it is of too few passages to tell anything."""
    if pace.passages >= LEAST_PASSAGES:
        store.set_value(_KEY, json.dumps(asdict(pace)))


def noted_pace(store: Store) -> Pace | None:
    """What was noted last; None where nothing was."""
    with contextlib.suppress(ValueError, TypeError):
        return Pace(**json.loads(store.value(_KEY) or ""))
    return None


def tried_pace(index_dir: Path, embedder: Embedder, batch_size: int) -> Pace:
    """Embed some passages of the index, which takes seconds. Raises IndexUnusable as ``Store.read``."""
    with closing(Store.read(Path(index_dir))) as store, store.transaction("DEFERRED") as connection:
        step = max(1, store.passage_count() // _SAMPLE)
        found = connection.execute(_TEXTS, (step, _SAMPLE)).fetchall()
    texts = [embedded_text(embedder, title, text) for title, text in found]
    embedder.encode_passages(texts[:batch_size], batch_size)  # the first batch warms up what computes
    started = time.perf_counter()
    embedder.encode_passages(texts, batch_size)
    return Pace(len(texts), time.perf_counter() - started, is_trial=True)
