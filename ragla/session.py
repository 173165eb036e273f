"""From a profile to loaded parts: the embedder, the open index, the target model with its step costs.

It knows where things are kept; it asks and answers nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ragla import __version__, models
from ragla.config import Profile, RetrieveSettings
from ragla.conversation_file import holds_only_conversations
from ragla.errors import IndexUnusable, UsageError
from ragla.instead import located_target
from ragla.user_path import user_path

if TYPE_CHECKING:
    from ragla.answer import Answerer
    from ragla.decode.budget import StepCost
    from ragla.decode.model import TargetModel
    from ragla.earlier import EarlierAnswers
    from ragla.retrieve.embed import SentenceEmbedder
    from ragla.retrieve.lazy import LazyEmbedder
    from ragla.retrieve.rerank import CrossEncoderReranker
    from ragla.retrieve.retriever import Retriever

INDEX_FOLDER = ".ragla"
VOCABULARY_FILES = ("vocab.*", "merges.txt", "*.model", "*.tiktoken")


def find_index(chosen: str | None, folder: Path) -> Path:
    """The index to read: the chosen one, ``$RAGLA_INDEX``, else ``.ragla`` here or in a folder above.

    A folder that holds nothing but what was said of passages elsewhere is none. Raises IndexUnusable when
    there is none.
    """
    return _find(chosen, folder, lambda place: place.is_dir() and not holds_only_conversations(place))


def find_kept(chosen: str | None, folder: Path) -> Path:
    """Where answers and conversations are kept: as ``find_index``, but an index need not be beside them."""
    return _find(chosen, folder, Path.is_dir)


def _find(chosen: str | None, folder: Path, is_one: Callable[[Path], bool]) -> Path:
    named = chosen or os.environ.get("RAGLA_INDEX")
    if named:
        path = user_path(named)
        if not is_one(path):
            raise IndexUnusable(f"no index at {path}", f"make one: ragla index FOLDER --index {path}")
        return path
    for place in (folder, *folder.parents):
        if is_one(place / INDEX_FOLDER):
            return place / INDEX_FOLDER
    raise IndexUnusable(f"no index in {folder} or above", "make one: ragla index FOLDER")


def searched_index(chosen: str | None, folder: Path, profile: Profile) -> Path:
    """The index as ``find_index`` finds it; where passages are elsewhere, there need be none.

    Then it is where something is kept already, else where one would be made. Raises IndexUnusable.
    """
    find = find_index if profile.retrieve.store == "faiss" else find_kept
    try:
        return find(chosen, folder)
    except IndexUnusable:
        if profile.retrieve.store == "faiss":
            raise
        return new_index(chosen, folder)


def new_index(chosen: str | None, folder: Path) -> Path:
    """Where an index of named folders goes: the chosen place, ``$RAGLA_INDEX``, else ``.ragla`` here."""
    named = chosen or os.environ.get("RAGLA_INDEX")
    return user_path(named) if named else folder / INDEX_FOLDER


def open_embedder(profile: Profile) -> SentenceEmbedder:
    """The profile's embedder, on ``retrieve.device`` or else on ``decode.device``.

    Raises ModelUnavailable, UsageError for a device that there is none of.
    """
    from ragla.retrieve import SentenceEmbedder
    from ragla.retrieve.devices import device_names

    settings = profile.retrieve
    folder = models.locate(settings.embedder)
    devices = device_names(settings.device) or device_names(profile.decode.device)
    return SentenceEmbedder(folder, settings.embedder, devices, *_prompts(settings))


def _prompts(settings: RetrieveSettings) -> tuple[str | None, str | None]:
    """What to put before a question and before a passage; None: what the model's files say."""
    entry = models.registry().get(settings.embedder)
    query, passage = (entry.prompts if entry else None) or (None, None)
    if settings.query_prompt is not None:
        query = settings.query_prompt
    return query, passage if settings.passage_prompt is None else settings.passage_prompt


def embedder_on(profile: Profile, device: str) -> SentenceEmbedder:
    """The profile's embedder on a device of this machine, whatever the profile names."""
    settings = profile.retrieve.model_copy(update={"device": device})
    return open_embedder(profile.model_copy(update={"retrieve": settings}))


def may_use_gpu(profile: Profile) -> bool:
    """Whether the profile leaves it open where to embed, or names a GPU."""
    from ragla.retrieve.devices import device_names

    names = device_names(profile.retrieve.device) or device_names(profile.decode.device)
    return not names or any(name.startswith("cuda") for name in names)


def lazy_embedder(profile: Profile) -> LazyEmbedder:
    """The same embedder, loaded when it first reads something. Raises ModelUnavailable for none."""
    from ragla.retrieve.lazy import LazyEmbedder

    settings = profile.retrieve
    folder = models.locate(settings.embedder)
    notes = models.cache_folder() / "embedders"
    return LazyEmbedder(folder, settings.embedder, _prompts(settings), notes, lambda: open_embedder(profile))


def open_retriever(profile: Profile, index: Path) -> Retriever:
    """The index, ready to be searched. Raises IndexUnusable, ModelUnavailable."""
    from ragla.retrieve import Retriever

    settings, reranker = profile.retrieve, open_reranker(profile)
    if settings.store == "milvus":
        return Retriever.on_milvus(settings, open_embedder(profile), reranker, settings.rerank_depth)
    from ragla.retrieve.folders import why_empty

    if (empty := why_empty(index)) is not None:  # said before a model is loaded for it
        raise empty
    return Retriever.open(index, open_embedder(profile), reranker, settings.rerank_depth)


