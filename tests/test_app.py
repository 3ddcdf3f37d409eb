"""The tools as a client sees them, in both eras of the protocol."""

import asyncio
import json
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from conftest import TinyModel
from fastmcp import Client
from mcp_helpers import (
    MODES,
    PATIENCE,
    added,
    call,
    data_of,
    environment,
    failed,
    found,
    good,
    text_of,
    use_environment,
)
from mem0_server import Answer, Mem0, pages

from r3_lite.app import mcp
from r3_lite.limits import MAX_CONTENT, MAX_QUERY

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=MODES)
async def client(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Client[Any]]:
    use_environment(monkeypatch, tmp_path)
    async with Client(mcp, mode=request.param) as connected:
        yield connected


async def texts(client: Client[Any], user_id: str | None = None) -> list[str]:
    """All texts of a user, newest first."""
    data = await good(client, "get_all_memories", user_id=user_id, limit=500)
    return [memory["memory"] for memory in data["memories"]]


async def total(client: Client[Any], user_id: str | None = None) -> int:
    data = await good(client, "get_all_memories", user_id=user_id, limit=1)
    return int(data["total"])


async def imported(client: Client[Any], folder: Path, items: list[Any], user_id: str | None = None) -> None:
    """Store many memories at once."""
    path = folder / "import.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    data = await good(client, "import_memories", source="json_file", file_path=str(path), user_id=user_id)
    assert data["imported"] == len(items)


# Texts that r3's callers look for


async def test_first_lines_are_the_ones_that_callers_look_for(client: Client[Any]) -> None:
    async def first_line(tool: str, **arguments: Any) -> str:
        return text_of(await call(client, tool, **arguments)).split("\n")[0]

    assert await first_line("search_memory", query="tea") == "No memories found"
    assert await first_line("get_all_memories") == "No memories found"
    assert await first_line("add_memory", content="Ada drinks tea") == "Saved"
    assert await first_line("add_memory", content="ada drinks tea.") == "Already saved"
    (memory_id,) = await found(client, "tea")
    assert await first_line("delete_memory", memory_id=memory_id) == "Deleted"
    assert await first_line("delete_all_memories", confirm=True) == "Deleted"
    assert await first_line("sync_status") == "All operations complete"


async def test_the_readable_text_carries_ids_dates_and_scores(client: Client[Any]) -> None:
    memory_id = await added(client, "Ada drinks tea", metadata={"topic": "drinks"}, priority="high")
    date = (await good(client, "get_memory", memory_id=memory_id))["created_at"][:16]
    for tool, arguments in (("search_memory", {"query": "tea"}), ("get_all_memories", {})):
        text = text_of(await call(client, tool, **arguments))
        for part in (memory_id, date, "Ada drinks tea", "drinks", "high"):
            assert part in text
    assert "[0.50]" in text_of(await call(client, "search_memory", query="tea"))


async def test_a_memory_looks_the_same_in_every_answer(client: Client[Any]) -> None:
    memory_id = await added(client, "Ada drinks tea", metadata={"a": 1}, user_id="ada")
    memory = await good(client, "get_memory", memory_id=memory_id, user_id="ada")
    assert list(memory) == [
        "id",
        "memory",
        "content",
        "user_id",
        "metadata",
        "priority",
        "hash",
        "created_at",
        "updated_at",
    ]
    assert memory["memory"] == memory["content"] == "Ada drinks tea"
    assert memory["created_at"].endswith("Z")
    (listed,) = (await good(client, "get_all_memories", user_id="ada"))["memories"]
    (hit,) = (await good(client, "search_memory", query="tea", user_id="ada"))["results"]
    assert listed == memory
    assert {key: hit[key] for key in memory} == memory


# Adding


async def test_content_comes_back_byte_for_byte(client: Client[Any]) -> None:
    for content in (
        "  two  spaces\n\ttabs \r\n end ",
        "a\u0000b",
        "e\u0301 é 🧑‍🚀 日本語 \u2028 \ufeff",
        '{"json": true}',
    ):
        memory_id = await added(client, content, skip_duplicate_check=True)
        assert (await good(client, "get_memory", memory_id=memory_id))["content"] == content


async def test_both_words_around_a_nul_are_found(client: Client[Any]) -> None:
    memory_id = await added(client, "alpha\u0000omega")
    assert await found(client, "alpha") == [memory_id]
    assert await found(client, "omega") == [memory_id]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"content": ""},
        {"content": " \n\t"},
        {"content": None},
        {"messages": []},
        {"messages": [{"role": "user", "content": " "}]},
        {"messages": [{"role": "assistant", "content": "Only the assistant spoke"}]},
        {"content": "both", "messages": [{"role": "user", "content": "both"}]},
        {"content": "x" * (MAX_CONTENT + 1)},
        {"content": "x", "metadata": {"a": "x" * 70_000}},
        {"content": "x", "metadata": {"a": json.loads("[" * 30 + "]" * 30)}},
        {"content": "x", "user_id": ""},
        {"content": "x", "user_id": "u" * 257},
        {"content": "x", "priority": "urgent"},
        {"content": "x", "metadata": "nope"},
        {"content": "x", "metadata": [1]},
        {"content": "x", "metadata": '{"a": "\\ud83d"}'},
        {"content": "x", "metadata": '{"a": NaN}'},
        {"messages": "nope"},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"content": {"text": "x"}},
    ],
)
async def test_what_cannot_be_remembered_is_refused_and_nothing_is_stored(
    arguments: dict[str, Any], client: Client[Any]
) -> None:
    assert await failed(client, "add_memory", **arguments) == "INVALID_PARAMETERS"
    assert await texts(client) == []


async def test_of_messages_the_words_of_user_and_system_are_stored_in_order(client: Client[Any]) -> None:
    data = await good(
        client,
        "add_memory",
        messages=[
            {"role": "system", "content": "The user is called Ada."},
            {"role": "user", "content": "I moved to Oslo."},
            {"role": "assistant", "content": None},
            {"role": "assistant", "content": "How nice!"},
            {"role": "user", "content": [{"type": "text", "text": "In May."}]},
        ],
    )
    memory = await good(client, "get_memory", memory_id=data["memory_id"])
    assert memory["content"] == "The user is called Ada.\nI moved to Oslo.\nIn May."


async def test_objects_and_lists_may_come_as_json_text(client: Client[Any]) -> None:
    data = await good(
        client,
        "add_memory",
        messages='[{"role": "user", "content": "I moved to Oslo"}]',
        metadata='{"a": {"b": [1, null]}, "big": 12345678901234567890}',
    )
    memory = await good(client, "get_memory", memory_id=data["memory_id"])
    assert memory["content"] == "I moved to Oslo"
    assert memory["metadata"] == {"a": {"b": [1, None]}, "big": 12345678901234567890}
    assert await found(client, "Oslo", metadata_filter='{"big": {"$gt": 5}}') == [memory["id"]]


