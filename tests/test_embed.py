"""The encoder: states, loading in the background, remembered queries, threads."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import TinyModel, tiny_vector

from r3_lite import embed
from r3_lite.embed import Encoder
from r3_lite.embed_models import Model, ModelInfo
from r3_lite.errors import ModelUnavailable

WAIT = 20.0


class Loader:
    """Stands in for open_model: waits for `go`, fails while `error` is set, counts its calls."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.error: Exception | None = None
        self.calls = 0

    def __call__(self, name: str | None, cache_dir: Path) -> Model:
        self.calls += 1
        assert self.go.wait(WAIT)
        if self.error is not None:
            raise self.error
        return TinyModel()


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    loader = Loader()
    monkeypatch.setattr(embed, "open_model", loader)
    return loader


@pytest.fixture
def idle(tmp_path: Path) -> Encoder:
    return Encoder("tiny", cache_dir=tmp_path)


def test_importing_the_module_loads_no_model_library() -> None:
    heavy = "{'numpy', 'onnxruntime', 'tokenizers', 'fastembed', 'huggingface_hub'}"
    code = f"import sys, r3_lite.embed; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_bundled_model_is_known_without_loading_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from r3_lite.embed import Encoder\n"
        f"info = Encoder(cache_dir=Path({str(tmp_path)!r})).info\n"
        "print(info.dimension, len(info.fingerprint), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "384 64 False\n"


def test_other_model_is_unknown_until_it_is_loaded(loader: Loader, idle: Encoder) -> None:
    assert idle.info is None
    idle.load()
    assert idle.info == ModelInfo("tiny", 8, "tiny-1")


def test_state_goes_from_idle_over_loading_to_ready(loader: Loader, idle: Encoder) -> None:
    loader.go.clear()
    states = [idle.state]
    idle.load_in_background()
    states.append(idle.state)
    loader.go.set()
    assert idle.wait_ready(WAIT)
    assert [*states, idle.state] == ["idle", "loading", "ready"]


def test_background_load_happens_once(loader: Loader, idle: Encoder) -> None:
    loader.go.clear()
    idle.load_in_background()
    idle.load_in_background()
    loader.go.set()
    idle.load()
    idle.load_in_background()
    assert loader.calls == 1


def test_load_waits_for_the_load_in_the_background(loader: Loader, idle: Encoder) -> None:
    loader.go.clear()
    idle.load_in_background()
    threading.Timer(0.05, loader.go.set).start()
    idle.load()
    assert (idle.state, loader.calls) == ("ready", 1)


def test_wait_gives_up_while_the_model_loads(loader: Loader, idle: Encoder) -> None:
    loader.go.clear()
    idle.load_in_background()
    assert not idle.wait_ready(0.01)
    loader.go.set()
    assert idle.wait_ready(WAIT)


def test_texts_are_refused_until_the_model_is_ready(idle: Encoder) -> None:
    with pytest.raises(ModelUnavailable, match="not loaded yet") as caught:
        idle.embed_texts(["cat"])
    assert caught.value.details == {"state": "idle"}


def test_switched_off_encoder_never_loads(loader: Loader, tmp_path: Path) -> None:
    encoder = Encoder("tiny", cache_dir=tmp_path, enabled=False)
    encoder.load_in_background()
    with pytest.raises(ModelUnavailable, match="switched off"):
        encoder.load()
    assert (encoder.state, encoder.wait_ready(WAIT), loader.calls) == ("off", False, 0)


def test_failed_load_is_reported_and_waits_no_longer(loader: Loader, idle: Encoder) -> None:
    loader.error = ModelUnavailable("Do this.")
    idle.load_in_background()
    assert not idle.wait_ready(WAIT)
    assert (idle.state, idle.last_error) == ("unavailable", "Do this.")
    with pytest.raises(ModelUnavailable, match=r"Do this\."):
        idle.embed_query("cat")


