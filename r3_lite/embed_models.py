"""What an embedding model is to r3-lite, and the bundled one.

One text, or one window of a long text, is one run of a model. The bundled int8 graph scales its activations over
the whole batch, so that in a batch a text's vector depends on its neighbours (cosine .95 to 1); alone it is the
same every time, there is no padding, and memory stays low. It costs an eighth of the speed.

Importing this module loads neither numpy nor onnxruntime.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from r3_lite.windows import Window, windows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    Vectors = NDArray[np.float32]

WEIGHTS = Path(__file__).parent / "weights"
# Part of every fingerprint: raise it when pooling or windows change, so that stored vectors are made anew.
RECIPE = 1
QUERY_WINDOW = 254  # tokens of a query that count; it has one vector only


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which vectors a model makes; two models with the same fingerprint make the same."""

    name: str
    dimension: int
    fingerprint: str


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

    def embed_text(self, text: str) -> Vectors:
        """Return the unit vectors (chunks, 384) of all windows."""
        import numpy as np

        return np.stack([self._embed_window(window) for window in windows(text, self._tokenizer)])

    def _embed_window(self, window: Window) -> Vectors:
        """Return the unit vector of the mean over the tokens, the pooling that the model was trained with."""
        return unit(self._hidden(window).mean(axis=0))

    def _hidden(self, window: Window) -> Vectors:
        """Return the last layer (tokens + 2, 384). The graph's `layer_4` output serves word vectors."""
        import numpy as np

        ids = np.array([[self._start, *window.ids, self._end]], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        hidden: Vectors = self._session.run(["last_hidden_state"], feed)[0][0]
        return hidden


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