async def test_an_exact_repeat_returns_the_same_id_and_stores_nothing(client: Client[Any]) -> None:
    memory_id = await added(client, "The port is 5432")
    again = await good(client, "add_memory", content="  the PORT is 5432. ")
    assert again["memory_id"] == memory_id
    assert again["duplicate"]
    assert await total(client) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The database port is 5432", "The database port is 5433"),
        ("The service must run as root", "The service must NOT run as root"),
        ("Alice manages Bob in Berlin", "Bob manages Alice in Berlin"),
        ("The team meeting is on 03-04", "The team meeting is on 03-05"),
        ("We use version 1.2.3 of the library", "We use version 1.3.2 of the library"),
    ],
)
async def test_a_near_match_that_says_something_else_is_stored_and_listed(
    one: str, other: str, client: Client[Any]
) -> None:
    first = await added(client, one)
    second = await good(client, "add_memory", content=other)
    assert not second["duplicate"]
    assert [similar["id"] for similar in second["similar"]] == [first]
    assert await texts(client) == [other, one]


async def test_a_known_text_says_where_it_does_not_take_what_came_with_it(client: Client[Any]) -> None:
    async def message(**more: Any) -> str:
        return str((await good(client, "add_memory", content="Ada drinks tea", **more))["message"])

    kept = "Already saved\nIts metadata and priority stay as they were: update_memory changes them."
    assert await message(metadata={"a": [1], "b": 2}, priority="low") == "Saved"
    assert await message() == "Already saved"
    assert await message(metadata={"a": [1]}, priority="low") == "Already saved"
    assert await message(metadata={"a": [2]}) == kept
    assert await message(metadata={"c": 1}) == kept
    assert await message(priority="high") == kept
    assert "stay as they were" in text_of(await call(client, "add_memory", content="Ada drinks tea", priority="high"))


async def test_without_the_duplicate_check_a_copy_is_stored(client: Client[Any]) -> None:
    first = await added(client, "The port is 5432")
    second = await added(client, "The port is 5432", skip_duplicate_check=True)
    assert first != second
    assert await total(client) == 2


async def test_a_deleted_text_can_be_stored_again_under_a_new_id(client: Client[Any]) -> None:
    first = await added(client, "The port is 5432")
    await good(client, "delete_memory", memory_id=first)
    second = await added(client, "The port is 5432")
    assert second != first
    assert await found(client, "port") == [second]
    assert len((await good(client, "get_memory_history", memory_id=first))["history"]) == 2


async def test_a_priority_is_stored_and_normal_means_medium(client: Client[Any]) -> None:
    for given, stored in (("critical", "critical"), ("NORMAL", "medium"), (None, "medium")):
        memory_id = await added(client, f"priority {given}", priority=given)
        assert (await good(client, "get_memory", memory_id=memory_id))["priority"] == stored


async def test_with_embeddings_off_nothing_is_owed_to_a_new_memory(client: Client[Any]) -> None:
    for waiting in (True, False):
        data = await good(client, "add_memory", content=f"waiting {waiting}", **{"async": waiting})
        assert data["indexing"] == "done"


async def test_fifty_adds_and_twenty_updates_at_once_are_all_kept(client: Client[Any]) -> None:
    memory_id = await added(client, "the shared one")
    await asyncio.gather(
        *(added(client, f"note number {i}") for i in range(50)),
        *(good(client, "update_memory", memory_id=memory_id, metadata={f"k{i}": i}) for i in range(20)),
    )
    assert await total(client) == 51
    memory = await good(client, "get_memory", memory_id=memory_id)
    assert memory["metadata"] == {f"k{i}": i for i in range(20)}


# Updating


async def test_a_new_text_keeps_metadata_dates_and_owner(client: Client[Any]) -> None:
    metadata = {"source": "chat", "tags": ["a"], "priority": "mine", "nested": {"x": None}, "nothing": None}
    memory_id = await added(client, "Ada works for Contoso", metadata=metadata, user_id="u", priority="high")
    before = await good(client, "get_memory", memory_id=memory_id, user_id="u")
    after = await good(client, "update_memory", memory_id=memory_id, content="Ada works for Globex", user_id="u")
    assert after["success"]
    assert after["metadata"] == metadata
    assert after["updated_at"] > before["updated_at"]
    for field in ("id", "user_id", "priority", "created_at"):
        assert after[field] == before[field]


async def test_a_metadata_only_update_keeps_the_text_byte_for_byte(client: Client[Any]) -> None:
    content = "  kept \u0000 as\r\n it is  "
    memory_id = await added(client, content, metadata={"a": 1, "b": 2})
    after = await good(client, "update_memory", memory_id=memory_id, metadata={"a": None, "c": {"d": None}})
    assert after["content"] == content
    assert after["metadata"] == {"b": 2, "c": {"d": None}}


async def test_after_a_correction_only_the_new_words_are_found(client: Client[Any]) -> None:
    memory_id = await added(client, "Ada works for Contoso")
    await good(client, "update_memory", memory_id=memory_id, content="Ada works for Globex")
    assert await found(client, "Contoso") == []
    assert await found(client, "Globex") == [memory_id]


async def test_an_update_may_make_two_texts_equal_and_one_hit_is_shown(client: Client[Any]) -> None:
    first = await added(client, "The port is 5432")
    second = await added(client, "The port is 5433")
    await good(client, "update_memory", memory_id=second, content="The port is 5432")
    assert await texts(client) == ["The port is 5432", "The port is 5432"]
    assert len(await found(client, "port 5432")) == 1
    assert await added(client, "The port is 5432") in (first, second)
    assert await total(client) == 2


async def test_an_update_of_nothing_is_refused(client: Client[Any]) -> None:
    memory_id = await added(client, "The port is 5432")
    assert await failed(client, "update_memory", memory_id=memory_id) == "INVALID_PARAMETERS"
    assert await failed(client, "update_memory", memory_id=memory_id, content=" ") == "INVALID_PARAMETERS"
    too_much = {"a": "x" * 40_000}
    await good(client, "update_memory", memory_id=memory_id, metadata=too_much)
    assert await failed(client, "update_memory", memory_id=memory_id, metadata={"b": "x" * 40_000})
    assert (await good(client, "get_memory", memory_id=memory_id))["metadata"] == too_much


async def test_reserved_names_in_metadata_never_touch_the_columns(client: Client[Any]) -> None:
    forged = {"user_id": "bob", "id": "x", "created_at": "1970-01-01", "hash": "0", "content": "y", "priority": "low"}
    memory_id = await added(client, "The port is 5432", metadata=forged, user_id="alice")
    before = await good(client, "get_memory", memory_id=memory_id, user_id="alice")
    await good(client, "update_memory", memory_id=memory_id, metadata=forged | {"more": 1}, user_id="alice")
    after = await good(client, "get_memory", memory_id=memory_id, user_id="alice")
    assert after["metadata"] == forged | {"more": 1}
    for field in ("id", "user_id", "content", "hash", "created_at", "priority"):
        assert after[field] == before[field]
    assert await texts(client, "bob") == []


