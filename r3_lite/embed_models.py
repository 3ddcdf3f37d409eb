"""What an embedding model is to r3-lite, and the bundled one.

One text, or one window of a long text, is one run of a model. The bundled int8 graph scales its activations over
the whole batch, so that in a batch a text's vector depends on its neighbours (cosine .95 to 1); alone it is the
same every time, there is no padding, and memory stays low. It costs an eighth of the speed.

Importing this module loads neither numpy nor onnxruntime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from r3_lite.windows import MAX_WINDOWS, Window, blocks, windows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from r3_lite.entity_head import Pieces

    Vectors = NDArray[np.float32]

WEIGHTS = Path(__file__).parent / "weights"
# Part of every fingerprint: raise it when pooling or windows change, so that stored vectors are made anew.
RECIPE = 2
QUERY_WINDOW = 254  # tokens of a query that count; it has one vector only
# Pieces that a model does not know all look the same to it: texts of nothing else would be one text. With a smaller
# share of known ones than this a text has no meaning.
LEAST_KNOWN = 0.2
# An axis on which the bundled model puts nothing (below 1e-30): the vector of a text without a meaning lies along it,
# at right angles to all others.
_UNUSED_AXIS = 223


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which vectors a model makes; two models with the same fingerprint make the same."""

    name: str
    dimension: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text, from character `start`, as one pass of the bundled model saw it.

    `vectors`: unit vectors (windows, dimension). `pieces`: its word pieces in context, with offsets in `text`.
    Both are None for what lies beyond the windows that a text may have.
    """

    start: int
    text: str
    vectors: Vectors | None
    pieces: Pieces | None


class Model(Protocol):
    """A loaded model; safe to call from several threads at once. Texts hold no lone surrogates."""

    info: ModelInfo

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (dimension,) of the first window."""

    def embed_text(self, text: str) -> Vectors:
        """Return the unit vectors (chunks, dimension) of all windows, at least one."""


@cache
def manifest() -> dict[str, Any]:
    """Return what scripts/build_weights.py wrote of the bundled model."""
    content: dict[str, Any] = json.loads((WEIGHTS / "manifest.json").read_text(encoding="utf-8"))
    return content


def bundled_info() -> ModelInfo:
    """Return the bundled model's identity, without loading it."""
    return ModelInfo(manifest()["name"], manifest()["dimension"], fingerprint(manifest()["fingerprint"]))


class BundledModel:
    """The model in `weights`, on onnxruntime and tokenizers directly."""

    def __init__(self) -> None:
        import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types

        self.info = bundled_info()
        self._tokenizer = load_tokenizer(WEIGHTS)
        self._start, self._end = map(self._tokenizer.token_to_id, ("[CLS]", "[SEP]"))
        options = ort.SessionOptions()
        # One thread means the caller's own: no pool that could spin. The arena would keep its peak for ever.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        # Beyond the basic level onnxruntime would fuse Add + LayerNorm into an operator that is slower.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = 3  # errors only; they reach the caller as exceptions
        path = str(WEIGHTS / "model.onnx")
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (384,) of the first window."""
        return self._embed_window(next(windows(text, self._tokenizer, QUERY_WINDOW)))

    def known(self, text: str) -> float:
        """Return how much of a query's first window the model knows, 0 to 1; 0 where that is too little to go by."""
        share = next(windows(text, self._tokenizer, QUERY_WINDOW)).known
        return share if share >= LEAST_KNOWN else 0.0

    def embed_text(self, text: str) -> Vectors:
        """Return the unit vectors (chunks, 384) of all windows."""
        import numpy as np

        return np.stack([self._embed_window(window) for window in windows(text, self._tokenizer)])

    def read(self, text: str) -> Iterator[Passage]:
        """Yield the whole text in passages, with the vectors that `embed_text` returns, at most MAX_WINDOWS."""
        import numpy as np

        from r3_lite.entity_head import Pieces

        left = MAX_WINDOWS
        for start, part, found in blocks(text, self._tokenizer):
            if not found:
                yield Passage(start, part, None, None)
                continue
            seen = [self._hidden(window, "last_hidden_state", "layer_4") for window in found]
            spans = np.array([span for window in found for span in window.spans], np.int64).reshape(-1, 2)
            pieces = Pieces(np.concatenate([inner[1:-1] for _, inner in seen]), spans)
            vectors = np.stack(
                [_vector(window, last) for window, (last, _) in zip(found, seen, strict=True)],
            )
            yield Passage(start, part, vectors[:left], pieces)
            left -= len(found)

    def _embed_window(self, window: Window) -> Vectors:
        """Return the unit vector of the mean over the tokens, the pooling that the model was trained with."""
        (last,) = self._hidden(window, "last_hidden_state")
        return _vector(window, last)

    def _hidden(self, window: Window, *layers: str) -> list[Vectors]:
        """Return outputs of the graph, each (tokens + 2, 384): `last_hidden_state`, `layer_4` for word vectors."""
        import numpy as np

        ids = np.array([[self._start, *window.ids, self._end]], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return [output[0] for output in self._session.run(list(layers), feed)]


def _vector(window: Window, last: Vectors) -> Vectors:
    """Return the unit vector of a window from its last layer; where the model knows none of it, one like no other."""
    import numpy as np

    if window.known >= LEAST_KNOWN:
        return unit(last.mean(axis=0))
    vector = np.zeros(last.shape[1], np.float32)
    vector[_UNUSED_AXIS] = 1
    return vector


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a model's folder, without its padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def unit(vector: NDArray[Any]) -> Vectors:
    """Return the vector at unit length; one without direction, which has no cosine, as the first axis."""
    import numpy as np

    length = np.linalg.norm(vector)
    if not np.isfinite(length) or length == 0:
        vector, length = np.eye(len(vector))[0], np.float64(1)
    scaled: Vectors = (vector / length).astype(np.float32)
    return scaled


def fingerprint(identity: str) -> str:
    """Return the SHA-256 of what makes a model's vectors what they are: its files and our recipe."""
    return hashlib.sha256(f"{identity} recipe {RECIPE}".encode()).hexdigest()
