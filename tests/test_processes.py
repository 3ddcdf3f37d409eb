"""Several processes on one file, and processes that are killed."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
from mcp_helpers import PATIENCE, Server, environment, eventually, servers

from benchmarks import coherence

# A process with an engine and without a client: it starts sooner than a server.
WORKER = """
import json, os, sys
from r3_lite.engine import Engine
from r3_lite.settings import load_settings
engine = Engine(load_settings())
print("ready", flush=True)
for line in sys.stdin:
    method, arguments = json.loads(line)
    if method == "add":
        answer = engine.add(None, **arguments).added.id
    elif method == "import":
        answer = engine.import_file(None, **arguments).imported
    print(json.dumps(answer), flush=True)
os._exit(0)
"""


class Worker:
    """An engine in a process of its own."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Worker":
        assert self._line() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()

    def start(self, method: str, **arguments: Any) -> None:
        """Send a call without waiting."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps([method, arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return the answer to the oldest call that has none yet."""
        return json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def four(folder: Path) -> Iterator[list[Server]]:
    """Four servers, started at the same moment on a file that does not exist yet."""
    with servers(4, environment(folder)) as started:
        yield started


def schema(path: Path) -> list[Any]:
    connection = apsw.Connection(str(path))
    rows: list[Any] = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    rows.append(connection.execute("PRAGMA integrity_check").get)
    connection.close()
    return rows


def answers(server: Server, numbers: list[int]) -> list[dict[str, Any]]:
    """The structured answers to calls that must all have succeeded."""
    given = [server.answer(number) for number in numbers]
    assert [answer.text for answer in given if answer.is_error] == []
    return [answer.data for answer in given]


def test_four_servers_store_a_hundred_memories_that_all_can_read(four: list[Server]) -> None:
    started = [
        [server.start_call("add_memory", content=f"note {i} of server {n}", user_id="hundred") for i in range(25)]
        for n, server in enumerate(four)
    ]
    by_server = [
        [data["memory_id"] for data in answers(server, numbers)] for server, numbers in zip(four, started, strict=True)
    ]
    assert len({memory_id for ids in by_server for memory_id in ids}) == 100
    for server, own in zip(four, by_server, strict=True):
        listed = server.call("get_all_memories", user_id="hundred", limit=500).data
        assert {memory["id"] for memory in listed["memories"]} == {i for ids in by_server for i in ids}
        others = [ids[0] for ids in by_server if ids is not own]
        answers(server, [server.start_call("get_memory", memory_id=i, user_id="hundred") for i in others])


def test_the_same_text_from_all_sides_at_once_is_one_memory(four: list[Server]) -> None:
    started = [
        (server, server.start_call("add_memory", content="one and the same", user_id="same")) for server in four * 5
    ]
    ids = {data["memory_id"] for server, number in started for data in answers(server, [number])}
    assert len(ids) == 1
    assert four[0].call("get_all_memories", user_id="same").data["total"] == 1


def test_updates_of_one_memory_by_four_servers_are_merged(four: list[Server]) -> None:
    memory_id = four[0].saved("the shared one", user_id="shared")
    started = [
        (
            server,
            [
                server.start_call("update_memory", memory_id=memory_id, metadata={f"k{n}.{i}": i}, user_id="shared")
                for i in range(10)
            ],
        )
        for n, server in enumerate(four)
    ]
    for server, numbers in started:
        answers(server, numbers)
    memory = four[1].call("get_memory", memory_id=memory_id, user_id="shared").data
    assert memory["metadata"] == {f"k{n}.{i}": i for n in range(4) for i in range(10)}
    history = four[2].call("get_memory_history", memory_id=memory_id, user_id="shared", limit=500).data["history"]
    assert [entry["version"] for entry in history] == list(range(1, 42))