# Deleting


async def test_delete_all_first_tells_the_number_then_deletes_one_user_only(
    client: Client[Any], tmp_path: Path
) -> None:
    await imported(client, tmp_path, [f"fact {i} of a" for i in range(150)], "a")
    await imported(client, tmp_path, [f"fact {i} of b" for i in range(50)], "b")
    asked = await call(client, "delete_all_memories", user_id="a")
    assert data_of(asked)["deleted"] == 0
    assert "150" in text_of(asked)
    assert await total(client, "a") == 150
    assert (await good(client, "delete_all_memories", user_id="a", confirm="true"))["deleted"] == 150
    assert await total(client, "a") == 0
    assert await found(client, "fact 7", user_id="a") == []
    assert await total(client, "b") == 50
    assert await found(client, "fact 7", user_id="b") != []


async def test_delete_all_without_a_user_acts_on_the_configured_one(client: Client[Any]) -> None:
    await added(client, "mine")
    await added(client, "hers", user_id="alice")
    assert (await good(client, "delete_all_memories", confirm=True))["deleted"] == 1
    assert await texts(client, "alice") == ["hers"]


async def test_an_unclear_confirmation_deletes_nothing(client: Client[Any]) -> None:
    await added(client, "mine")
    for unclear in ("maybe", "", 2, [True], {"confirm": True}):
        assert await failed(client, "delete_all_memories", confirm=unclear) == "INVALID_PARAMETERS"
    for no in (None, "false", "no", 0, False):
        assert (await good(client, "delete_all_memories", confirm=no))["deleted"] == 0
    assert await texts(client) == ["mine"]


async def test_only_the_full_id_deletes_and_only_once(client: Client[Any]) -> None:
    memory_id = await added(client, "mine")

    async def refusal(given: str) -> str:
        result = await call(client, "delete_memory", memory_id=given)
        assert result.is_error
        assert data_of(result)["code"] == "MEMORY_NOT_FOUND"
        return text_of(result)

    malformed = {await refusal(given) for given in (memory_id[:8], "abc", "", "5f0c1d2e-0000-4000-8000-000000000000")}
    assert len(malformed) == 1
    assert await texts(client) == ["mine"]
    assert (await good(client, "delete_memory", memory_id=memory_id))["deleted"] == memory_id
    assert await refusal(memory_id) not in malformed


# History


async def test_a_history_tells_all_four_events_of_a_deleted_memory_in_order(client: Client[Any]) -> None:
    memory_id = await added(client, "one", metadata={"v": 1})
    await good(client, "update_memory", memory_id=memory_id, content="two")
    await good(client, "update_memory", memory_id=memory_id, content="three", metadata={"v": 3})
    await good(client, "delete_memory", memory_id=memory_id)
    history = (await good(client, "get_memory_history", memory_id=memory_id))["history"]
    assert [entry["version"] for entry in history] == [1, 2, 3, 4]
    assert [entry["action"] for entry in history] == ["created", "updated", "updated", "deleted"]
    assert [entry["content"] for entry in history] == ["one", "two", "three", "three"]
    assert [entry["metadata"] for entry in history] == [{"v": 1}, {"v": 1}, {"v": 3}, {"v": 3}]
    times = [entry["timestamp"] for entry in history]
    assert times == sorted(times)


async def test_a_history_survives_delete_all(client: Client[Any]) -> None:
    memory_id = await added(client, "one")
    await good(client, "delete_all_memories", confirm=True)
    history = (await good(client, "get_memory_history", memory_id=memory_id))["history"]
    assert [entry["action"] for entry in history] == ["created", "deleted"]


async def test_a_history_shows_its_newest_versions_and_says_how_many_there_are(client: Client[Any]) -> None:
    memory_id = await added(client, "version 1")
    for i in range(2, 6):
        await good(client, "update_memory", memory_id=memory_id, content=f"version {i}")
    data = await good(client, "get_memory_history", memory_id=memory_id, limit=2)
    assert [entry["content"] for entry in data["history"]] == ["version 4", "version 5"]
    assert "2 of 5" in data["message"]
    assert (
        "limit is at most 500" in (await good(client, "get_memory_history", memory_id=memory_id, limit=900))["message"]
    )


# Listing


async def test_pages_are_newest_first_and_say_where_the_next_begins(client: Client[Any]) -> None:
    ids = [await added(client, f"note {i}") for i in range(7)]
    seen: list[str] = []
    offset, more = 0, True
    while more:
        page = await good(client, "get_all_memories", limit=3, offset=offset)
        assert (page["total"], page["limit"], page["offset"]) == (7, 3, offset)
        assert page["returned"] == page["count"] == len(page["memories"])
        seen += [memory["id"] for memory in page["memories"]]
        offset, more = offset + page["returned"], page["hasMore"]
    assert seen == ids[::-1]
    beyond = await call(client, "get_all_memories", offset=7)
    assert text_of(beyond).startswith("No memories found\nThere are 7")


async def test_a_limit_above_the_maximum_is_clamped_and_said_so(client: Client[Any]) -> None:
    await added(client, "one note")
    assert "limit is at most 100" in text_of(await call(client, "search_memory", query="note", limit=101))
    listed = await call(client, "get_all_memories", limit=10**30)
    assert "limit is at most 500" in text_of(listed)
    assert data_of(listed)["limit"] == 500
    assert "at most" not in text_of(await call(client, "get_all_memories", limit=500))


async def test_cache_stats_are_left_out_on_request(client: Client[Any]) -> None:
    assert "cache_stats" in await good(client, "get_all_memories")
    assert "cache_stats" not in await good(client, "get_all_memories", include_cache_stats=False)


async def test_lists_can_be_filtered_by_metadata(client: Client[Any]) -> None:
    for i in range(5):
        await added(client, f"note {i}", metadata={"n": i, "even": i % 2 == 0})
    data = await good(client, "get_all_memories", metadata_filter={"n": {"$gte": 1}, "even": True})
    assert [memory["memory"] for memory in data["memories"]] == ["note 4", "note 2"]
    assert data["total"] == 2


# Searching

AWKWARD = [
    "multi-agent",
    "don't panic",
    "status: done",
    "C++",
    "foo/bar",
    "20.04",
    'say "hi',
    "(python",
    "retry OR",
    "what did we discuss?",
    "content:*",
    "NEAR(a b)",
    "100%",
    "日本語",
    "x' OR '1'='1",
]


async def test_query_text_is_data(client: Client[Any]) -> None:
    for text in AWKWARD:
        await added(client, text)
    for text in AWKWARD:
        data = await good(client, "search_memory", query=text)
        assert data["results"][0]["memory"] == text


