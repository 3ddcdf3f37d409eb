"""Imports: which files may be read, what becomes of every item."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import without_root_powers
from hypothesis import given
from hypothesis import strategies as st

from r3_lite import history, recover, similar, store, transfer
from r3_lite.clock import ID_PATTERN
from r3_lite.db import Database
from r3_lite.errors import ImportFailed, InvalidParameters, R3Error
from r3_lite.export import Format, export
from r3_lite.formats import records
from r3_lite.limits import MAX_METADATA
from r3_lite.store import NewMemory, Record
from r3_lite.transfer import Tally, import_items, read_file

ALICE, BOB = "alice", "bob"


def run(database: Database, items: list[Any], user_id: str = ALICE, **more: Any) -> Tally:
    settings = {"priority": "high", "skip_duplicates": True, "batch_size": 50, **more}
    tally = import_items(database, items, user_id=user_id, **settings)
    assert tally.total == len(items)
    assert tally.total == tally.imported + tally.duplicates + tally.empty + tally.skipped + tally.failed
    return tally


def stored(database: Database, user_id: str = ALICE) -> list[Record]:
    with database.read() as connection:
        return store.page(connection, user_id, 100_000, 0)[1]


# Which files


def refusal(path: str, roots: list[Path]) -> str:
    with pytest.raises(R3Error) as caught:
        read_file(path, roots)
    assert isinstance(caught.value, InvalidParameters | ImportFailed)
    return caught.value.message


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed folder beside a secret file."""
    (tmp_path / "secret.json").write_text('[{"memory": "CANARY"}]')
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "{root}/../secret.json", "{root}/../../../../../../etc/passwd", "/proc/self/environ",
        "/dev/zero", "/dev/stdin", "/", "..", "{root}/..", "{root}", "{root}/.", "~", "~/..",
    ],
)  # fmt: skip
def test_files_outside_the_roots_and_what_is_no_file_is_refused(root: Path, path: str) -> None:
    assert "regular file" in refusal(path.format(root=root), [root])


