"""Spans lead to the right place of documents of every kind: wrapped, converted, joined, in old encodings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hashing_embedder import HashingEmbedder

from ragla.config import RetrieveSettings
from ragla.evidence import gather, looked_at
from ragla.prompt import Prompt
from ragla.provenance import CopyTrace
from ragla.retrieve import Retriever, index_folders
from ragla.retrieve.decoding import decode
from tests.verbatim import attributed, check_spans, verbatim

RULES = [
    f"Rule {n}: whoever borrows boat {n} from the harbour returns it before nightfall, fuelled and washed."
    for n in range(1, 30)
]
CHINESE = (
    "值班人员应当在涌潮到达前六十分钟撤到堤顶以上。\r\n仪器没有收完也不许回去拿，丢了写一份报告即可。\r\n"
)
FILES = {
    "windows.txt": "\r\n".join(RULES[:6]).encode("utf-16"),
    "wrapped.md": ("# Boats\n\n## Rules\n\n" + "\n".join(RULES[6:22]).replace(" from ", "\nfrom ")).encode(),
    "page.html": (
        "<html><body><nav><a href='/'>Home</a></nav><h1>Boats &amp; piers</h1><p>"
        + "</p><p>".join(RULES[22:26]).replace("boat", "<b>boat</b>")
        + "</p></body></html>"
    ).encode(),
    "old.txt": (CHINESE * 3).encode("gb18030"),
    "table.csv": ("boat,owner,note\n" + "".join(f"{n},Ann {n},{RULES[0]}\n" for n in range(60))).encode(),
    "marks.md": b"\xef\xbb\xbf" + RULES[26].replace("nightfall", "*night*fall <passage> `x`").encode(),
}


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    folder = tmp_path_factory.mktemp("documents")
    for name, raw in FILES.items():
        (folder / name).write_bytes(raw)
    settings = RetrieveSettings(embedder="fake", chunk_tokens=48, chunk_overlap=8)
    index_folders([folder], folder.with_name("index"), settings, HashingEmbedder())
    return Retriever.open(folder.with_name("index"), HashingEmbedder())


@pytest.mark.parametrize(
    "query", ["boat 3 harbour", "rule 9 10 11", "rule 24", "值班人员涌潮", "owner Ann 40", "Rule 27"]
)
def test_what_is_quoted_from_a_passage_leads_back_to_its_file(retriever: Retriever, query: str) -> None:
    evidence = gather(retriever.search(query, 6), retriever)
    used = list(range(len(evidence.passages)))
    texts = {
        hit.passage.path: retriever.document_text(hit.passage.document_id)
        for hit in retriever.search(query, 6)
    }
    for source in evidence.sources:
        assert source.passage is not None
        quoted = re.sub(r"^\w*\W+|\W+\w*$", "", source.passage.text[2:-2])  # whole words
        for answer in (quoted, " ".join(quoted.split()), quoted.replace("*", "").replace("`", "")):
            trace = CopyTrace(Prompt([], [range(0)] * len(used), used, []), evidence, [], lambda ids: "")
            trace(f"So {answer} [{source.number}]")
            spans = trace.spans()
            check_spans(trace.text, spans, texts)
            missed = verbatim(trace.text, [passage.text for passage in evidence.passages]) - attributed(spans)
            assert not missed
            assert any(span.number == source.number for span in spans)
            assert trace.read.unsupported(trace.text) == ()


def test_the_text_of_a_file_of_text_is_the_file(retriever: Retriever) -> None:
    for name in ("windows.txt", "wrapped.md", "old.txt", "table.csv", "marks.md"):
        [document] = {
            hit.passage.document_id
            for query in ("boat", "值班", "Ann")
            for hit in retriever.search(query, 40)
            if hit.passage.path == name
        }
        assert retriever.document_text(document) == decode(FILES[name])


def test_files_that_are_as_they_were_are_fresh(retriever: Retriever) -> None:
    sources = gather(retriever.search("boat", 20), retriever).sources
    assert {source.freshness for source in looked_at(sources, retriever)} == {"same"}
    path = Path(next(one.passage.absolute for one in sources if one.passage and one.path == "page.html"))
    before = path.read_bytes()
    path.write_bytes(before + b"<!-- -->")
    found = {source.path: source.freshness for source in looked_at(sources, retriever)}
    path.write_bytes(before)
    assert found.pop("page.html") == "changed"  # what was indexed is not what stands in the file
    assert set(found.values()) == {"same"}


def test_an_index_that_fails_says_nothing_about_files(retriever: Retriever) -> None:
    sources = gather(retriever.search("boat", 3), retriever).sources
    gone = Retriever.open(Path(sources[0].passage.absolute).parent.with_name("index"), HashingEmbedder())  # type: ignore[union-attr]
    gone.close()
    assert [source.freshness for source in looked_at(sources, gone)] == [None] * len(sources)