async def test_no_query_is_a_syntax_error(client: Client[Any]) -> None:
    await added(client, "AND OR NOT NEAR a b c")
    words = ['"', "'", "(", ")", "*", ":", "^", "-", "+", "/", ".", "?", "AND", "OR", "NOT", "NEAR", "{", "}", " ", "a"]
    chance = random.Random(7)
    for _ in range(100):
        query = "x" + "".join(chance.choices(words, k=8))
        await good(client, "search_memory", query=query)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""},
        {"query": " "},
        {"query": None},
        {"query": "x" * (MAX_QUERY + 1)},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": -1},
        {"query": "x", "limit": 2.5},
        {"query": "x", "limit": "many"},
        {"query": "x", "threshold": 1.01},
        {"query": "x", "threshold": -0.1},
        {"query": "x", "threshold": "nan"},
        {"query": "x", "metadata_filter": "status=done"},
        {"query": "x", "metadata_filter": {"a": {"$regex": "."}}},
        {"query": "x", "metadata_filter": {"a": {"$gt": [1]}}},
        {"query": "x", "metadata_filter": {"a": 2**63}},
        {"query": "x", "metadata_filter": {"created_at": {"$gt": 10**400}}},
        {"query": "x", "metadata_filter": {"created_at": {"$gt": "yesterday"}}},
        {"query": "x", "metadata_filter": {"priority": "urgent"}},
        {"query": "x", "prefer_cache": "perhaps"},
    ],
)
async def test_search_arguments_out_of_range_are_refused(arguments: dict[str, Any], client: Client[Any]) -> None:
    assert await failed(client, "search_memory", **arguments) == "INVALID_PARAMETERS"


async def test_numbers_and_booleans_may_come_as_text(client: Client[Any]) -> None:
    for i in range(4):
        await added(client, f"note {i}")
    for three in (3, 3.0, "3", "3.0", " 3 "):
        assert len(await found(client, "note", limit=three)) == 3
    for yes in (True, "true", "True", "yes", "1", 1, "on"):
        assert (await good(client, "search_memory", query="note", prefer_cache=yes))["source"] in ("cache", "storage")
    for no in (False, "false", "No", "0", 0, "off"):
        assert (await good(client, "search_memory", query="note", prefer_cache=no))["source"] == "storage"
    assert len(await found(client, "note", threshold="0.4")) == 4
    assert await added(client, 1234) == (await found(client, 1234))[0]  # type: ignore[arg-type]


async def test_what_was_added_is_found_at_once(client: Client[Any]) -> None:
    for i in range(25):
        memory_id = await added(client, f"code word w{i}")
        assert await found(client, f"w{i}") == [memory_id]


async def test_everything_needed_to_change_a_hit_stands_in_the_text(client: Client[Any]) -> None:
    for i in range(10):
        await added(client, f"release {i} is ready")
    text = text_of(await call(client, "search_memory", query="release"))
    ids = [word for word in text.split() if word.startswith("mem_")]
    assert len(set(ids)) == 10
    for memory_id in ids:
        assert (await good(client, "get_memory", memory_id=memory_id))["content"] in text
        await good(client, "update_memory", memory_id=memory_id, metadata={"seen": True})
        await good(client, "delete_memory", memory_id=memory_id)
    assert await total(client) == 0


async def test_scores_lie_between_0_and_1_and_fall(client: Client[Any]) -> None:
    await added(client, "The proton mail bridge needs port 1143")
    await added(client, "The bridge in Oslo is closed")
    await added(client, "Bananas are yellow")
    data = await good(client, "search_memory", query="proton mail bridge needs port 1143")
    scores = [hit["score"] for hit in data["results"]]
    # Six words prove 1 - 0.5^6.
    assert scores[0] == pytest.approx(0.984, abs=0.001)
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 2
    assert scores[-1] > 0


async def test_a_threshold_cuts_and_the_answer_says_how_many(client: Client[Any]) -> None:
    await added(client, "The proton mail bridge needs port 1143")
    await added(client, "The bridge in Oslo is closed")
    data = await good(client, "search_memory", query="proton mail bridge port", threshold=0.9)
    assert len(data["results"]) == 1
    assert data["below_threshold"] == 1


async def test_two_words_find_a_memory_that_has_one_of_them(client: Client[Any]) -> None:
    memory_id = await added(client, "Proton Mail Bridge needs port 1143")
    for i in range(20):
        await added(client, f"Note {i} about gardening and tea")
    assert await found(client, "proton bridges") == [memory_id]
    assert await found(client, "volcano") == []


async def test_three_kinds_of_empty_answers_can_be_told_apart(client: Client[Any]) -> None:
    nothing = text_of(await call(client, "search_memory", query="tea"))
    await added(client, "Ada drinks coffee", user_id="ada")
    wrong_user = text_of(await call(client, "search_memory", query="tea"))
    await added(client, "Ada drinks coffee")
    no_match = text_of(await call(client, "search_memory", query="tea"))
    assert len({nothing, wrong_user, no_match}) == 3
    assert "1 other user" in wrong_user
    assert "none of this user's 1 memories" in no_match.lower()


async def test_the_newer_of_two_equal_matches_comes_first(client: Client[Any]) -> None:
    for i in range(10):
        await added(client, f"SSH port is {2200 + i}")
    newest = await added(client, "SSH port is 49222")
    best = await added(client, "ssh port changes are announced on the ssh port list", metadata={"old": True})
    assert newest in (await found(client, "What is the SSH port?"))[:3]
    assert best in await found(client, "What is the SSH port?", limit=20)


async def test_a_filter_restricts_before_the_cut(client: Client[Any], tmp_path: Path) -> None:
    await imported(client, tmp_path, [f"deploy deploy deploy {i}" for i in range(300)], "other")
    await imported(client, tmp_path, [f"deploy deploy deploy {i}" for i in range(300)])
    mine = await added(client, "we deploy on Fridays", metadata={"kind": "rule"})
    assert await found(client, "deploy", limit=5, metadata_filter={"kind": "rule"}) == [mine]


async def test_wildcards_are_literals(client: Client[Any]) -> None:
    one = await added(client, "GRACE_v2 is live", user_id="a%")
    await added(client, "GRACEXv2 is live", user_id="a1")
    assert await found(client, "GRACE_v2", user_id="a%") == [one]
    assert await found(client, "%", user_id="a%") == []
    assert await texts(client, "a%") == ["GRACE_v2 is live"]
    assert await texts(client, "%") == []
    assert await texts(client, "a_") == []


HOSTILE = [
    "x' OR '1'='1",
    '"; DROP TABLE memories; --',
    "$.a.b",
    'a"b',
    "a.b",
    "[0]",
    "' UNION SELECT 1 --",
    "\\",
    "%_",
]


async def test_hostile_texts_are_values_everywhere(client: Client[Any], tmp_path: Path) -> None:
    await added(client, "a secret of the default user")
    connection = apsw.Connection(str(tmp_path / "memories.db"), flags=apsw.SQLITE_OPEN_READONLY)
    schema = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
    for text in HOSTILE:
        assert await texts(client, text) == []
        memory_id = await added(client, f"said {text}", metadata={text: text}, user_id=text)
        assert await found(client, "said", user_id=text, metadata_filter={text: text}) == [memory_id]
        assert await found(client, "said", metadata_filter={text: text}) == []
        assert await failed(client, "get_memory", memory_id=text) == "MEMORY_NOT_FOUND"
        await good(client, "search_memory", query=text)
    assert connection.execute("SELECT sql FROM sqlite_schema").fetchall() == schema
    assert await texts(client) == ["a secret of the default user"]