def test_what_one_server_writes_the_other_finds_and_misses_at_once(four: list[Server]) -> None:
    one, other = four[:2]
    for i in range(25):
        word = f"codeword{i}"
        assert other.call("search_memory", query=word, user_id="twin").data["results"] == []
        memory_id = one.saved(f"{word} was said", user_id="twin")
        found = other.call("search_memory", query=word, user_id="twin").data
        assert [hit["id"] for hit in found["results"]] == [memory_id]
        if i % 2:
            one.call("update_memory", memory_id=memory_id, content="something else", user_id="twin")
        else:
            one.call("delete_memory", memory_id=memory_id, user_id="twin")
        assert other.call("search_memory", query=word, user_id="twin").data["results"] == []


def test_no_server_tells_what_another_has_changed_and_nothing_is_lost() -> None:
    figures = coherence.run(2, 100, "basic")
    assert (figures["faults"], figures["lost"], figures["wrong statistics"]) == ({}, 0, [])
    done = figures["operations"]
    assert done["list from cache"] + done["search from cache"] > 10
    assert max(figures["hit rates"]["records"]) > 0.2


def test_what_is_read_by_id_is_as_the_other_server_left_it(four: list[Server]) -> None:
    one, other = four[:2]
    memory_id = one.saved("version 0", user_id="pair")
    for i in range(1, 25):
        assert other.call("get_memory", memory_id=memory_id, user_id="pair").data["content"] == f"version {i - 1}"
        one.call("update_memory", memory_id=memory_id, content=f"version {i}", user_id="pair")
    one.call("delete_memory", memory_id=memory_id, user_id="pair")
    assert other.call("get_memory", memory_id=memory_id, user_id="pair").data["code"] == "MEMORY_NOT_FOUND"


def test_reads_beside_writes_of_the_same_rows_never_meet_a_lock(four: list[Server]) -> None:
    memory_id = four[0].saved("contended", user_id="lock")
    writes = [
        (server, [server.start_call("update_memory", memory_id=memory_id, metadata={"n": i}, user_id="lock")])
        for i in range(40)
        for server in four[:2]
    ]
    copies = [
        (server, [server.start_call("add_memory", content=f"contended {i}", user_id="lock")])
        for i in range(20)
        for server in four[2:]
    ]
    reads = [
        (s, [s.start_call("search_memory", query=f"contended {i}", user_id="lock")]) for i in range(20) for s in four
    ]
    for server, numbers in [*writes, *copies, *reads]:
        answers(server, numbers)


def test_a_server_that_starts_beside_a_held_lock_reads_at_once_and_writes_when_it_is_free(
    four: list[Server], folder: Path
) -> None:
    memory_id = four[0].saved("Ada drinks tea", user_id="late")
    other = apsw.Connection(str(folder / "memories.db"))
    other.execute("BEGIN IMMEDIATE")
    with Server(environment(folder, R3_BUSY_TIMEOUT="0.3")) as late:
        assert late.call("search_memory", query="tea", user_id="late").data["results"][0]["id"] == memory_id
        assert late.call("get_memory", memory_id=memory_id, user_id="late").data["id"] == memory_id
        assert late.call("get_all_memories", user_id="late").data["total"] == 1
        assert late.call("health_check").data["status"] == "degraded"
        refused = late.call("add_memory", content="Ada drinks coffee", user_id="late")
        assert refused.data["code"] == "STORAGE_BUSY"
        assert "locked" in refused.text
        other.execute("ROLLBACK")
        late.saved("Ada drinks coffee", user_id="late")
    other.close()


def test_the_file_of_four_first_servers_is_like_that_of_one(four: list[Server], folder: Path, tmp_path: Path) -> None:
    with Worker(environment(tmp_path)) as alone:
        alone.start("add", content="alone")
        alone.answer()
    assert schema(folder / "memories.db") == schema(tmp_path / "memories.db")
    assert all(server.call("health_check").data["status"] == "ok" for server in four)


