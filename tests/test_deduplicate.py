"""The tool `deduplicate_memories` over MCP, and the command `r3-lite dedupe`."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_helpers import added, call, data_of, failed, good, text_of, use_environment

from r3_lite import cli
from r3_lite.app import mcp

pytestmark = pytest.mark.anyio

KEY = "The key is under the mat"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Client[Any]]:
    use_environment(monkeypatch, tmp_path)
    async with Client(mcp) as connected:
        yield connected


async def twice(client: Client[Any]) -> tuple[str, str]:
    return await added(client, KEY), await added(client, f"By the way, {KEY}", skip_duplicate_check=True)


async def test_it_previews_unless_told_otherwise(client: Client[Any]) -> None:
    first, second = await twice(client)
    result = await call(client, "deduplicate_memories")
    data = data_of(result)
    assert (data["dry_run"], data["duplicates_found"], data["deleted"]) == (True, 1, 0)
    (group,) = data["groups"]
    assert group["primary"] == {"id": first, "memory": KEY}
    assert [other["id"] for other in group["duplicates"]] == [second]
    assert second in text_of(result)
    assert (await good(client, "get_all_memories"))["total"] == 2


async def test_the_live_run_removes_what_the_preview_showed(client: Client[Any]) -> None:
    first, second = await twice(client)
    preview = await good(client, "deduplicate_memories")
    late = await added(client, KEY, skip_duplicate_check=True)
    live = await good(client, "deduplicate_memories", dry_run=False)
    assert live["groups"] == preview["groups"]
    assert live["deleted"] == 1
    kept = {memory["id"] for memory in (await good(client, "get_all_memories"))["memories"]}
    assert kept == {first, late}
    assert await failed(client, "get_memory", memory_id=second) == "MEMORY_NOT_FOUND"
    versions = (await good(client, "get_memory_history", memory_id=second))["history"]
    assert [version["action"] for version in versions] == ["created", "merged"]


async def test_a_live_run_without_a_preview_merges_too(client: Client[Any]) -> None:
    for _ in range(3):
        await added(client, KEY, skip_duplicate_check=True)
    live = await good(client, "deduplicate_memories", dry_run="false")
    assert (live["dry_run"], live["deleted"]) == (False, 2)
    assert (await good(client, "get_all_memories"))["total"] == 1


@pytest.mark.parametrize("dry_run", ["maybe", "", 2, [], {}])
async def test_an_unclear_dry_run_deletes_nothing(client: Client[Any], dry_run: object) -> None:
    await twice(client)
    assert await failed(client, "deduplicate_memories", dry_run=dry_run) == "INVALID_PARAMETERS"
    assert (await good(client, "get_all_memories"))["total"] == 2


@pytest.mark.parametrize("threshold", [0.49, 1.01, "high", -1])
async def test_thresholds_outside_the_range_are_errors(client: Client[Any], threshold: object) -> None:
    assert await failed(client, "deduplicate_memories", similarity_threshold=threshold) == "INVALID_PARAMETERS"


SURVIVORS = [
    ("The database listens on port 5432", "The database listens on port 5433"),
    ("The service must run as root", "The service must NOT run as root"),
    ("A manages B", "B manages A"),
    ("Meeting on 03-04", "Meeting on 03-05"),
    ("Upgrade to 1.2.3", "Upgrade to 1.3.2"),
    ("我住在北京", "我住在南京"),
    ("Ana lives in Oslo", "Ana lives in Oslo and works in Rome"),
]


@pytest.mark.parametrize("threshold", [0.5, 0.85, 1.0])
async def test_memories_that_differ_in_a_fact_both_survive(client: Client[Any], threshold: float) -> None:
    for pair in SURVIVORS:
        for text in pair:
            await added(client, text)
    live = await good(client, "deduplicate_memories", dry_run=False, similarity_threshold=threshold)
    assert (live["groups"], live["deleted"]) == ([], 0)
    assert (await good(client, "get_all_memories"))["total"] == 2 * len(SURVIVORS)
    if threshold == 0.5:
        assert len(live["look_alikes"]) >= 6


async def test_other_users_memories_are_not_touched(client: Client[Any]) -> None:
    for user in ("ana", "bo"):
        for _ in range(2):
            await added(client, KEY, user_id=user, skip_duplicate_check=True)
    assert (await good(client, "deduplicate_memories", user_id="ana", dry_run=False))["deleted"] == 1
    assert (await good(client, "get_all_memories", user_id="bo"))["total"] == 2


@pytest.fixture
def database_path(tmp_path: Path) -> Iterator[Path]:
    before = dict(os.environ)
    yield tmp_path / "memories.db"
    os.environ.clear()
    os.environ.update(before)


def run(path: Path, *argv: str) -> int:
    return cli.run([argv[0], "--db", str(path), "--basic", *argv[1:]])


def test_the_command_shows_first_and_merges_when_told(
    database_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(database_path, "add", KEY)
    run(database_path, "add", "The old key is under the mat again")
    (tmp_path / "more.json").write_text(json.dumps([{"memory": f"Note: {KEY}"}]))
    capsys.readouterr()
    assert run(database_path, "dedupe", "--threshold", "0.7") == 0
    shown = capsys.readouterr().out
    assert "No duplicates found." in shown
    assert "Look alike; they stay" in shown
    assert run(database_path, "dedupe", "--apply", "--json") == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == 0


def test_the_command_names_what_stays_and_what_goes(database_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from r3_lite.db import Database
    from r3_lite.store import NewMemory, insert

    database = Database(database_path)
    with database.write() as connection:
        for text in (KEY, f"Note: {KEY}"):
            insert(connection, NewMemory("default", text), check_duplicates=False)
    database.close()
    assert run(database_path, "dedupe") == 0
    shown = capsys.readouterr().out
    assert "Repeat with --apply" in shown
    assert shown.index("stays") < shown.index("goes")
    assert run(database_path, "dedupe", "--apply") == 0
    assert "Merged 1 duplicates in 1 groups" in capsys.readouterr().out
    assert run(database_path, "dedupe", "--json") == 0
    assert json.loads(capsys.readouterr().out)["groups"] == []


@pytest.mark.parametrize("threshold", ["0.4", "1.1", "x"])
def test_the_command_refuses_other_thresholds(
    database_path: Path, threshold: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(database_path, "dedupe", "--threshold", threshold)
    assert ended.value.code == 2
    assert "--threshold" in capsys.readouterr().err