def open_reranker(profile: Profile) -> CrossEncoderReranker | None:
    """The profile's reranker, if it names one. Raises ModelUnavailable, UsageError."""
    settings = profile.retrieve
    if settings.reranker is None:
        return None
    if settings.top_k > settings.rerank_depth:
        raise UsageError(
            f"retrieve.top_k is {settings.top_k}, but the reranker reads {settings.rerank_depth} passages",
            f"-s retrieve.rerank_depth={settings.top_k}",
        )
    folder = models.locate(settings.reranker)
    from ragla.retrieve.rerank import CrossEncoderReranker

    device = profile.decode.device
    return CrossEncoderReranker(folder, settings.reranker, None if device == "auto" else device)


def open_target(profile: Profile) -> TargetModel:
    """The profile's target model, loaded. Raises ModelUnavailable, UsageError."""
    settings = profile.decode
    if settings.backend == "remote":
        raise UsageError(
            "this needs a model on this machine, decode.backend is remote",
            "answer here: --set decode.backend=auto",
        )
    folder = located_target(profile)  # before torch is loaded: a missing model is said at once
    from ragla.decode.model import LoadSettings, load_target

    return load_target(
        folder,
        LoadSettings(
            backend=settings.backend,
            device=settings.device,
            parallel=settings.parallel,
            dtype=settings.dtype,
            threads=settings.threads,
            quantization=settings.quantization,
            trust_remote_code=settings.trust_remote_code,
            integers=integers_folder(folder),
        ),
    )


def integers_folder(model: Path) -> Path:
    """Where the 8-bit weights of a model folder are kept: beside nothing of the user's, in the cache."""
    files = sorted(model.glob("*.safetensors"))
    stamp = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    digest = hashlib.sha256(repr((str(model.resolve()), stamp)).encode()).hexdigest()[:16]
    return models.cache_folder() / "integers" / f"{model.name}-{digest}"


def recall_answers(profile: Profile, index: Path, answerer: Answerer) -> EarlierAnswers:
    """What is kept of earlier answers in an index folder, taught to the answerer's drafter.

    A sampled answer is drafted from them, too, but leaves nothing behind.
    """
    from ragla.earlier import EarlierAnswers

    target, settings = answerer.target, profile.decode
    folder = models.locate(settings.model)
    keys = tokenizer_key(folder), model_key(folder, target.dtype)
    earlier = EarlierAnswers(answerer.drafter, *keys, vocabulary=len(target.tokenizer))
    # Earlier answers belong to an index of this machine: where passages are elsewhere there may be none.
    if settings.keep_answers and (profile.retrieve.store == "faiss" or (index / "current").exists()):
        earlier.recall(index)
    if settings.temperature > 0:
        earlier.close()
    return earlier


def tokenizer_key(model: Path) -> str:
    """What tells the tokenizers of model folders apart: a digest of the files that number the tokens.

    ``tokenizer.json`` is the whole of a fast tokenizer; its digest takes some milliseconds, where asking
    the loaded tokenizer for the same text takes hundreds.
    """
    files = [path for path in (model / "tokenizer.json", model / "added_tokens.json") if path.is_file()]
    if not (model / "tokenizer.json").is_file():
        files += sorted(path for name in VOCABULARY_FILES for path in model.glob(name))
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def model_key(model: Path, dtype: str) -> str:
    """What tells apart the models whose second thoughts are kept: weights, number format, tokenizer."""
    stamp = [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(model.iterdir())
        if path.suffix in (".safetensors", ".bin")
    ]
    conditions = (str(model.resolve()), stamp, dtype, tokenizer_key(model))
    return hashlib.sha256(repr(conditions).encode()).hexdigest()[:16]


def load_step_cost(profile: Profile, target: TargetModel) -> StepCost:
    """What steps of this model on this machine were measured to cost; empty when they never were."""
    from ragla.decode.budget import StepCost

    try:
        stored = json.loads(_step_cost_file(profile, target).read_text(encoding="utf-8"))
        return StepCost(
            {int(k): {int(size): float(cost) for size, cost in v.items()} for k, v in stored.items()}
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return StepCost()


def save_step_cost(profile: Profile, target: TargetModel, cost: StepCost) -> None:
    """Keep step costs for the next process; a cache that cannot be written is no reason to fail."""
    path = _step_cost_file(profile, target)
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(cost.table), encoding="utf-8")
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # what could not be written can often not be removed either
            partial.unlink(missing_ok=True)


def _step_cost_file(profile: Profile, target: TargetModel) -> Path:
    import torch

    from ragla.decode.backend import kernels

    conditions = (
        profile.decode.model, target.dtype, target.backend.name, str(target.backend.device), kernels.kind(),
        __version__, torch.get_num_threads(), torch.__version__, platform.processor(), platform.node(),
    )  # fmt: skip
    digest = hashlib.sha256(repr(conditions).encode()).hexdigest()[:16]
    return models.cache_folder() / "step-cost" / f"{digest}.json"