@pytest.mark.parametrize(
    "path",
    [
        "http://127.0.0.1:9/x.json", "https://example.org/x.json", "file:///etc/passwd", "ftp://x/y", "//host/share/x",
        r"\\host\share\x.json", "x\0.json",
    ],
)  # fmt: skip
def test_addresses_are_refused_unread(root: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> int:
        raise AssertionError

    monkeypatch.setattr("socket.socket.connect", never)
    monkeypatch.setattr(os, "open", never)
    assert "not an address" in refusal(path, [root])


@pytest.mark.parametrize(
    "path", ["missing.json", "no/such/folder/x.json", "file:/etc/passwd", "~nobody-here/x.json", "x" * 5000]
)
def test_a_file_that_is_not_there_is_told(root: Path, path: str) -> None:
    message = refusal(path if path.startswith("~") else f"{root}/{path}", [root])
    assert "no file" in message or "cannot be read" in message


def test_a_path_of_half_characters_is_refused(root: Path) -> None:
    refusal(f"{root}/\ud800.json", [root])


def test_links_are_not_followed(root: Path) -> None:
    (root / "link.json").symlink_to(root.parent / "secret.json")
    (root / "folder").symlink_to(root.parent)
    (root / "circle").symlink_to(root / "circle")
    assert "links are not followed" in refusal(f"{root}/link.json", [root])
    assert "regular file" in refusal(f"{root}/folder/secret.json", [root])
    refusal(f"{root}/circle/x.json", [root])


def test_a_link_to_an_allowed_folder_is_a_way_into_it(root: Path) -> None:
    (root / "good.json").write_text("[]")
    (root.parent / "shortcut").symlink_to(root)
    assert read_file(f"{root.parent}/shortcut/good.json", [root]) == []


def test_a_pipe_does_not_block(root: Path) -> None:
    os.mkfifo(root / "pipe.json")
    assert "regular file" in refusal(f"{root}/pipe.json", [root])


def test_a_file_without_permission_is_told(root: Path) -> None:
    path = root / "private.json"
    path.write_text('["CANARY"]')
    path.chmod(0)
    with without_root_powers():
        assert "permissions" in refusal(str(path), [root])


def test_a_file_of_more_than_256_mib_is_refused_unread(root: Path) -> None:
    with (root / "large.json").open("wb") as file:
        file.truncate(256 * 1024 * 1024 + 1)
    assert "larger than 256 MiB" in refusal(f"{root}/large.json", [root])


@pytest.mark.parametrize("back", [False, True])
def test_a_folder_swapped_for_a_link_between_check_and_opening_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    """Also where it is swapped back at once, so that all looks as before."""
    inside, aside = root / "inside", root / "aside"
    inside.mkdir()
    (inside / "secret.json").write_text("[]")
    really_open = os.open

    def swap_and_open(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if Path(path).name != "secret.json":
            return really_open(path, flags, *rest, **more)
        inside.rename(aside)
        inside.symlink_to(root.parent)
        descriptor = really_open(path, flags, *rest, **more)
        if back:
            inside.unlink()
            aside.rename(inside)
        return descriptor

    monkeypatch.setattr(os, "open", swap_and_open)
    assert "regular file" in refusal(f"{inside}/secret.json", [root])


def test_a_relative_path_is_taken_from_the_home_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (root / "x.json").write_text('["one"]')
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.chdir(tmp_path)
    assert read_file("x.json", [root]) == read_file("~/x.json", [root]) == ["one"]


def test_an_absolute_path_needs_no_home_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "x.json").write_text('["one"]')

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert read_file(f"{root}/x.json", [root]) == ["one"]
    assert "cannot be read" in refusal("x.json", [root])


# Items


def test_what_an_item_brings_is_kept(database: Database) -> None:
    item = {
        "id": "5f1c-foreign.id:7", "memory": "  one ", "metadata": {"a": [1], "user_id": "x"}, "priority": "Low",
        "created_at": "2023-05-08T13:56:00-07:00", "updated_at": 1700000000, "user_id": BOB, "categories": ["c"],
    }  # fmt: skip
    assert run(database, [item]).imported == 1
    (record,) = stored(database)
    assert (record.id, record.user_id, record.content) == ("5f1c-foreign.id:7", ALICE, "  one ")
    assert (record.metadata, record.priority) == ({"a": [1], "user_id": "x", "categories": ["c"]}, "low")
    assert record.created_at == "2023-05-08T20:56:00.000000Z"
    assert record.updated_at == "2023-11-14T22:13:20.000000Z"
    assert stored(database, BOB) == []


def test_an_item_may_be_a_plain_text(database: Database) -> None:
    assert run(database, ["one", "two"], priority="critical").imported == 2
    assert {(r.content, r.priority) for r in stored(database)} == {("one", "critical"), ("two", "critical")}
    assert all(ID_PATTERN.fullmatch(r.id) for r in stored(database))


@pytest.mark.parametrize(
    ("given", "kept"),
    [("critical", "critical"), (" HIGH ", "high"), ("normal", "medium"), ("urgent", "high"), (7, "high")],
)
def test_a_known_priority_is_kept(database: Database, given: Any, kept: str) -> None:
    run(database, [{"memory": "one", "priority": given}], priority="high")
    assert stored(database)[0].priority == kept


def test_new_ids_sort_by_the_time_that_an_item_brings(database: Database) -> None:
    run(database, [{"memory": "later", "created_at": "2024-01-02"}, {"memory": "sooner", "created_at": "2024-01-01"}])
    by_id = sorted(stored(database), key=lambda record: record.id)
    assert [record.content for record in by_id] == ["sooner", "later"]


def test_items_of_one_import_share_a_session(database: Database) -> None:
    run(database, ["one", {"memory": "two", "metadata": {"session_id": "s"}}, "three"])
    run(database, ["four"])
    sessions = {record.content: record.session for record in stored(database)}
    assert sessions["one"] == sessions["three"] != sessions["four"]
    assert sessions["two"] == "s"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (7, "not an object"),
        (None, "not an object"),
        ([], "not an object"),
        ({}, "no memory, content or text"),
        ({"memory": None}, "no memory, content or text"),
        ({"content": 123}, "not a string"),
        ({"content": {"a": 1}}, "not a string"),
        ({"memory": "x", "metadata": ["CANARY"]}, "not an object"),
        ({"memory": "x", "metadata": ""}, "not an object"),
        ({"memory": "x", "metadata": False}, "not an object"),
        ({"memory": "x", "created_at": "CANARY"}, "created_at is not"),
        ({"memory": "x", "updated_at": []}, "updated_at is not"),
        ({"memory": "x", "created_at": 10**400}, "created_at is not"),
        ({"memory": "CANARY\ud83d"}, "surrogate"),
        ({"memory": "x", "metadata": {"a": float("nan")}}, "JSON cannot express"),
        ({"memory": "x" * 2**20 + "y"}, "longer than"),
        ({"memory": "x", "metadata": {"a": "y" * 70_000}}, "longer than"),
    ],
)
def test_an_item_that_cannot_be_stored_is_told_and_stops_no_other(database: Database, item: Any, reason: str) -> None:
    tally = run(database, ["before", item, "after"])
    assert (tally.imported, tally.failed) == (2, 1)
    ((index, why),) = tally.errors
    assert index == 1
    assert reason in why
    assert "CANARY" not in why
    assert [record.content for record in stored(database)] == ["after", "before"]


