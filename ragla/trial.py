"""Try a freshly built model folder once, offline, before it is put in its place."""

from __future__ import annotations

from pathlib import Path

from ragla.errors import ModelUnavailable
from ragla.models import Kind

SAMPLE = "def total(rows): return sum(rows)  # café, 你好，世界。\n"


def try_model(folder: Path, kind: Kind) -> None:
    """One token's forward pass, or one passage embedded; ModelUnavailable says what went wrong."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw on stderr
    try:
        problem = _try_llm(folder) if kind == "llm" else _try_embedder(folder)
    except Exception as error:  # whatever a library raises on a broken model, the model is not to be used
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelUnavailable(f"the model does not load: {reason}") from error
    if problem:
        raise ModelUnavailable(f"the model does not work: {problem}")


def _try_llm(folder: Path) -> str | None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    ids = tokenizer(SAMPLE, add_special_tokens=False)["input_ids"]
    if tokenizer.decode(ids) != SAMPLE:
        return f"its tokenizer turns {SAMPLE!r} into {tokenizer.decode(ids)!r}"
    model = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype="auto"
    )
    if len(tokenizer) > model.config.vocab_size:
        return f"its tokenizer knows {len(tokenizer)} tokens, the model {model.config.vocab_size}"
    with torch.inference_mode():
        logits = model(torch.tensor([ids[:1]])).logits
    return None if bool(torch.isfinite(logits).all()) else "its logits are not finite"


def _try_embedder(folder: Path) -> str | None:
    import numpy as np
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, trust_remote_code=False)
    vectors = model.encode([SAMPLE, "an unrelated sentence"], show_progress_bar=False)
    if not np.isfinite(vectors).all():
        return "its vectors are not finite"
    return "it gives the same vector to different texts" if np.allclose(vectors[0], vectors[1]) else None