@pytest.mark.parametrize("attempt", range(3))
def test_eight_processes_that_open_a_missing_file_at_once_all_store_one_memory(attempt: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        waiting = [Worker(environment(tmp_path, R3_BUSY_TIMEOUT="30")) for _ in range(8)]
        workers = [stack.enter_context(worker) for worker in waiting]
        for worker in workers:
            worker.start("add", content="said by all")
        assert len({worker.answer() for worker in workers}) == 1
        for n, worker in enumerate(workers):
            worker.start("add", content=f"said by {n}")
        assert len({worker.answer() for worker in workers}) == 8
    connection = apsw.Connection(str(tmp_path / "memories.db"))
    assert connection.execute("SELECT count(*) FROM memories").get == 9
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()


# Killed


def test_whatever_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    kept: list[str] = []
    for life in range(2):
        with Server(environment(tmp_path, R3_INTELLIGENCE="full")) as server:
            for memory_id in kept:
                assert not server.call("get_memory", memory_id=memory_id).is_error
            numbers = [server.start_call("add_memory", content=f"note {i} of life {life}") for i in range(20)]
            kept += [server.answer(number).data["memory_id"] for number in numbers[:10]]
            server.kill()
    with Server(environment(tmp_path, R3_INTELLIGENCE="full")) as server:
        listed = server.call("get_all_memories", limit=500).data
        assert set(kept) <= {memory["id"] for memory in listed["memories"]}
        eventually(lambda: server.call("sync_status").text == "All operations complete")
        assert server.call("health_check").data["index"]["without_vector"] == 0


def test_what_a_killed_process_had_not_examined_reaches_the_graph_at_the_next_start(tmp_path: Path) -> None:
    with Server(environment(tmp_path, R3_INTELLIGENCE="full")) as server:
        numbers = [server.start_call("add_memory", content=f"Ana uses Docker on day {i}.") for i in range(20)]
        kept = len([server.answer(number) for number in numbers[:10]])
        server.kill()
    with Server(environment(tmp_path, R3_INTELLIGENCE="full")) as server:
        server.call("search_memory", query="Docker")
        eventually(lambda: server.call("sync_status").text == "All operations complete")
        (edge,) = server.call("get_knowledge_graph").data["edges"]
        assert (edge["from"], edge["type"], edge["to"]) == ("people:Ana", "USES", "technologies:Docker")
        assert edge["weight"] == server.call("get_all_memories").data["total"] >= kept


def test_an_import_that_is_killed_is_completed_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "import.json"
    path.write_text(json.dumps([{"memory": f"fact number {i}"} for i in range(3000)]))
    database = tmp_path / "memories.db"
    chance = random.Random(7)
    for _ in range(3):
        with Worker(environment(tmp_path)) as worker:
            worker.start("import", path=str(path), batch_size=50)
            imported_at_least(database, chance.randrange(50, 2500))
            worker.process.kill()
        assert count(database) % 50 == 0
    with Worker(environment(tmp_path)) as worker:
        before = count(database)
        worker.start("import", path=str(path))
        assert worker.answer() == 3000 - before
    assert count(database) == 3000


def imported_at_least(database: Path, wanted: int) -> None:
    """Wait until the file holds so many memories."""
    eventually(lambda: count(database) >= wanted)


def count(database: Path) -> int:
    """How many memories the file holds; none while it is being made."""
    if not database.exists():
        return 0
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(5000)
    try:
        return int(connection.execute("SELECT count(*) FROM memories").get)
    except apsw.SQLError:
        return 0
    finally:
        connection.close()


def test_two_servers_with_the_model_find_each_others_memories_by_meaning(tmp_path: Path) -> None:
    with servers(2, environment(tmp_path, R3_INTELLIGENCE="full")) as (one, other):
        cat = one.saved("Ada adopted a little cat")
        report = other.saved("The report is due on Friday")

        def first_hit(server: Server, query: str) -> str | None:
            answer = server.call("search_memory", query=query).data
            return answer["results"][0]["id"] if answer["mode"] == "hybrid" and answer["results"] else None

        eventually(lambda: first_hit(other, "Which pet does she have?") == cat)
        eventually(lambda: first_hit(one, "When must the paper be handed in?") == report)
