"""Embedding models other than the bundled one: fastembed's list, from the cache or a local folder; fetching them.

Loading reads the disk only; `download` alone uses the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from r3_lite.embed_models import (
    QUERY_WINDOW,
    Model,
    ModelInfo,
    bundled_info,
    fingerprint,
    load_tokenizer,
    manifest,
    unit,
)
from r3_lite.errors import ModelUnavailable
from r3_lite.windows import windows

if TYPE_CHECKING:
    from fastembed import TextEmbedding

    from r3_lite.embed_models import Vectors

LOCAL = "local/"  # begins the names under which fastembed knows local folders
# What a model was trained to see before a query and before a text, by the start of its name; from the model cards.
# fastembed adds nothing.
_SEARCH = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query"
PREFIXES = {
    "BAAI/bge-base-en": (_SEARCH, ""),
    "BAAI/bge-large-en": (_SEARCH, ""),
    "BAAI/bge-small-en": (_SEARCH, ""),
    "Qdrant/stella": (f"{_INSTRUCT}.\nQuery: ", ""),
    "Qwen/Qwen3": (f"{_INSTRUCT}\nQuery:", ""),
    "google/embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "intfloat/multilingual-e5": ("query: ", "passage: "),
    "mixedbread-ai/": (_SEARCH, ""),
    "nomic-ai/": ("search_query: ", "search_document: "),
    "snowflake/": (_SEARCH, ""),
}
_OTHER_LANGUAGES = re.compile(r"multi-?lingual|Chinese|German|Spanish", re.IGNORECASE)
NETWORK_TIMEOUT = 10.0  # seconds until a silent model host counts as unreachable


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


def open_fastembed_model(name: str, cache_dir: Path) -> Model:
    """Load a model from disk: a name of fastembed's list in `cache_dir`, or a folder (`/…`, `./…`, `~/…`).

    Blocks for some seconds. Raises ModelUnavailable with what to do; never uses the network.
    """
    if is_folder(name):
        return _open_folder(Path(name).expanduser())
    return _open_cached(_listed(name), cache_dir)


def is_folder(name: str) -> bool:
    """Return whether a model's name is the path of a folder."""
    # A bare relative path could be a model's name: servers start in folders of other people's projects.
    return name.startswith((".", "~")) or Path(name).is_absolute()


class FastembedModel:
    """A model of fastembed's list, or a local folder of that kind."""

    def __init__(self, model: TextEmbedding, name: str, folder: Path, files: list[Path]) -> None:
        self._model = model
        self._tokenizer = load_tokenizer(folder)
        known = (pair for start, pair in PREFIXES.items() if model.model_name.startswith(start))
        self._query_prefix, self._text_prefix = next(known, ("", ""))
        self.info = ModelInfo(
            name,
            len(self.embed_query("dimension")),
            fingerprint(f"{_digest(files)} {self._query_prefix}{self._text_prefix}"),
        )

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (dimension,) of the first window."""
        piece = next(windows(text, self._tokenizer, QUERY_WINDOW)).text
        return unit(next(iter(self._model.query_embed(self._query_prefix + piece))))

    def embed_text(self, text: str) -> Vectors:
        """Return the unit vectors (chunks, dimension) of all windows."""
        import numpy as np

        pieces = [self._text_prefix + window.text for window in windows(text, self._tokenizer)]
        return np.stack([unit(vector) for vector in self._model.passage_embed(pieces, batch_size=1)])


def download(model: str, cache_dir: Path) -> None:
    """Fetch a model of fastembed's list into `cache_dir` and prove that it loads.

    A whole model is left alone, an unfinished one resumed, a broken one removed, alone, and fetched once
    more. Honours HF_ENDPOINT, HTTPS_PROXY and SSL_CERT_FILE; shows progress on a terminal only. Blocks; other
    processes that download wait. Raises ModelUnavailable.
    """
    if model == bundled_info().name or is_folder(model):
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
    size = sum(entry["bytes"] for entry in manifest()["files"].values())
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
    options: dict[str, Any] = {"specific_model_path": str(folder), "local_files_only": True, "cache_dir": str(folder)}
    if listed["model_file"].endswith(".onnx"):  # a static model would warn of options that mean nothing to it
        options |= {"threads": 1, "providers": ["CPUExecutionProvider"], "enable_cpu_mem_arena": False}
    model = _text_embedding()(listed["model"], **options)
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


def _digest(files: list[Path]) -> str:
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(digests)