# Users


async def test_a_word_of_alice_never_reaches_bob_or_the_default_user(client: Client[Any], tmp_path: Path) -> None:
    memory_id = await added(client, "alice keeps xyzzy", user_id="alice", metadata={"note": "xyzzy"})
    await added(client, "bob keeps plugh", user_id="bob")
    path = tmp_path / "import.json"
    path.write_text('["bob imported alice keeps"]')
    for user in ({"user_id": "bob"}, {}):
        for tool, arguments in (
            ("add_memory", {"content": "alice keeps"}),
            ("search_memory", {"query": "xyzzy alice keeps"}),
            ("get_all_memories", {}),
            ("get_memory", {"memory_id": memory_id}),
            ("get_memory_history", {"memory_id": memory_id}),
            ("update_memory", {"memory_id": memory_id, "content": "taken over"}),
            ("delete_memory", {"memory_id": memory_id}),
            ("import_memories", {"source": "json_file", "file_path": str(path)}),
            ("delete_all_memories", {"confirm": True}),
        ):
            result = await call(client, tool, **arguments, **user)
            assert "xyzzy" not in text_of(result) + json.dumps(data_of(result))
    for tool in ("sync_status", "health_check"):
        assert "xyzzy" not in json.dumps(await good(client, tool))
    assert await texts(client, "alice") == ["alice keeps xyzzy"]


async def test_an_id_of_another_user_is_as_unknown_as_a_random_one(client: Client[Any]) -> None:
    memory_id = await added(client, "alice keeps xyzzy", user_id="alice")
    unknown = memory_id[:-4] + "0000"
    for tool, more in (
        ("get_memory", {}),
        ("update_memory", {"content": "mine now"}),
        ("delete_memory", {}),
        ("get_memory_history", {}),
    ):
        theirs = await call(client, tool, memory_id=memory_id, user_id="bob", **more)
        nobodys = await call(client, tool, memory_id=unknown, user_id="bob", **more)
        assert theirs.is_error
        assert text_of(theirs) == text_of(nobodys)
        assert data_of(theirs) == data_of(nobodys)
    assert (await good(client, "get_memory", memory_id=memory_id, user_id="alice"))["content"] == "alice keeps xyzzy"


async def test_user_ids_are_any_text_of_up_to_256_characters(client: Client[Any]) -> None:
    for user in ("ünïcødé 用户 🧑‍🚀", "u" * 256, "a b\tc", "null", "a'b\"c", "A", 42):
        memory_id = await added(client, "the same text", user_id=user)
        assert (await good(client, "get_memory", memory_id=memory_id, user_id=user))["user_id"] == str(user)
    assert await texts(client, "a") == []


async def test_the_configured_user_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_environment(monkeypatch, tmp_path, MEM0_USER_ID="grace")
    async with Client(mcp) as client:
        memory_id = await added(client, "Grace was here")
        assert (await good(client, "get_memory", memory_id=memory_id))["user_id"] == "grace"


# Cache


async def test_a_repeated_search_comes_from_the_cache_until_something_is_written(client: Client[Any]) -> None:
    async def search() -> dict[str, Any]:
        return await good(client, "search_memory", query="tea")

    memory_id = await added(client, "Ada drinks tea")
    assert [(await search())["source"] for _ in range(2)] == ["storage", "cache"]
    await good(client, "update_memory", memory_id=memory_id, content="Ada drinks coffee")
    assert await search() | {"message": ""} == {
        "results": [],
        "source": "storage",
        "mode": "keyword",
        "total_candidates": 0,
        "below_threshold": 0,
        "truncated": False,
        "message": "",
    }


async def test_cache_keys_hold_the_user_the_filter_and_the_limit(client: Client[Any]) -> None:
    mine = [await added(client, f"tea {i}", metadata={"n": i}) for i in range(3)]
    hers = await added(client, "tea", user_id="ada")
    assert set(await found(client, "tea")) == set(mine)
    assert await found(client, "tea", user_id="ada") == [hers]
    assert len(await found(client, "tea", limit=2)) == 2
    assert await found(client, "tea", metadata_filter={"n": 1}) == [mine[1]]
    assert set(await found(client, "tea")) == set(mine)


async def test_an_answer_from_the_cache_is_the_first_one_again(client: Client[Any]) -> None:
    for i in range(12):
        await added(client, f"tea {i}", metadata={"n": i}, priority="high")
    for tool, arguments in (("search_memory", {"query": "tea"}), ("get_all_memories", {"include_cache_stats": False})):
        first, again = [await call(client, tool, **arguments) for _ in range(2)]
        assert text_of(again) == text_of(first)
        assert data_of(again) == {**data_of(first), "source": "cache"}
        assert data_of(first)["source"] == "storage"


async def test_a_repeated_list_comes_from_the_cache_until_something_is_written(client: Client[Any]) -> None:
    async def source(**arguments: Any) -> str:
        return str((await good(client, "get_all_memories", **arguments))["source"])

    memory_id = await added(client, "Ada drinks tea")
    assert [await source() for _ in range(2)] == ["storage", "cache"]
    assert await source(prefer_cache=False) == "storage"
    assert [await source(offset=1), await source(limit=5), await source(user_id="ada")] == ["storage"] * 3
    assert await source(user_id="default") == "cache"
    await good(client, "delete_memory", memory_id=memory_id)
    assert await source() == "storage"
    assert await texts(client) == []


async def test_cache_stats_beside_a_kept_list_are_of_this_moment(client: Client[Any]) -> None:
    await added(client, "Ada drinks tea")
    hits = [(await good(client, "get_all_memories"))["cache_stats"]["hits"] for _ in range(3)]
    assert hits == [0, 1, 2]


async def test_an_answer_is_cached_again_after_prefer_cache_false(client: Client[Any]) -> None:
    await added(client, "tea")
    sources = [
        (await good(client, "search_memory", query="tea", prefer_cache=prefer))["source"] for prefer in (False, True)
    ]
    assert sources == ["storage", "cache"]


async def test_an_answer_by_keyword_is_not_kept_for_the_time_when_the_model_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models = [RuntimeError("not yet")]

    def open_model(name: str, cache_dir: Path) -> TinyModel:
        if models:
            raise models[0]
        return TinyModel()

    monkeypatch.setattr("r3_lite.embed.open_model", open_model)
    monkeypatch.setattr("r3_lite.indexer.RELOAD_SECONDS", 0.3)
    use_environment(monkeypatch, tmp_path, R3_INTELLIGENCE="full", R3_EMBEDDING_MODEL="tiny")
    async with Client(mcp) as client:
        await added(client, "my kitten sleeps")
        answers = [await good(client, "search_memory", query="kitten") for _ in range(2)]
        assert [(a["source"], a["mode"]) for a in answers] == [("storage", "keyword")] * 2
        models.clear()
        while (await good(client, "search_memory", query="kitten"))["mode"] != "hybrid":
            await anyio.sleep(0.02)
        assert (await good(client, "search_memory", query="kitten"))["source"] == "cache"


