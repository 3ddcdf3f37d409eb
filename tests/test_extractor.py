"""Which method reads a text: the best that is ready, and always one."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import TinyModel, eventually

from r3_lite import knowledge
from r3_lite.embed import Encoder
from r3_lite.engine import Engine
from r3_lite.errors import ModelUnavailable
from r3_lite.extract import Entity, Extraction, extract
from r3_lite.extractor import Extractor
from r3_lite.health import measure
from r3_lite.windows import BLOCK

TEXT = "Zorvaxia Quillon works for Acme Corp and uses Docker."


class Gliner:
    """A stand-in for a loaded GLiNER model: whatever it reads is about Ana."""

    def extract(self, text: str) -> Extraction:
        return Extraction((Entity("people", "Ana", 0, 3, 1.0),), (), (), "gliner")


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    encoder = Encoder(cache_dir=tmp_path_factory.mktemp("models"))
    encoder.load()
    return encoder


def names(found: Extraction) -> list[str]:
    return [entity.name for entity in found.entities]


def test_without_a_model_the_rules_read(tmp_path: Path) -> None:
    extractor = Extractor(Encoder(cache_dir=tmp_path))
    assert extractor.method == "rules"
    assert extractor.extract(TEXT) == extract(TEXT)


def test_another_embedding_model_leaves_reading_to_the_rules(encoder: Encoder) -> None:
    extractor = Extractor(encoder)
    vectors, found = extractor.read("cat")
    assert (extractor.method, found.method, vectors.shape) == ("rules", "rules", (1, 8))


def test_one_pass_of_the_bundled_model_gives_vectors_and_names(bundled: Encoder) -> None:
    extractor = Extractor(bundled)
    vectors, found = extractor.read(TEXT)
    assert (extractor.method, found.method) == ("rules+head", "rules+head")
    assert np.array_equal(vectors, bundled.embed_texts([TEXT])[0])
    assert names(found) == ["Zorvaxia Quillon", "Acme Corp", "Docker"]
    assert extractor.extract(TEXT) == found


@pytest.mark.parametrize("text", ["", " ", "\n", "?", "\ud800", "日本語", "a" * 5_000])
def test_a_text_without_names_has_vectors_all_the_same(bundled: Encoder, text: str) -> None:
    vectors, found = Extractor(bundled).read(text)
    assert np.array_equal(vectors, bundled.embed_texts([text])[0])
    assert found.relations == ()


def test_names_anywhere_in_a_long_text_are_found_at_their_places(bundled: Encoder) -> None:
    filler = "Nothing of any interest happened on that day, and so the page stays as empty as it was. "
    middle = filler * (BLOCK // len(filler) - 1)
    text = f"Ana uses Docker. {middle}Bob uses Redis. {middle}Cleo uses Kafka."
    vectors, found = Extractor(bundled).read(text)
    assert np.array_equal(vectors, bundled.embed_texts([text])[0])
    assert names(found) == ["Ana", "Docker", "Bob", "Redis", "Cleo", "Kafka"]
    assert [text[entity.start : entity.end] for entity in found.entities] == names(found)
    assert {str(relation) for relation in found.relations} == {
        "Ana --[USES]--> Docker",
        "Bob --[USES]--> Redis",
        "Cleo --[USES]--> Kafka",
    }


def test_what_lies_behind_the_last_window_is_read_by_rules(bundled: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r3_lite.windows.MAX_WINDOWS", 2)
    monkeypatch.setattr("r3_lite.embed_models.MAX_WINDOWS", 2)
    text = "Ana uses Docker. " + "Nothing happened. " * 1_200 + "Cleo uses Kafka."
    vectors, found = Extractor(bundled).read(text)
    assert len(vectors) == 2
    assert names(found) == ["Ana", "Docker", "Cleo", "Kafka"]
    assert found.method == "rules"


def test_gliner_is_loaded_in_the_background_and_then_answers(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    may_load = threading.Event()
    monkeypatch.setattr("r3_lite.extract_gliner.load_gliner", lambda name: may_load.wait(20) and Gliner())
    extractor = Extractor(encoder, "some/model")
    assert extractor.gliner_state == "idle"
    extractor.load_in_background()
    assert (extractor.gliner_state, extractor.method) == ("loading", "rules")
    may_load.set()
    eventually(lambda: extractor.gliner_state == "ready")
    extractor.load_in_background()
    assert (extractor.method, names(extractor.extract(TEXT))) == ("gliner", ["Ana"])
    assert extractor.read("cat")[0].shape == (1, 8)


def test_versions_tell_gliner_models_apart(encoder: Encoder) -> None:
    one, other = Extractor(encoder, "one"), Extractor(encoder, "other")
    assert one.version_of("rules") == other.version_of("rules")
    assert one.version_of("gliner") != other.version_of("gliner")
    assert "one" not in one.version_of("gliner")


def test_memories_are_read_anew_once_gliner_is_there(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_load = threading.Event()
    monkeypatch.setattr("r3_lite.extract_gliner.load_gliner", lambda name: may_load.wait(20) and Gliner())
    engine = make_engine(entity_model="some/model")
    engine.add(None, "Bo uses Docker.", wait=True)

    def nodes() -> list[str]:
        return sorted(node.name for node in knowledge.neighbourhood(engine, None, limit=9).nodes)

    assert nodes() == ["Bo", "Docker"]
    assert measure(engine).graph["gliner"] == "loading"
    may_load.set()
    eventually(lambda: nodes() == ["Ana"])
    assert measure(engine).graph == {"entities": 1, "relations": 0, "method": "gliner", "gliner": "ready"}


def test_a_gliner_model_that_is_missing_is_named_and_done_without(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> Gliner:
        raise ModelUnavailable("The GLiNER model cannot be loaded: set R3_ENTITY_MODEL.")

    monkeypatch.setattr("r3_lite.extract_gliner.load_gliner", fail)
    engine = make_engine(entity_model="some/model")
    engine.start()
    eventually(lambda: engine.extractor.gliner_state == "unavailable")
    health = measure(engine)
    assert (health.status, health.graph["method"], health.graph["gliner"]) == ("degraded", "rules", "unavailable")
    assert "R3_ENTITY_MODEL" in health.next_step
    assert names(knowledge.extract_entities(engine, "Ana uses Docker.")) == ["Ana", "Docker"]


def test_in_basic_mode_no_gliner_is_loaded(make_engine: Callable[..., Engine], tiny_model: TinyModel) -> None:
    engine = make_engine(entity_model="some/model", intelligence="basic")
    engine.start()
    assert engine.extractor.gliner_state == "off"
    assert measure(engine).graph["method"] == "off"
