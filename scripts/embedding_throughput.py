"""How fast ragla embeds the passages of a folder, beside a bare ``model.encode`` of the same texts.

    python scripts/embedding_throughput.py FOLDER [--passages 1024] [--rounds 5] [--model minilm-l6]

Both run in one process, by turns, a warm-up first. ragla's side is what indexing does: a window of 256
passages at a time, sorted by tokens; the bare one gets all texts in one call, and sorts them by characters.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ragla.process import prepare

prepare()

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from ragla import models  # noqa: E402
from ragla.config import RetrieveSettings  # noqa: E402
from ragla.retrieve import SentenceEmbedder  # noqa: E402
from ragla.retrieve.chunk import Chunker, embedded_text  # noqa: E402
from ragla.retrieve.read import NotIndexable, read_document  # noqa: E402
from ragla.retrieve.update import BATCH_PASSAGES  # noqa: E402
from ragla.retrieve.walk import FoundFile, walk  # noqa: E402

TOLERANCE = 1e-5  # of a component of a unit vector


def passages(folder: Path, embedder: SentenceEmbedder, settings: RetrieveSettings) -> Iterator[str]:
    """The texts that indexing would embed, in the order of the files."""
    chunker = Chunker(embedder, settings.chunk_tokens, settings.chunk_overlap)
    for file in walk([folder], folder / ".ragla"):
        if not isinstance(file, FoundFile):
            continue
        try:
            document = read_document(file.path, file.absolute.read_bytes())
        except NotIndexable:
            continue
        for chunk in chunker.chunks(document):
            yield embedded_text(embedder, chunk.title, document.text[chunk.start : chunk.end])


def compare(
    texts: list[str], embedder: SentenceEmbedder, batch_size: int, rounds: int, clock: Callable[[], float]
) -> dict[str, object]:
    """Passages a second of both, their ratio with its extremes, and how far the vectors are apart."""
    model, prompt = embedder._model, embedder.passage_prompt

    def bare() -> NDArray[np.float32]:
        made = model.encode(
            texts, prompt=prompt, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(made, dtype=np.float32)

    def ours() -> NDArray[np.float32]:
        windows = [texts[at : at + BATCH_PASSAGES] for at in range(0, len(texts), BATCH_PASSAGES)]
        return np.concatenate([embedder.encode_passages(window, batch_size) for window in windows])

    model.encode(texts[:batch_size], show_progress_bar=False)  # warm up
    times: dict[str, list[float]] = {"ragla": [], "bare": []}
    furthest = 0.0
    for number in range(rounds):
        made = {}
        for name, work in (("ragla", ours), ("bare", bare))[:: 1 if number % 2 else -1]:
            started = clock()
            made[name] = work()
            times[name].append(clock() - started)
        furthest = max(furthest, float(np.abs(made["ragla"] - made["bare"]).max()))
    ratios = sorted(bare / ours for bare, ours in zip(times["bare"], times["ragla"], strict=True))
    medians = {name: statistics.median(its) for name, its in times.items()}
    return {
        "passages": len(texts),
        "rounds": rounds,
        "passages_per_second": {name: len(texts) / median for name, median in medians.items()},
        "ratio_of_medians": medians["bare"] / medians["ragla"],
        "lowest_ratio": ratios[0],
        "highest_ratio": ratios[-1],
        "furthest_component": furthest,
        "equal": furthest <= TOLERANCE,
    }


def main() -> None:
    """Compare and print; exit code 1 where the vectors differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="minilm-l6", help="registry name, folder or hub id")
    parser.add_argument("--passages", type=int, default=1024, help="spread over the whole folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device", default=())
    parser.add_argument("--cpu-time", action="store_true", help="for a machine that others use, too")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    embedder = SentenceEmbedder(models.locate(given.model), given.model, given.device)
    texts = list(passages(given.folder, embedder, RetrieveSettings()))
    run = max(1, len(texts) // max(1, given.passages // BATCH_PASSAGES))
    # whole windows of neighbours, as indexing meets them
    chosen = [text for at in range(0, len(texts), run) for text in texts[at : at + BATCH_PASSAGES]]
    clock = time.process_time if given.cpu_time else time.perf_counter
    figures = compare(chosen[: given.passages], embedder, given.batch_size, given.rounds, clock)
    if given.json:
        print(json.dumps(figures))
    else:
        rates = figures["passages_per_second"]
        assert isinstance(rates, dict)
        print(f"{figures['passages']} passages, {given.model}, {given.rounds} rounds by turns")
        print(f"ragla {rates['ragla']:.1f}, bare encode {rates['bare']:.1f} passages/s")
        print(
            f"ratio of medians {figures['ratio_of_medians']:.3f} "
            f"({figures['lowest_ratio']:.3f} to {figures['highest_ratio']:.3f} in single rounds)"
        )
        print(f"furthest component of a vector: {figures['furthest_component']:.1e}")
    raise SystemExit(0 if figures["equal"] else 1)


if __name__ == "__main__":
    main()