async def test_add_tells_whether_the_memory_went_into_the_cache(client: Client[Any]) -> None:
    first, again = [await good(client, "add_memory", content="Ada drinks tea") for _ in range(2)]
    assert (first["cached"], again["cached"]) == (True, False)
    assert (await good(client, "cache_stats"))["l2_size"] == 1


async def test_a_size_of_zero_switches_the_cache_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_environment(monkeypatch, tmp_path, R3_CACHE_MAX_SIZE="0")
    async with Client(mcp) as without:
        assert not (await good(without, "add_memory", content="Ada drinks coffee"))["cached"]
        for _ in range(2):
            assert (await good(without, "search_memory", query="coffee"))["source"] == "storage"
        assert (await good(without, "cache_stats"))["size"] == 0


async def test_cache_stats_are_what_happened(client: Client[Any]) -> None:
    fresh = await good(client, "cache_stats")
    assert (fresh["hits"], fresh["misses"], fresh["hit_rate"], fresh["avg_response_time"]) == (0, 0, "0.0%", 0)
    high = await added(client, "Ada drinks tea", priority="high")
    low = await added(client, "Bob drinks coffee", priority="low")
    for _ in range(3):
        await good(client, "get_memory", memory_id=high)
    await good(client, "get_memory", memory_id=low)
    for _ in range(2):
        await good(client, "search_memory", query="tea")
    stats = await good(client, "cache_stats")
    assert (stats["hits"], stats["misses"], stats["hit_rate"]) == (5, 1, "83.3%")
    assert (stats["size"], stats["l1_size"], stats["l2_size"], stats["max_size"]) == (2, 1, 1, 10_000)
    assert stats["top_accessed"] == [{"id": high, "accesses": 3}, {"id": low, "accesses": 1}]
    assert stats["avg_response_time"] > 0
    assert stats["memory_usage"] > 1000
    pool = stats["connection_pool"]
    assert pool["active"] == 1
    assert pool["idle"] >= 0
    assert pool["waiting"] == 0


async def test_optimizing_the_cache_writes_nothing_and_is_done_after_the_first_time(
    client: Client[Any], tmp_path: Path
) -> None:
    for i in range(5):
        await added(client, f"note {i}", priority=["low", "high"][i % 2])
    await good(client, "delete_memory", memory_id=await added(client, "another"))
    before = (tmp_path / "memories.db-wal").read_bytes()
    (first, again) = [await good(client, "optimize_cache") for _ in range(2)]
    assert (first["cached"], again["cached"]) == (5, 5)
    moved = [again[key] for key in ("promoted", "demoted", "expired", "evicted", "memory_freed")]
    assert moved == [0] * 5
    assert (tmp_path / "memories.db-wal").read_bytes() == before
    assert len(await texts(client)) == 5


# Rate limits


async def test_by_default_this_machines_own_client_is_not_limited(client: Client[Any]) -> None:
    for _ in range(60):
        assert await failed(client, "delete_memory", memory_id="mem_none") == "MEMORY_NOT_FOUND"


OVER_HTTP = "from r3_lite.app import mcp; mcp.run(transport='http', host='127.0.0.1', port={}, show_banner=False)"


async def test_by_default_clients_over_http_are_limited(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", OVER_HTTP.format(port)], env=environment(tmp_path), stderr=subprocess.DEVNULL
    )
    try:
        with anyio.fail_after(PATIENCE):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await anyio.sleep(0.05)
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                codes = [await failed(client, "delete_memory", memory_id="mem_none") for _ in range(51)]
                assert (await good(client, "cache_stats"))["hits"] == 0
    finally:
        server.kill()
        server.wait(PATIENCE)
    assert codes == ["MEMORY_NOT_FOUND"] * 50 + ["RATE_LIMIT_EXCEEDED"]


async def test_a_limit_that_is_reached_is_an_error_with_the_time_to_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_environment(monkeypatch, tmp_path, R3_RATE_LIMITS="add=2")
    async with Client(mcp) as client:
        for i in range(2):
            await added(client, f"note {i}")
        assert await failed(client, "add_memory", content="note 2") == "RATE_LIMIT_EXCEEDED"
        refused = data_of(await call(client, "add_memory", content="note 2", user_id=None))
        assert refused["details"]["limit"] == 2
        assert 0 < refused["details"]["retry_after"] <= 60
        assert await failed(client, "add_memory", content="note 2", user_id="default") == "RATE_LIMIT_EXCEEDED"
        await added(client, "hers", user_id="ada")
        assert len(await texts(client)) == 2


async def test_an_empty_answer_forgets_other_users_when_they_are_gone(client: Client[Any]) -> None:
    await added(client, "hers", user_id="ada")
    assert "1 other user" in text_of(await call(client, "search_memory", query="tea"))
    await good(client, "delete_all_memories", user_id="ada", confirm=True)
    assert "other user" not in text_of(await call(client, "search_memory", query="tea"))


async def test_searching_and_reading_write_nothing(client: Client[Any], tmp_path: Path) -> None:
    memory_id = await added(client, "Ada drinks tea")

    def contents() -> list[bytes]:
        return [(tmp_path / name).read_bytes() for name in ("memories.db", "memories.db-wal")]

    before = contents()
    for i in range(20):
        await good(client, "search_memory", query=f"tea {i}", prefer_cache=False)
        await good(client, "get_memory", memory_id=memory_id)
        await good(client, "get_all_memories")
        await good(client, "sync_status")
    assert contents() == before


# Big answers


async def whole(client: Client[Any], tool: str, **arguments: Any) -> tuple[dict[str, Any], int]:
    """The structured part of an answer, and the characters of both parts together."""
    result = await call(client, tool, **arguments)
    return data_of(result), len(text_of(result)) + len(json.dumps(data_of(result), ensure_ascii=False))


async def test_a_list_of_500_long_memories_stays_under_the_ceiling_and_pages_on(
    client: Client[Any], tmp_path: Path
) -> None:
    await imported(client, tmp_path, [{"memory": f"memory {i} " + "word " * 400} for i in range(500)])
    seen: set[str] = set()
    while len(seen) < 100:
        data, size = await whole(client, "get_all_memories", limit=500, offset=len(seen))
        assert size <= 40_000
        assert data["truncated"]
        assert data["hasMore"]
        assert data["returned"] == len(data["memories"]) > 10
        assert f"offset {len(seen) + data['returned']}" in data["message"]
        assert all(memory["metadata"] == {"_truncated": True} for memory in data["memories"])
        seen |= {memory["id"] for memory in data["memories"]}


