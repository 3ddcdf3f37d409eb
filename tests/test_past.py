"""Our own export read again: what is in it is taken over exactly, and what is wrong with it is told item by item."""

from typing import Any

import pytest

from benchmarks.roundtrip import measure
from r3_lite.errors import ImportFailed, InvalidParameters
from r3_lite.past import Own, Past, head, is_head, own, past_of

STATE = {
    "version": 3,
    "action": "updated",
    "content": "tea",
    "metadata": {"a": [1.0]},
    "priority": "high",
    "timestamp": "2026-01-31T09:30:00.000000Z",
}


def test_a_past_is_read_as_it_is_written() -> None:
    assert past_of({"history": [STATE, {**STATE, "version": 7}], "copy": 2, "batch": "b"}) == Past(
        (STATE, {**STATE, "version": 7}), copy=2, batch="b", deleted=False
    )
    assert past_of({}) == Past((), copy=0, batch=None, deleted=False)
    assert past_of({"deleted": True, "history": [STATE]}).deleted


@pytest.mark.parametrize(
    "fields",
    [
        {"history": "CANARY"},
        {"history": ["CANARY"]},
        {"history": [{**STATE, "version": 0}]},
        {"history": [{**STATE, "version": True}]},
        {"history": [{**STATE, "version": 2**53 + 1}]},
        {"history": [STATE, STATE]},
        {"history": [STATE, {**STATE, "version": 2}]},
        {"history": [{**STATE, "action": "CANARY"}]},
        {"history": [{**STATE, "action": ["created"]}]},
        {"history": [{**STATE, "content": None}]},
        {"history": [{**STATE, "content": " "}]},
        {"history": [{**STATE, "content": "\udc00"}]},
        {"history": [{**STATE, "metadata": "CANARY"}]},
        {"history": [{**STATE, "metadata": {"a": "x" * 70_000}}]},
        {"history": [{**STATE, "priority": "CANARY"}]},
        {"history": [{**STATE, "timestamp": "CANARY"}]},
        {"history": [{key: value for key, value in STATE.items() if key != "version"}]},
        {"copy": -1},
        {"copy": "CANARY"},
        {"batch": 3},
        {"deleted": True},
    ],
)
def test_what_is_wrong_with_a_past_is_told_without_a_word_of_it(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameters) as caught:
        past_of(fields)
    assert "CANARY" not in caught.value.message


def test_a_head_is_known_by_its_format() -> None:
    assert is_head(head())
    assert is_head({**head(), "memories": []})
    others: list[Any] = [{}, {"format": "other", "version": 1}, [], None, {"content": "tea", "format": "r3-lite"}]
    assert not any(map(is_head, others))


@pytest.mark.parametrize("version", [2, "1", None])
def test_an_export_of_a_newer_version_is_refused_whole(version: object) -> None:
    with pytest.raises(ImportFailed, match="newer"):
        is_head({"format": "r3-lite", "version": version})


def test_what_is_no_object_is_left_to_be_refused() -> None:
    assert list(own([{"id": "a"}, 3, None])) == [Own({"id": "a"}), 3, None]


def test_a_store_comes_back_from_its_own_export_as_it_was() -> None:
    """150 varied memories; the benchmark of the same name does it with 5,000."""
    for figures in measure(150, seed=1).values():
        assert (figures["differing_bytes"], figures["differing_rows"], figures["not_imported"]) == (0, 0, 0)
        assert figures["memories"] > 100
        assert figures["versions"] > figures["memories"]
