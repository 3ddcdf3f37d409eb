"""A library behind a pipe: runs mem0, or r3-lite's own engine, in this process and times it from inside.

It is started with the Python of the library's own virtual environment. It reads JSON lines as an MCP server does and
knows the tools `add` and `search`, whose answers tell the milliseconds of the call and those of the encoder in it, and
`settle`, which answers when nothing is left to do.
mem0 embeds with sentence-transformers and the weights in MODEL, or, as `mem0-faiss-bundled`, with r3-lite's model.

    PYTHONPATH=. PYTHON benchmarks/peer_worker.py r3-lite|mem0-faiss|mem0-qdrant|mem0-faiss-bundled FOLDER [MODEL]
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

USER = "default"
LIMIT = 10
DIMENSION = 384


class Library(Protocol):
    """What is timed."""

    def add(self, text: str) -> object:
        """Store a text."""

    def search(self, query: str) -> list[str]:
        """Return the texts of the ten best memories."""

    def settle(self) -> None:
        """Return when nothing is left to do in the background."""


class Stopwatch:
    """Adds up the seconds that the calls of a function take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time taken."""

        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


class BundledEmbedder:
    """The bundled model in the shape that mem0 asks of an embedder."""

    def __init__(self) -> None:
        from r3_lite.embed_models import BundledModel

        self._model = BundledModel()

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of a text, whatever it is wanted for."""
        vector: list[float] = self._model.embed_query(text).tolist()
        return vector


class Mem0:
    """mem0 with a store on disk. Texts are stored as they are (`infer=False`): no language model is asked."""

    def __init__(self, store: str, folder: Path, model: Path | None, encoder: Stopwatch) -> None:
        from mem0 import Memory

        embedder: dict[str, Any] = {"provider": "openai", "config": {"api_key": "none"}}
        if model is not None:
            embedder = {"provider": "huggingface", "config": {"model": str(model), "embedding_dims": DIMENSION}}
        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": store,
                    "config": {"path": str(folder / store), "embedding_model_dims": DIMENSION},
                },
                "embedder": embedder,
                # Made when the object is, and never called.
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        if model is None:
            self._memory.embedding_model = BundledEmbedder()
        self._memory.embedding_model.embed = encoder.around(self._memory.embedding_model.embed)

    def add(self, text: str) -> object:
        """Store a text."""
        return self._memory.add(text, user_id=USER, infer=False)

    def search(self, query: str) -> list[str]:
        """Return the texts of the ten best memories."""
        found = self._memory.search(query, filters={"user_id": USER}, top_k=LIMIT)
        return [hit["memory"] for hit in found["results"]]

    def settle(self) -> None:
        """Nothing works in the background."""


class Ours:
    """r3-lite's engine, without its server."""

    def __init__(self, folder: Path, encoder: Stopwatch) -> None:
        from r3_lite.embed_models import BundledModel
        from r3_lite.engine import Engine
        from r3_lite.settings import load_settings

        # Notes are embedded by another method, in the background.
        BundledModel.embed_query = encoder.around(BundledModel.embed_query)  # type: ignore[method-assign]  # timed
        self._engine = Engine(load_settings(db_path=folder / "memories.db"))

    def add(self, text: str) -> object:
        """Store a text; its vector follows in the background."""
        return self._engine.add(USER, text)

    def search(self, query: str) -> list[str]:
        """Return the texts of the ten best memories."""
        found = self._engine.search(USER, query, limit=LIMIT)
        return [hit.record.content for hit in found.ranking.hits]

    def settle(self) -> None:
        """Return when every memory has its vector."""
        while self._engine.pending()[0]["pending"]:
            time.sleep(0.005)


def answer(library: Library, encoder: Stopwatch, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    """Call one tool and return what it found and its times."""
    if name == "settle":
        library.settle()
        return {"structuredContent": {"pending": 0}}
    found: list[str] = []
    before, began = encoder.seconds, time.perf_counter()
    if name == "search":
        found = library.search(arguments["text"])
    else:
        library.add(arguments["text"])
    ms, encoder_ms = (time.perf_counter() - began) * 1000, (encoder.seconds - before) * 1000
    return {"ms": ms, "encoder_ms": encoder_ms, "texts": found}


def open_library(name: str, folder: Path, model: Path | None, encoder: Stopwatch) -> Library:
    """Return the library of a name, with its encoder on the watch."""
    if name == "r3-lite":
        return Ours(folder, encoder)
    store = name.split("-")[1]
    return Mem0(store, folder, None if name.endswith("-bundled") else model, encoder)


def main() -> None:
    """Open the library and answer until the input ends."""
    logging.disable(logging.WARNING)
    # Whatever a library prints would be taken for an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    name, folder, *model = sys.argv[1:]
    encoder = Stopwatch()
    library = open_library(name, Path(folder), Path(model[0]) if model else None, encoder)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result: dict[str, Any] = {}
        if message["method"] == "tools/call":
            result = answer(library, encoder, **message["params"])
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), file=answers, flush=True)


if __name__ == "__main__":
    main()
