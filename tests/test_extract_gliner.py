"""Rules of r3_lite.extract_gliner with a stand-in for the model; see real_gliner.py for a real one."""

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from r3_lite.entity_words import Span
from r3_lite.errors import ModelUnavailable
from r3_lite.extract_gliner import GlinerExtractor, load_gliner, windows, without_overlaps


class NameFinder:
    """Answers as a GLiNER model that knows `Ana…` as people and `Kinto` as a company; refuses long texts."""

    config = SimpleNamespace(max_len=20)

    def predict_entities(self, text: str, labels: list[str], threshold: float) -> list[dict[str, Any]]:
        assert len(text.split()) <= self.config.max_len
        return [
            {
                "start": m.start(),
                "end": m.end(),
                "text": m.group(),
                "label": "person" if m.group() != "Kinto" else "company",
                "score": 0.9,
            }
            for m in re.finditer(r"Ana\d*|Kinto", text)
        ]


class RelationFinder(NameFinder):
    """Says as well that each person works for the first company."""

    def predict_relations(
        self, text: str, labels: list[str], relations: list[str], threshold: float
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        entities = self.predict_entities(text, labels, threshold)
        companies = [e for e in entities if e["label"] == "company"]
        found = [
            {"head": e, "tail": companies[0], "relation": "works for", "score": 0.7}
            for e in entities
            if e["label"] == "person" and companies
        ]
        return entities, found


def test_labels_become_our_types_and_offsets_give_back_the_names() -> None:
    text = "Gestern traf Ana die Leute von Kinto."
    found = GlinerExtractor(NameFinder()).extract(text)
    assert found.method == "gliner"
    assert [(e.type, text[e.start : e.end]) for e in found.entities] == [
        ("people", "Ana"),
        ("organizations", "Kinto"),
    ]


def test_names_anywhere_in_a_long_text_are_found_once() -> None:
    words = ["filler"] * 1_500
    for i in range(10):
        words[149 + 150 * i] = f"Ana{i}"
    found = GlinerExtractor(NameFinder()).extract(" ".join(words))
    assert [e.name for e in found.entities] == [f"Ana{i}" for i in range(10)]


def test_typed_patterns_relate_where_the_model_cannot() -> None:
    found = GlinerExtractor(NameFinder()).extract("Ana works at Kinto.")
    assert [str(r) for r in found.relations] == ["Ana --[WORKS_FOR]--> Kinto"]


def test_relations_of_the_model_are_used_where_it_has_them() -> None:
    text = "filler " * 30 + "Ana ist bei Kinto angestellt."
    (relation,) = GlinerExtractor(RelationFinder()).extract(text).relations
    assert str(relation) == "Ana --[WORKS_FOR]--> Kinto"
    assert relation.confidence == 0.7


def test_windows_cover_every_word_and_overlap() -> None:
    text = " ".join(f"w{i}" for i in range(25))
    spans = list(windows(text, 8))
    assert [text[a:b].split()[0] for a, b in spans] == ["w0", "w6", "w12", "w18"]
    assert text[spans[0][0] : spans[0][1]].split()[-1] == "w7"
    assert spans[-1][1] == len(text)


def test_a_text_without_words_has_no_window() -> None:
    assert list(windows("  \n", 8)) == []


def test_the_surest_of_overlapping_spans_stays() -> None:
    a, b, c = Span(0, 4, "people", 0.6), Span(2, 8, "places", 0.9), Span(8, 9, "dates", 0.5)
    assert without_overlaps([a, b, c, b]) == [b, c]


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gliner", None)
    with pytest.raises(ModelUnavailable, match=r"install r3-lite\[gliner\]"):
        load_gliner("some/model")


def test_model_is_loaded_from_local_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    calls: list[tuple[str, dict[str, Any], bool]] = []

    def from_pretrained(name: str, **options: Any) -> NameFinder:
        calls.append((name, options, constants.HF_HUB_OFFLINE))
        return NameFinder()

    module = ModuleType("gliner")
    module.GLiNER = SimpleNamespace(from_pretrained=from_pretrained)  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "gliner", module)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    load_gliner("some/model")
    assert calls == [("some/model", {"cache_dir": None, "local_files_only": True}, True)]
    assert constants.HF_HUB_OFFLINE is False


def test_unreadable_model_is_reported_without_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_pretrained(name: str, **options: Any) -> None:
        raise OSError(f"{name} is broken")

    module = ModuleType("gliner")
    module.GLiNER = SimpleNamespace(from_pretrained=from_pretrained)  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "gliner", module)
    with pytest.raises(ModelUnavailable, match="R3_ENTITY_MODEL") as caught:
        load_gliner("secret/model")
    assert "secret" not in caught.value.message