@pytest.mark.parametrize("number", ["1" * 5_000, "-" + "9" * 5_000, "NaN", "Infinity", "1e999"])
def test_a_number_that_cannot_be_held_fails_its_item_alone(database: Database, number: str) -> None:
    items = records(f'[{{"memory": "one", "metadata": {{"n": {number}}}}}, {{"memory": "two"}}]'.encode())
    tally = run(database, items)
    assert (tally.imported, tally.failed) == (1, 1)


def test_blank_items_are_counted_as_empty(database: Database) -> None:
    tally = run(database, ["", {"memory": "  \n"}, "one"])
    assert (tally.imported, tally.empty, tally.errors) == (1, 2, [])


def test_texts_that_occur_twice_are_stored_once(database: Database) -> None:
    run(database, ["known"])
    tally = run(database, ["Known!", "new", "NEW", {"memory": "new", "id": "other"}])
    assert (tally.imported, tally.duplicates) == (1, 3)
    assert sorted(record.content for record in stored(database)) == ["known", "new"]


def test_texts_that_occur_twice_are_stored_twice_where_asked(database: Database) -> None:
    tally = run(database, ["same", "same"], skip_duplicates=False)
    assert tally.imported == 2
    assert len({record.id for record in stored(database)}) == 2


def test_near_texts_are_not_merged_by_an_import(database: Database) -> None:
    text = "the staging server of the billing team listens on port 5432"
    assert run(database, [text, f"by the way, {text}"]).imported == 2


def test_an_id_that_occurs_twice_keeps_its_first_text(database: Database) -> None:
    items = [{"id": "a", "memory": "one"}, {"id": "a", "memory": "two"}, {"id": "a", "memory": "one"}]
    tally = run(database, items)
    assert (tally.imported, tally.skipped, tally.duplicates) == (1, 1, 1)
    assert tally.errors == [(1, "its id is already in use for another text; an import overwrites nothing")]
    assert [record.content for record in stored(database)] == ["one"]


