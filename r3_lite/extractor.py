"""Which method reads a text for entities in this process: GLiNER where asked for, the head, or the rules alone.

Importing this module loads no model.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from r3_lite.embed import Encoder
from r3_lite.errors import ModelUnavailable
from r3_lite.extract import VERSION, Extraction, Method, extract, join
from r3_lite.windows import BLOCK, parts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from r3_lite.embed_models import Passage
    from r3_lite.extract_gliner import GlinerExtractor

    Vectors = NDArray[np.float32]

GlinerState = Literal["off", "idle", "loading", "ready", "unavailable"]

logger = logging.getLogger(__name__)


class Extractor:
    """Owns the GLiNER model, if `entity_model` names one, and knows what the encoder can contribute.

    Reading needs no model: with none ready the rules answer, and the extraction says so. Any thread may call.
    """

    def __init__(self, encoder: Encoder, entity_model: str | None = None) -> None:
        self._encoder = encoder
        self._entity_model = entity_model
        self._gliner: GlinerExtractor | None = None
        self._lock = threading.Lock()
        self.gliner_state: GlinerState = "idle" if entity_model and encoder.state != "off" else "off"
        self.last_error: str | None = None

    @property
    def method(self) -> Method:
        """The best method that is ready now."""
        if self._gliner is not None:
            return "gliner"
        return "rules+head" if self._encoder.state == "ready" and self._encoder.shows_pieces else "rules"

    def version_of(self, method: Method) -> str:
        """Return what is recorded with a method: two versions may find different things."""
        if method == "gliner":
            return f"{VERSION} {hashlib.sha256(str(self._entity_model).encode()).hexdigest()[:12]}"
        return str(VERSION)

    def load_in_background(self) -> None:
        """Start to load the GLiNER model on a daemon thread where one is set; never raises, see `gliner_state`."""
        with self._lock:
            if self.gliner_state != "idle":
                return
            self.gliner_state = "loading"
        threading.Thread(target=self._load, name="r3-lite-gliner", daemon=True).start()

    def extract(self, text: str) -> Extraction:
        """Return what a text says, by the best method that is ready."""
        if self.method == "rules+head":
            return self.read(text)[1]
        return self._without_encoder(text)

    def read(self, text: str) -> tuple[Vectors, Extraction]:
        """Return a text's vectors (chunks, dimension) and what it says; one pass of the bundled model gives both.

        Raises ModelUnavailable while the encoder is not ready.
        """
        return self.begin(text)()

    def begin(self, text: str) -> Callable[[], tuple[Vectors, Extraction]]:
        """Run the model over a text; what is returned does the rest of `read`, on any thread.

        Raises ModelUnavailable while the encoder is not ready.
        """
        if self.method != "rules+head":
            (vectors,) = self._encoder.embed_texts([text])
            return lambda: (vectors, self._without_encoder(text))
        if len(text) > BLOCK:
            # Part by part: the word pieces of a long text would take hundreds of megabytes at once.
            whole = _finish(self._encoder.read(text))
            return lambda: whole
        passages = list(self._encoder.read(text))
        return lambda: _finish(passages)

    def _without_encoder(self, text: str) -> Extraction:
        if self._gliner is not None:
            return self._gliner.extract(text)
        return join([(start, part, extract(part)) for start, part in parts(text)])

    def _load(self) -> None:
        from r3_lite.extract_gliner import load_gliner

        try:
            self._gliner = load_gliner(str(self._entity_model))
            self.gliner_state = "ready"
        except ModelUnavailable as error:
            self.gliner_state, self.last_error = "unavailable", error.message
            logger.warning("%s", error.message)


def _finish(passages: Iterable[Passage]) -> tuple[Vectors, Extraction]:
    import numpy as np

    chunks: list[Vectors] = []
    found: list[tuple[int, str, Extraction]] = []
    for passage in passages:
        if passage.vectors is not None:
            chunks.append(passage.vectors)
        found.append((passage.start, passage.text, extract(passage.text, passage.pieces)))
    return np.concatenate(chunks), join(found)
