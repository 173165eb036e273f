"""Models that do not draft: said at load, and answered as transformers' own greedy search answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ragla.decode.backend.plain import PlainBackend
from ragla.decode.budget import StepCost
from ragla.decode.decoder import lookahead
from ragla.decode.families import DRAFTING_FAMILIES, why_plain
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.tree_attention import causal_rows, tree_rows
from ragla.decode.verify import SamplingSettings
from ragla.errors import ModelUnavailable
from ragla.trie import Drafter, DraftLimits, DraftTree
from tests.decode.tiny_configs import tiny_config
from tests.decode.tiny_models import drafted, generated, plain, save_tiny

STATE = "keeps a recurrent state"
TWO_PARTS = "is an encoder–decoder"
UNTESTED = "no test holds the draft trees"
# family or variant → what is said of it, which is also why the architecture matrix leaves it out
LEFT_OUT = {
    "bamba": STATE, "falcon_h1": STATE, "falcon_mamba": STATE, "granitemoehybrid": STATE, "jamba": STATE,
    "lfm2": STATE, "lfm2_moe": STATE, "mamba": STATE, "mamba2": STATE, "minimax": STATE, "nemotron_h": STATE,
    "olmo_hybrid": STATE, "qwen3_5_text": STATE, "qwen3_next": STATE, "recurrent_gemma": STATE, "rwkv": STATE,
    "zamba2": STATE,
    "bart": TWO_PARTS, "longt5": TWO_PARTS, "mbart": TWO_PARTS, "mt5": TWO_PARTS, "pegasus": TWO_PARTS,
    "t5": TWO_PARTS, "umt5": TWO_PARTS,
    "falcon-alibi": "alibi", "llama4_text": "layers of another kind (chunked_attention)",
    "gpt_neo": UNTESTED, "mpt": UNTESTED, "biogpt": UNTESTED,
}  # fmt: skip
PROMPT = [3 + (index * 37) % 110 for index in range(40)]


@pytest.fixture
def target(request: pytest.FixtureRequest, load_tiny: Any) -> Any:
    return load_tiny(request.param)


every_family = pytest.mark.parametrize("target", LEFT_OUT, indirect=True)


@every_family
def test_it_is_said_and_the_text_is_what_transformers_generates(
    target: Any, request: pytest.FixtureRequest
) -> None:
    family = request.node.callspec.params["target"]
    assert (target.backend.name, target.backend.drafts) == ("plain", False)
    (notice,) = target.notices
    assert LEFT_OUT[family] in notice
    assert notice.endswith("decoding one token a step, without drafts")
    expected = generated(target.backend.model, PROMPT, 20)
    asked = DecodeRequest(PROMPT, 20)
    found, stats = drafted(target.backend, asked, DraftLimits(), [expected])
    assert found == plain(target.backend, asked) == expected
    assert len(set(found)) > 2, "a model that repeats itself proves little"
    assert (stats.drafted, len(stats.steps)) == (0, 19)


@pytest.mark.parametrize("target", ["jamba", "lfm2", "t5", "gpt_neo"], indirect=True)
def test_a_memory_is_read_anew_where_it_cannot_go_back(target: Any) -> None:
    """A prompt in chunks, a truncated text, a shorter question after a longer one."""
    whole = plain(target.backend, DecodeRequest(PROMPT, 12))
    for rows in (1, 7, 39):
        assert plain(target.backend, DecodeRequest(PROMPT, 12, prefill_rows=rows)) == whole
    cache = target.backend.new_cache(100)
    for token in (5, 6, 7, whole[1]):
        target.backend.forward(causal_rows([token], 0, target.backend.device), cache, last=1)
        cache.truncate(0)
    target.backend.forward(causal_rows(PROMPT, 0, target.backend.device), cache, last=1)
    cache.committed(len(PROMPT))
    for token in whole[:4]:
        target.backend.forward(causal_rows([token], cache.length, target.backend.device), cache)
        cache.keep([0])
    cache.truncate(len(PROMPT) + 2)
    logits = target.backend.forward(causal_rows(whole[2:4], cache.length, target.backend.device), cache)
    assert logits.shape[0] == 2
    assert logits.argmax(-1).tolist() == whole[3:5]
    assert plain(target.backend, DecodeRequest(PROMPT[:9], 8)) == generated(
        target.backend.model, PROMPT[:9], 8
    )


def test_a_tree_is_refused(load_tiny: Any) -> None:
    backend = load_tiny("mamba").backend
    tree = DraftTree([5])
    tree.add(6, 0)
    tree.add(7, 0)
    with pytest.raises(ValueError, match="was given one"):
        backend.forward(tree_rows(tree, 0, backend.device), backend.new_cache(9))


def test_nothing_is_calibrated_or_ranked(load_tiny: Any) -> None:
    backend, stats, cost = load_tiny("mamba").backend, DecodeStats(), StepCost()
    asked = DecodeRequest(PROMPT, 8, rank_prompt=True)
    drafter = Drafter()
    drafter.begin(PROMPT)
    blocks = list(lookahead(backend, drafter, asked, stats, DraftLimits(), cost))
    assert [token for block in blocks for token in block.token_ids] == generated(backend.model, PROMPT, 8)
    assert cost.table == {}


@pytest.mark.parametrize("target", ["mamba2", "bart"], indirect=True)
def test_sampling_with_a_seed(target: Any) -> None:
    sampling = SamplingSettings(1.0, top_k=20, min_p=0.01, presence_penalty=0.5, seed=4)
    asked = DecodeRequest(PROMPT, 20, sampling=sampling)
    expected = plain(target.backend, asked)
    assert drafted(target.backend, asked, DraftLimits(), [expected])[0] == expected
    other = DecodeRequest(PROMPT, 20, sampling=SamplingSettings(1.0, top_k=20, seed=5))
    assert plain(target.backend, other) != expected


def quantized(folder: Path, **keys: Any) -> Path:
    save_tiny(folder, tiny_config("llama"))
    asked = {"cache_implementation": "quantized", **keys}
    (folder / "generation_config.json").write_text(json.dumps(asked))
    return folder


def test_a_quantised_cache_is_used_and_said(tmp_path: Path, load_tiny: Any) -> None:
    folder = quantized(tmp_path, cache_config={"backend": "fp8"})
    target = load_target(folder, LoadSettings())
    assert target.notices == (
        "this llama model's generation_config.json asks for a quantised cache: "
        "decoding one token a step, without drafts",
    )
    model: Any = target.backend.model  # type: ignore[attr-defined]
    found = plain(target.backend, DecodeRequest(PROMPT, 20))
    assert found == generated(model, PROMPT, 20)
    stock = load_tiny("llama", "eager").backend.model
    rows = causal_rows(PROMPT, 0, target.backend.device)
    cache = target.backend.new_cache(80)
    target.backend.forward(rows, cache, last=1)
    cache.committed(len(PROMPT))
    step = target.backend.forward(causal_rows([5], len(PROMPT), target.backend.device), cache)
    with torch.inference_mode():
        exact = stock(torch.tensor([[*PROMPT, 5]])).logits[0, -1:]
    assert 0 < (step - exact).abs().max() < exact.abs().max()  # it is in few bits, and nearly the same


def test_a_quantised_cache_whose_package_is_missing(tmp_path: Path) -> None:
    folder = quantized(tmp_path, cache_config={"backend": "hqq", "nbits": 4})
    with pytest.raises(ModelUnavailable, match="needs a package that is missing") as caught:
        load_target(folder, LoadSettings())
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_take_a_step(tmp_path: Path) -> None:
    """It is said at load, not in the middle of an answer."""
    save_tiny(tmp_path, tiny_config("t5"))
    config = json.loads((tmp_path / "generation_config.json").read_text())
    del config["decoder_start_token_id"]
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnavailable, match="t5 models cannot be decoded here: neither decoder_start"):
        load_target(tmp_path, LoadSettings())


def test_a_model_that_reads_from_both_ends_writes_no_text(tmp_path: Path) -> None:
    keys = {"hidden_act": "gelu", "type_vocab_size": 2}
    save_tiny(tmp_path, tiny_config("bert", **keys))
    with pytest.raises(ModelUnavailable, match="bert models read a text from both ends"):
        load_target(tmp_path, LoadSettings())
    (tmp_path / "decoder").mkdir()
    causal = save_tiny(tmp_path / "decoder", tiny_config("bert", is_decoder=True, **keys))
    target = load_target(causal, LoadSettings())
    assert plain(target.backend, DecodeRequest(PROMPT, 9)) == generated(
        target.backend.model,  # type: ignore[attr-defined]
        PROMPT,
        9,
    )


def test_what_a_model_brings_itself_is_not_trusted_by_its_name() -> None:
    assert why_plain(tiny_config("llama")) is None
    assert "code" in str(why_plain(tiny_config("llama"), own_code=True))


def test_the_families_that_draft_are_causal_families() -> None:
    """A misspelt name would never be held by the matrix, which skips what transformers has not."""
    assert not DRAFTING_FAMILIES - set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert not DRAFTING_FAMILIES & set(LEFT_OUT)


def test_an_encoder_reads_the_prompt_once(load_tiny: Any) -> None:
    target = load_tiny("bart")
    assert isinstance(target.backend, PlainBackend)
    calls: list[int] = []
    encoder = target.backend.model.get_encoder()
    hook = encoder.register_forward_hook(lambda _module, args, _output: calls.append(args[0].shape[1]))
    try:
        plain(target.backend, DecodeRequest(PROMPT, 10))
    finally:
        hook.remove()
    assert calls == [len(PROMPT)]