def test_an_import_overwrites_nothing(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one", "metadata": {"k": 1}}])
    run(database, [{"id": "a", "memory": "other"}, {"id": "a", "memory": "one", "metadata": {"k": 2}}])
    (record,) = stored(database)
    assert (record.content, record.metadata) == ("one", {"k": 1})


@pytest.mark.parametrize("deleted", [False, True])
def test_an_id_of_another_user_is_replaced_and_his_memory_left_alone(database: Database, deleted: bool) -> None:
    run(database, [{"id": "a", "memory": "hers"}])
    if deleted:
        with database.write() as connection:
            store.delete(connection, ALICE, "a")
    assert run(database, [{"id": "a", "memory": "his"}], BOB).imported == 1
    (his,) = stored(database, BOB)
    assert his.id != "a"
    assert [record.content for record in stored(database)] == ([] if deleted else ["hers"])
    with database.read() as connection:
        assert [v.content for v in history.versions(connection, ALICE, "a", 9)[1]] == ["hers"] * (2 if deleted else 1)
    assert run(database, [{"id": "a", "memory": "his"}], BOB).duplicates == 1


def test_what_was_deleted_here_stays_deleted_unless_it_shall_be_revived(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one"}, "two"])
    with database.write() as connection:
        store.delete(connection, ALICE, "a")
    again = run(database, [{"id": "a", "memory": "one"}, "two"])
    assert (again.imported, again.duplicates, again.skipped, again.deleted) == (0, 1, 1, 1)
    assert again.errors == [(0, "it was deleted here; r3-lite import --revive brings it back")]
    assert [record.content for record in stored(database)] == ["two"]
    assert run(database, [{"id": "a", "memory": "one"}], revive=True).imported == 1
    with database.read() as connection:
        actions = [v.action for v in history.versions(connection, ALICE, "a", 9)[1]]
    assert actions == ["created", "deleted", "restored"]


def test_reviving_changes_nothing_for_what_is_there(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one"}])
    assert run(database, [{"id": "a", "memory": "one"}, {"id": "b", "memory": "two"}], revive=True).duplicates == 1


def test_a_rerun_that_keeps_copies_changes_nothing_either(database: Database) -> None:
    items = ["same", "same", {"memory": "same", "metadata": {"k": 1}}, {"memory": "same", "created_at": "2024-01-01"}]
    assert run(database, items, skip_duplicates=False).imported == 4
    assert run(database, items, skip_duplicates=False).duplicates == 4
    assert run(database, [*items, "same"], skip_duplicates=False, batch_size=2).imported == 1


def test_copies_of_a_strangers_memory_are_not_made_at_every_rerun(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one"}])
    for imported in (1, 0):
        assert run(database, [{"id": "a", "memory": "one"}], BOB, skip_duplicates=False).imported == imported


def test_items_that_name_another_user_are_counted(database: Database) -> None:
    items = [{"memory": "one", "user_id": BOB}, {"memory": "two", "user_id": ALICE}, {"memory": "three"}, "four"]
    assert run(database, items).strangers == 1
    assert len(stored(database)) == 4


def test_a_stopped_import_keeps_what_is_in_and_counts_the_rest(database: Database) -> None:
    asked = iter([False, False, True])
    items = [*(f"fact {n}" for n in range(25)), "", 7]
    tally = run(database, items, batch_size=10, stopped=lambda: next(asked))
    assert (tally.imported, tally.unreached, tally.skipped, tally.empty, tally.failed) == (20, 5, 5, 1, 1)
    assert len(stored(database)) == 20
    assert run(database, items).imported == 5


def test_a_stopped_import_and_its_rerun_are_one_session(database: Database) -> None:
    asked = iter([False, True])
    items = [f"fact {n}" for n in range(20)]
    run(database, items, batch_size=10, stopped=lambda: next(asked))
    run(database, items)
    assert len({record.session for record in stored(database)}) == 1


@pytest.mark.parametrize("value", ["", " ", None, ["a"], {}, True])
def test_what_is_no_id_is_replaced_by_a_new_one(database: Database, value: Any) -> None:
    run(database, [{"id": value, "memory": "one"}])
    assert ID_PATTERN.fullmatch(stored(database)[0].id)


@pytest.mark.parametrize("value", [" a", "a b", "../x", "a\n", "a" * 129, 7, 0, 1.5, "ä", "\ud800"])
def test_an_id_that_cannot_be_kept_is_replaced_by_the_same_at_every_run(database: Database, value: Any) -> None:
    items = [{"id": value, "memory": "one"}, {"id": value, "memory": "another program's"}]
    assert run(database, items).imported == 2
    ids = {record.content: record.id for record in stored(database)}
    assert all(memory_id.startswith("derived-") for memory_id in ids.values())
    assert run(database, items).duplicates == 2
    with database.write() as connection:
        store.delete(connection, ALICE, ids["one"])
    again = run(database, items)
    assert (again.duplicates, again.deleted) == (1, 1)


def delete(database: Database, *ids: str, user_id: str = ALICE) -> None:
    with database.write() as connection:
        for memory_id in ids:
            store.delete(connection, user_id, memory_id)


def test_a_text_that_was_deleted_does_not_come_back_under_another_id(database: Database) -> None:
    items = [
        {"id": "a", "memory": "The wifi code"},
        {"id": "b", "memory": "the wifi code."},
        {"id": "c", "memory": "x"},
    ]
    assert run(database, items).duplicates == 1
    delete(database, "a")
    again = run(database, items)
    assert (again.deleted, again.duplicates, [index for index, _ in again.errors]) == (2, 1, [0, 1])
    assert run(database, items, skip_duplicates=False).deleted == 2
    assert run(database, items, BOB).imported == 2
    revived = run(database, items, revive=True)
    assert (revived.imported, revived.duplicates) == (1, 2)


def test_a_text_that_was_merged_into_another_does_not_come_back_either(database: Database) -> None:
    items = [{"id": "a", "memory": "one"}, {"id": "b", "memory": "One"}]
    run(database, items)
    with database.write() as connection:
        history.append(connection, "merged", seq=store.find(connection, ALICE, "a").seq)
        connection.execute("DELETE FROM memories")
    assert run(database, items).deleted == 2


def test_a_text_that_was_deleted_and_said_again_is_a_duplicate(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one"}])
    delete(database, "a")
    assert run(database, ["one"]).imported == 1
    assert run(database, [{"id": "b", "memory": "one"}]).duplicates == 1
    assert run(database, [{"id": "b", "memory": "one"}], skip_duplicates=False).imported == 1


def test_what_was_deleted_and_purged_is_forgotten(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one"}])
    delete(database, "a")
    with database.write() as connection:
        history.purge(connection, ALICE, memory_id="a")
    assert run(database, [{"id": "b", "memory": "one"}]).imported == 1


def test_a_copy_of_a_strangers_memory_that_was_deleted_does_not_come_back(database: Database) -> None:
    run(database, [{"id": "a", "memory": "one"}])
    run(database, [{"id": "a", "memory": "one"}], BOB)
    delete(database, stored(database, BOB)[0].id, user_id=BOB)
    again = run(database, [{"id": "a", "memory": "one"}], BOB)
    assert (again.imported, again.deleted) == (0, 1)


def test_deleted_texts_are_found_by_an_index(database: Database) -> None:
    database.connection()
    with database.read() as connection:
        asked: list[str] = []
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: asked.append(event["sql"]))
        list(history.gone_texts(connection, ALICE))
        connection.trace_v2(0)
        (statement,) = [sql for sql in asked if "merged" in sql]
        plan = str(connection.execute(f"EXPLAIN QUERY PLAN {statement}", (ALICE,)).fetchall())
    assert "USING INDEX history_gone" in plan


def test_a_rerun_changes_nothing(database: Database) -> None:
    items = [{"id": f"id-{n}", "memory": f"fact {n}"} for n in range(30)] + [f"plain {n}" for n in range(30)] + ["", 7]
    first = run(database, items)
    assert (first.imported, first.empty, first.failed) == (60, 1, 1)
    with database.read() as connection:
        before = connection.execute("SELECT * FROM memories").fetchall()
        history = connection.execute("SELECT count(*) FROM history").get
    again = run(database, items)
    assert (again.imported, again.duplicates) == (0, 60)
    with database.read() as connection:
        assert connection.execute("SELECT * FROM memories").fetchall() == before
        assert connection.execute("SELECT count(*) FROM history").get == history


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": st.sampled_from(["a", "b", "c", "", 7]),
                "memory": st.sampled_from(["one", "ONE", "two", "", " ", 5]),
                "created_at": st.sampled_from(["2024-01-01", "bad", None]),
            },
        ),
        max_size=12,
    )
)
def test_counts_add_up_and_a_rerun_changes_nothing_whatever_the_items(items: list[dict[str, Any]]) -> None:
    database = Database(None)
    first = run(database, items, batch_size=3)
    before = stored(database)
    assert first.imported == len(before)
    again = run(database, items, batch_size=5)
    assert again.imported == 0
    assert stored(database) == before


def test_the_write_lock_is_free_between_batches_and_progress_is_told(database: Database, db_path: Path) -> None:
    database.connection()
    other = apsw.Connection(str(db_path))
    told = []

    def progress(done: int, total: int) -> None:
        other.execute("BEGIN IMMEDIATE")
        seen = other.execute("SELECT count(*) FROM memories").get
        other.execute("ROLLBACK")
        told.append((done, total, seen))

    run(database, [f"fact {n}" for n in range(25)], batch_size=10, progress=progress)
    other.close()
    assert told == [(10, 25, 10), (20, 25, 20), (25, 25, 25)]


IMPORT = """
import sys
from pathlib import Path
from r3_lite import transfer
from r3_lite.db import Database
items = [
    {"id": f"id-{n}" if n % 3 else None, "memory": f"fact {n}", "metadata": {"n": n}, "created_at": 1700000000 + n}
    for n in range(3000)
]
settings = dict(user_id="alice", priority="high", skip_duplicates=True, batch_size=10)
print("ready", flush=True)
tally = transfer.import_items(Database(Path(sys.argv[1]), synchronous="normal"), items, **settings)
print(tally.imported, tally.duplicates, tally.total)
"""


def all_but_new_ids(path: Path) -> tuple[list[Any], list[Any]]:
    """Everything in a file, ids left out that the import made itself: the memories, and the lengths of histories."""
    database = Database(path)
    with database.read() as connection:
        memories = connection.execute(
            """SELECT iif(id LIKE 'id-%', id, ''), user_id, content, metadata, priority, hash, copy, created_at,
                      updated_at, session FROM memories ORDER BY content"""
        ).fetchall()
        histories = connection.execute("SELECT content, count(*) FROM history GROUP BY content ORDER BY 1").fetchall()
    database.close()
    return memories, histories


def test_an_import_that_was_killed_and_run_again_comes_to_the_same(db_path: Path, tmp_path: Path) -> None:
    def command(path: Path) -> list[str]:
        return [sys.executable, "-c", IMPORT, str(path)]

    reached = []
    for pause in (0.05, 0.2, 0.4):
        process = subprocess.Popen(command(db_path), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        reached.append(len(stored(Database(db_path))))
    ended = subprocess.run(command(db_path), capture_output=True, text=True, check=True)
    assert ended.stdout.split()[-3:] == [str(3000 - reached[-1]), str(reached[-1]), "3000"]
    assert reached == sorted(reached)
    assert reached[0] < 3000
    whole = tmp_path / "whole.db"
    subprocess.run(command(whole), capture_output=True, check=True)
    assert all_but_new_ids(db_path) == all_but_new_ids(whole)
    assert all(count == 1 for _, count in all_but_new_ids(db_path)[1])
    with Database(db_path).write() as connection:
        assert store.keyword_index_sound(connection)


def test_of_many_broken_items_the_first_are_told_and_all_are_counted(database: Database) -> None:
    tally = run(database, [7] * 200)
    assert tally.failed == 200
    assert [index for index, _ in tally.errors] == list(range(transfer.MAX_ERRORS_SHOWN))


def test_an_import_can_be_stopped_while_its_items_are_checked(database: Database) -> None:
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(True)
        return True

    tally = run(database, ["one", "", 7] * 5_000, stopped=stopped)
    assert asked == [True]
    assert (tally.imported, tally.unreached, tally.skipped) == (0, 15_000 - tally.empty - tally.failed, tally.unreached)
    assert tally.empty + tally.failed < 5_000
    assert stored(database) == []


def test_an_import_can_be_stopped_while_its_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1\n" * 10_000)
    with pytest.raises(ImportFailed, match="was stopped"):
        read_file(str(tmp_path / "lines"), [tmp_path], lambda: True)


def test_many_copies_of_a_text_are_counted_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    really_count = similar.count_same

    def count_same(connection: apsw.Connection, new: NewMemory) -> int:
        counted.append(new.content)
        return really_count(connection, new)

    monkeypatch.setattr(similar, "count_same", count_same)
    for imported in (200, 0):
        counted.clear()
        assert run(database, ["same"] * 200, skip_duplicates=False).imported == imported
        assert counted == ["same"]


# Graphs

ANN = {"type": "entity", "name": "Ann Lee", "entityType": "person", "observations": ["works at Acme"]}
WORKS = {"type": "relation", "from": "Ann Lee", "to": "Acme", "relationType": "works_at"}


def graph(*lines: dict[str, Any]) -> list[Any]:
    return records("\n".join(map(json.dumps, lines)).encode())


def known(database: Database) -> list[tuple[str, dict[str, Any]]]:
    return sorted(((record.content, record.metadata) for record in stored(database)), key=repr)


def test_a_relation_that_an_observation_says_already_is_kept_in_its_metadata(database: Database) -> None:
    for imported in (1, 0):
        tally = run(database, graph(ANN, WORKS))
        assert (tally.imported, tally.duplicates) == (imported, 2 - imported)
        assert known(database) == [
            (
                "Ann Lee works at Acme",
                {
                    "entity": "Ann Lee", "entity_type": "person", "observation": "works at Acme",
                    "relation": "works_at", "from": "Ann Lee", "to": "Acme",
                },
            )
        ]  # fmt: skip
    with database.read() as connection:
        assert connection.execute("SELECT action FROM history").fetchall() == [("created",), ("updated",)]


def test_what_is_known_from_elsewhere_keeps_its_metadata_and_priority(database: Database) -> None:
    run(database, [{"memory": "Ann Lee works at Acme!", "metadata": {"to": "Acme", "mine": 1}, "priority": "low"}])
    assert run(database, graph(WORKS)).duplicates == 1
    (record,) = stored(database)
    assert record.metadata == {"to": "Acme", "mine": 1, "relation": "works_at", "from": "Ann Lee"}
    assert (record.content, record.priority) == ("Ann Lee works at Acme!", "low")


@pytest.mark.parametrize(("names", "kinds"), [(("C", "c"), ("language", "variable")), (("C", "C"), ("a", "b"))])
def test_entities_whose_names_look_the_same_are_all_kept(
    database: Database, names: tuple[str, str], kinds: tuple[str, str]
) -> None:
    lines = [
        {"type": "entity", "name": name, "entityType": kind, "observations": ["is old"]}
        for name, kind in zip(names, kinds, strict=True)
    ]
    for imported in (2, 0):
        assert run(database, graph(*lines)).imported == imported
        assert [(m["entity"], m["entity_type"]) for _, m in known(database)] == list(zip(names, kinds, strict=True))


def test_a_text_that_very_many_entities_share_is_kept_for_each(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MAX_SAME", 3)
    lines = [{"type": "entity", "name": "C", "entityType": f"type {n}", "observations": ["is old"]} for n in range(10)]
    for imported in (10, 0):
        assert run(database, graph(*lines)).imported == imported
    assert {metadata["entity_type"] for _, metadata in known(database)} == {f"type {n}" for n in range(10)}


def test_metadata_that_would_grow_too_large_is_kept_in_a_memory_of_its_own(database: Database) -> None:
    run(database, [{"memory": "Ann Lee works at Acme", "metadata": {"long": "x" * (MAX_METADATA - 20)}}])
    assert run(database, graph(WORKS)).imported == 1
    assert len(stored(database)) == 2


def test_a_relation_that_was_deleted_with_its_observation_stays_deleted(database: Database) -> None:
    run(database, graph(ANN, WORKS))
    delete(database, stored(database)[0].id)
    assert run(database, graph(ANN, WORKS)).deleted == 2


# Our own export


def exported(database: Database, folder: Path, user_id: str = ALICE, form: Format = "jsonl") -> list[Any]:
    (folder / "export").write_text("".join(export(database, form, user_id)), encoding="utf-8", newline="")
    return read_file(str(folder / "export"), [folder])


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "other.db", synchronous="normal")
    yield database
    database.close()


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_an_export_of_ours_brings_history_copies_and_deleted_memories(
    database: Database, other: Database, tmp_path: Path, form: Format
) -> None:
    with database.write() as connection:
        first = store.insert(connection, NewMemory(ALICE, "tea", batch="trip")).id
        store.update(connection, ALICE, first, content="coffee")
        for _ in range(2):
            store.insert(connection, NewMemory(ALICE, "honey"), check_duplicates=False)
        gone = store.insert(connection, NewMemory(ALICE, "salt", created_at="2001-01-01T00:00:00.000000Z")).id
        store.delete(connection, ALICE, gone)
    records = exported(database, tmp_path, form=form)
    tally = run(other, records)
    assert (tally.total, tally.imported) == (4, 4)
    with other.write() as connection:
        assert [v.action for v in history.versions(connection, ALICE, first, 9)[1]] == ["created", "updated"]
        assert [v.content for v in history.versions(connection, ALICE, first, 9)[1]] == ["tea", "coffee"]
        copies = connection.execute("SELECT copy, batch FROM memories ORDER BY seq").fetchall()
        assert copies == [(0, "trip"), (0, None), (1, None)]
        restored = recover.restore(connection, ALICE, gone)
        assert (restored.content, restored.created_at) == ("salt", "2001-01-01T00:00:00.000000Z")


def test_an_export_read_again_changes_nothing(database: Database, other: Database, tmp_path: Path) -> None:
    with database.write() as connection:
        store.insert(connection, NewMemory(ALICE, "tea"))
        store.insert(connection, NewMemory(ALICE, "tea"), check_duplicates=False)
        store.delete(connection, ALICE, store.insert(connection, NewMemory(ALICE, "salt")).id)
    records = exported(database, tmp_path)
    for target in (database, other, other):
        before = "".join(export(target, "jsonl", ALICE))
        tally = run(target, records)
        assert tally.imported + tally.duplicates == tally.total == 3
        if before.count("\n") > 1:
            assert tally.duplicates == 3
            assert "".join(export(target, "jsonl", ALICE)) == before


def test_what_is_known_here_keeps_its_own_history(database: Database, other: Database, tmp_path: Path) -> None:
    with database.write() as connection:
        memory_id = store.insert(connection, NewMemory(ALICE, "tea")).id
    records = exported(database, tmp_path)
    run(other, records)
    with other.write() as connection:
        store.delete(connection, ALICE, memory_id)
    assert run(other, records).skipped == 1
    assert run(other, records, revive=True).imported == 1
    with other.read() as connection:
        actions = [v.action for v in history.versions(connection, ALICE, memory_id, 9)[1]]
    assert actions == ["created", "deleted", "restored"]


def test_another_users_ids_are_not_taken(database: Database, other: Database, tmp_path: Path) -> None:
    with database.write() as connection:
        first = store.insert(connection, NewMemory(ALICE, "tea")).id
        gone = store.insert(connection, NewMemory(ALICE, "salt")).id
        store.update(connection, ALICE, first, content="coffee")
        store.delete(connection, ALICE, gone)
    records = exported(database, tmp_path)
    run(other, records)
    tally = run(other, records, user_id="bob")
    assert (tally.imported, tally.skipped, tally.strangers) == (1, 1, 2)
    with other.read() as connection:
        (copy,) = store.page(connection, "bob", 9, 0)[1]
        assert copy.id != first
        assert [v.content for v in history.versions(connection, "bob", copy.id, 9)[1]] == ["tea", "coffee"]
        assert history.versions(connection, ALICE, gone, 9)[0] == 2


def test_a_broken_past_is_told_for_its_item_alone(other: Database, tmp_path: Path) -> None:
    lines = [
        {"format": "r3-lite", "version": 1},
        {"id": "a", "content": "tea", "history": [{"version": "CANARY"}]},
        {"id": "b", "deleted": True},
        {"id": "c", "content": "honey"},
        7,
    ]
    (tmp_path / "export").write_text("\n".join(map(json.dumps, lines)))
    tally = run(other, read_file(str(tmp_path / "export"), [tmp_path]))
    assert (tally.total, tally.imported, tally.failed) == (4, 1, 3)
    assert "CANARY" not in str(tally.errors)


def test_an_export_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    for text in ('{"format": "r3-lite", "version": 2}\n{"content": "tea"}', '{"format": "r3-lite", "version": 2}'):
        (tmp_path / "export").write_text(text)
        with pytest.raises(ImportFailed, match="newer"):
            read_file(str(tmp_path / "export"), [tmp_path])
