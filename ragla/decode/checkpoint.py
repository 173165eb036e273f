"""What a model folder holds: configurations, tokenizer, weights. Whatever is broken is said in one line.

Nothing here contacts a hub, and code that comes with a model runs only where it may.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
)

from ragla.errors import ModelUnavailable

WRITES = re.compile("CausalLM|LMHead|Generation")  # in the class name of a model that writes text


@dataclass(frozen=True)
class Checkpoint:
    """A model folder whose small files are read; ``generation`` is None where it has no such file."""

    folder: Path
    trusted: bool  # may run code of its own
    config: Any
    tokenizer: Any
    generation: Any

    @property
    def own_code(self) -> bool:
        """Whether the model's class will come from the folder instead of from transformers."""
        return self.trusted and "AutoModelForCausalLM" in (getattr(self.config, "auto_map", None) or {})

    def end_ids(self) -> frozenset[int]:
        """Every id that ends an answer: of the generation config, the model config and the tokenizer."""
        text = self.config.get_text_config(decoder=True)
        ids: set[int] = set()
        for holder in (text, self.tokenizer, self.generation):
            entry = getattr(holder, "eos_token_id", None)
            ids.update(entry if isinstance(entry, (list, tuple)) else [] if entry is None else [entry])
        return frozenset(ids)

    def read_model(
        self,
        dtype: torch.dtype,
        attention: str | None = None,
        quantization: dict[str, Any] | None = None,
        placing: dict[str, Any] | None = None,
    ) -> Any:
        """The transformers model in ``dtype``; ``placing``: further keywords that say where it goes.

        Raises ModelUnavailable.
        """
        keywords: dict[str, Any] = {"dtype": dtype, "local_files_only": True, "output_loading_info": True}
        keywords["trust_remote_code"] = self.trusted
        keywords.update(placing or {})
        if attention is not None:
            keywords["attn_implementation"] = attention
        if quantization is not None:
            keywords["quantization_config"] = dict(quantization)
            # it says that it computes in float16 at every linear of every pass
            logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
        reader: Any = AutoModelForSeq2SeqLM if self.config.is_encoder_decoder else AutoModelForCausalLM
        try:
            model, loading = reader.from_pretrained(self.folder, **keywords)
        except ImportError as error:
            raise ModelUnavailable(
                f"this model needs a package that is missing: {first_line(error)}",
                "install it; bitsandbytes and accelerate come with: pip install 'ragla[quantized]'",
            ) from error
        except Exception as error:
            raise self.unloadable(error) from error
        if missing := sorted(loading["missing_keys"]):  # transformers would make them up
            kinds = getattr(self.config, "architectures", None) or []
            if kinds and not any(WRITES.search(kind) for kind in kinds):
                raise ModelUnavailable(
                    f"{self.folder}: this is no model that writes text, it is {', '.join(kinds)}",
                    "choose one that does: ragla models list",
                )
            raise self.unloadable(f"{len(missing)} tensors are missing, {missing[0]} for one")
        return model

    def unloadable(self, reason: Exception | str) -> ModelUnavailable:
        """The error for weights that cannot be used."""
        text = reason if isinstance(reason, str) else first_line(reason)
        return ModelUnavailable(
            f"{self.folder}: the model cannot be loaded: {text}",
            "pull the model again: ragla models pull NAME",
        )


def open_checkpoint(folder: Path, trusted: bool = False) -> Checkpoint:
    """Read the small files of a model folder. Raises ModelUnavailable when it holds no usable model."""
    if not folder.is_dir():  # else the name would be looked up in the hub's cache
        raise ModelUnavailable(f"{folder}: no such folder", "pull the model: ragla models pull NAME")
    _refuse_chatglm(folder)
    config = _read("configuration", AutoConfig, folder, trusted)
    tokenizer = _read("tokenizer", AutoTokenizer, folder, trusted)
    generation = None
    if (folder / "generation_config.json").exists():
        generation = _read("generation configuration", GenerationConfig, folder, trusted)
    return Checkpoint(folder, trusted, config, tokenizer, generation)


def _refuse_chatglm(folder: Path) -> None:
    """ChatGLM's first checkpoints need code of their own that today's transformers cannot run."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # said where the configuration is read
    if isinstance(config, dict) and config.get("model_type") == "chatglm":
        raise ModelUnavailable(
            f"{folder}: an original ChatGLM checkpoint, whose own code this transformers cannot run",
            "use a converted checkpoint of the glm family: --set decode.model=zai-org/glm-4-9b-chat-hf",
        )


def _read(what: str, reader: Any, folder: Path, trusted: bool) -> Any:
    try:
        return reader.from_pretrained(folder, local_files_only=True, trust_remote_code=trusted)
    except Exception as error:  # on a broken file the libraries raise whatever comes first
        if not trusted and "trust_remote_code" in str(error):
            raise ModelUnavailable(
                f"{folder}: the model brings code of its own, which is not run unasked",
                "if you trust it: --set decode.trust_remote_code=true",
            ) from error
        raise ModelUnavailable(
            f"{folder}: no usable {what}: {first_line(error)}",
            "pull the model again: ragla models pull NAME",
        ) from error


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