def test_library_that_fails_in_the_background_makes_the_model_unavailable(loader: Loader, idle: Encoder) -> None:
    loader.error = ImportError("no module of that name")
    idle.load_in_background()
    assert not idle.wait_ready(WAIT)
    assert idle.state == "unavailable"
    assert idle.last_error == "The embedding model cannot be loaded (ImportError): reinstall r3-lite."


def test_failed_load_is_not_repeated_at_once(loader: Loader, idle: Encoder) -> None:
    loader.error = ModelUnavailable("Do this.")
    idle.load_in_background()
    idle.wait_ready(WAIT)
    idle.load_in_background()
    assert (idle.state, loader.calls) == ("unavailable", 1)


def test_model_that_arrives_later_is_picked_up(loader: Loader, idle: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "RETRY_SECONDS", 0.0)
    loader.error = ModelUnavailable("Do this.")
    idle.load_in_background()
    idle.wait_ready(WAIT)
    loader.error = None
    idle.load_in_background()
    assert idle.wait_ready(WAIT)
    assert idle.last_error is None


def test_explicit_load_tries_again_at_once(loader: Loader, idle: Encoder) -> None:
    loader.error = ModelUnavailable("Do this.")
    with pytest.raises(ModelUnavailable):
        idle.load()
    loader.error = None
    idle.load()
    assert idle.state == "ready"


def test_thread_that_cannot_start_makes_the_model_unavailable(
    loader: Loader, idle: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    idle.load_in_background()
    assert (idle.state, loader.calls) == ("unavailable", 0)


def test_same_query_runs_the_model_once(encoder: Encoder, tiny_model: TinyModel) -> None:
    first = encoder.embed_query("a cat")
    assert encoder.embed_query("a cat") is first
    assert tiny_model.queries == ["a cat"]


def test_remembered_query_cannot_be_altered(encoder: Encoder) -> None:
    vector = encoder.embed_query("a cat")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 2


def test_query_reaches_the_model_cut(encoder: Encoder, tiny_model: TinyModel) -> None:
    encoder.embed_query("cat " * 50_000)
    assert len(tiny_model.queries[0]) == embed.QUERY_CHARACTERS


def test_lone_surrogates_reach_the_model_as_question_marks(encoder: Encoder, tiny_model: TinyModel) -> None:
    encoder.embed_query("cat \ud800")
    encoder.embed_texts(["\udfff dog"])
    assert (tiny_model.queries, tiny_model.texts) == (["cat ?"], ["? dog"])


def test_no_texts_give_no_vectors(encoder: Encoder) -> None:
    assert encoder.embed_texts([]) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_vectors_come_in_the_order_of_the_texts(tiny_model: TinyModel, tmp_path: Path, threads: int) -> None:
    encoder = Encoder("tiny", cache_dir=tmp_path, threads=threads)
    encoder.load()
    texts = ["dog", "cat\n\ncar", "tea", "house"]
    found = encoder.embed_texts(texts)
    assert [len(vectors) for vectors in found] == [1, 2, 1, 1]
    np.testing.assert_array_equal(found[1], [tiny_vector("cat"), tiny_vector("car")])
    np.testing.assert_array_equal(found[3], [tiny_vector("house")])


def test_many_threads_may_ask_at_once(encoder: Encoder) -> None:
    words = ["cat", "dog", "car", "tea", "job", "house", "port", "?"] * 50

    def ask(word: str) -> bool:
        return bool((encoder.embed_query(word) == tiny_vector(word)).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, words))


def test_embedding_leaves_nothing_in_the_home_folder(tmp_path: Path) -> None:
    """onnxruntime would leave a device id and a queue of usage reports for its maker there."""
    program = (
        "from pathlib import Path; from r3_lite.embed import Encoder; "
        "encoder = Encoder(cache_dir=Path('models')); encoder.load(); encoder.embed_query('tea')"
    )
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env={**os.environ, **home})
    assert list(tmp_path.iterdir()) == []
