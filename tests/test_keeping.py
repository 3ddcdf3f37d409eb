"""The commands that keep and bring back, as people start them: on real files, as processes beside a server."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp_helpers import Server, environment

from r3_lite.db import Database


def r3(
    *argv: str, folder: Path, stdin: bytes = b"", settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process that keeps everything below `folder`."""
    command = [sys.executable, "-m", "r3_lite", *argv]
    return subprocess.run(
        command, input=stdin, capture_output=True, env=environment(folder, **(settings or {})), check=False
    )


def good(*argv: str, folder: Path) -> Any:
    """Run a command with --json that must succeed, and return what it printed."""
    done = r3(*argv, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def add(text: str, folder: Path, *more: str) -> str:
    return str(good("add", text, *more, folder=folder)["memory_id"])


def contents(folder: Path) -> list[str]:
    return sorted(memory["content"] for memory in good("list", folder=folder)["memories"])


NARROW = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}


# Export


def test_an_export_is_utf8_on_standard_output_whatever_the_locale(tmp_path: Path) -> None:
    add("🎉 in 東京\r\nfor 5 €", tmp_path)
    done = r3("export", "--format", "jsonl", folder=tmp_path, settings=NARROW)
    assert (done.returncode, done.stderr) == (0, b"")
    head, item, end = done.stdout.decode("utf-8").split("\n")
    assert json.loads(head)["format"] == "r3-lite"
    assert json.loads(item)["content"] == "🎉 in 東京\r\nfor 5 €"
    assert end == ""


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "markdown"])
def test_an_exported_file_is_its_owners_alone_and_says_what_is_in_it(tmp_path: Path, form: str) -> None:
    add("Tea is in the drawer", tmp_path)
    add("Bread is on the table", tmp_path, "--user", "ben")
    before = os.umask(0o000)
    try:
        done = r3("export", "--format", form, "--output", str(tmp_path / "out"), folder=tmp_path)
    finally:
        os.umask(before)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"1 memories of user default" in done.stderr
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "out").read_text(encoding="utf-8")
    assert "Tea" in text
    assert "Bread" not in text
    everybody = r3("export", "--format", form, "--all-users", folder=tmp_path).stdout.decode()
    assert "Tea" in everybody
    assert "Bread" in everybody


def test_an_export_overwrites_only_when_told_and_never_the_memories(tmp_path: Path) -> None:
    add("Tea", tmp_path)
    target = tmp_path / "out.json"
    target.write_text("precious")
    refused = r3("export", "--output", str(target), folder=tmp_path)
    assert refused.returncode == 1
    assert b"--force" in refused.stderr
    assert target.read_text() == "precious"
    assert r3("export", "--output", str(target), "--force", folder=tmp_path).returncode == 0
    assert json.loads(target.read_text())["memories"][0]["content"] == "Tea"
    assert r3("export", "--output", str(tmp_path / "memories.db"), "--force", folder=tmp_path).returncode == 1
    assert contents(tmp_path) == ["Tea"]


def test_the_history_can_be_left_away(tmp_path: Path) -> None:
    r3("delete", add("Tea", tmp_path), folder=tmp_path)
    assert b"Tea" in r3("export", folder=tmp_path).stdout
    assert b"Tea" not in r3("export", "--no-with-history", folder=tmp_path).stdout


def test_a_thousand_memories_are_a_thousand_lines_oldest_first(tmp_path: Path) -> None:
    """As a server adds them; the head is a line of its own."""
    items = [{"content": f"note number {number} of many"} for number in range(1000)]
    (tmp_path / "notes.json").write_text(json.dumps(items))
    with Server(environment(tmp_path, R3_IMPORT_ROOTS=str(tmp_path))) as server:
        imported = server.call("import_memories", source="json_file", file_path=str(tmp_path / "notes.json"))
        assert imported.data["imported"] == 1000
        done = r3("export", "--format", "jsonl", folder=tmp_path)
    _, *lines = done.stdout.decode().splitlines()
    times = [json.loads(line)["created_at"] for line in lines]
    assert len(times) == 1000
    assert times == sorted(times)


def test_a_reader_of_an_export_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    add("Tea", tmp_path)
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "r3_lite", "export"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, env=environment(tmp_path), check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_disk_leaves_no_half_of_an_export(tmp_path: Path) -> None:
    r3("add", "-", folder=tmp_path, stdin=b"word " * 100_000)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    ignore = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    command = [sys.executable, "-c", f"{limit}; {ignore}; from r3_lite.cli import main; main()"]
    target = tmp_path / "out.json"
    done = subprocess.run(
        [*command, "export", "--output", str(target)], capture_output=True, env=environment(tmp_path), check=False
    )
    assert done.returncode == 1
    assert b"cannot be written" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == []


# Backup and restore


