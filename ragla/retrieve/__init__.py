"""Reads folders of documents into an index and finds the passages that a question is about.

It does not know what becomes of a passage: no prompt, no model that answers, no token, no console.
"""

from ragla.retrieve.embed import Embedder, SentenceEmbedder
from ragla.retrieve.folders import indexed_roots
from ragla.retrieve.indexer import IndexReport, index_folders, indexed_digests
from ragla.retrieve.passage import Passage, ScoredPassage
from ragla.retrieve.retriever import Retriever
from ragla.retrieve.selection import Selection

__all__ = [
    "Embedder",
    "IndexReport",
    "Passage",
    "Retriever",
    "ScoredPassage",
    "Selection",
    "SentenceEmbedder",
    "index_folders",
    "indexed_digests",
    "indexed_roots",
]
