"""The embedding models themselves, loaded from disk: the bundled one, fastembed's, local folders.

One text, or one window of a long text, is one run of a model. The bundled int8 graph scales its activations
over the whole batch, so that in a batch a text's vector depends on its neighbours (cosine .95 to 1);
alone it is the same every time, there is no padding, and memory stays low. It costs an eighth of the speed.

Only `download` uses the network. Importing this module loads neither numpy nor onnxruntime nor fastembed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from r3_lite.errors import ModelUnavailable
from r3_lite.windows import MAX_WINDOWS, Window, blocks, windows

if TYPE_CHECKING:
    import numpy as np
    from fastembed import TextEmbedding
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from r3_lite.entity_head import Pieces

    Vectors = NDArray[np.float32]

WEIGHTS = Path(__file__).parent / "weights"
# Part of every fingerprint: raise it when pooling or windows change, so that stored vectors are made anew.
RECIPE = 1
QUERY_WINDOW = 254  # tokens of a query that count; it has one vector only
LOCAL = "local/"  # begins the names under which fastembed knows local folders
_OTHER_LANGUAGES = re.compile(r"multi-?lingual|Chinese|German|Spanish", re.IGNORECASE)
NETWORK_TIMEOUT = 10.0  # seconds until a silent model host counts as unreachable


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which vectors a model makes; two models with the same fingerprint make the same."""

    name: str
    dimension: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that R3_EMBEDDING_MODEL can name.

    `present`: it needs no download. `multilingual`: it knows more than English.
    """

    name: str
    dimension: int
    megabytes: int
    present: bool
    multilingual: bool


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
def bundled_info() -> ModelInfo:
    """Return the bundled model's identity from its manifest, without loading it."""
    manifest = _manifest()
    return ModelInfo(manifest["name"], manifest["dimension"], _fingerprint(manifest["fingerprint"]))


def is_bundled(name: str | None) -> bool:
    """Return whether a setting means the bundled model: None, or its name."""
    return name is None or name == bundled_info().name


def open_model(name: str | None, cache_dir: Path) -> Model:
    """Load a model from disk: None for the bundled one, a fastembed name, or a folder (`/…`, `./…`, `~/…`).

    Blocks for up to some seconds. Raises ModelUnavailable with what to do; never uses the network.
    """
    if name is None or is_bundled(name):
        try:
            return BundledModel()
        except Exception as error:
            raise ModelUnavailable("The bundled embedding model cannot be loaded: reinstall r3-lite.") from error
    if _is_folder(name):
        return _open_folder(Path(name).expanduser())
    return _open_cached(_listed(name), cache_dir)


