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
from ragla.remote.pieces import TextPieces, tokens_in
from ragla.remote.reply import Reply
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
    for text in READ:
        assert (
            tokens_in([text]) >= len(byte_tokenizer()(text)["input_ids"]) / 3
        )  # the tokenizer is a tiny one
    assert tokens_in(["The hotel limit in Paris is 180 euros a night."]) == 13
    assert tokens_in(["酒店每晚上限"]) == 6


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
