"""The real process, `python -m r3_lite`, on its standard streams."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_helpers import MODES, OBEY_PERMISSIONS, Server, environment, eventually, found, good
from mem0_server import Answer, Mem0, pages

import r3_lite
from r3_lite.limits import MAX_CONTENT
from r3_lite.serving import SLOW, WRITERS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stdio")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """One server for all tests that need no special one; each test uses a user of its own."""
    env = environment(folder, R3_DEBUG="1", R3_BUSY_TIMEOUT="1")
    with Server(env, stderr=folder / "stderr") as server:
        yield server


@pytest.fixture
def silent_host() -> Iterator[tuple[str, list[object]]]:
    """A host that takes connections and never answers: its address, and who came."""
    came: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    came.append(listener.accept())

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", came
        listener.shutdown(socket.SHUT_RDWR)


def raw_call(number: int, arguments: str, tool: str = "add_memory") -> bytes:
    text = (
        f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call",'
        f'"params":{{"name":"{tool}","arguments":{arguments}}}}}\n'
    )
    return text.encode()


# Start


def test_the_version_is_the_same_everywhere(server: Server) -> None:
    command = [sys.executable, "-m", "r3_lite", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert printed == version("r3-lite") == r3_lite.__version__
    assert server.initialised["serverInfo"] == {"name": "r3-lite", "version": printed}
    assert server.call("health_check").data["version"] == printed


def test_instructions_tell_the_model_what_to_use_when(server: Server) -> None:
    for word in ("search_memory", "add_memory", "update_memory", "delete_memory"):
        assert word in server.initialised["instructions"]


def test_importing_the_server_has_no_side_effects(tmp_path: Path) -> None:
    script = (
        "import threading, r3_lite.app; assert threading.active_count() == 1; assert r3_lite.app.mcp.name == 'r3-lite'"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(tmp_path), cwd=tmp_path, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_fastmcp_can_load_and_inspect_the_server_file(tmp_path: Path, server: Server) -> None:
    app = Path(r3_lite.__file__).with_name("app.py")
    done = subprocess.run(
        [sys.executable, "-m", "fastmcp.cli", "inspect", str(app), "--format", "mcp"],
        env=environment(tmp_path, FASTMCP_CHECK_FOR_UPDATES="off"),
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    inspected = json.loads(done.stdout)["tools"]
    listed = server.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in inspected] == [tool["name"] for tool in listed]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_of_either_era_can_add_and_search(mode: str, tmp_path: Path) -> None:
    transport = StdioTransport(sys.executable, ["-m", "r3_lite"], env=environment(tmp_path), keep_alive=False)
    async with Client(transport, mode=mode) as client:
        data = await good(client, "add_memory", content="Ada drinks tea")
        assert await found(client, "tea") == [data["memory_id"]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_model_and_the_network_are_not_needed_to_serve(
    tmp_path: Path, silent_host: tuple[str, list[object]]
) -> None:
    host, came = silent_host
    env = environment(
        tmp_path,
        R3_INTELLIGENCE="full",
        R3_EMBEDDING_MODEL="BAAI/bge-small-en-v1.5",
        R3_MODEL_CACHE=str(tmp_path / "models"),
        HF_ENDPOINT=host,
        HTTP_PROXY=host,
        HTTPS_PROXY=host,
        ALL_PROXY=host,
    )
    with Server(env, stderr=tmp_path / "stderr") as server:
        memory_id = server.saved("Ada drinks tea")
        found_by_keyword = server.call("search_memory", query="tea").data
        assert [hit["id"] for hit in found_by_keyword["results"]] == [memory_id]
        assert found_by_keyword["mode"] == "keyword"
        eventually(lambda: server.call("health_check").data["model"]["state"] == "unavailable")
        health = server.call("health_check")
        assert health.data["status"] == "degraded"
        assert "download" in health.text
        assert server.call("sync_status").text.startswith("1 operations pending")
    assert came == []
    assert len((tmp_path / "stderr").read_bytes()) < 500


def test_with_the_bundled_model_a_new_memory_is_found_by_its_meaning(tmp_path: Path) -> None:
    with Server(environment(tmp_path, R3_INTELLIGENCE="full", R3_DEBUG="1"), stderr=tmp_path / "stderr") as server:
        for text in ("Ada adopted a little cat", "The report is due on Friday"):
            assert server.call("add_memory", content=text, **{"async": False}).data["indexing"] == "done"
        answer = server.call("search_memory", query="Which pet does she have?").data
        assert answer["mode"] == "hybrid"
        assert answer["results"][0]["memory"] == "Ada adopted a little cat"
        assert server.call("health_check").data["status"] == "ok"


# Where nothing can be written


def test_without_a_home_folder_the_server_starts_and_names_the_path(tmp_path: Path) -> None:
    env = environment(tmp_path, HOME="/proc/nowhere")
    del env["R3_DB_PATH"]
    with Server(env) as server:
        refused = server.call("add_memory", content="Ada drinks tea")
        assert refused.is_error
        assert refused.text.startswith("STORAGE_ERROR: ")
        assert "R3_DB_PATH" in refused.text
        health = server.call("health_check").data
        assert health["status"] == "error"
        assert health["database"]["path"].startswith("/proc/nowhere/")


def test_a_read_only_file_can_be_searched_and_refuses_writes(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    env = environment(tmp_path, R3_DB_PATH=str(folder / "memories.db"))
    with Server(env) as server:
        memory_id = server.saved("Ada drinks tea")
    (folder / "memories.db").chmod(0o444)
    folder.chmod(0o555)
    with Server(env, prelude=OBEY_PERMISSIONS) as server:
        hits = server.call("search_memory", query="tea").data["results"]
        assert [hit["id"] for hit in hits] == [memory_id]
        assert server.call("get_memory", memory_id=memory_id).data["content"] == "Ada drinks tea"
        refused = server.call("add_memory", content="Ada drinks coffee")
        assert refused.is_error
        assert "R3_DB_PATH" in refused.text
        health = server.call("health_check").data
        assert not health["database"]["writable"]
        assert health["status"] == "error"
    folder.chmod(0o755)


# Standard error


def test_a_normal_session_leaves_standard_error_empty(tmp_path: Path) -> None:
    with Server(environment(tmp_path), stderr=tmp_path / "stderr") as server:
        server.saved("Ada drinks tea")
        server.call("search_memory", query="tea", limit="CANARY")
        server.call("delete_memory", memory_id="CANARY")
    assert (tmp_path / "stderr").read_bytes() == b""


@pytest.mark.parametrize(
    "prelude",
    ["import os; os.close(2)", "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 2)"],
    ids=["closed", "full"],
)
def test_the_server_works_without_a_standard_error(prelude: str, tmp_path: Path) -> None:
    with Server(environment(tmp_path, R3_DEBUG="1"), prelude=prelude) as server:
        server.saved("Ada drinks tea")
        assert server.call("search_memory", query="tea", no_such="argument").is_error
        assert server.call("search_memory", query="tea").data["total_candidates"] == 1


def test_no_value_that_was_sent_reaches_standard_error_and_no_key_the_file(server: Server, folder: Path) -> None:
    path = folder / "CANARY1.json"
    path.write_text('[{"memory": "CANARY2", "metadata": {"token": "CANARY2"}}, {"memory": 7, "x": "CANARY2"}]')
    user = "CANARY3"
    memory_id = server.saved("CANARY4", user_id=user, metadata={"CANARY5": "CANARY5"})
    for tool, arguments in (
        ("import_memories", {"source": "json_file", "file_path": str(path), "api_key": "CANARY6"}),
        ("import_memories", {"source": "json_file", "file_path": str(path), "api_key": {"key": "CANARY6"}}),
        ("import_memories", {"source": "json_file", "file_path": "/CANARY1.json", "api_key": ["CANARY6"]}),
        ("import_memories", {"source": "CANARY6", "api_key": "CANARY6"}),
        ("search_memory", {"query": "CANARY7", "limit": "CANARY7"}),
        ("search_memory", {"query": "CANARY7"}),
        ("update_memory", {"memory_id": memory_id, "content": ["CANARY8"]}),
        ("update_memory", {"memory_id": memory_id, "content": "CANARY8"}),
        ("add_memory", {"content": "x", "CANARY9": "CANARY9"}),
        ("CANARY10", {"content": "x"}),
    ):
        answer = server.call(tool, user_id=user, **arguments)
        assert not answer.is_error or "CANARY" not in json.dumps(answer.result)
    number = server.post("CANARY11", {"CANARY11": 1})
    assert server.wait(number)["error"]["code"] == -32601
    server.send(b"CANARY12 is no JSON\n")
    server.notify("notifications/cancelled", {"requestId": "CANARY13", "reason": "CANARY13"})
    server.request("ping")
    assert b"CANARY" not in (folder / "stderr").read_bytes()
    for file in folder.glob("memories.db*"):
        assert b"CANARY6" not in file.read_bytes()


def test_an_address_as_import_file_is_never_fetched(server: Server, silent_host: tuple[str, list[object]]) -> None:
    host, came = silent_host
    for path in (host, f"{host}/x.json", f"\\\\{host.removeprefix('http://')}\\x.json", "file:///etc/passwd"):
        assert server.call("import_memories", source="json_file", file_path=path).is_error
    assert came == []


# Requests that are hard to read


def test_half_a_character_is_refused_and_the_next_call_works(server: Server) -> None:
    server.send(raw_call(900_001, r'{"content": "x\ud83d", "user_id": "half"}'))
    answer = server.answer(900_001)
    assert answer.is_error
    assert "surrogate" in answer.text
    assert server.call("get_all_memories", user_id="half").data["total"] == 0
    memory_id = server.saved("x\U0001f600", user_id="half")
    assert server.call("get_memory", memory_id=memory_id, user_id="half").data["content"] == "x\U0001f600"


def test_whole_arguments_may_come_as_json_text(server: Server) -> None:
    server.send(raw_call(900_002, json.dumps('{"content": "Ada drinks tea", "user_id": "text"}')))
    assert server.answer(900_002).data["message"] == "Saved"
    server.send(raw_call(900_003, json.dumps("Ada drinks tea")))
    answer = server.answer(900_003)
    assert answer.is_error
    assert "must be a JSON object" in answer.text


@pytest.mark.parametrize(
    "arguments",
    [
        '{"content": "x", "metadata": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
        '{"content": "x", "metadata": {"a": ' + "[" * 150 + "]" * 150 + "}}",
        '{"content": "x", "metadata": {"a": ' + "9" * 5000 + "}}",
        '{"content": "x", "metadata": {"a": NaN}}',
        '{"content": "x", "metadata": {"a": 1e999}}',
        '{"content": "x", "metadata": "{\\"a\\": ' + "[" * 5000 + '"}',
        '{"content": "' + "x" * 50_000_000 + '"}',
        '{"content": "' + "x" * 10_000_000 + '"}',
        '{"content": "' + "x" * (MAX_CONTENT + 1) + '"}',
    ],
    ids=["deep", "less deep", "digits", "nan", "infinite", "deep text", "50 MB", "10 MB", "too long"],
)
def test_what_is_out_of_all_bounds_is_refused_in_bounded_memory(arguments: str, server: Server) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    server.send(raw_call(900_004, arguments))
    answer = server.answer(900_004)
    assert answer.is_error
    assert len(answer.text) < 300
    assert process.memory_info().rss < before + 200_000_000
    assert server.call("get_all_memories").data["total"] == 0


def test_a_text_of_a_megabyte_passes(server: Server) -> None:
    content = "tea " * (MAX_CONTENT // 4)
    memory_id = server.saved(content, user_id="megabyte")
    assert server.call("get_memory", memory_id=memory_id, user_id="megabyte").data["content"] == content


# Several things at once


def test_waiting_writers_keep_neither_searches_nor_the_transport_waiting(server: Server, folder: Path) -> None:
    memory_id = server.saved("Ada drinks tea", user_id="busy")
    other = apsw.Connection(str(folder / "memories.db"))
    other.execute("BEGIN IMMEDIATE")
    writes = [server.start_call("add_memory", content=f"note {i}", user_id="busy") for i in range(12)]
    server.request("ping")
    assert server.call("search_memory", query="tea", user_id="busy").data["results"][0]["id"] == memory_id
    assert server.call("get_memory", memory_id=memory_id, user_id="busy").data["id"] == memory_id
    assert "write lock" in server.call("health_check").data["next_step"]
    assert not set(server.answered) & set(writes)
    for write in writes:
        assert server.answer(write).data["code"] == "STORAGE_BUSY"
    other.execute("ROLLBACK")
    other.close()
    server.saved("note 1", user_id="busy")


def test_during_a_long_import_other_calls_are_answered(server: Server, folder: Path) -> None:
    path = folder / "long.json"
    path.write_text(json.dumps([f"fact number {i} of many" for i in range(4000)]))
    memory_id = server.saved("Ada drinks tea", user_id="patient")
    long = server.start_call("import_memories", source="json_file", file_path=str(path), user_id="importer")
    server.request("ping")
    assert server.call("search_memory", query="tea", user_id="patient").data["results"][0]["id"] == memory_id
    server.saved("Ada drinks coffee", user_id="patient")
    assert long not in server.answered
    assert server.answer(long).data["imported"] == 4000


def test_progress_is_sent_to_the_caller_who_gave_a_token_only(server: Server, folder: Path) -> None:
    path = folder / "short.json"
    path.write_text(json.dumps([f"fact number {i}" for i in range(95)]))
    arguments = {"source": "json_file", "file_path": str(path), "batch_size": 20, "skip_duplicates": False}
    server.call("import_memories", **arguments)
    assert [n for n in server.notifications if n["method"] == "notifications/progress"] == []
    params: dict[str, Any] = {"name": "import_memories", "arguments": arguments, "_meta": {"progressToken": "mine"}}
    server.request("tools/call", params)
    told = [n["params"] for n in server.notifications if n["method"] == "notifications/progress"]
    assert {note["progressToken"] for note in told} == {"mine"}
    assert [note["progress"] for note in told] == [20, 40, 60, 80, 95]
    server.call("delete_all_memories", confirm=True)


def test_a_cancelled_add_that_is_sent_again_is_stored_once(server: Server) -> None:
    for i in range(10):
        first = server.start_call("add_memory", content=f"cancelled note {i}", user_id="hasty")
        server.notify("notifications/cancelled", {"requestId": first, "reason": "timeout"})
        server.saved(f"cancelled note {i}", user_id="hasty")
    assert server.call("get_all_memories", user_id="hasty").data["total"] == 10


def test_a_cancelled_import_ends_and_leaves_a_server_that_imports_the_rest(server: Server, folder: Path) -> None:
    path = folder / "cancelled.json"
    path.write_text(json.dumps([f"cancelled fact {i}" for i in range(6000)]))
    arguments = {"source": "json_file", "file_path": str(path), "batch_size": 10, "user_id": "impatient"}
    params: dict[str, Any] = {"name": "import_memories", "arguments": arguments, "_meta": {"progressToken": "p"}}
    first = server.post("tools/call", params)
    eventually(lambda: any(n["params"].get("progressToken") == "p" for n in server.notifications))
    server.notify("notifications/cancelled", {"requestId": first})
    # Its thread is one of those for imports alone: an add is answered, and then nothing more comes in.
    server.saved("something else", user_id="other")
    counts = [server.call("get_all_memories", user_id="impatient", limit=1).data["total"] for _ in range(20)]
    assert counts[-1] == counts[-10] < 6000
    data = server.call("import_memories", **arguments).data
    assert (data["imported"], data["duplicates"]) == (6000 - counts[-1], counts[-1])


def test_imports_that_wait_for_the_network_hinder_no_other_call_and_can_be_cancelled(tmp_path: Path) -> None:
    def never_ending() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nX: "
        while True:
            time.sleep(0.05)
            yield b"a"

    mem0 = Mem0()
    mem0.behave = lambda request: Answer(pieces=never_ending())
    try:
        with Server(environment(tmp_path, MEM0_BASE_URL=mem0.url, MEM0_API_KEY="m0-key")) as server:
            stuck = [server.start_call("import_memories", source="mem0_api") for _ in range(2 * WRITERS)]
            eventually(lambda: len(mem0.requests) == SLOW)
            server.saved("Ada drinks tea")
            pool = server.call("cache_stats").data["connection_pool"]
            assert (pool["active"], pool["waiting"]) == (SLOW + 1, 2 * WRITERS - SLOW)
            for number in stuck:
                server.notify("notifications/cancelled", {"requestId": number})
            eventually(lambda: server.call("cache_stats").data["connection_pool"]["active"] == 1)
            mem0.behave = pages(3)
            assert server.call("import_memories", source="mem0_api").data["imported"] == 3
    finally:
        mem0.close()


# The end


def test_every_tool_and_every_failure_writes_messages_only(tmp_path: Path) -> None:
    with Server(environment(tmp_path, R3_DEBUG="1")) as server:
        tools = server.request("tools/list")["result"]["tools"]
        memory_id = server.saved("Ada drinks tea")
        for tool in tools:
            known = {"memory_id": memory_id, "query": "tea", "content": "Ada drinks coffee", "source": "json_file"}
            given = {name: known[name] for name in tool["inputSchema"]["properties"] if name in known}
            server.call(tool["name"], **given)
            assert server.call(tool["name"], no_such="argument").is_error
        assert server.end() == 0


def test_after_the_end_of_input_the_file_is_complete_without_its_log(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server:
        for i in range(20):
            server.start_call("add_memory", content=f"note {i}")
        server.saved("the last words")
        assert server.end() == 0
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "memories.db").read_bytes())
    with contextlib.closing(apsw.Connection(str(copy))) as connection:
        assert connection.execute("SELECT count(*) FROM memories WHERE content = 'the last words'").get == 1
        assert connection.execute("PRAGMA integrity_check").get == "ok"


def test_progress_bars_and_banners_are_off_in_debug_too(server: Server, folder: Path) -> None:
    server.request("ping")
    assert not re.search(rb"[\x1b\r]|FastMCP|https?://", (folder / "stderr").read_bytes())
