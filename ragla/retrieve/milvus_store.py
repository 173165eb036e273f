"""Passages in Milvus: a ``PassageStore`` that is searched with nothing but an address and an embedder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ragla.config import RetrieveSettings
from ragla.errors import IndexUnusable
from ragla.retrieve import milvus_rows, milvus_words
from ragla.retrieve.digests import row_digest
from ragla.retrieve.embed import Vectors
from ragla.retrieve.milvus_client import Target
from ragla.retrieve.milvus_collections import Collections
from ragla.retrieve.milvus_rows import PASSAGE_FIELDS, document_id
from ragla.retrieve.milvus_state import Whole
from ragla.retrieve.milvus_words import Query, Stemmer, WordCounts
from ragla.retrieve.passage import Passage
from ragla.retrieve.passage_store import State, StoredFile
from ragla.retrieve.rows import FileRecord, IndexedFile

# What of Milvus' BM25 is scored anew for each passage that is wanted.
_SCORED_A_PLACE = 4


class MilvusStore:
    """One index in Milvus, for one thread at a time. ``writes``: a file that is not there is made."""

    def __init__(self, target: Target, settings: RetrieveSettings, *, writes: bool = False) -> None:
        self.target = target
        self._in = Collections(target, settings, writes=writes)
        self._stemmer = Stemmer()
        self._whole = Whole(self._in, str(target))
        self._seen: dict[int, dict[str, Any]] = {}

    @property
    def place(self) -> str:
        """As a user writes it."""
        return str(self.target)

    def close(self) -> None:
        """Close the connection."""
        self._in.close()
        self._stemmer.close()

    # --- the whole ------------------------------------------------------------------------------------

    def prepare(self, dimension: int, *, anew: bool) -> bool:
        """Make the collections where they are missing, or ``anew``; whether nothing was there before.

        Raises IndexUnusable where there are some, of vectors that have not ``dimension`` numbers.
        """
        if anew:
            self._in.drop()
        is_new = not self._in.exist()
        self._in.make(dimension)
        if (made := self._in.dimension()) != dimension:
            raise IndexUnusable(
                f"{self.target}: its vectors have {made} numbers, those of the index have {dimension}",
                self._mend,
            )
        return is_new

    def dimension(self) -> int:
        """Of how many numbers its vectors are."""
        return self._in.dimension()

    def index_type(self) -> str:
        """Which index of vectors Milvus keeps."""
        return self._in.index_type()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """The same passages are read once only; Milvus has no transactions to hold others off."""
        self._seen.clear()
        yield

    def state(self) -> State:
        """As the last whole publication left it. Raises IndexUnusable where there was none."""
        return self._whole.state()

    def check_there(self) -> None:
        """Raise IndexUnusable where fewer passages are there than the last publication left.

        Milvus opens what is damaged as empty, or as it once was. While files are being replaced there may
        be fewer, but not none for long.
        """
        for wait_s in (0.0, 0.5, 1.0):
            time.sleep(wait_s)
            self.state()
            expected, found = self._whole.sizes()[0], self._in.passage_count()
            if found >= expected or (found and self._whole.is_changing()):
                return
        what = f"{found} of its {expected}" if found else f"none of its {expected}"
        raise IndexUnusable(f"{self.target}: {what} passages can be read", self._mend)

    def begin(self) -> None:
        """Say to readers that passages are about to go and to come."""
        self._whole.note_changing()

    def finish(self) -> None:
        """Say to readers that all are there again."""
        self._whole.note_changed()

    def is_settled(self, state: State) -> bool:
        """Whether the last finished publication was of this state."""
        try:
            return self.state() == state
        except IndexUnusable:
            return False

    def settle(self, state: State, words: WordCounts) -> None:
        """What was put and removed is the whole now, with this state; readers go over to it in one step."""
        self._whole.settle(state, words)

    # --- writing --------------------------------------------------------------------------------------

    def put(self, files: Sequence[IndexedFile]) -> None:
        """Passages by primary keys that are the same for the same content; the file's own row comes last."""
        self.write([(file, "") for file in files])

    def write(self, files: Sequence[tuple[IndexedFile, str]], are_new: bool = False) -> None:
        """As ``put``, with the stamp of each. ``are_new``: nothing was ever written of any."""
        if not are_new:
            self._in.delete_documents([document_id(file.record.absolute) for file, _ in files])
        passages = [one for file, _ in files for one in milvus_rows.passage_rows(file, self._stemmer)]
        texts = [one for file, _ in files for one in milvus_rows.document_rows(file)]
        known = [
            milvus_rows.file_row(file.record, len(file.chunks), file.text, stamp) for file, stamp in files
        ]
        self._in.write_passages(passages)
        self._in.write_rows(texts + known)

    def note_skipped(self, records: Sequence[tuple[FileRecord, str]]) -> None:
        """Files that gave no text, with their stamps; what was there of them goes."""
        self._in.delete_documents([document_id(record.absolute) for record, _ in records])
        rows = [milvus_rows.file_row(record, 0, "", stamp) for record, stamp in records]
        self._in.write_rows(rows)

    def remove(self, absolutes: Sequence[str]) -> None:
        """The file's own row goes last."""
        self._in.delete_documents([document_id(absolute) for absolute in absolutes])

    # --- files and documents --------------------------------------------------------------------------

    def files(self) -> list[StoredFile]:
        """Read row by row."""
        found = [milvus_rows.stored_file(body)[0] for body in self._in.all_bodies("file")]
        return sorted(found, key=lambda one: one.absolute)

    def documents(self, ids: Iterable[int] | None = None) -> list[StoredFile]:
        """By primary key."""
        if ids is None:
            return [one for one in self.files() if one.status == "indexed"]
        found = self._in.bodies([f"file:{one}" for one in ids])
        return [milvus_rows.stored_file(body)[0] for body in found.values()]

    def digests(self, absolutes: Iterable[str]) -> dict[str, str]:
        """By the primary keys that follow from the paths."""
        found = self.documents(dict.fromkeys(document_id(one) for one in absolutes))
        return {one.absolute: one.sha256 or "" for one in found if one.status == "indexed"}

    def text(self, document_id: int) -> str:
        """From its parts, held against its digest; read again where it was replaced meanwhile."""
        key, before = f"file:{document_id}", ""
        while (found := self._in.bodies([key]).get(key)) not in (None, before):
            before = found
            _, parts, digest = milvus_rows.stored_file(found)
            keys = [f"text:{document_id}:{part}" for part in range(parts)]
            whole = milvus_rows.text_of(self._in.bodies(keys).values())
            if row_digest((whole,)).hex() == digest:
                return whole
        if found is None:
            raise IndexUnusable("the document was changed or removed meanwhile", hint="ask again")
        raise IndexUnusable(f"{self.target}: a text is not what was stored", self._mend)

    # --- passages -------------------------------------------------------------------------------------

    def passage_count(self) -> int:
        """Counted by Milvus."""
        return self._in.passage_count()

    def nearest(self, vector: Vectors, limit: int, documents: Sequence[int] | None = None) -> list[int]:
        """By Milvus' index of vectors; at most 16,384."""
        found = self._in.search(vector.tolist(), "vector", "IP", limit, documents)
        return [key for key, _ in sorted(found, key=lambda one: (-one[1], one[0]))]

    def cosines(self, vector: Vectors, ids: Sequence[int]) -> dict[int, float]:
        """From the vectors themselves, which Milvus hands out."""
        rows = self._passage_rows(ids)
        return {key: float(np.asarray(one["vector"], dtype=np.float32) @ vector) for key, one in rows.items()}

    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        """From the counts that the last publication left; a word that is new since has none."""
        keys = Query.of(tokens, self._stemmer).keys()
        found = self._whole.frequencies(key for own in keys.values() for key in own)
        return {token: min((found[key] for key in own), default=0) for token, own in keys.items()}

    def best_matches(
        self, tokens: Sequence[str], limit: int, documents: Sequence[int] | None = None
    ) -> dict[int, float]:
        """Found by Milvus' BM25, which knows rare words by the part of its rows, and scored as FTS5 does."""
        query = Query.of(tokens, self._stemmer).searched
        if not query:
            return {}
        found = self._in.search(query, "sparse", "BM25", _SCORED_A_PLACE * limit, documents)
        scores = self.bm25(tokens, [key for key, _ in found])
        best = sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:limit]
        return dict(best)

    def bm25(self, tokens: Sequence[str], ids: Sequence[int]) -> dict[int, float]:
        """As FTS5 computes it."""
        query, frequencies = Query.of(tokens, self._stemmer), self.frequencies(tokens)
        passages, terms = self._whole.sizes()
        scores = {}
        for key, words in self._words(ids).items():
            counts = query.counts(words)
            if counts:
                scores[key] = milvus_words.bm25(counts, words.total(), frequencies, passages, terms)
        return scores

    def coverage(self, weights: Mapping[str, float], ids: Sequence[int]) -> dict[int, float]:
        """From the words of each."""
        query, mass = Query.of(list(weights), self._stemmer), sum(weights.values())
        return {
            key: sum(weights[token] / mass for token in query.counts(words))
            for key, words in self._words(ids).items()
        }

    def passages(
        self, ids: Sequence[int], labels: Mapping[str, str], all_there: bool = True
    ) -> dict[int, Passage]:
        """Each held against its digest; one whose file is being replaced is left out."""
        rows = self._passage_rows(ids)
        files = {one.id: one for one in self.documents(sorted({one["document"] for one in rows.values()}))}
        found = {}
        for key, one in rows.items():
            file = files.get(one["document"])
            if file is None:
                continue
            text = None if milvus_rows.has_text(one) else self.text(file.id)[one["start"] : one["stop"]]
            passage = milvus_rows.passage_of(one, file, labels.get(file.root, ""), text)
            if passage is None:
                raise IndexUnusable(
                    f"{self.target}: a passage of {file.path} is not what was stored", self._mend
                )
            found[key] = passage
        return found

    def problems(self) -> list[tuple[str, str]]:
        """Files whose passages are not all there, and passages of no file."""
        counted, files = self._counted(), {one.id: one for one in self.files()}
        wrong = [
            (f"{counted[one.id]} of its {one.passages} passages are there", one.absolute)
            for one in files.values()
            if counted[one.id] != one.passages
        ]
        lost = counted.keys() - files.keys()
        return wrong + (
            [(f"passages of {len(lost)} files that it does not know", self.place)] if lost else []
        )

    def sweep(self) -> None:
        """Delete passages of no file, as an interrupted publication may leave them."""
        self._in.delete_documents(sorted(self._counted().keys() - {one.id for one in self.files()}))

    def _counted(self) -> Counter[int]:
        """How many passages each document has."""
        return Counter(int(one["document"]) for one in self._in.all_passages(["document"]))

    @property
    def _mend(self) -> str:
        return f"ragla index --to {self.target} --rebuild"

    def _passage_rows(self, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The rows of passages in the order of the ids; those that are gone are missing."""
        missing = [key for key in dict.fromkeys(ids) if key not in self._seen]
        for one in self._in.passages(missing, [*PASSAGE_FIELDS, "vector"]):
            self._seen[int(one["id"])] = one
        return {key: self._seen[key] for key in dict.fromkeys(ids) if key in self._seen}

    def _words(self, ids: Sequence[int]) -> dict[int, Counter[str]]:
        return {key: milvus_words.counted(one["words"]) for key, one in self._passage_rows(ids).items()}
