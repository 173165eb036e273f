"""A tiny cross-encoder whose order is known: only the token ``tide`` moves its one number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hashing_embedder import HashingEmbedder
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from ragla.config import Profile
from ragla.errors import ModelUnavailable, UsageError
from ragla.render_search import explanation_json, explanation_lines
from ragla.retrieve import IndexReport, Retriever
from ragla.retrieve.rerank import CrossEncoderReranker
from ragla.retrieve.why_not import why_not
from ragla.session import open_reranker

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "tide", "gauge", "when", "is", "the", "high")
LIMIT = 24


def make_cross_encoder(folder: Path, labels: int = 1, activation: str | None = None) -> Path:
    """One layer that adds nothing; attention and feed-forward are zero, the pooler reads [CLS]'s neighbours.

    Attention is uniform and its values are the word embeddings, so [CLS] gathers the mean of all words;
    the head weighs the one dimension that only ``tide`` has.
    """
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=4, max_position_embeddings=LIMIT, num_labels=labels,
        architectures=["BertForSequenceClassification"],
    )  # fmt: skip
    if activation:
        config.sentence_transformers = {"activation_fn": activation}
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1.0)
            if name.endswith(("self.value", "attention.output.dense", "pooler.dense")):
                module.weight.copy_(torch.eye(4))
        model.bert.embeddings.word_embeddings.weight[WORDS.index("tide")] = torch.tensor([4.0, 0, 0, 0])
        model.classifier.weight[0] = torch.tensor([4.0, 0, 0, 0])
        model.classifier.bias[0] = -1.0
    model.save_pretrained(folder)
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", model_max_length=LIMIT,
    ).save_pretrained(folder)  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("models") / "tides")


@pytest.fixture(scope="module")
def reranker(cross_encoder: Path) -> CrossEncoderReranker:
    return CrossEncoderReranker(cross_encoder, "tides")


@pytest.fixture
def harbour(tmp_path: Path, index: Callable[..., IndexReport], embedder: HashingEmbedder) -> Path:
    """Three documents: the blend puts the gauge first, the reranker the tides."""
    docs = tmp_path / "harbour"
    docs.mkdir()
    (docs / "gauge.txt").write_text("The harbour gauge is read every hour.\n", encoding="utf-8")
    (docs / "harbour.txt").write_text("The harbour office opens at eight.\n", encoding="utf-8")
    (docs / "tides.txt").write_text("Tide and tide, harbour water rises.\n", encoding="utf-8")
    index([docs])
    return tmp_path / "index"


Opening = Callable[..., Retriever]


@pytest.fixture
def opened(harbour: Path, embedder: HashingEmbedder) -> Iterator[Opening]:
    made: list[Retriever] = []

    def opening(*more: Any) -> Retriever:
        made.append(Retriever.open(harbour, embedder, *more))
        return made[-1]

    yield opening
    for one in made:
        one.close()


QUESTION = "harbour gauge read every hour"


def test_the_reranker_decides_the_order(opened: Opening, reranker: CrossEncoderReranker) -> None:
    plain = opened().search(QUESTION, 3)
    again = opened(reranker).search(QUESTION, 3)
    assert plain[0].passage.path == "gauge.txt"
    assert again[0].passage.path == "tides.txt"
    assert all(found.reranked is None for found in plain)
    assert all(found.reranked == found.score for found in again)
    assert again[0].score > again[1].score == again[2].score  # equals stay in the blend's order
    assert [found.passage.path for found in again][1:] == ["gauge.txt", "harbour.txt"]


def test_the_floor_is_held_against_the_rerankers_score(
    opened: Opening, reranker: CrossEncoderReranker
) -> None:
    kept = opened(reranker).search(QUESTION, 3, floor=0.5)
    assert [found.passage.path for found in kept] == ["tides.txt"]


def test_what_was_not_read_is_not_found_and_why_not_says_so(
    opened: Opening, reranker: CrossEncoderReranker
) -> None:
    retriever = opened(reranker, 1)
    found = retriever.explain(QUESTION, 1)
    assert [one.passage.path for one in found.kept] == ["gauge.txt"]
    assert [one.fate for one in found.decisions] == ["kept", "not reranked", "not reranked"]
    lost = why_not(retriever, "tides.txt", QUESTION, 1, -1.0)
    assert lost.stage == "not reranked"
    assert lost.hint == f"-s retrieve.rerank_depth={lost.said.split('place ')[1][0]}"


def test_explain_shows_the_reranker(opened: Opening, reranker: CrossEncoderReranker) -> None:
    found = opened(reranker, 2).explain(QUESTION, 1)
    lines = [line.plain for line in explanation_lines(found)]
    assert any("tides read 2 passages again" in line for line in lines)
    assert sum("reranked; " in line for line in lines) == 2
    document = explanation_json(found)
    assert document["reranker"] == {"model": "tides", "read": 2, "cut": 0}
    assert [one["reranked"] is None for one in document["ranked"]] == [False, False, True]
    assert explanation_json(opened().explain(QUESTION, 1))["reranker"] is None


def test_scores_are_shares_and_long_pairs_are_counted(reranker: CrossEncoderReranker) -> None:
    long = "gauge " * 40 + "tide tide tide"
    scores, cut = reranker.scores("when is the tide", ["high tide", "", long])
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert cut == [False, False, True]
    assert reranker.scores("tide", []) == ([], [])


def test_a_long_question_is_read_too(reranker: CrossEncoderReranker) -> None:
    scores, cut = reranker.scores("when is the " * 40, ["high tide"])
    assert cut == [True]
    assert 0.0 <= scores[0] <= 1.0


def test_a_model_that_gives_logits_is_squashed(tmp_path: Path, reranker: CrossEncoderReranker) -> None:
    folder = make_cross_encoder(tmp_path / "logits", activation="torch.nn.modules.linear.Identity")
    logits = CrossEncoderReranker(folder, "logits")
    pairs = ("tide", ["tide tide", "gauge"])
    assert logits.scores(*pairs)[0] == pytest.approx(reranker.scores(*pairs)[0])


def test_an_embedder_is_no_cross_encoder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}), encoding="utf-8")
    with pytest.raises(ModelUnavailable, match="no cross-encoder") as raised:
        CrossEncoderReranker(tmp_path, "minilm")
    assert "retrieve.reranker" in (raised.value.hint or "")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"architectures": []}', '{"architectures": 3}'])
def test_a_broken_configuration_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelUnavailable, match="no cross-encoder"):
        CrossEncoderReranker(tmp_path, "broken")


def test_broken_weights_are_said(tmp_path: Path, cross_encoder: Path) -> None:
    for file in cross_encoder.iterdir():
        cut = 50 if file.suffix == ".safetensors" else None
        (tmp_path / file.name).write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        CrossEncoderReranker(tmp_path, "broken")


def test_a_classifier_of_several_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="gives 3 numbers"):
        CrossEncoderReranker(make_cross_encoder(tmp_path / "three", labels=3), "three")


def test_a_profile_names_the_reranker(cross_encoder: Path) -> None:
    named = {"retrieve": {"reranker": str(cross_encoder)}}
    made = open_reranker(Profile.model_validate(named))
    assert made is not None
    assert made.name == str(cross_encoder)
    assert open_reranker(Profile()) is None


def test_a_missing_reranker_is_unavailable() -> None:
    profile = Profile.model_validate({"retrieve": {"reranker": "./nowhere"}})
    with pytest.raises(ModelUnavailable):
        open_reranker(profile)


def test_more_passages_than_are_read_cannot_be_wanted(cross_encoder: Path) -> None:
    settings = {"reranker": str(cross_encoder), "top_k": 30, "rerank_depth": 20}
    with pytest.raises(UsageError, match="top_k is 30") as raised:
        open_reranker(Profile.model_validate({"retrieve": settings}))
    assert raised.value.hint == "-s retrieve.rerank_depth=30"
