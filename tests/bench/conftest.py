"""A tiny random model with a byte tokenizer, in a folder as ``from_pretrained`` wants it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ragla.bench import BenchQuestion
from ragla.config import DecodeSettings, Profile, PromptSettings
from ragla.decode.model import LoadSettings, TargetModel, load_target

WINDOW = 2048
SAMPLING_DEFAULTS = '{"do_sample": true, "temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.3}'


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of two layers that, like many a published folder, asks for sampling and a penalty."""
    path = tmp_path_factory.mktemp("tiny-llama")
    vocabulary = {piece: at for at, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")  # type: ignore[no-untyped-call]
    fast.save_pretrained(path)
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        eos_token_id=fast.eos_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(path)
    (path / "generation_config.json").write_text(SAMPLING_DEFAULTS)
    return path


@pytest.fixture(scope="session")
def target(folder: Path) -> TargetModel:
    return load_target(folder, LoadSettings(dtype="float32", threads=2))


@pytest.fixture(scope="session")
def profile(folder: Path) -> Profile:
    decode = DecodeSettings(model=str(folder), dtype="float32", max_new_tokens=24)
    return Profile(decode=decode, prompt=PromptSettings(instruction="Answer from these passages."))


@pytest.fixture(scope="session")
def questions() -> list[BenchQuestion]:
    return [
        BenchQuestion("a", "Who may claim?", ("Anyone on the payroll may claim within 60 days.",)),
        BenchQuestion("b", "哪天交？", ("每月五日之前交。", "逾期不收。")),
        BenchQuestion(
            "c", "Where is it?", ("It is in the cellar. It is in the cellar.",), ("In the cellar.",)
        ),
    ]
