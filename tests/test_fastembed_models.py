"""Other models: how they are found, loaded, refused, listed and fetched."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from r3_lite.embed import available_models
from r3_lite.embed_models import bundled_info
from r3_lite.errors import ModelUnavailable
from r3_lite.fastembed_models import open_fastembed_model

ROOT = Path(__file__).resolve().parent.parent
# A name of fastembed's list, where its files live in a model hub, and its ONNX file.
NAME, REPOSITORY, ONNX_FILE = "BAAI/bge-small-en-v1.5", "Qdrant/bge-small-en-v1.5-onnx-Q", "model_optimized.onnx"
REVISION = "0" * 40
TINY_WORDS = {"[PAD]": (9, 9), "[UNK]": (0, 0), "east": (1, 0), "north": (0, 1), "west": (-1, 0)}


def write_tiny_model(folder: Path, onnx_file: str = "model.onnx") -> Path:
    """Write a model in two dimensions that looks every word of TINY_WORDS up; its pooling is left to the loader."""
    folder.mkdir(parents=True)
    table = numpy_helper.from_array(np.array(list(TINY_WORDS.values()), np.float32), "table")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", 2])
    lookup = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([lookup], "tiny", inputs, [output], [table])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / onnx_file)
    words = models.WordLevel({word: index for index, word in enumerate(TINY_WORDS)}, "[UNK]")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 512, "pad_token": "[PAD]"}')
    (folder / "config.json").write_text('{"pad_token_id": 0}')
    return folder


def cache_tiny_model(cache: Path) -> Path:
    """Put the tiny model in a model cache under NAME, as a download leaves it; return its folder."""
    repository = cache / f"models--{REPOSITORY.replace('/', '--')}"
    folder = write_tiny_model(repository / "snapshots" / REVISION, ONNX_FILE)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_local_folder_is_pooled_over_the_mean(tmp_path: Path) -> None:
    model = open_fastembed_model(str(write_tiny_model(tmp_path / "compass")), tmp_path)
    assert (model.info.name, model.info.dimension) == ("compass", 2)
    np.testing.assert_allclose(model.embed_query("east east north"), [2 / 5**0.5, 1 / 5**0.5], atol=1e-6)


@pytest.mark.usefixtures("no_network")
def test_local_folder_may_ask_for_the_first_token(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "compass")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    np.testing.assert_allclose(
        open_fastembed_model(str(folder), tmp_path).embed_query("north east east"), [0, 1], atol=1e-6
    )


def test_long_text_has_several_vectors_in_any_model(tmp_path: Path) -> None:
    model = open_fastembed_model(str(write_tiny_model(tmp_path / "compass")), tmp_path)
    np.testing.assert_allclose(model.embed_text("east " * 40 + "north " * 46)[-1], [0, 1], atol=1e-6)


def test_text_without_direction_has_a_vector_in_any_model(tmp_path: Path) -> None:
    model = open_fastembed_model(str(write_tiny_model(tmp_path / "compass")), tmp_path)
    for text in ("", "unknown", "east west"):
        np.testing.assert_array_equal(model.embed_text(text), [[1, 0]])


def test_folder_with_the_name_of_a_model_is_that_model(tmp_path: Path) -> None:
    # That model takes the first token, and its queries begin with words that this tokenizer does not know.
    model = open_fastembed_model(str(write_tiny_model(tmp_path / "bge-small-en-v1.5", ONNX_FILE)), tmp_path)
    np.testing.assert_allclose(model.embed_text("north east east"), [[0, 1]], atol=1e-6)
    np.testing.assert_array_equal(model.embed_query("north"), [1, 0])


def test_model_sees_the_words_it_was_trained_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for word, vector in (("query", (0, 5)), ("passage", (-5, 0))):
        monkeypatch.setitem(TINY_WORDS, word, vector)
    folder = write_tiny_model(tmp_path / "multilingual-e5-large")
    (folder / "model.onnx_data").touch()
    model = open_fastembed_model(str(folder), tmp_path)
    np.testing.assert_allclose(model.embed_query("east"), [1 / 26**0.5, 5 / 26**0.5], atol=1e-6)
    np.testing.assert_allclose(model.embed_text("north"), [[-5 / 26**0.5, 1 / 26**0.5]], atol=1e-6)


def test_static_model_loads_without_a_warning(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "potion-base-8M")
    table = np.array(list(TINY_WORDS.values()), np.float32).tobytes()
    header = json.dumps({"embeddings": {"dtype": "F32", "shape": [5, 2], "data_offsets": [0, len(table)]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + table)
    model = open_fastembed_model(str(folder), tmp_path)
    np.testing.assert_allclose(model.embed_query("north north"), [0, 1], atol=1e-6)


def test_same_folder_opens_twice_with_the_same_identity(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "compass")
    assert open_fastembed_model(str(folder), tmp_path).info == open_fastembed_model(str(folder), tmp_path).info


def test_other_weights_have_another_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = open_fastembed_model(str(write_tiny_model(tmp_path / "one" / "compass")), tmp_path)
    monkeypatch.setitem(TINY_WORDS, "north", (0, 2))
    other = open_fastembed_model(str(write_tiny_model(tmp_path / "other" / "compass")), tmp_path)
    assert one.info.fingerprint != other.info.fingerprint


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_local_folder_that_lacks_a_file_says_what_it_needs(tmp_path: Path, missing: str) -> None:
    folder = write_tiny_model(tmp_path / "compass")
    (folder / missing).unlink()
    with pytest.raises(ModelUnavailable, match=re.escape(missing)):
        open_fastembed_model(str(folder), tmp_path)


def test_local_folder_that_does_not_exist_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"needs model\.onnx"):
        open_fastembed_model(str(tmp_path / "nowhere"), tmp_path)


def test_unknown_name_points_to_the_list(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="`r3-lite models`"):
        open_fastembed_model("no-such-model", tmp_path)


@pytest.mark.usefixtures("no_network")
def test_model_that_is_not_in_the_cache_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=f"not in the model cache: run `r3-lite models download {NAME}`"):
        open_fastembed_model(NAME, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_network")
def test_cached_model_loads_without_the_network(tmp_path: Path) -> None:
    cache_tiny_model(tmp_path)
    model = open_fastembed_model(NAME, tmp_path)
    assert (model.info.name, model.info.dimension) == (NAME, 2)
    np.testing.assert_allclose(model.embed_text("north east"), [[0, 1]], atol=1e-6)


@pytest.mark.usefixtures("no_network")
def test_damaged_cached_model_names_the_remedy(tmp_path: Path) -> None:
    file = cache_tiny_model(tmp_path) / ONNX_FILE
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ModelUnavailable, match=f"damaged: run `r3-lite models download {NAME}`"):
        open_fastembed_model(NAME, tmp_path)


def test_list_tells_what_is_here_and_what_is_not_english_only(tmp_path: Path) -> None:
    cache_tiny_model(tmp_path)
    choices = {choice.name: choice for choice in available_models(tmp_path)}
    assert next(iter(choices)) == bundled_info().name
    assert {name for name, choice in choices.items() if choice.present} == {bundled_info().name, NAME}
    multilingual = {name: choice.multilingual for name, choice in choices.items()}
    assert not multilingual[NAME]
    assert multilingual["BAAI/bge-small-zh-v1.5"]
    assert multilingual["intfloat/multilingual-e5-large"]
    assert (choices[NAME].dimension, choices[NAME].megabytes) == (384, 67)


class Hub(BaseHTTPRequestHandler):
    """Serves the files of one folder in the way of a model hub."""

    folder: Path

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name of the base class
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        files = {file.name: file.read_bytes() for file in sorted(self.folder.iterdir())}
        tags = {name: hashlib.sha1(data).hexdigest() for name, data in files.items()}
        headers = {"X-Repo-Commit": REVISION}
        if "/tree/" in path:
            sizes = [(name, len(data), tags[name]) for name, data in files.items()]
            listing = [{"type": "file", "path": name, "size": size, "oid": tag} for name, size, tag in sizes]
            data = json.dumps(listing).encode()
        elif path.startswith("/api/models/"):
            siblings = [{"rfilename": name} for name in files]
            data = json.dumps({"id": REPOSITORY, "sha": REVISION, "siblings": siblings}).encode()
        else:
            name = path.rpartition("/")[2]
            data = files[name]
            headers["ETag"] = f'"{tags[name]}"'
        self.send_response(200)
        for header, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(header, value)
        self.end_headers()
        if with_body:
            self.wfile.write(data)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a model hub that has the tiny model under NAME."""
    folder = write_tiny_model(tmp_path_factory.mktemp("hub") / "model", ONNX_FILE)
    handler = type("TinyHub", (Hub,), {"folder": folder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def download(cache: Path, hub: str) -> "subprocess.CompletedProcess[str]":
    """Download NAME in a process of its own: the address of the hub is read when its library is imported."""
    code = (
        "import sys; from pathlib import Path; from r3_lite.embed import download\n"
        "from r3_lite.errors import ModelUnavailable\n"
        "try: download(sys.argv[1], Path(sys.argv[2]))\n"
        "except ModelUnavailable as error: sys.exit(error.message)"
    )
    environment = {**os.environ, "HF_ENDPOINT": hub, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    environment.pop("HF_HUB_OFFLINE", None)
    script = [sys.executable, "-c", code, NAME, str(cache)]
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory: pytest.TempPathFactory, hub: str) -> Path:
    """A cache with NAME in it, downloaded without a word."""
    cache = tmp_path_factory.mktemp("cache")
    done = download(cache, hub)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return cache


def test_downloaded_model_loads(downloaded: Path) -> None:
    assert open_fastembed_model(NAME, downloaded).info.dimension == 2


@pytest.mark.parametrize("damage", ["cut", "removed"])
def test_download_repairs_a_broken_model_and_leaves_others_alone(
    tmp_path: Path, hub: str, downloaded: Path, damage: str
) -> None:
    cache = shutil.copytree(downloaded, tmp_path / "cache", symlinks=True)
    other = cache / "models--other" / "file"
    other.parent.mkdir()
    other.touch()
    file = next(cache.rglob(ONNX_FILE)).resolve()
    whole = file.read_bytes()
    file.unlink()
    if damage == "cut":
        file.write_bytes(whole[:100])
    assert download(cache, hub).returncode == 0
    assert next(cache.rglob(ONNX_FILE)).read_bytes() == whole
    assert other.exists()


def test_whole_model_is_not_fetched_again(downloaded: Path) -> None:
    assert download(downloaded, "http://127.0.0.1:1").returncode == 0


def test_download_without_network_says_what_to_check(tmp_path: Path) -> None:
    done = download(tmp_path, "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "check the network" in done.stderr
    assert len(done.stderr.splitlines()) == 1
