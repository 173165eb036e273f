"""What names a place in Milvus, what is said without the package, and words as Milvus is given them."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragla.cli import app
from ragla.config import RetrieveSettings
from ragla.errors import UsageError
from ragla.profiles import load
from ragla.retrieve.milvus_client import Connection, target_of
from ragla.retrieve.milvus_collections import of_bounded_size
from ragla.retrieve.milvus_rows import _CHARACTERS, _packed, _unpacked
from ragla.retrieve.milvus_words import MOST_BYTES, Query, Stemmer, counted, spelled


@pytest.mark.parametrize(
    ("written", "uri", "collection"),
    [
        ("milvus://host", "http://host:19530", "ragla"),
        ("milvus://host:1/archive", "http://host:1", "archive"),
        (" milvus://[::1]:19530/archive/ ", "http://[::1]:19530", "archive"),
        ("https://in01.example.org/archive", "https://in01.example.org:443", "archive"),
        ("http://127.0.0.1:19530", "http://127.0.0.1:19530", "ragla"),
        ("milvus:/srv/a b.db", "/srv/a b.db", "ragla"),
        ("/srv/archive.db", "/srv/archive.db", "ragla"),
    ],
)
def test_a_uri_names_a_server_or_a_file(written: str, uri: str, collection: str) -> None:
    target = target_of(written)
    assert (target.uri, target.collection) == (uri, collection)
    assert target_of(str(target)) == target


@pytest.mark.parametrize(
    "written",
    ["milvus://", "milvus://host:0/x", "milvus://host:70000", "milvus://host/9x", "ftp://host", "x.sqlite"],
)
def test_anything_else_is_refused_with_what_there_is(written: str) -> None:
    with pytest.raises(UsageError, match="no place of Milvus") as caught:
        target_of(written)
    assert "milvus://HOST" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "flags",
    [
        ["--rollback"],
        ["--dry-run"],
        ["--watch"],
        ["--retry"],
        ["--include", "*.md"],
        ["docs"],
        ["--on", "ray"],
    ],
)
def test_an_index_is_brought_as_it_is(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["index", "--to", "milvus:x.db", *flags])
    assert refused.exit_code == 2
    assert "--to" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_password_in_a_uri_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        target_of("https://user:hunter22@host/x")
    assert "hunter22" not in f"{caught.value} {caught.value.hint}"


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(UsageError, match="needs pymilvus") as caught:
        Connection(target_of("milvus://127.0.0.1:9"), RetrieveSettings())
    assert caught.value.hint == "pip install 'ragla[milvus]'"


@pytest.mark.parametrize("key", ["milvus_uri", "milvus_token_env"])
def test_no_project_file_decides_where_questions_go(tmp_path: Path, key: str) -> None:
    (tmp_path / "ragla.yaml").write_text(f"retrieve:\n  {key}: milvus://elsewhere\n")
    with pytest.raises(UsageError, match="may not be set by a project file"):
        load(folder=tmp_path, environ={}, user_file=tmp_path / "none.yaml")


@given(st.text(max_size=40))
@settings(deadline=None)
def test_a_text_comes_back_as_it_was(text: str) -> None:
    for one in (text, "\x00" + text, text + "\ud800"):
        assert _unpacked(_packed(one)) == one
        assert len(_packed(one * 3).encode("utf-8")) <= MOST_BYTES
    assert _packed("x" * (MOST_BYTES + 1)) == ""
    assert _unpacked(_packed("😀" * (_CHARACTERS - 1) + "\ud800")).startswith("😀")


def test_words_are_spelled_so_that_beginnings_stay_beginnings() -> None:
    assert spelled("train") == "train"
    assert spelled("差旅").startswith(spelled("差"))
    assert spelled("naïf") != spelled("naif")
    assert spelled("差旅").isalnum()


def test_a_question_counts_words_by_their_terms() -> None:
    with closing(Stemmer()) as stemmer:
        words = stemmer.words_of("trains train 差旅 旅费")
        query = Query.of(["training", "差", "旅费", "absent"], stemmer)
        assert counted(words) == Counter({"train": 2, spelled("差旅"): 1, spelled("旅费"): 1})
        assert query.counts(counted(words)) == {"training": 2, "差": 1, "旅费": 1}


def test_requests_are_of_bounded_size_and_lose_no_row() -> None:
    rows = [
        {"id": number, "text": "x" * size} for number, size in enumerate([10, 60_000] * 200 + [10] * 1200)
    ]
    sent = list(of_bounded_size(rows))
    assert [one for some in sent for one in some] == rows
    assert all(len(some) <= 500 for some in sent)
    assert all(sum(4 * len(str(one["text"])) for one in some) <= 16 << 20 for some in sent)
    assert len(sent) < 10
    assert list(of_bounded_size([])) == []
