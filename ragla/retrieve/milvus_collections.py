"""The two collections that an index becomes in Milvus, and how rows get in and out.

``NAME`` holds a row for each passage: vector, text, words, place. ``NAME_rows`` holds what belongs to
documents and to the whole: a row for each file, its text in parts, the state, the counts of words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragla.config import RetrieveSettings
from ragla.retrieve.milvus_client import Connection, Target
from ragla.retrieve.milvus_words import K1, B

# The most that Milvus hands out of one search.
MOST_FOUND = 16_384
# How vectors are indexed, and what a search looks at: the beam of a graph, the lists of an IVF index.
_BUILT_WITH = {"HNSW": {"M": 16, "efConstruction": 200}, "IVF_FLAT": {"nlist": 1024}}
_BEAM, _PROBED = 128, 64
_ROWS_A_CALL = 500
_BYTES_A_CALL = 16 << 20
_IDS_A_CALL = 1000


class Collections:
    """Both collections of one index; what is written is seen by whoever reads afterwards.

    Every method raises IndexUnusable where Milvus does not answer, RaglaError where its disk is full.
    What ``writes`` begins with ``make`` or ``drop``, so that what is damaged can be dropped.
    """

    def __init__(self, target: Target, settings: RetrieveSettings, *, writes: bool = False) -> None:
        self._connection = Connection(target, settings, writes=writes)
        self._index = settings.milvus_index
        self._passages, self._rows = target.collection, f"{target.collection}_rows"
        self._are_there = False
        self._kind = ""
        try:
            if not writes and self.exist():
                self._load()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def exist(self) -> bool:
        """Whether both are there; once they are, it is not asked again."""
        self._are_there = self._are_there or all(
            self._call("has_collection", name) for name in (self._passages, self._rows)
        )
        return self._are_there

    def make(self, dimension: int) -> None:
        """Make those that are missing, for vectors of ``dimension`` numbers, and have them searched."""
        if not self._call("has_collection", self._passages):
            self._make_passages(dimension)
        if not self._call("has_collection", self._rows):
            self._make_rows()
        self._load()

    def drop(self) -> None:
        """Delete both and all that is in them."""
        for name in (self._passages, self._rows):
            self._call("drop_collection", name)
        self._are_there, self._kind = False, ""

    def flush(self) -> None:
        """Have what was written indexed."""
        for name in (self._passages, self._rows):
            self._call("flush", name)

    def dimension(self) -> int:
        """Of how many numbers the vectors are."""
        fields = self._call("describe_collection", self._passages)["fields"]
        return next(int(one["params"]["dim"]) for one in fields if one["name"] == "vector")

    def index_type(self) -> str:
        """Which index of vectors Milvus keeps."""
        return str(self._call("describe_index", self._passages, index_name="vector")["index_type"])

    def passage_count(self) -> int:
        """How many passages there are."""
        found = self._call("query", self._passages, filter="", output_fields=["count(*)"])
        return int(found[0]["count(*)"])

    def search(
        self, query: Any, field: str, metric: str, limit: int, documents: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Primary keys and Milvus' own scores of the passages that a query finds, best first.

        ``documents``: the only ones whose passages are looked at.
        """
        if limit < 1 or (documents is not None and not documents):
            return []
        found = self._call(
            "search", self._passages, data=[query], anns_field=field, limit=min(limit, MOST_FOUND),
            filter="" if documents is None else f"document in {list(documents)}",
            search_params={"metric_type": metric, "params": self._looked_at(field, limit)},
            output_fields=["id"],
        )  # fmt: skip
        return [(int(one["id"]), float(one["distance"])) for one in found[0]]

    def _looked_at(self, field: str, limit: int) -> dict[str, int]:
        """Search parameters; a graph's beam must be as wide as what it is to find."""
        if field != "vector":
            return {}
        kind = self._kind = self._kind or self.index_type()
        if kind == "HNSW":
            return {"ef": min(MOST_FOUND, max(_BEAM, limit))}
        return {"nprobe": _PROBED} if kind == "IVF_FLAT" else {}

    def passages(self, ids: Sequence[int], fields: list[str]) -> Iterator[dict[str, Any]]:
        """Rows of passages by their primary keys, in any order; those that are gone are missing."""
        for some in blocks(ids, _IDS_A_CALL):
            yield from self._call("get", self._passages, ids=some, output_fields=fields)

    def all_passages(self, fields: list[str]) -> Iterator[dict[str, Any]]:
        """Every passage."""
        return self._connection.rows(self._passages, "id >= 0", fields)

    def bodies(self, keys: Sequence[str]) -> dict[str, str]:
        """The bodies of rows by their keys, in their order; those that are not there are missing."""
        found: dict[str, str] = {}
        for some in blocks(keys, _IDS_A_CALL):
            for one in self._call("get", self._rows, ids=some, output_fields=["key", "body"]):
                found[one["key"]] = one["body"]
        return {key: found[key] for key in keys if key in found}

    def all_bodies(self, kind: str) -> Iterator[str]:
        """The bodies of all rows of a kind."""
        for one in self._connection.rows(self._rows, f"kind == '{kind}'", ["body"]):
            yield one["body"]

    def write_passages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows of passages in place of those with the same primary keys."""
        for some in of_bounded_size(rows):
            self._call("upsert", self._passages, some)

    def write_rows(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write other rows in place of those with the same keys."""
        for some in of_bounded_size(rows):
            self._call("upsert", self._rows, some)

    def delete_documents(self, documents: Sequence[int]) -> None:
        """Delete all that belongs to documents, the row of each file last."""
        for some in blocks(documents, _IDS_A_CALL):
            self._call("delete", self._passages, filter=f"document in {some}")
            self._call("delete", self._rows, filter=f"kind in ['text', 'file'] and owner in {some}")

    def delete_other_generations(self, generation: int) -> None:
        """Delete what was the state before."""
        self._call("delete", self._rows, filter=f"kind in ['state', 'words'] and owner != {generation}")

    def delete_kind(self, kind: str) -> None:
        """Delete all rows of a kind."""
        self._call("delete", self._rows, filter=f"kind == '{kind}'")

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        return self._connection.call(name, *arguments, **named)

    def _load(self) -> None:
        """Have both in Milvus' memory: a server's restart lets go of them."""
        for name in (self._passages, self._rows):
            self._call("load_collection", name)

    def _create(self, name: str, schema: Any, indexes: Any) -> None:
        self._call("create_collection", name, schema=schema, index_params=indexes, consistency_level="Strong")

    def _make_passages(self, dimension: int) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        for name in ("document", "start", "stop", "first_line", "last_line", "page"):
            schema.add_field(name, DataType.INT64)
        for name, length in (("version", 64), ("digest", 64), ("title", 65_535), ("text", 65_535)):
            schema.add_field(name, DataType.VARCHAR, max_length=length)
        schema.add_field(
            "words", DataType.VARCHAR, max_length=65_535, enable_analyzer=True,
            analyzer_params={"tokenizer": "standard"},
        )  # fmt: skip
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            Function(
                name="bm25",
                function_type=FunctionType.BM25,
                input_field_names=["words"],
                output_field_names=["sparse"],
            )
        )
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index(
            field_name="vector", index_type=self._index, metric_type="IP",
            params=_BUILT_WITH.get(self._index, {}),
        )  # fmt: skip
        indexes.add_index(
            field_name="sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25",
            params={"bm25_k1": K1, "bm25_b": B},
        )  # fmt: skip
        self._create(self._passages, schema, indexes)

    def _make_rows(self) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=128)
        schema.add_field("kind", DataType.VARCHAR, max_length=16)
        schema.add_field("owner", DataType.INT64)
        schema.add_field("body", DataType.VARCHAR, max_length=65_535)
        # Milvus takes no collection without vectors.
        schema.add_field("nothing", DataType.FLOAT_VECTOR, dim=2)
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index(field_name="nothing", index_type="FLAT", metric_type="L2")
        self._create(self._rows, schema, indexes)


def of_bounded_size(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in lists that are small enough for one request: a server takes 64 MB at most."""
    some: list[dict[str, Any]] = []
    size = 0
    for one in rows:
        # four bytes for a character and for a number of a vector
        own = sum(4 * len(value) for value in one.values() if isinstance(value, (str, list)))
        if some and (len(some) == _ROWS_A_CALL or size + own > _BYTES_A_CALL):
            yield some
            some, size = [], 0
        some.append(one)
        size += own
    if some:
        yield some


def blocks(rows: Sequence[Any], most: int) -> Iterator[list[Any]]:
    """The rows in lists of ``most`` at most."""
    for start in range(0, len(rows), most):
        yield list(rows[start : start + most])
