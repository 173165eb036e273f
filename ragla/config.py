"""Profiles: every setting of ragla as one frozen model, and where each value came from.

A profile knows names and numbers only; it loads no model, opens no index and prints nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Mebibytes = Annotated[float, Field(gt=0.0, le=1 << 20, allow_inf_nan=False)] | Literal["auto"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetrieveSettings(_Section):
    """How documents become passages and how a question finds them."""

    embedder: str = Field(
        default="minilm-l6", description="Embedding model: registry name, folder or hub id."
    )
    chunk_tokens: int = Field(
        default=180, ge=16, le=4096, description="Longest passage, in the embedder's tokens."
    )
    chunk_overlap: int = Field(default=0, ge=0, description="Tokens shared by neighbouring passages.")
    batch_size: int = Field(default=32, ge=1, le=4096, description="Passages embedded at once.")
    device: str | tuple[str, ...] = Field(
        default="auto",
        description="Where texts are embedded: cpu, cuda:1, mps; a list: on all; auto: decode.device.",
    )
    query_prompt: str | None = Field(
        default=None, description="Put before a question to embed it; null: what the model brings."
    )
    passage_prompt: str | None = Field(
        default=None, description="Put before a passage to embed it; null: what the model brings."
    )
    keep_previous: bool = Field(
        default=True, description="Keep the index of before the last change, to roll back to; on disk twice."
    )
    faiss_index: str = Field(default="Flat", description="faiss.index_factory string.")
    faiss_search: str = Field(
        default="", description="Its search parameters: nprobe=32, efSearch=256; empty: chosen for it."
    )
    store: Literal["faiss", "milvus"] = Field(
        default="faiss", description="What is searched: the index of this machine, or retrieve.milvus_uri."
    )
    milvus_uri: str | None = Field(
        default=None,
        description="milvus://HOST:19530/COLLECTION, https://…, milvus:FILE.db. Never from a project file.",
    )
    milvus_token_env: str = Field(
        default="MILVUS_TOKEN",
        description="The environment variable with its token. Never from a project file.",
    )
    milvus_timeout_s: float = Field(
        default=30.0,
        gt=0.0,
        le=3600.0,
        description="Longest time that one of its answers may take, in seconds.",
    )
    milvus_index: Literal["FLAT", "AUTOINDEX", "HNSW", "IVF_FLAT"] = Field(
        default="FLAT", description="Its index of vectors, for a new collection; FLAT compares all."
    )
    top_k: int = Field(default=4, ge=1, le=100, description="Passages handed to the prompt.")
    reranker: str | None = Field(
        default=None, description="Cross-encoder that orders the first again: folder or hub id; null: none."
    )
    rerank_depth: int = Field(
        default=20, ge=1, le=100, description="How many of the first the reranker reads; no others are found."
    )
    relevance_floor: float = Field(
        default=0.22,
        ge=-1.0,
        le=1.0,
        description="Passages scoring below are not relevant; none left: not answered.",
    )
    judge: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Ask the model first if the passages say the answer; refuse below this chance of yes.",
    )


class PromptSettings(_Section):
    """How passages and question become a prompt."""

    token_budget: int = Field(default=1024, ge=64, description="Most prompt tokens spent on passages.")
    instruction: str | None = Field(
        default=None, description="Replaces the built-in task after the question."
    )


class DecodeSettings(_Section):
    """Which model answers, and how its tokens are drafted and verified."""

    model: str = Field(
        default="qwen2.5-coder-1.5b", description="Registry name, folder, .gguf file or hub id."
    )
    backend: Literal["auto", "eager", "cpu", "cuda", "remote"] = Field(
        default="auto", description="How one forward pass runs; remote: on the server at decode.remote_url."
    )
    remote_url: str | None = Field(
        default=None,
        description="backend remote: the server, http://HOST:PORT/v1. Never from a project file.",
    )
    remote_model: str | None = Field(
        default=None, description="Its name for the model; null: the only one that it has."
    )
    remote_key_env: str | None = Field(
        default=None,
        description="The environment variable, in capitals, with its key. Never from a project file.",
    )
    remote_key_file: str | None = Field(
        default=None, description="A file with its key and nothing else. Never from a project file."
    )
    remote_window: int | None = Field(
        default=None, ge=64, description="Tokens of prompt and answer that it can hold; null: what it says."
    )
    remote_connect_s: float = Field(
        default=10.0, gt=0.0, le=3600.0, description="Longest time to reach it, in seconds."
    )
    remote_read_s: float = Field(
        default=300.0,
        gt=0.0,
        le=86400.0,
        description="Longest silence before and within an answer, in seconds.",
    )
    remote_retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="How often it is asked again where it refuses connections or is busy, before it answers.",
    )
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:0, mps.")
    parallel: Literal["none", "layers", "tensor"] = Field(
        default="none",
        description="Over several devices: layers, layer by layer; tensor, cut across torchrun's processes.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8"] = Field(
        default="auto", description="int8: 8-bit integer linears of the cpu backend."
    )
    threads: int = Field(default=0, ge=0, description="CPU threads; 0: all cores.")
    quantization: dict[str, str | int | float | bool] | None = Field(
        default=None, description="A transformers quantisation config, with its quant_method."
    )
    trust_remote_code: bool = Field(
        default=False, description="Run code that comes with a model. Never from a project file."
    )
    draft_budget: int = Field(
        default=64, ge=1, le=256, description="Most nodes verified a step (decoding_length)."
    )
    cost_aware: bool = Field(
        default=True,
        description="Verify only as many nodes as the measured step cost pays for; false: the whole budget.",
    )
    max_depth: int = Field(default=64, ge=1, le=256, description="Longest drafted branch (branch_length).")
    shape: Literal["tree", "parallel", "single"] = Field(default="tree", description="Form of the draft.")
    order: int = Field(default=8, ge=1, le=16, description="Longest context the trie matches, in tokens.")
    barred_anchors: tuple[str, ...] = Field(
        default=(), description="Tokens that alone are too weak a context to draft from (stop_words)."
    )
    rank_prompt: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Draft from what the model would have said inside the prompt; auto: on a GPU.",
    )
    answer_trie_nodes: int = Field(
        default=200_000, ge=0, description="Bound of the trie of earlier answers; 0: off."
    )
    answers_mib: Mebibytes = Field(
        default="auto",
        description="Bound of the trie of earlier answers in MiB; auto: 2 % of free memory, 16 to 512.",
    )
    question_mib: Mebibytes = Field(
        default="auto",
        description="Bound of one question's trie in MiB; auto: 2 % of free memory, 16 to 512.",
    )
    keep_answers: bool = Field(
        default=True, description="Keep answers beside the index, to draft later answers from."
    )
    max_new_tokens: int = Field(default=256, ge=1, description="Longest answer, in tokens.")
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Strings that end the answer; not part of it."
    )
    temperature: float = Field(default=0.0, ge=0.0, le=10.0, description="0: greedy.")
    top_k: int = Field(default=0, ge=0, description="Sample among the k best; 0: all.")
    top_p: float = Field(
        default=1.0, gt=0.0, le=1.0, description="Sample among the smallest set with this mass."
    )
    min_p: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Sample among tokens this probable, as a share of the best's.",
    )
    repetition_penalty: float = Field(
        default=1.0, gt=0.0, description="1: none. Divides logits of tokens in prompt and answer."
    )
    presence_penalty: float = Field(
        default=0.0, ge=-2.0, le=2.0, description="Taken from the logit of a token the answer has already."
    )
    frequency_penalty: float = Field(
        default=0.0, ge=-2.0, le=2.0, description="Taken once for each time the answer has the token."
    )
    bad_words: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Strings that are not written, in the tokens that usually write them."
    )
    min_new_tokens: int = Field(
        default=0, ge=0, description="Tokens before which the model may not end the answer."
    )
    seed: int = Field(default=0, ge=0, description="Seed of sampling.")
    debug: bool = Field(default=False, description="Print each step's draft tree on stderr.")


class Profile(_Section):
    """All settings of one run."""

    retrieve: RetrieveSettings = Field(default_factory=RetrieveSettings)
    prompt: PromptSettings = Field(default_factory=PromptSettings)
    decode: DecodeSettings = Field(default_factory=DecodeSettings)