def test_a_backup_and_a_restore_beside_a_running_server(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server:
        first = server.saved("Tea is in the drawer")
        made = good("backup", folder=tmp_path)
        assert (made["memories"], made["users"], made["history"]) == (1, 1, 1)
        assert made["size"] == Path(made["path"]).stat().st_size
        assert Path(made["path"]).parent == tmp_path
        server.call("delete_memory", memory_id=first)
        second = server.saved("Coffee is in the cellar")
        restored = good("restore", made["path"], "--yes", folder=tmp_path)
        assert server.call("get_memory", memory_id=first).data["content"] == "Tea is in the drawer"
        assert server.call("get_memory", memory_id=second).is_error
        assert not restored["restart_servers"]
        kept = Database(Path(restored["kept"]))
        assert kept.connection().execute("SELECT content FROM memories").get == "Coffee is in the cellar"
        kept.close()


def test_nothing_is_restored_without_an_answer(tmp_path: Path) -> None:
    add("Tea", tmp_path)
    file = good("backup", str(tmp_path / "b.db"), folder=tmp_path)["path"]
    add("Coffee", tmp_path)
    done = r3("restore", file, folder=tmp_path, stdin=b"y\n")
    assert done.returncode == 2
    assert b"--yes" in done.stderr
    assert contents(tmp_path) == ["Coffee", "Tea"]


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, ["Coffee", "Tea"]), ("y", 0, ["Tea"])])
def test_in_a_terminal_it_asks(tmp_path: Path, answer: str, code: int, left: list[str]) -> None:
    import pty

    add("Tea", tmp_path)
    file = good("backup", str(tmp_path / "b.db"), folder=tmp_path)["path"]
    add("Coffee", tmp_path)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        command = [sys.executable, "-m", "r3_lite", "restore", file]
        done = subprocess.run(command, stdin=theirs, capture_output=True, env=environment(tmp_path), check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, done.stderr
    assert b"1 memories of 1 users" in done.stdout
    assert contents(tmp_path) == left


def test_a_damaged_file_is_restored_by_exchange(tmp_path: Path) -> None:
    add("Tea", tmp_path)
    file = good("backup", str(tmp_path / "b.db"), folder=tmp_path)["path"]
    (tmp_path / "memories.db").write_bytes(b"no database" * 1000)
    assert r3("list", folder=tmp_path).returncode == 1
    done = r3("restore", file, "--yes", folder=tmp_path)
    assert done.returncode == 0
    assert b"Restart every client" in done.stdout
    assert contents(tmp_path) == ["Tea"]


def test_a_server_on_a_file_that_was_exchanged_says_so_and_saves_nothing(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server:
        server.saved("Tea")
        file = good("backup", str(tmp_path / "b.db"), folder=tmp_path)["path"]
        with (tmp_path / "memories.db").open("r+b") as damaged:
            damaged.write(b"no database" * 1000)
        restored = r3("restore", file, "--yes", folder=tmp_path)
        assert b"Restart every client" in restored.stdout
        answer = server.call("add_memory", content="Coffee")
        assert answer.is_error
        assert "Restart" in answer.text
    assert contents(tmp_path) == ["Tea"]


# Single memories


def test_a_memory_comes_back_while_a_server_runs(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server:
        memory_id = server.saved("Tea is in the first drawer", metadata={"a": 1}, priority="high")
        server.call("update_memory", memory_id=memory_id, content="Tea is in the second drawer")
        server.call("delete_memory", memory_id=memory_id)
        told = server.call("get_memory_history", memory_id=memory_id)
        assert f"r3-lite restore-memory {memory_id}" in told.text
        assert [entry["priority"] for entry in told.data["history"]] == ["high"] * 3
        restored = good("restore-memory", memory_id, folder=tmp_path)
        assert server.call("get_memory", memory_id=memory_id).data == restored
        assert (restored["content"], restored["metadata"]) == ("Tea is in the second drawer", {"a": 1})
        first = good("restore-memory", memory_id, "--version", "1", folder=tmp_path)
        assert first["content"] == "Tea is in the first drawer"
        assert server.call("search_memory", query="first drawer").data["results"][0]["id"] == memory_id


def test_a_text_that_is_there_by_now_comes_back_as_a_copy_only(tmp_path: Path) -> None:
    memory_id = add("Tea", tmp_path)
    r3("delete", memory_id, folder=tmp_path)
    other = add("tea", tmp_path)
    refused = r3("restore-memory", memory_id, folder=tmp_path)
    assert refused.returncode == 1
    assert other.encode() in refused.stderr
    done = r3("restore-memory", memory_id, "--copy", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"Restored: Tea\n")
    assert contents(tmp_path) == ["Tea", "tea"]


def test_versions_and_deleted_memories_are_shown(tmp_path: Path) -> None:
    first, second = add("Tea 🍵", tmp_path), add("Coffee", tmp_path)
    add("his", tmp_path, "--user", "ben")
    assert r3("history", folder=tmp_path).stdout == b"User default has no deleted memories.\n"
    for memory_id in (second, first):
        r3("delete", memory_id, folder=tmp_path)
    assert [(entry["id"], entry["action"]) for entry in good("history", folder=tmp_path)] == [
        (first, "deleted"),
        (second, "deleted"),
    ]
    assert len(good("history", "--limit", "1", folder=tmp_path)) == 1
    versions = good("history", first, folder=tmp_path)
    assert [(entry["version"], entry["action"]) for entry in versions] == [(1, "created"), (2, "deleted")]
    for command in (["history"], ["history", first]):
        done = r3(*command, folder=tmp_path, settings=NARROW)
        assert done.returncode == 0
        assert "Tea 🍵" in done.stdout.decode("utf-8")
        assert first in done.stdout.decode("utf-8")
    assert r3("history", first, "--user", "ben", folder=tmp_path).returncode == 1


# Purging


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("memories.db*") if not path.name.endswith(".backup"))


@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_what_is_purged_is_gone_from_the_file(tmp_path: Path, journal_mode: str) -> None:
    settings = {"R3_JOURNAL_MODE": journal_mode}
    done = r3("add", "the password is xyzzyplugh", "--json", folder=tmp_path, settings=settings)
    memory_id = json.loads(done.stdout)["memory_id"]
    add("Tea is in the drawer", tmp_path)
    r3("delete", memory_id, folder=tmp_path, settings=settings)
    assert b"xyzzyplugh" in everything(tmp_path)
    purged = json.loads(r3("purge", memory_id, "--yes", "--json", folder=tmp_path, settings=settings).stdout)
    assert purged == {"removed": 2, "erased": True, "backups": []}
    assert b"xyzzyplugh" not in everything(tmp_path)
    assert r3("restore-memory", memory_id, folder=tmp_path).returncode == 1
    assert good("search", "drawer", folder=tmp_path)["results"][0]["content"] == "Tea is in the drawer"


def test_it_is_gone_beside_a_running_server_too_and_backups_are_named(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server:
        memory_id = server.saved("the password is xyzzyplugh")
        server.call("update_memory", memory_id=memory_id, content="the password is in the safe")
        kept = good("backup", folder=tmp_path)["path"]
        purged = good("purge", memory_id, "--yes", folder=tmp_path)
        assert purged == {"removed": 1, "erased": True, "backups": [kept]}
        assert b"xyzzyplugh" not in everything(tmp_path)
        told = server.call("get_memory_history", memory_id=memory_id)
        assert [entry["version"] for entry in told.data["history"]] == [2]
        assert "1 older ones are no longer kept" in told.text


def test_deleted_and_old_versions_are_purged_of_one_user_only(tmp_path: Path) -> None:
    for user in ("ada", "ben"):
        r3("delete", add("gone", tmp_path, "--user", user), "--user", user, folder=tmp_path)
        memory_id = add("one", tmp_path, "--user", user)
        r3("restore-memory", memory_id, "--user", user, folder=tmp_path)
    assert good("purge", "--older-than", "1", "--yes", "--user", "ada", folder=tmp_path)["removed"] == 0
    assert good("purge", "--deleted", "--yes", "--user", "ada", folder=tmp_path)["removed"] == 2
    assert good("purge", "--older-than", "0", "--yes", "--user", "ben", folder=tmp_path)["removed"] == 2
    assert good("stats", folder=tmp_path)["counts"] == {"memories": 2, "users": 2, "history": 2}


@pytest.mark.parametrize("arguments", [(), ("mem_1", "--deleted"), ("--deleted", "--older-than", "3"), ("--deleted",)])
def test_it_must_be_said_what_to_purge_and_that_it_is_meant(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert r3("purge", *arguments, folder=tmp_path).returncode == 2


def test_a_file_in_use_is_purged_and_what_is_left_is_told(tmp_path: Path) -> None:
    memory_id = add("the password is xyzzyplugh", tmp_path)
    r3("delete", memory_id, folder=tmp_path)
    reader = Database(tmp_path / "memories.db")
    with reader.read() as connection:
        connection.execute("SELECT count(*) FROM memories").fetchall()
        done = r3("purge", "--deleted", "--yes", folder=tmp_path, settings={"R3_BUSY_TIMEOUT": "0"})
    reader.close()
    assert (done.returncode, done.stdout) == (0, b"Removed: 2 versions.\n")
    assert b"run the same command again" in done.stderr
    assert good("purge", "--deleted", "--yes", folder=tmp_path) == {"removed": 0, "erased": True, "backups": []}
    assert b"xyzzyplugh" not in everything(tmp_path)