class BundledModel:
    """The model in `weights`, on onnxruntime and tokenizers directly."""

    def __init__(self) -> None:
        import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types

        self.info = bundled_info()
        self._tokenizer = _tokenizer(WEIGHTS)
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
            vectors = np.stack([_unit(last.mean(axis=0)) for last, _ in seen])
            yield Passage(start, part, vectors[:left], pieces)
            left -= len(found)

    def _embed_window(self, window: Window) -> Vectors:
        """Return the unit vector of the mean over the tokens, the pooling that the model was trained with."""
        (last,) = self._hidden(window, "last_hidden_state")
        return _unit(last.mean(axis=0))

    def _hidden(self, window: Window, *layers: str) -> list[Vectors]:
        """Return outputs of the graph, each (tokens + 2, 384): `last_hidden_state`, `layer_4` for word vectors."""
        import numpy as np

        ids = np.array([[self._start, *window.ids, self._end]], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return [output[0] for output in self._session.run(list(layers), feed)]


class FastembedModel:
    """A model of fastembed's list, or a local folder of that kind."""

    def __init__(self, model: TextEmbedding, name: str, folder: Path, files: list[Path]) -> None:
        self._model = model
        self._tokenizer = _tokenizer(folder)
        self.info = ModelInfo(name, len(self.embed_query("dimension")), _fingerprint(_digest(files)))

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (dimension,) of the first window, with the model's prefix for queries."""
        piece = next(windows(text, self._tokenizer, QUERY_WINDOW)).text
        return _unit(next(iter(self._model.query_embed(piece))))

    def embed_text(self, text: str) -> Vectors:
        """Return the unit vectors (chunks, dimension) of all windows, with the prefix for passages."""
        import numpy as np

        pieces = [window.text for window in windows(text, self._tokenizer)]
        return np.stack([_unit(vector) for vector in self._model.passage_embed(pieces, batch_size=1)])


def download(model: str, cache_dir: Path) -> None:
    """Fetch a model of fastembed's list into `cache_dir` and prove that it loads.

    A whole model is left alone, an unfinished one resumed, a broken one removed, alone, and fetched once
    more. Honours HF_ENDPOINT, HTTPS_PROXY and SSL_CERT_FILE; shows progress on a terminal only. Blocks; other
    processes that download wait. Raises ModelUnavailable.
    """
    if is_bundled(model) or _is_folder(model):
        open_model(model, cache_dir)
        return
    listed = _listed(model)
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(cache_dir / "download.lock"):
            if _cached_folder(listed, cache_dir) is None:
                _fetch(listed, cache_dir)
            try:
                _open_cached(listed, cache_dir)
            except ModelUnavailable:
                shutil.rmtree(_repository_folder(listed, cache_dir))
                _fetch(listed, cache_dir)
                _open_cached(listed, cache_dir)
    except OSError as error:
        raise ModelUnavailable("The model cache cannot be written: see to its permissions and space.") from error


def available_models(cache_dir: Path) -> list[ModelChoice]:
    """Return the bundled model, then fastembed's list with what of it is in `cache_dir`."""
    bundled = bundled_info()
    size = sum(entry["bytes"] for entry in _manifest()["files"].values())
    choices = [ModelChoice(bundled.name, bundled.dimension, round(size / 1e6), True, False)]
    for listed in _text_embedding().list_supported_models():
        if not listed["model"].startswith(LOCAL):
            text = f"{listed['model']} {listed['description']}"
            choices.append(
                ModelChoice(
                    listed["model"],
                    listed["dim"],
                    round(listed["size_in_GB"] * 1000),
                    present=_cached_folder(listed, cache_dir) is not None,
                    multilingual=_OTHER_LANGUAGES.search(text) is not None,
                )
            )
    return choices


def _open_cached(listed: dict[str, Any], cache_dir: Path) -> Model:
    remedy = f"run `r3-lite models download {listed['model']}`."
    folder = _cached_folder(listed, cache_dir)
    if folder is None:
        raise ModelUnavailable(f"The embedding model is not in the model cache: {remedy}")
    try:
        return _open_fastembed(listed, listed["model"], folder)
    except Exception as error:
        raise ModelUnavailable(f"The embedding model in the model cache is damaged: {remedy}") from error


def _open_folder(folder: Path) -> Model:
    try:
        return _open_fastembed(_listed_folder(folder), folder.name, folder)
    except Exception as error:
        raise ModelUnavailable(
            "The local embedding model cannot be loaded: its folder needs model.onnx, tokenizer.json and "
            "tokenizer_config.json, all whole."
        ) from error


def _open_fastembed(listed: dict[str, Any], name: str, folder: Path) -> Model:
    """Load a model with fastembed from a folder; given one, fastembed looks nowhere else."""
    model = _text_embedding()(
        listed["model"],
        threads=1,
        providers=["CPUExecutionProvider"],
        specific_model_path=str(folder),
        local_files_only=True,
        enable_cpu_mem_arena=False,
    )
    files = [folder / file for file in _model_files(listed)]
    return FastembedModel(model, name, folder, [*files, folder / "tokenizer.json"])


def _text_embedding() -> type[TextEmbedding]:
    """Import fastembed (one second) and return its text class."""
    # Each model stays whole in its own folder, so that a broken one can be removed without harm to others.
    os.environ.setdefault("HF_HUB_DISABLE_SHARED_BLOBS", "1")
    from fastembed import TextEmbedding
    from loguru import logger

    logger.disable("fastembed")  # its messages go to stderr; errors reach the caller as ModelUnavailable
    return TextEmbedding


def _listed(name: str) -> dict[str, Any]:
    """Return fastembed's description of a model. Raises ModelUnavailable for a name that it does not know."""
    for listed in _text_embedding().list_supported_models():
        if listed["model"].lower() == name.lower():
            return listed
    raise ModelUnavailable("R3_EMBEDDING_MODEL names no known model: `r3-lite models` lists the names.")


_registering = threading.Lock()


def _listed_folder(folder: Path) -> dict[str, Any]:
    """Return fastembed's description of a local folder, registering it there where needed.

    A folder that bears the name of a model in the list is that model, with its pooling and prefixes. Any
    other is pooled as its 1_Pooling/config.json says, by default over the mean.
    """
    from fastembed.common.model_description import ModelSource, PoolingType

    text_embedding = _text_embedding()
    registered = LOCAL + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
    with _registering:
        for listed in text_embedding.list_supported_models():
            same_name = listed["model"].split("/")[-1].lower() == folder.name.lower()
            if listed["model"] == registered or (same_name and (folder / listed["model_file"]).is_file()):
                return listed
        pooling_file = folder / "1_Pooling" / "config.json"
        pooling = json.loads(pooling_file.read_text("utf-8")) if pooling_file.is_file() else {}
        names = ("model.onnx", "model_optimized.onnx", "model_quantized.onnx", "onnx/model.onnx")
        text_embedding.add_custom_model(
            registered,
            pooling=PoolingType.CLS if pooling.get("pooling_mode_cls_token") else PoolingType.MEAN,
            normalization=True,
            # Asked for, but never used: the folder is given, and the dimension is measured.
            sources=ModelSource(hf=registered),
            dim=1,
            model_file=next(name for name in names if (folder / name).is_file()),
        )
    return _listed(registered)


def _is_folder(name: str) -> bool:
    # A bare relative path could be a model's name: servers start in folders of other people's projects.
    return name.startswith((".", "~")) or Path(name).is_absolute()


def _model_files(listed: dict[str, Any]) -> list[str]:
    return [listed["model_file"], *listed["additional_files"]]


def _cached_folder(listed: dict[str, Any], cache_dir: Path) -> Path | None:
    """Return the folder of a model's files in the cache, None unless all are there, whatever they hold."""
    from huggingface_hub import try_to_load_from_cache

    found: str | object | None = None
    for file in ["tokenizer.json", *reversed(_model_files(listed))]:
        found = try_to_load_from_cache(listed["sources"]["hf"], file, cache_dir=cache_dir)
        if not isinstance(found, str):
            return None
    return Path(str(found)).parents[len(Path(listed["model_file"]).parts) - 1]


def _repository_folder(listed: dict[str, Any], cache_dir: Path) -> Path:
    from huggingface_hub.file_download import repo_folder_name

    return cache_dir / repo_folder_name(repo_id=listed["sources"]["hf"], repo_type="model")


def _fetch(listed: dict[str, Any], cache_dir: Path) -> None:
    """Fetch what is missing of a model; a file appears under its name only when it is whole."""
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if sys.stderr is None or not sys.stderr.isatty():
        disable_progress_bars()
    wanted = ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
    try:
        # The one request with a time limit comes first: a host that accepts and never answers is found here.
        model_info(listed["sources"]["hf"], timeout=NETWORK_TIMEOUT)
        snapshot_download(listed["sources"]["hf"], cache_dir=cache_dir, allow_patterns=[*wanted, *_model_files(listed)])
    except Exception as error:
        raise ModelUnavailable(
            f"The model could not be downloaded ({type(error).__name__}): check the network, HTTPS_PROXY and "
            "SSL_CERT_FILE, or point R3_EMBEDDING_MODEL at a local folder."
        ) from error


def _tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _unit(vector: NDArray[Any]) -> Vectors:
    """Return the vector at unit length; one without direction, which has no cosine, as the first axis."""
    import numpy as np

    length = np.linalg.norm(vector)
    if not np.isfinite(length) or length == 0:
        vector, length = np.eye(len(vector))[0], np.float64(1)
    unit: Vectors = (vector / length).astype(np.float32)
    return unit


def _digest(files: list[Path]) -> str:
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(digests)


def _fingerprint(digest: str) -> str:
    return hashlib.sha256(f"{digest} recipe {RECIPE}".encode()).hexdigest()


@cache
def _manifest() -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((WEIGHTS / "manifest.json").read_text(encoding="utf-8"))
    return manifest
