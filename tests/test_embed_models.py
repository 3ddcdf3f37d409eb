"""The models: what the bundled one computes, and how others are found, loaded, refused and fetched."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from r3_lite import embed_models
from r3_lite.embed_models import BundledModel, available_models, bundled_info, open_model
from r3_lite.errors import ModelUnavailable

ROOT = Path(__file__).resolve().parent.parent
# A name of fastembed's list, where its files live in a model hub, and its ONNX file.
NAME, REPOSITORY, ONNX_FILE = "BAAI/bge-small-en-v1.5", "Qdrant/bge-small-en-v1.5-onnx-Q", "model_optimized.onnx"
REVISION = "0" * 40
TINY_WORDS = {"[PAD]": (9, 9), "[UNK]": (0, 0), "east": (1, 0), "north": (0, 1), "west": (-1, 0)}


@pytest.fixture(scope="module")
def bundled() -> BundledModel:
    return BundledModel()


def cosine(model: BundledModel, one: str, other: str) -> float:
    return float(model.embed_query(one) @ model.embed_query(other))


# Cosines of the original float32 model, computed with sentence-transformers 6.2.
@pytest.mark.parametrize(
    ("one", "other", "original"),
    [
        ("The deploy runs every Tuesday at two in the afternoon.", "When is the release?", 0.368),
        ("A man is eating food.", "A man is eating a piece of bread.", 0.755),
        ("A man is eating food.", "The girl is carrying a baby.", -0.105),
        ("The team uses PostgreSQL for the billing service.", "Which database stores invoices?", 0.485),
        ("I prefer tea over coffee.", "The parser fails on nested brackets.", 0.014),
    ],
)
def test_bundled_model_agrees_with_the_original(bundled: BundledModel, one: str, other: str, original: float) -> None:
    assert cosine(bundled, one, other) == pytest.approx(original, abs=0.03)


def test_vector_is_the_mean_over_all_tokens_at_unit_length(bundled: BundledModel) -> None:
    text = "Reviews happen on Thursday."
    weights = embed_models.WEIGHTS
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    tokenizer.no_padding()
    ids = np.array([tokenizer.encode(text).ids])
    session = ort.InferenceSession(weights / "model.onnx", providers=["CPUExecutionProvider"])
    hidden = session.run(["last_hidden_state"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
    mean = hidden[0].astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(bundled.embed_query(text), mean / np.linalg.norm(mean), atol=1e-5)


def test_second_output_has_the_shape_of_the_first() -> None:
    session = ort.InferenceSession(embed_models.WEIGHTS / "model.onnx", providers=["CPUExecutionProvider"])
    ids = np.array([[101, 2023, 102]])
    last, fourth = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    assert [output.name for output in session.get_outputs()] == ["last_hidden_state", "layer_4"]
    assert last.shape == fourth.shape == (1, 3, 384)
    assert not np.allclose(last, fourth, atol=0.1)


def test_short_text_and_query_have_the_same_vector(bundled: BundledModel) -> None:
    text = "The spare key hangs in the cellar."
    np.testing.assert_array_equal(bundled.embed_text(text), [bundled.embed_query(text)])


@pytest.mark.parametrize(
    "text", ["", " ", "\0", "\n\t", "!!!", "\u200b", "👍👍", "日本語の文章", "e\u0301", "a" * 100_000]
)
def test_any_text_has_a_vector_of_unit_length(bundled: BundledModel, text: str) -> None:
    vectors = bundled.embed_text(text)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] >= 1
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_fact_at_the_end_of_a_long_text_has_the_nearest_vector(bundled: BundledModel) -> None:
    filler = "The meeting went on for hours and nobody could agree on the colour of the new logo. "
    text = filler * (20_000 // len(filler)) + "The spare key for the cellar hangs behind the flower pot."
    scores = bundled.embed_text(text) @ bundled.embed_query("Where is the extra cellar key kept?")
    assert scores.argmax() == len(scores) - 1
    assert scores[-1] > 2 * scores[0]


def test_only_the_first_window_of_a_query_counts(bundled: BundledModel) -> None:
    words = "one two three four five six seven eight nine ten " * 30
    np.testing.assert_array_equal(bundled.embed_query(words), bundled.embed_query(words + "dog " * 100))


def test_eight_threads_get_what_one_gets(bundled: BundledModel) -> None:
    texts = [f"Note {number}: the build took {number} minutes." for number in range(40)]
    alone = [bundled.embed_query(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(bundled.embed_query, texts))
    np.testing.assert_array_equal(together, alone)


def test_vector_without_direction_becomes_an_axis() -> None:
    for vector in (np.zeros(3), np.full(3, np.nan), np.full(3, np.inf)):
        np.testing.assert_array_equal(embed_models._unit(vector), [1, 0, 0])


def test_files_are_those_of_the_manifest() -> None:
    manifest = json.loads((embed_models.WEIGHTS / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        data = (embed_models.WEIGHTS / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])


@pytest.mark.parametrize("changed", [False, True])
def test_check_of_the_build_script_tells_whether_a_file_changed(tmp_path: Path, changed: bool) -> None:
    folder = shutil.copytree(embed_models.WEIGHTS, tmp_path / "weights")
    if changed:
        with (folder / "tokenizer.json").open("a") as file:
            file.write(" ")
    script = [sys.executable, str(ROOT / "scripts" / "build_weights.py"), "--check", "--folder", str(folder)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, "differ from manifest" in done.stderr) == (int(changed), changed)


def test_bundled_model_that_lacks_a_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(embed_models.WEIGHTS / "manifest.json", tmp_path)
    monkeypatch.setattr(embed_models, "WEIGHTS", tmp_path)
    with pytest.raises(ModelUnavailable, match="reinstall r3-lite"):
        open_model(None, tmp_path)


def test_bundled_model_goes_by_its_name_too(tmp_path: Path) -> None:
    assert open_model(bundled_info().name, tmp_path).info == bundled_info()


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


def near(*rows: tuple[float, float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)


@pytest.mark.usefixtures("no_network")
def test_local_folder_is_pooled_over_the_mean(tmp_path: Path) -> None:
    model = open_model(str(write_tiny_model(tmp_path / "compass")), tmp_path)
    assert (model.info.name, model.info.dimension) == ("compass", 2)
    np.testing.assert_allclose(model.embed_query("east east north"), [2 / 5**0.5, 1 / 5**0.5], atol=1e-6)


@pytest.mark.usefixtures("no_network")
def test_local_folder_may_ask_for_the_first_token(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "compass")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    np.testing.assert_allclose(open_model(str(folder), tmp_path).embed_query("north east east"), [0, 1], atol=1e-6)


def test_long_text_has_several_vectors_in_any_model(tmp_path: Path) -> None:
    model = open_model(str(write_tiny_model(tmp_path / "compass")), tmp_path)
    np.testing.assert_allclose(model.embed_text("east " * 40 + "north " * 46)[-1], [0, 1], atol=1e-6)


def test_text_without_direction_has_a_vector_in_any_model(tmp_path: Path) -> None:
    model = open_model(str(write_tiny_model(tmp_path / "compass")), tmp_path)
    for text in ("", "unknown", "east west"):
        np.testing.assert_array_equal(model.embed_text(text), [[1, 0]])


def test_same_folder_opens_twice_with_the_same_identity(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "compass")
    assert open_model(str(folder), tmp_path).info == open_model(str(folder), tmp_path).info


def test_other_weights_have_another_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = open_model(str(write_tiny_model(tmp_path / "one" / "compass")), tmp_path)
    monkeypatch.setitem(TINY_WORDS, "north", (0, 2))
    other = open_model(str(write_tiny_model(tmp_path / "other" / "compass")), tmp_path)
    assert one.info.fingerprint != other.info.fingerprint


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_local_folder_that_lacks_a_file_says_what_it_needs(tmp_path: Path, missing: str) -> None:
    folder = write_tiny_model(tmp_path / "compass")
    (folder / missing).unlink()
    with pytest.raises(ModelUnavailable, match=re.escape(missing)):
        open_model(str(folder), tmp_path)


def test_local_folder_that_does_not_exist_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"needs model\.onnx"):
        open_model(str(tmp_path / "nowhere"), tmp_path)


def test_unknown_name_points_to_the_list(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="`r3-lite models`"):
        open_model("no-such-model", tmp_path)


@pytest.mark.usefixtures("no_network")
def test_model_that_is_not_in_the_cache_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=f"not in the model cache: run `r3-lite models download {NAME}`"):
        open_model(NAME, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_network")
def test_cached_model_loads_without_the_network(tmp_path: Path) -> None:
    cache_tiny_model(tmp_path)
    model = open_model(NAME, tmp_path)
    assert (model.info.name, model.info.dimension) == (NAME, 2)
    np.testing.assert_allclose(model.embed_query("north east"), [0, 1], atol=1e-6)


@pytest.mark.usefixtures("no_network")
def test_damaged_cached_model_names_the_remedy(tmp_path: Path) -> None:
    file = cache_tiny_model(tmp_path) / ONNX_FILE
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ModelUnavailable, match=f"damaged: run `r3-lite models download {NAME}`"):
        open_model(NAME, tmp_path)


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
    assert open_model(NAME, downloaded).info.dimension == 2


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
