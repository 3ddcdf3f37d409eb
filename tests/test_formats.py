"""Formats of files: what records they hold, and what memory a record is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r3_lite import formats
from r3_lite.errors import ImportFailed, InvalidParameters
from r3_lite.formats import Item, item_of
from r3_lite.limits import MAX_METADATA


def records(content: str | bytes) -> list[Any]:
    return formats.records(content.encode() if isinstance(content, str) else content)


ITEMS = [{"memory": "one"}, {"content": "two"}, {"text": "three"}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ITEMS),
        json.dumps({"results": ITEMS}),
        json.dumps({"memories": ITEMS, "page": 1}),
        json.dumps({"results": [], "memories": ITEMS}),
        "\n".join(json.dumps(item) for item in ITEMS),
        "\r\n".join(json.dumps(item) for item in ITEMS) + "\r\n\r\n",
        f"\n  {json.dumps(ITEMS, indent=2)}\n",
    ],
    ids=["array", "results", "memories", "both", "lines", "lines with CR", "pretty"],
)
def test_every_known_format_gives_its_items(text: str) -> None:
    assert records(text) == ITEMS


@pytest.mark.parametrize(
    "lines",
    [
        [{"results": ITEMS[:2]}, {"results": ITEMS[2:], "next": None}],
        [{"memories": ITEMS[:1]}, ITEMS[1:], []],
        [ITEMS[0], ITEMS[1:]],
    ],
)
def test_lines_that_are_lists_or_pages_are_read_as_what_they_hold(lines: list[Any]) -> None:
    assert records("\n".join(map(json.dumps, lines))) == ITEMS


def test_a_line_that_is_a_memory_is_no_page_whatever_else_it_has() -> None:
    lines = [{"memory": "one", "results": ["x"]}, {"text": "two", "memories": []}]
    assert records("\n".join(map(json.dumps, lines))) == lines


def test_blank_lines_are_passed_over_and_counted_in_messages() -> None:
    assert records('\n \n\t"one"\r\n\n\r\n"two" \n \n') == ["one", "two"]
    with pytest.raises(ImportFailed, match="line 5 is not JSON"):
        records('\n\n"one"\n\n broken')


def test_whether_to_stop_is_asked_at_every_few_thousand_lines_that_are_not_blank() -> None:
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(False)
        return False

    lines = formats.ASK_EVERY * 3
    assert len(formats.records(b"1\n\n" * lines, stopped)) == lines
    assert len(asked) == 3


def test_one_memory_is_a_list_of_one() -> None:
    assert records('{"memory": "one"}') == [{"memory": "one"}]


def test_an_empty_file_and_an_empty_list_hold_nothing() -> None:
    assert records("") == []
    assert records("[]") == []


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
@pytest.mark.parametrize("lines", [False, True])
def test_every_unicode_encoding_is_records(encoding: str, lines: bool) -> None:
    items = [{"memory": "naïve 東京 😀"}, {"memory": "two"}]
    text = "\n".join(json.dumps(item, ensure_ascii=False) for item in items) if lines else json.dumps(items)
    assert records(text.encode(encoding)) == items


def test_line_separators_of_unicode_inside_a_text_end_no_line() -> None:
    items = [{"memory": "a\u2028b\u2029c\x85d"}, {"memory": "two"}]
    assert records("\n".join(json.dumps(item, ensure_ascii=False) for item in items)) == items


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text())), max_size=4))
def test_json_and_json_lines_of_any_items_are_read_back(items: list[dict[str, Any]]) -> None:
    assert records(json.dumps(items)) == items
    if len(items) > 1:
        assert records("\n".join(json.dumps(item) for item in items)) == items


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("CANARY no json", "line 1 is not JSON"),
        ('{"memory": "a"}\n{"memory": "b"}\n{"memory": CANARY', "line 3 is not JSON"),
        ('{"CANARY": 1}', "holds no list"),
        ('"CANARY"', "holds no list"),
        ("7", "holds no list"),
        ('{"results": {"CANARY": []}}', "holds no list"),
        (b"\xff\xfe\xff", "not UTF-8"),
        (b"[\xc3\x28]", "not UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ("[\n" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_of_no_known_format_is_refused_without_a_word_of_it(content: str, reason: str) -> None:
    with pytest.raises(ImportFailed, match=reason) as caught:
        records(content)
    assert "CANARY" not in caught.value.message


# Shapes of other programs

PLATFORM = {
    "id": "f4cbdb08-7062-4f3e-8eb2-9f5c80dfe64c",
    "memory": "Plans a trip to Lisbon",
    "user_id": "alex",
    "agent_id": None,
    "app_id": "planner",
    "run_id": "trip-7",
    "hash": "62bc074f56d1f909f1b4c2b639f56f6a",
    "metadata": {"topic": "travel"},
    "categories": ["travel"],
    "immutable": False,
    "expiration_date": None,
    "score": 0.4,
    "created_at": "2024-07-25T23:57:00.108347-07:00",
    "updated_at": "2024-07-26T00:00:00-07:00",
}
PLATFORM_ITEM = Item(
    content="Plans a trip to Lisbon",
    metadata={"app_id": "planner", "run_id": "trip-7", "categories": ["travel"], "topic": "travel"},
    priority=None,
    id="f4cbdb08-7062-4f3e-8eb2-9f5c80dfe64c",
    created_at="2024-07-26T06:57:00.108347Z",
    updated_at="2024-07-26T07:00:00.000000Z",
    user_id="alex",
)


@pytest.mark.parametrize(
    "document",
    [
        [PLATFORM],
        {"count": 1, "next": None, "previous": None, "results": [PLATFORM]},
        {"results": [PLATFORM], "relations": [{"source": "alex", "relationship": "plans", "target": "trip"}]},
        {"results": [PLATFORM], "total": 1},
        {"memories": [PLATFORM]},
    ],
    ids=["first list", "paged", "with relations", "second", "export"],
)
def test_every_form_of_mem0_gives_the_same_memory(document: Any) -> None:
    (record,) = records(json.dumps(document))
    assert item_of(record) == PLATFORM_ITEM


def test_what_metadata_says_itself_wins_over_what_stands_beside_it() -> None:
    item = item_of({"memory": "a", "run_id": "outside", "metadata": {"run_id": "inside"}})
    assert item is not None
    assert item.metadata == {"run_id": "inside"}


def test_an_answer_of_get_all_memories_is_read_back() -> None:
    memory = {
        "id": "mem_01h2xcejqtf2nbrexx3vqjh", "memory": "Ada drinks tea", "content": "Ada drinks tea", "user_id": "ada",
        "metadata": {"a": 1}, "priority": "high", "hash": "x", "created_at": "2024-01-01T00:00:00.000000Z",
        "updated_at": "2024-01-02T00:00:00.000000Z",
    }  # fmt: skip
    (record,) = records(json.dumps({"total": 1, "limit": 100, "memories": [memory], "cache_stats": {}}))
    item = item_of(record)
    assert item is not None
    assert {name: getattr(item, name) for name in ("content", "metadata", "priority", "created_at", "user_id")} == {
        name: memory[name] for name in ("content", "metadata", "priority", "created_at", "user_id")
    }


def test_dates_may_have_the_names_of_javascript() -> None:
    item = item_of({"content": "a", "createdAt": "2024-01-01", "updatedAt": 1_700_000_000_000})
    assert item is not None
    assert (item.created_at, item.updated_at) == ("2024-01-01T00:00:00.000000Z", "2023-11-14T22:13:20.000000Z")


def test_a_broken_part_of_a_graph_is_told_apart() -> None:
    found = records('{"type": "entity", "name": "Ann"}\n{"type": "relation", "from": "Ann", "to": 7}')
    for record in found:
        with pytest.raises(InvalidParameters, match="no whole entity or relation"):
            item_of(record)


def test_what_stands_beside_the_metadata_counts_as_metadata() -> None:
    with pytest.raises(InvalidParameters, match="longer than"):
        item_of({"memory": "a", "categories": ["x" * MAX_METADATA]})