async def test_a_hundred_hits_stay_under_the_ceiling(client: Client[Any], tmp_path: Path) -> None:
    await imported(client, tmp_path, [{"memory": f"memory {i} " + "word " * 400} for i in range(120)])
    data, size = await whole(client, "search_memory", query="memory word", limit=100)
    assert size <= 40_000
    assert data["truncated"]
    assert "left out" in data["message"]
    assert "get_memory" in data["message"]


async def test_huge_metadata_is_shortened_in_lists_and_whole_by_id(client: Client[Any]) -> None:
    metadata = {"topic": "tea", "n": 1, "blob": "x" * 60_000, "k" * 3000: 1, "deep": {"a": ["y" * 300]}}
    ids = [await added(client, f"memory {i}", metadata=metadata) for i in range(30)]
    for tool, arguments in (("get_all_memories", {}), ("search_memory", {"query": "memory", "limit": 50})):
        data, size = await whole(client, tool, **arguments)
        assert size <= 40_000
        listed = data.get("memories") or data["results"]
        assert len(listed) > 10
        assert listed[0]["metadata"] == {"topic": "tea", "n": 1, "_truncated": True}
    assert (await good(client, "get_memory", memory_id=ids[0]))["metadata"] == metadata


async def test_a_long_memory_is_whole_by_id_only(client: Client[Any]) -> None:
    content = "".join(f"line {i} \u0000\n" for i in range(10_000))
    memory_id = await added(client, content)
    result = await call(client, "get_memory", memory_id=memory_id)
    assert data_of(result)["content"] == content
    assert content in text_of(result)
    for tool, arguments in (
        ("get_all_memories", {}),
        ("search_memory", {"query": "line 5"}),
        ("update_memory", {"memory_id": memory_id, "metadata": {"a": 1}}),
        ("get_memory_history", {"memory_id": memory_id}),
    ):
        data, size = await whole(client, tool, **arguments)
        assert size <= 44_000
        assert "get_memory" in data["message"] or tool in {"get_memory_history", "get_all_memories"}


async def test_what_has_room_is_not_shortened(client: Client[Any]) -> None:
    content = "one long text among short ones " * 100
    memory_id = await added(client, content)
    for i in range(20):
        await added(client, f"short text {i}")
    data = await good(client, "get_all_memories")
    assert not data["truncated"]
    assert next(m["content"] for m in data["memories"] if m["id"] == memory_id) == content


async def test_a_long_history_stays_under_the_ceiling(client: Client[Any]) -> None:
    memory_id = await added(client, "version 0", metadata={"blob": "x" * 50_000})
    for i in range(1, 60):
        await good(client, "update_memory", memory_id=memory_id, content=f"version {i} " + "word " * 400)
    data, size = await whole(client, "get_memory_history", memory_id=memory_id, limit=500)
    assert size <= 40_000
    assert data["history"][-1]["content"].startswith("version 59 ")
    assert "left out" in data["message"]


# Size limits


async def test_a_text_of_a_megabyte_is_kept_and_a_longer_one_refused(client: Client[Any]) -> None:
    content = "0123456789abcde " * (MAX_CONTENT // 16)
    memory_id = await added(client, content)
    assert (await good(client, "get_memory", memory_id=memory_id))["content"] == content
    assert await failed(client, "update_memory", memory_id=memory_id, content=content + "x") == "INVALID_PARAMETERS"
    assert await failed(client, "add_memory", content=content * 10) == "INVALID_PARAMETERS"


# Wrong calls


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("search_memory", {}, "query is missing"),
        ("search_memory", {"query": "a", "CANARY": 1}, "metadata_filter"),
        ("search_memory", {"query": "a", "limit": "CANARY"}, "limit"),
        ("search_memory", {"query": ["CANARY"]}, "query"),
        ("add_memory", {"content": "a", "metadata": "CANARY"}, '{"topic": "work"}'),
        ("add_memory", {"messages": "CANARY"}, '[{"role": "user"'),
        ("add_memory", {"messages": [{"role": "CANARY", "content": "x"}]}, "'user', 'assistant' or 'system'"),
        ("add_memory", {"content": "a", "priority": "CANARY"}, "'critical', 'high', 'medium' or 'low'"),
        ("update_memory", {"content": "a"}, "memory_id is missing"),
        ("delete_memory", {"memory_id": "CANARY"}, "mem_"),
        ("import_memories", {"source": "CANARY"}, "'json_file' or 'mem0_api'"),
        ("import_memories", {"source": "json_file"}, "file_path is missing"),
        ("import_memories", {"source": "json_file", "file_path": "/CANARY.json"}, "file_path"),
        ("import_memories", {"source": "json_file", "file_path": "https://CANARY/x"}, "local file"),
        ("import_memories", {"source": "json_file", "file_path": "x", "batch_size": 9}, "batch_size"),
        ("get_memory_history", {"memory_id": "CANARY", "limit": "5", "user_id": "x"}, "mem_"),
        ("get_memory_history", {"memory_id": "CANARY", "limit": True}, "a whole number such as 10"),
        ("search_memory", {"query": "a", "limit": 2.5}, "a whole number such as 10"),
        ("search_memory", {"query": "a", "threshold": True}, "a number such as 0.5"),
        ("search_memory", {"query": "a", "metadata_filter": {"$or": [{"CANARY": 1}]}}, "no $or"),
        ("search_memory", {"query": "\u200b\0"}, "query is empty"),
    ],
)
async def test_a_wrong_call_is_told_what_to_do_and_never_what_it_sent(
    tool: str, arguments: dict[str, Any], word: str, client: Client[Any]
) -> None:
    await failed(client, tool, **arguments)
    result = await call(client, tool, **arguments)
    assert word in text_of(result)
    assert "CANARY" not in text_of(result) + json.dumps(data_of(result))


