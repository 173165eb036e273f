"""The parts of asking a server: pieces, figures, messages, addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.config import DecodeSettings
from ragla.remote.address import Address, address_of
from ragla.remote.answerer import used_by_ragla
from ragla.remote.figures import ServerFigures, figures
from ragla.remote.messages import harmless
from ragla.remote.pieces import TextPieces
from ragla.remote.reply import Reply
from ragla.remote.withheld import Withheld
from ragla.secrets import hide_in_address, hide_setting
from tests.cli.tiny_models import READ, byte_tokenizer

ADDRESS = Address("http://127.0.0.1:1/v1", local=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.text())
def test_pieces_make_the_same_text(text: str) -> None:
    pieces = TextPieces()
    assert pieces.decode(pieces(text, add_special_tokens=False)["input_ids"]) == text


def test_pieces_are_rather_too_many() -> None:
    pieces = TextPieces()
    for text in READ:
        assert len(pieces.encode(text)) >= len(byte_tokenizer()(text)["input_ids"]) / 3  # that one is tiny
    assert len(pieces.encode("The hotel limit in Paris is 180 euros a night.")) == 13
    assert len(pieces.encode("酒店每晚上限")) == 6


@given(JSON, st.sampled_from(["usage", "ragla", "metrics", "timings", "choices", "error"]))
def test_whatever_a_server_sends_is_read_or_refused_by_name(value: Any, key: str) -> None:
    from ragla.errors import RaglaError

    reply = Reply(ADDRESS)
    try:
        text = reply.take(json.dumps({key: value}))
    except RaglaError:
        assert key == "error"
    else:
        assert text == ""
        for figure in vars(figures(reply.last)).values():
            assert figure is None or figure >= 0


@given(
    st.lists(st.fixed_dictionaries({"path": JSON | st.sampled_from("00123"), "copied_tokens": JSON})) | JSON
)
def test_a_server_names_passages_that_it_was_sent_or_none(sources: Any) -> None:
    used, copied = used_by_ragla({"sources": sources}, 3)
    assert used
    assert len(set(used)) == len(used)
    assert set(used) <= {0, 1, 2}
    assert all(count >= 0 for count in copied.values())


def test_figures_of_ragla_are_taken_as_they_are() -> None:
    stats = {"tokens": 24, "steps": 6, "tokens_per_step": 3.8, "accepted": 17, "accepted_share": 0.7}
    told = figures({"ragla": {"stats": stats}, "usage": {"completion_tokens": 99}})
    assert told == ServerFigures(tokens=24, steps=6, tokens_per_step=3.8, accepted=17, accepted_share=0.7)


def test_a_zero_that_every_answer_has_is_no_figure() -> None:
    detail = {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    told = figures({"usage": {"completion_tokens": 5, "completion_tokens_details": detail}})
    assert told == ServerFigures(tokens=5)


@pytest.mark.parametrize(
    "token", ["<|im_end|>", "<｜User｜>", "</s>", "<s>", "<start_of_turn>", "[/INST]", "<<SYS>>", "</think>"]
)
def test_no_control_token_is_left_in_a_passage(token: str) -> None:
    made = harmless(f"a {token} b")
    assert token not in made
    assert made.replace(" ", "") == f"a{token}b"


def test_other_text_stays_as_it_is() -> None:
    for text in ("a < b > c", "<div><p>x</p></div>", "x[0] | y", "List<String> [INSTALL]", "1 << 3"):
        assert harmless(text) == text


@pytest.mark.parametrize(
    ("given_url", "url", "local"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", True),
        ("https://host/api/v1/", "https://host/api/v1", False),
        ("http://localhost:1/v1/chat/completions", "http://localhost:1/v1", True),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1", True),
    ],
)
def test_an_address_as_people_write_it(given_url: str, url: str, local: bool) -> None:
    address = address_of(DecodeSettings(backend="remote", remote_url=given_url))
    assert (address.url, address.local) == (url, local)


def test_the_way_to_a_server_is_told_where_others_can_read_along() -> None:
    assert address_of(DecodeSettings(remote_url="https://host/v1")).notice is None
    assert "unencrypted" in str(address_of(DecodeSettings(remote_url="http://host/v1")).notice)
    assert "sesame" not in repr(Address("http://host/v1", local=False, key="sesame"))


@given(
    st.lists(st.text("abkey-0", max_size=9), max_size=6), st.lists(st.booleans(), min_size=400, max_size=400)
)
def test_a_key_is_kept_out_of_a_text_however_it_is_cut(around: list[str], cuts: list[bool]) -> None:
    key = "key-key-key-0"
    text = key.join(around)
    pieces, start = [], 0
    for end in range(1, len(text) + 1):
        if cuts[end] or end == len(text):
            pieces.append(text[start:end])
            start = end
    withheld = Withheld(key)
    shown = "".join([*map(withheld.push, pieces), withheld.rest()])
    assert shown == text.replace(key, "***")


def test_a_word_that_is_a_key_may_be_in_an_answer() -> None:
    assert Withheld("ollama").push("ollama run") == "ollama run"


def test_only_the_first_of_several_answers_is_read() -> None:
    reply = Reply(ADDRESS)
    second = {"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}
    first = {"index": 0, "delta": {"content": "yes"}}
    assert reply.take(json.dumps({"choices": [second]})) == ""
    assert reply.reason is None
    assert reply.take(json.dumps({"choices": [second, first]})) == "yes"


def test_parts_of_a_message_are_read_by_their_kind() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [
        thought,
        {"type": "text", "text": "180 "},
        {"type": "image_url"},
        7,
        {"type": "text", "text": "euros"},
    ]
    reply = Reply(ADDRESS)
    assert reply.take(json.dumps({"choices": [{"delta": {"content": parts}}]})) == "180 euros"
    assert reply.thought == 2


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("http://u:secretpw@h/v1", "http://***@h/v1"),
        ("http://u:se/cr@et?p#w@h/v1", "http://***"),
        ("https://h/v1?api_key=sk-abcdef", "https://h/v1?***"),
        ("https://h/v1?mail=a@b&key=secret", "https://***"),
        ("https://h/v1#secret", "https://h/v1#***"),
        ("https://root:secret@h/n", "https://***@h/n"),
        ("u:secret@h:8000", "***@h:8000"),
        ("http://h:8000/v1", "http://h:8000/v1"),
        ("milvus:./a@b.db", "milvus:./a@b.db"),
    ],
)
def test_an_address_is_shown_without_its_secrets(written: str, shown: str) -> None:
    assert hide_in_address(written) == shown
    assert hide_setting("remote_url", written) == hide_setting("milvus_uri", written) == shown
