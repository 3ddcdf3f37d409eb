"""Text → vectors: one encoder that loads its model when it is needed and answers from any thread.

Importing this module loads neither numpy nor a model.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cachetools import LRUCache

from r3_lite.embed_models import BundledModel, Model, ModelInfo, Passage, bundled_info
from r3_lite.errors import ModelUnavailable
from r3_lite.fastembed_models import ModelChoice, available_models, download, open_fastembed_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

__all__ = ["Encoder", "ModelChoice", "ModelInfo", "ModelState", "Passage", "available_models", "download"]

logger = logging.getLogger(__name__)

QUERY_CHARACTERS = 4_000  # more than the 254 tokens that count, in any language
QUERY_CACHE = 256
RETRY_SECONDS = 60.0

ModelState = Literal["off", "idle", "loading", "ready", "unavailable"]
S = TypeVar("S")
T = TypeVar("T")


def open_model(name: str | None, cache_dir: Path) -> Model:
    """Load a model from disk: None for the bundled one, a name of fastembed's list, or a local folder.

    Blocks for up to some seconds; never uses the network. Raises ModelUnavailable with what to do, and whatever
    an incomplete installation makes its libraries raise.
    """
    return BundledModel() if name is None or _is_bundled(name) else open_fastembed_model(name, cache_dir)


class Encoder:
    """Owns one embedding model.

    `model`: None for the bundled one, the name of a fastembed model in `cache_dir`, or a local folder.
    `threads`: how many texts a call of `spread` works on at once; each takes one core. Idle takes none.
    """

    def __init__(self, model: str | None = None, *, cache_dir: Path, threads: int = 1, enabled: bool = True) -> None:
        self._name = model
        self._cache_dir = cache_dir
        self._threads = threads
        self._changed = threading.Condition()
        self._state: ModelState = "idle" if enabled else "off"
        self._last_error: str | None = None
        self._retry_at = 0.0
        self._model: Model | None = None
        self._queries: LRUCache[str, Vectors] = LRUCache(QUERY_CACHE)
        self._queries_lock = threading.Lock()

    @property
    def state(self) -> ModelState:
        """The present state; only a `ready` encoder answers."""
        return self._state

    @property
    def last_error(self) -> str | None:
        """Why the model is unavailable and what to do about it, else None."""
        return self._last_error

    @property
    def info(self) -> ModelInfo | None:
        """The model's identity: known at once for the bundled model; for others None until it is loaded."""
        if self._model is not None:
            return self._model.info
        return bundled_info() if _is_bundled(self._name) else None

    def load_in_background(self) -> None:
        """Start to load on a daemon thread and return at once; never raises, see `state` and `last_error`.

        Does nothing while loading, ready or off. After a failure it tries again, at most once a minute, so
        that a running server picks up a model that was downloaded meanwhile.
        """
        with self._changed:
            too_early = self._state == "unavailable" and time.monotonic() < self._retry_at
            if too_early or self._state not in ("idle", "unavailable"):
                return
            self._state = "loading"
        try:
            threading.Thread(target=self._load_and_log, name="r3-lite-model", daemon=True).start()
        except RuntimeError:
            self._settle(ModelUnavailable("No thread could be started to load the embedding model: restart."))

    def load(self) -> None:
        """Load the model and return when it is ready. Raises ModelUnavailable with what to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._state != "loading")
            if self._state == "ready":
                return
            if self._state == "off":
                raise self._not_ready()
            self._state = "loading"
        self._load()

    def wait_ready(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the model; False, early where it is off or unavailable."""
        with self._changed:
            self._changed.wait_for(lambda: self._state in ("ready", "unavailable", "off"), timeout)
            return self._state == "ready"

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (dimension,) of a query, read-only; only its first 254 tokens count.

        The last 256 queries are remembered. Raises ModelUnavailable while the model is not ready.
        """
        model = self._ready_model()
        text = _encodable(text[:QUERY_CHARACTERS])
        with self._queries_lock:
            known = self._queries.get(text)
        if known is not None:
            return known
        vector = model.embed_query(text)
        vector.flags.writeable = False
        with self._queries_lock:
            self._queries[text] = vector
        return vector

    def known(self, text: str) -> float:
        """Return how much of a query the model knows, 0 (nothing to go by) to 1; 1 for models that do not show it.

        Raises ModelUnavailable while the model is not ready.
        """
        model = self._ready_model()
        return model.known(_encodable(text[:QUERY_CHARACTERS])) if isinstance(model, BundledModel) else 1.0

    def embed_texts(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the unit vectors (chunks, dimension) of each text, in the order given.

        A text has one vector per window of about two sentences, at least one, at most 6,000 (about 1 MB of
        English). Raises ModelUnavailable while the model is not ready.
        """
        model = self._ready_model()
        return self.spread(lambda text: model.embed_text(_encodable(text)), texts)

    @property
    def shows_pieces(self) -> bool:
        """Whether `read` answers: only the bundled model shows word pieces in context."""
        return isinstance(self._model, BundledModel)

    def read(self, text: str) -> Iterator[Passage]:
        """Yield the whole text in passages, each with the vectors of `embed_texts` and with its word pieces.

        One pass of the model gives both. Raises ModelUnavailable where `shows_pieces` is not true.
        """
        model = self._ready_model()
        if not isinstance(model, BundledModel):
            raise ModelUnavailable("This embedding model shows no word pieces.", state=self._state)
        return model.read(_encodable(text))

    def spread(self, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """Return the results of `work` on each item, in the order given, several at once where so set up."""
        if self._threads == 1 or len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(work, items))

    def _load_and_log(self) -> None:
        try:
            self._load()
        except ModelUnavailable as error:
            logger.warning("%s", error.message)

    def _load(self) -> None:
        try:
            model = open_model(self._name, self._cache_dir)
        except ModelUnavailable as error:
            self._settle(error)
            raise
        except Exception as error:
            reason = type(error).__name__
            failure = ModelUnavailable(f"The embedding model cannot be loaded ({reason}): reinstall r3-lite.")
            self._settle(failure)
            raise failure from error
        self._settle(model)

    def _settle(self, outcome: Model | ModelUnavailable) -> None:
        with self._changed:
            if isinstance(outcome, ModelUnavailable):
                self._state, self._last_error = "unavailable", outcome.message
                self._retry_at = time.monotonic() + RETRY_SECONDS
            else:
                self._model, self._last_error = outcome, None
                self._state = "ready"
            self._changed.notify_all()

    def _ready_model(self) -> Model:
        model = self._model
        if model is None:
            raise self._not_ready()
        return model

    def _not_ready(self) -> ModelUnavailable:
        if self._state == "off":
            return ModelUnavailable("Embeddings are switched off: search goes by keyword.", state="off")
        message = self._last_error or "The embedding model is not loaded yet: try again in a few seconds."
        return ModelUnavailable(message, state=self._state)


def _is_bundled(name: str | None) -> bool:
    return name is None or name == bundled_info().name


def _encodable(text: str) -> str:
    """Return the text with lone surrogates, which no tokenizer takes, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