async def test_a_fault_that_nobody_foresaw_is_an_error_without_its_text(
    client: Client[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("CANARY")

    monkeypatch.setattr("r3_lite.engine.Engine.get", fail)
    assert await failed(client, "get_memory", memory_id="mem_x") == "STORAGE_ERROR"
    result = await call(client, "get_memory", memory_id="mem_x")
    assert "CANARY" not in text_of(result)
    assert "CANARY" not in caplog.text


# Numbers


async def test_a_fresh_store_reports_finite_numbers(client: Client[Any]) -> None:
    for tool in ("health_check", "sync_status", "get_all_memories"):
        text = json.dumps(await good(client, tool), allow_nan=False)
        assert '"hit_rate": "nan' not in text


# Importing


async def test_an_import_counts_every_item_and_a_second_run_changes_nothing(
    client: Client[Any], tmp_path: Path
) -> None:
    items: list[Any] = [{"id": f"old-{i}", "memory": f"fact {i}", "created_at": "2024-05-01"} for i in range(100)]
    items[56] = {"id": "old-56", "content": 123}
    items[57] = {"memory": " "}
    path = tmp_path / "import.json"
    path.write_text(json.dumps({"results": items}))
    for imported_now, known in ((98, 0), (0, 98)):
        data = await good(client, "import_memories", source="json_file", file_path=str(path))
        assert (data["total"], data["imported"], data["duplicates"]) == (100, imported_now, known)
        assert (data["empty"], data["skipped"], data["failed"]) == (1, 0, 1)
        assert [problem["index"] for problem in data["errors"]] == [56]
    memory = await good(client, "get_memory", memory_id="old-7")
    assert (memory["content"], memory["created_at"]) == ("fact 7", "2024-05-01T00:00:00.000000Z")
    assert memory["priority"] == "high"


async def test_items_that_cannot_be_kept_are_reported_and_the_others_imported(
    client: Client[Any], tmp_path: Path
) -> None:
    path = tmp_path / "import.json"
    good_ones = '"first", {"text": "second", "metadata": {"n": 1e400}}, "third"'
    path.write_text(
        f'[{good_ones}, "x\\ud83d", {{"memory": "deep", "metadata": {{"a": {"[" * 30 + "]" * 30}}}}}, 7,'
        f' {{"memory": "{"x" * (MAX_CONTENT + 1)}"}}, {{"memory": "y", "metadata": {{"a": "\\ude00"}}}}]'
    )
    data = await good(client, "import_memories", source="json_file", file_path=str(path))
    assert (data["imported"], data["failed"]) == (2, 6)
    assert [problem["index"] for problem in data["errors"]] == [1, 3, 4, 5, 6, 7]
    assert await texts(client) == ["third", "first"]


@pytest.mark.parametrize("text", ["[", "7", '{"other": []}', "[" * 100_000 + "]" * 100_000, "not json\nat all"])
async def test_a_file_that_holds_no_memories_is_an_import_error(text: str, client: Client[Any], tmp_path: Path) -> None:
    path = tmp_path / "import.json"
    path.write_text(text)
    assert await failed(client, "import_memories", source="json_file", file_path=str(path)) == "IMPORT_ERROR"
    assert await texts(client) == []


async def test_nothing_but_regular_files_in_the_allowed_folders_is_read(client: Client[Any], tmp_path: Path) -> None:
    secret = tmp_path / "real.json"
    secret.write_text('["CANARY"]')
    (tmp_path / "link.json").symlink_to(secret)
    for path in (
        "/etc/passwd",
        f"{tmp_path}/../../../../etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        str(tmp_path),
        str(tmp_path / "link.json"),
        "\\\\host\\share\\x.json",
        "file:///etc/passwd",
        "http://127.0.0.1:9/x.json",
        "\u0000",
    ):
        assert await failed(client, "import_memories", source="json_file", file_path=path) in (
            "INVALID_PARAMETERS",
            "IMPORT_ERROR",
        )
    assert await texts(client) == []


async def test_progress_is_told_to_the_caller_who_asked(client: Client[Any], tmp_path: Path) -> None:
    path = tmp_path / "import.json"
    path.write_text(json.dumps([f"fact number {i}" for i in range(95)]))
    told: list[tuple[float, float | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    await client.call_tool(
        "import_memories",
        {"source": "json_file", "file_path": str(path), "batch_size": 20},
        progress_handler=listen,
    )
    assert told == [(20, 95), (40, 95), (60, 95), (80, 95), (95, 95)]


async def test_the_graph_file_of_another_memory_server_is_read(client: Client[Any], tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    lines = [
        {"type": "entity", "name": "Ann_Lee", "entityType": "person", "observations": ["Works at Acme", "tea"]},
        {"type": "relation", "from": "Ann_Lee", "to": "Bob", "relationType": "knows"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    for imported_now in (3, 0):
        data = await good(client, "import_memories", source="json_file", file_path=str(path))
        assert (data["total"], data["imported"]) == (3, imported_now)
    assert sorted(await texts(client)) == ["Ann Lee knows Bob", "Ann Lee works at Acme", "Ann Lee: tea"]


async def test_what_mem0_remembers_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = Mem0()
    try:
        server.behave = pages(130)
        use_environment(monkeypatch, tmp_path, MEM0_BASE_URL=server.url, MEM0_API_KEY="m0-configured")
        async with Client(mcp) as client:
            assert (await good(client, "health_check"))["mem0"] is True
            for imported_now, more in ((130, {}), (0, {"api_key": "m0-given"})):
                data = await good(client, "import_memories", source="mem0_api", user_id="alex", **more)
                assert (data["total"], data["imported"]) == (130, imported_now)
            assert (await good(client, "get_memory", memory_id="id-7", user_id="alex"))["content"] == "fact 7"
        keys = [request.headers["Authorization"] for request in server.requests]
        assert keys == ["Token m0-configured"] * 2 + ["Token m0-given"] * 2
        assert {request.user for request in server.requests} == {"alex"}
        assert not any(b"m0-" in file.read_bytes() for file in tmp_path.iterdir())
    finally:
        server.close()


async def test_what_goes_wrong_at_mem0_is_told_and_imports_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Mem0()
    try:
        server.behave = lambda request: Answer({"detail": "CANARY"}, status=401)
        use_environment(monkeypatch, tmp_path, MEM0_BASE_URL=server.url)
        async with Client(mcp) as client:
            arguments = {"source": "mem0_api", "api_key": "m0-CANARY"}
            assert await failed(client, "import_memories", **arguments) == "MEM0_API_ERROR"
            assert "CANARY" not in text_of(await call(client, "import_memories", **arguments)) + caplog.text
            assert await texts(client) == []
    finally:
        server.close()


async def test_mem0_without_a_key_is_told_what_to_set(client: Client[Any]) -> None:
    assert "MEM0_API_KEY" in text_of(await call(client, "import_memories", source="mem0_api"))
    assert (await good(client, "health_check"))["mem0"] is False


async def test_items_of_other_users_are_said_to_be_this_users_now(client: Client[Any], tmp_path: Path) -> None:
    path = tmp_path / "import.json"
    path.write_text('[{"memory": "one", "user_id": "bob"}, "two"]')
    data = await good(client, "import_memories", source="json_file", file_path=str(path))
    assert data["message"] == (
        "Import of 2 items: 2 imported. 1 items named another user; all went to the user of this import."
    )


async def test_settings_are_read_when_a_server_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        use_environment(monkeypatch, tmp_path, R3_DB_PATH=str(tmp_path / name))
        async with Client(mcp) as client:
            assert await texts(client) == []
            await added(client, "only here")


async def test_a_demo_keeps_everything_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_environment(monkeypatch, tmp_path, DEMO_MODE="1")
    async with Client(mcp) as client:
        await added(client, "gone soon")
        lines = text_of(await call(client, "add_memory", content="gone too")).split("\n")
        assert lines[0] == "Saved"
        assert "gone when the server ends" in lines[1]
        assert await found(client, "soon") != []
        assert "in memory" in text_of(await call(client, "health_check"))
    assert list(tmp_path.iterdir()) == []
