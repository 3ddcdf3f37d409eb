"""The bundled model: what it computes, and that its files are the ones that were built."""

import hashlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import pytest
from tokenizers import Tokenizer

from r3_lite import embed_models
from r3_lite.embed import Encoder, open_model
from r3_lite.embed_models import BundledModel, bundled_info
from r3_lite.errors import ModelUnavailable

ROOT = Path(__file__).resolve().parent.parent


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
        np.testing.assert_array_equal(embed_models.unit(vector), [1, 0, 0])


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
        Encoder(cache_dir=tmp_path).load()


def test_bundled_model_goes_by_its_name_too(tmp_path: Path) -> None:
    assert open_model(bundled_info().name, tmp_path).info == bundled_info()


@pytest.mark.parametrize("text", ["✅", "รถยนต์ 15", "የእኔ ድመት ስም", "x" * 120])
def test_a_text_that_the_model_does_not_know_is_near_nothing(bundled: BundledModel, text: str) -> None:
    assert bundled.known(text) == 0
    for other in ("The deploy runs every Tuesday.", "where is my passport", "rocket"):
        assert abs(float(bundled.embed_text(text)[0] @ bundled.embed_query(other))) < 1e-6
    (passage,) = bundled.read(text)
    assert passage.vectors is not None
    np.testing.assert_array_equal(passage.vectors, bundled.embed_text(text))


def test_a_query_counts_by_the_share_that_the_model_knows(bundled: BundledModel) -> None:
    assert [bundled.known(text) for text in ("where is my passport?", "rocket 🚀", "where is the 🍕")] == [1, 0.5, 0]
