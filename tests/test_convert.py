"""GGUF files become folders that load and compute the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ragla import convert
from ragla.convert import convert_gguf
from ragla.errors import ModelUnavailable
from ragla.models import is_ready, model_folder
from tests.tiny_gguf import MERGES, random_model, vocabulary, write_gguf

IDS = torch.tensor([[1, 40, 41, 42, 90, 91, 2, 7]])


def converted(path: Path, model: Any, **options: Any) -> Path:
    folder = path / "converted"
    folder.mkdir()
    convert_gguf(write_gguf(path / "model.gguf", model, **options), folder)
    return folder


def load(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_the_weights_are_the_file_s_rounded_to_half(tmp_path: Path, architecture: str) -> None:
    model = random_model(architecture)
    again = load(converted(tmp_path, model))
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.half().float()), name
    with torch.inference_mode():
        assert torch.allclose(again(IDS).logits, model(IDS).logits, atol=0.05, rtol=0.02)


def test_tied_embeddings_stay_tied(tmp_path: Path) -> None:
    folder = converted(tmp_path, random_model("llama"))
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    again = load(folder)
    assert "lm_head.weight" not in index["weight_map"]
    assert again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()


def test_quantised_blocks_are_unpacked_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "CHUNK_ELEMENTS", 1000)  # 15 rows of 64
    model = random_model("qwen2")
    again = load(converted(tmp_path, model, quantised=True))
    for name, tensor in model.state_dict().items():
        # Q8_0 keeps a block's values to half a 127th of its largest
        assert (again.state_dict()[name] - tensor).abs().max() < tensor.abs().max() / 200, name


def test_shards_hold_every_tensor_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "SHARD_BYTES", 40_000)
    model = random_model("qwen2")
    folder = converted(tmp_path, model)
    assert len(list(folder.glob("*.safetensors"))) > 2
    assert not list(folder.glob("shard-*"))
    assert set(load(folder).state_dict()) == set(model.state_dict())


def test_the_config_says_what_the_file_says(tmp_path: Path) -> None:
    model = random_model("llama")
    found, wanted = load(converted(tmp_path, model)).config, model.config
    for key in ("hidden_size", "num_key_value_heads", "head_dim", "max_position_embeddings", "vocab_size"):
        assert getattr(found, key) == getattr(wanted, key), key
    assert found.rope_parameters["rope_theta"] == 5000.0
    assert found.architectures == ["LlamaForCausalLM"]


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    source = write_gguf(tmp_path / "m.gguf", random_model("llama"))
    (tmp_path / "out").mkdir()
    convert_gguf(source, tmp_path / "out", lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize("pre", ["smollm", "qwen2"])
@pytest.mark.parametrize(
    "text",
    [
        "hello world",
        "Don't\n\n  indent\tit",
        "你好，世界。",
        "x = 2024 ½ ①",
        "<|im_start|>user\nhi<|im_end|>",
    ],
)
def test_the_tokenizer_round_trips(tmp_path: Path, pre: str, text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted(tmp_path, random_model("llama"), pre=pre))
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_the_tokenizer_is_the_file_s(tmp_path: Path) -> None:
    folder = converted(tmp_path, random_model("llama"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.get_vocab() == {token: position for position, token in enumerate(vocabulary())}
    assert tokenizer.tokenize("hello w<|im_end|>") == ["hello", "Ġw", "<|im_end|>"]
    assert len(tokenizer) == len(vocabulary()) == 3 + 256 + len(MERGES)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n"
    assert tokenizer("hi")["input_ids"] == tokenizer("hi", add_special_tokens=False)["input_ids"]


def test_splitting_follows_the_vocabulary_s_own_scheme(tmp_path: Path) -> None:
    """SmolLM2's digits stand alone, so a space never joins one; Qwen2 composes accents."""
    for pre, text, tokens in (("smollm", "a 1", ["a", "Ġ", "1"]), ("qwen2", "e\u0301", ["Ã", "©"])):
        (tmp_path / pre).mkdir()
        tokenizer = AutoTokenizer.from_pretrained(converted(tmp_path / pre, random_model("llama"), pre=pre))
        assert tokenizer.tokenize(text) == tokens


def test_every_end_of_answer_token_ends_it(tmp_path: Path) -> None:
    generation = GenerationConfig.from_pretrained(converted(tmp_path, random_model("llama")))
    assert generation.eos_token_id == [2, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"without": "blk.1.ffn_up.weight"}, r"tensor blk\.1\.ffn_up\.weight is missing"),
        ({"extra": {"llama.rope.scaling.type": "yarn"}}, "scaled rotary positions"),
        ({"architecture": "mamba"}, "architecture mamba; GGUF is read for llama, qwen2, qwen3"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message) as caught:
        converted(tmp_path, random_model("llama"), **options)
    assert caught.value.hint


def test_a_tensor_without_a_place_is_refused(tmp_path: Path) -> None:
    """Qwen2's attention biases have no place in a llama: dropping them would give wrong answers."""
    with pytest.raises(ModelUnavailable, match="has no place in a llama model"):
        converted(tmp_path, random_model("qwen2"), architecture="llama")


@pytest.mark.parametrize("keep", [0, 10, 3000, -5000])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    source = write_gguf(tmp_path / "m.gguf", random_model("llama"))
    source.write_bytes(source.read_bytes()[:keep])
    (tmp_path / "out").mkdir()
    with pytest.raises(ModelUnavailable, match=r"m\.gguf cannot be read as a GGUF model") as caught:
        convert_gguf(source, tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"PK" + bytes(500))
    with pytest.raises(ModelUnavailable, match="not a GGUF file"):
        convert_gguf(tmp_path / "m.gguf", tmp_path)


@pytest.mark.real
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b"])
def test_real_tokenizers_round_trip(name: str) -> None:
    folder = model_folder(name)
    if not is_ready(folder):
        pytest.skip(f"{name} is not pulled")
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for text in ("It's 2024; don't.", "检索增强生成，2024年。", "def f(x):\n\treturn x**2  # ½", "🙂👩‍👩‍👧"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    assert tokenizer.eos_token == "<|im_end|>"
    assert GenerationConfig.from_pretrained(folder).eos_token_id[0] == tokenizer.eos_token_id
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
