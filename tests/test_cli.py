"""The r3-lite command as people and clients start it: on real files, mostly as a process of its own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from mcp_helpers import Server, environment, eventually
from mem0_server import Answer, Mem0, pages

from r3_lite import cli, terminal

COMMANDS = (
    *"serve demo add search get list delete import dedupe graph stats".split(),
    *"export backup restore history restore-memory purge config models".split(),
)
PRINTS_JSON = set(COMMANDS) - {"serve", "demo", "export", "config"}
UNKNOWN_ID = "mem_00000000000000000000000"
FULL = {"R3_INTELLIGENCE": "full"}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(db_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run a command in this process, without a model: exit code, standard output, standard error."""
    monkeypatch.setattr(terminal, "is_interactive", lambda: False)
    before = dict(os.environ)

    def call(*argv: str) -> tuple[int, str, str]:
        try:
            code = cli.run(["--db", str(db_path), "--basic", *argv])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield call
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run a command with --json that must succeed, and return what it printed."""

    def call(*argv: str) -> Any:
        code, out, err = run(*argv, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


def process(
    *argv: str,
    folder: Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process that keeps everything below `folder`."""
    command = [sys.executable, "-m", "r3_lite", *argv]
    return subprocess.run(
        command, input=stdin, capture_output=True, env=environment(folder, **(settings or {})), cwd=cwd, check=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run: Run, command: str) -> None:
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: r3-lite {command}")
    assert ("--json" in out) == (command in PRINTS_JSON)


def test_the_help_names_exactly_the_commands(run: Run) -> None:
    _, out, _ = run("--help")
    assert re.findall(r"^ {4}([a-z-]+)\s", out, re.MULTILINE) == list(COMMANDS)


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version") == (0, f"{version('r3-lite')}\n", "")


def test_content_comes_back_as_it_was_given(run_json: Callable[..., Any]) -> None:
    content = "  „Zwei  Räume“ -- \t and 2 > 1 [bold]\n\n東京 🎉 "
    memory_id = run_json("add", content)["memory_id"]
    assert run_json("get", memory_id)["content"] == content


def test_words_without_quotes_are_one_text(run_json: Callable[..., Any]) -> None:
    memory_id = run_json("add", "the", "key", "is", "under", "the", "mat")["memory_id"]
    assert run_json("get", memory_id)["content"] == "the key is under the mat"


def test_priority_and_metadata_are_stored(run_json: Callable[..., Any]) -> None:
    memory_id = run_json("add", "x", "--priority", "high", "--metadata", '{"topic": "work"}')["memory_id"]
    memory = run_json("get", memory_id)
    assert (memory["priority"], memory["metadata"]) == ("high", {"topic": "work"})


def test_the_same_text_again_names_the_memory_that_says_it(run_json: Callable[..., Any]) -> None:
    first = run_json("add", "The bins are collected on Monday.")
    again = run_json("add", "the bins are collected on monday")
    assert (again["message"], again["memory_id"]) == ("Already saved", first["memory_id"])


def test_a_text_is_read_from_standard_input(tmp_path: Path) -> None:
    done = process("add", "--json", folder=tmp_path, stdin="Zeile 1\nZeile 2 ✓\n".encode())
    memory_id = json.loads(done.stdout)["memory_id"]
    shown = json.loads(process("get", memory_id, "--json", folder=tmp_path).stdout)
    assert shown["content"] == "Zeile 1\nZeile 2 ✓"


def test_standard_input_that_is_no_text_is_refused_whole(tmp_path: Path) -> None:
    done = process("add", "-", folder=tmp_path, stdin=b"caf\xe9")
    assert done.returncode == 1
    assert done.stderr == b"r3-lite: The standard input is not UTF-8 text. Nothing was stored.\n"


def test_search_finds_by_keyword_without_a_model(run: Run, run_json: Callable[..., Any]) -> None:
    run("add", "The boiler is serviced in October")
    run("add", "Tea is in the second drawer")
    found = run_json("search", "when", "is", "the", "boiler", "serviced")
    assert [hit["content"] for hit in found["results"]] == ["The boiler is serviced in October"]
    assert (found["mode"], found["total"]) == ("keyword", 2)


def test_search_finds_by_meaning_at_the_first_call(tmp_path: Path) -> None:
    process("add", "Our dog is allergic to chicken", folder=tmp_path, settings=FULL)
    process("add", "The invoice for the boat is unpaid", folder=tmp_path, settings=FULL)
    done = process("search", "what must the pet not eat", "--json", folder=tmp_path, settings=FULL)
    found = json.loads(done.stdout)
    assert found["mode"] == "hybrid"
    assert found["results"][0]["content"] == "Our dog is allergic to chicken"


def test_search_goes_by_keyword_and_says_so_when_the_model_is_missing(tmp_path: Path) -> None:
    settings = {**FULL, "R3_EMBEDDING_MODEL": str(tmp_path / "nothing")}
    process("add", "Tea is in the second drawer", folder=tmp_path, settings=settings)
    done = process("search", "tea", "--json", folder=tmp_path, settings=settings)
    assert done.returncode == 0
    assert json.loads(done.stdout)["results"][0]["content"] == "Tea is in the second drawer"
    assert b"by keyword only" in done.stderr


def test_a_search_without_an_answer_is_no_failure(run: Run) -> None:
    run("add", "Tea is in the second drawer")
    code, out, _ = run("search", "helicopter")
    assert code == 0
    assert out.startswith("No memories found")


def test_users_are_kept_apart(run: Run, run_json: Callable[..., Any]) -> None:
    memory_id = run_json("--user", "ada", "add", "Tea is in the second drawer")["memory_id"]
    assert run_json("--user", "ben", "list")["total"] == 0
    assert run_json("search", "tea", "--user", "ben")["results"] == []
    assert run("get", memory_id, "--user", "ben")[0] == 1
    assert run_json("get", memory_id, "--user", "ada")["id"] == memory_id


def test_lists_are_newest_first_and_paged(run: Run, run_json: Callable[..., Any]) -> None:
    for number in range(5):
        run("add", f"fact number {number}")
    page = run_json("list", "--limit", "2", "--offset", "1")
    assert [memory["content"] for memory in page["memories"]] == ["fact number 3", "fact number 2"]
    assert page["total"] == 5


def test_a_deleted_memory_is_gone(run: Run, run_json: Callable[..., Any]) -> None:
    memory_id = run_json("add", "Tea is in the second drawer")["memory_id"]
    assert run_json("delete", memory_id) == {"deleted": [memory_id]}
    assert run("get", memory_id)[0] == 1


def test_deleting_all_without_a_terminal_needs_yes(run: Run, run_json: Callable[..., Any]) -> None:
    run("add", "Tea is in the second drawer")
    code, _, err = run("delete", "--all")
    assert code == 2
    assert "--yes" in err
    assert run_json("list")["total"] == 1


def test_a_file_is_imported_wherever_it_is(run_json: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text('[{"id": "a", "memory": "one"}, {"memory": "two", "priority": "low"}, " "]')
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.environ["R3_IMPORT_ROOTS"] = str(tmp_path / "elsewhere")
    result = run_json("import", str(tmp_path / "link.json"), "--priority", "critical")
    assert (result["total"], result["imported"], result["empty"]) == (3, 2, 1)
    assert {m["content"]: m["priority"] for m in run_json("list")["memories"]} == {"one": "critical", "two": "low"}
    assert run_json("import", str(tmp_path / "real.json"))["duplicates"] == 2


def test_what_was_deleted_comes_back_only_where_asked(run_json: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[{"id": "a", "memory": "one"}]')
    run_json("import", str(path))
    run_json("delete", "a")
    assert run_json("import", str(path))["skipped"] == 1
    assert run_json("import", str(path), "--revive")["imported"] == 1


def test_copies_are_kept_where_asked(run_json: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('["one", "one"]')
    assert run_json("import", str(path), "--keep-copies")["imported"] == 2


def test_items_that_fail_are_listed_and_are_a_failure(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('["one", {"memory": 7}]')
    code, out, _ = run("import", str(path))
    assert code == 1
    assert out.startswith("Import of 2 items: 1 imported, 1 failed.")
    assert "its text is not a string" in out


@pytest.mark.parametrize("argv", [[], ["x.json", "--mem0"]])
def test_an_import_is_from_one_place(run: Run, argv: list[str]) -> None:
    code, _, err = run("import", *argv)
    assert code == 2
    assert "give one file, or --mem0" in err


def test_a_file_that_is_not_there_or_no_list_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    for name, words in (("missing.json", "no file"), ("x.json", "no list"), ("", "regular file")):
        code, out, err = run("import", str(tmp_path / name))
        assert (code, out) == (1, "")
        assert words in err


def test_an_import_reads_standard_input_and_indexes_what_it_brought(tmp_path: Path) -> None:
    text = '{"memory": "Our dog is allergic to chicken"}\n{"memory": "Der Zug fährt ✓"}\n'
    done = process("import", "-", "--json", folder=tmp_path, stdin=text.encode("utf-16"), settings=FULL)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["imported"] == 2
    stats = json.loads(process("stats", "--json", folder=tmp_path, settings=FULL).stdout)
    assert stats["index"]["pending"] == stats["index"]["without_vector"] == 0


def test_mem0_is_imported_by_the_key_of_the_environment(tmp_path: Path) -> None:
    server = Mem0()
    try:
        server.behave = pages(3)
        settings = {"MEM0_BASE_URL": server.url, "MEM0_API_KEY": "m0-key", "MEM0_USER_ID": "alex"}
        done = process("import", "--mem0", "--json", folder=tmp_path, settings=settings)
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout)["imported"] == 3
        assert [(r.user, r.headers["Authorization"]) for r in server.requests] == [("alex", "Token m0-key")]
        server.behave = lambda request: Answer(status=403)
        done = process("import", "--mem0", "--json", folder=tmp_path, settings=settings)
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"refuses the key" in done.stderr
    finally:
        server.close()


def test_an_import_that_is_interrupted_says_what_is_in_and_goes_on_later(tmp_path: Path) -> None:
    path, database = tmp_path / "x.json", tmp_path / "memories.db"
    path.write_text(json.dumps([f"fact {n}" for n in range(20_000)]))
    command = [sys.executable, "-m", "r3_lite", "import", str(path), "--json"]
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE) as running:
        eventually(lambda: database.exists() and database.stat().st_size + wal(database) > 500_000)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    first = json.loads(out)
    assert running.returncode == 130
    assert 0 < first["imported"] < 20_000
    assert first["imported"] + first["skipped"] == 20_000
    assert "It was stopped" in first["message"]
    again = json.loads(process("import", str(path), "--json", folder=tmp_path).stdout)
    assert (again["duplicates"], again["imported"]) == (first["imported"], first["skipped"])


def test_a_bar_shows_on_a_terminal_and_only_the_result_on_standard_output(tmp_path: Path) -> None:
    import pty

    path = tmp_path / "x.json"
    path.write_text(json.dumps([f"fact {n}" for n in range(300)]))
    screen, terminal_end = pty.openpty()
    command = [sys.executable, "-m", "r3_lite", "import", str(path), "--json"]
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=terminal_end) as running:
        os.close(terminal_end)
        drawn = b""
        # The end of a pseudo-terminal is an error on Linux.
        with contextlib.suppress(OSError):
            while piece := os.read(screen, 4096):
                drawn += piece
        out, _ = running.communicate()
    os.close(screen)
    assert json.loads(out)["imported"] == 300
    assert b"importing" in drawn
    assert b"300/300" in drawn


def wal(database: Path) -> int:
    """The size of the log beside a file."""
    log = database.with_name(database.name + "-wal")
    return log.stat().st_size if log.exists() else 0


@pytest.mark.parametrize(("answer", "left"), [("n", 2), ("", 2), ("y", 0)])
def test_deleting_all_asks_first(
    run: Run, run_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    run("add", "one")
    run("add", "two")
    questions: list[str] = []

    def ask(question: str) -> str:
        questions.append(question)
        return answer

    monkeypatch.setattr(terminal, "is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", ask)
    run("delete", "--all")
    assert questions == ["Delete all 2 memories of user default? [y/N] "]
    assert run_json("list")["total"] == left


def test_deleting_all_spares_other_users(run: Run, run_json: Callable[..., Any]) -> None:
    run("add", "one", "--user", "ada")
    run("add", "two", "--user", "ben")
    assert run_json("delete", "--all", "--yes", "--user", "ada") == {"deleted_count": 1}
    assert run_json("list", "--user", "ben")["total"] == 1


def test_the_graph_is_printed_and_written(tmp_path: Path) -> None:
    process("add", "Ana Keller works for Acme Corp.", folder=tmp_path, settings=FULL)
    shown = process("graph", "acme", folder=tmp_path, settings=FULL)
    assert shown.returncode == 0
    assert [line.rsplit("  ", 1)[0] for line in shown.stdout.decode().splitlines()[1:]] == [
        "└── Acme Corp",
        "    └── <--[WORKS_FOR]-- Ana Keller",
    ]
    files = [tmp_path / name for name in ("graph.html", "graph.dot", "graph.mmd")]
    flags = [
        part for flag, file in zip(("--html", "--dot", "--mermaid"), files, strict=True) for part in (flag, str(file))
    ]
    written = process("graph", *flags, "--json", folder=tmp_path, settings=FULL)
    (edge,) = json.loads(written.stdout)["edges"]
    assert (edge["from"], edge["type"], edge["to"]) == ("people:Ana Keller", "WORKS_FOR", "organizations:Acme Corp")
    assert written.stderr.decode().count("written: ") == 3
    for file in files:
        assert "Ana Keller" in file.read_text(encoding="utf-8")
        assert file.stat().st_mode & 0o777 == 0o600


def test_an_empty_graph_and_one_that_is_switched_off_are_told_apart(run: Run, tmp_path: Path) -> None:
    empty = process("graph", folder=tmp_path, settings=FULL)
    assert (empty.returncode, empty.stdout) == (0, b"No entities found in the memories of user default.\n")
    code, out, err = run("graph")
    assert (code, out) == (1, "")
    assert "basic mode" in err


def test_stats_say_where_the_file_is_and_what_it_holds(run: Run, run_json: Callable[..., Any], db_path: Path) -> None:
    run("add", "one", "--user", "ada")
    run("add", "two", "--user", "ben")
    health = run_json("stats")
    assert (health["status"], health["database"]["path"]) == ("ok", str(db_path))
    assert health["counts"] == {"memories": 2, "users": 2, "history": 2}
    assert str(db_path) in run("stats")[1]


def test_stats_of_a_damaged_file_fail(run: Run, db_path: Path) -> None:
    db_path.parent.mkdir()
    db_path.write_bytes(b"no database" * 1000)
    code, out, _ = run("stats")
    assert code == 1
    assert "damaged" in out


def test_models_lists_the_bundled_one_first_and_present(tmp_path: Path) -> None:
    done = process("models", "--json", folder=tmp_path)
    first, *others = json.loads(done.stdout)
    assert (first["name"], first["dimension"], first["present"]) == ("all-MiniLM-L6-v2-int8", 384, True)
    assert any(other["multilingual"] for other in others)


def test_an_unknown_model_is_not_downloaded(tmp_path: Path) -> None:
    done = process("models", "download", "nobody/nothing", folder=tmp_path)
    assert done.returncode == 1
    assert b"names no known model" in done.stderr


@pytest.mark.parametrize("arguments", [("get", UNKNOWN_ID), ("delete", UNKNOWN_ID), ("add", " "), ("search", " ")])
def test_what_cannot_be_done_is_one_line_on_standard_error(run: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"r3-lite: .+\n", err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",),
        ("search",),
        ("search", "x", "--limit", "0"),
        ("search", "x", "--limit", "101"),
        ("search", "x", "--threshold", "nan"),
        ("add", "x", "--metadata", "[1]"),
        ("add", "x", "--priority", "urgent"),
        ("delete",),
        ("delete", UNKNOWN_ID, "--all"),
        ("list", "--user", " "),
        ("list", "--db", ""),
        ("list", "--lim", "3"),
        ("config", "emacs"),
        ("export", "--format", "xml"),
        ("restore", "b.db"),
        ("purge", "--deleted"),
    ],
)
def test_wrong_usage_has_the_exit_code_2(run: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "error:" in err


def test_a_wrong_setting_is_named_without_its_value(tmp_path: Path) -> None:
    done = process("list", folder=tmp_path, settings={"R3_BUSY_TIMEOUT": "CANARY"})
    assert done.returncode == 2
    assert re.fullmatch(r"r3-lite: .*R3_BUSY_TIMEOUT.*\n", done.stderr.decode())
    assert b"CANARY" not in done.stderr


def test_a_server_with_a_wrong_setting_ends_with_one_line(tmp_path: Path) -> None:
    done = process(folder=tmp_path, settings={"R3_THREADS": "many"})
    assert (done.returncode, done.stdout) == (2, b"")
    assert re.fullmatch(r"r3-lite: .*R3_THREADS.*\n", done.stderr.decode())


def test_everything_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    text = "🎉 Geburtstag in 東京, café für 5 €"
    narrow = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}
    done = process("add", text, "--json", folder=tmp_path, settings=narrow)
    assert done.returncode == 0, done.stderr
    memory_id = json.loads(done.stdout.decode())["memory_id"]
    for command in (["list"], ["search", "東京"], ["get", memory_id], ["get", memory_id, "--json"]):
        done = process(*command, folder=tmp_path, settings=narrow)
        assert done.returncode == 0
        assert text in done.stdout.decode("utf-8")


def test_the_default_file_does_not_depend_on_the_working_directory(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    home = {"R3_DB_PATH": "", "XDG_DATA_HOME": "", "HOME": str(tmp_path / "home")}
    process("add", "one memory", folder=tmp_path, cwd=here, settings=home)
    done = process("list", "--json", folder=tmp_path, cwd=there, settings=home)
    assert json.loads(done.stdout)["total"] == 1
    assert [*here.iterdir(), *there.iterdir()] == []


def test_a_database_flag_is_meant_from_where_one_stands(tmp_path: Path) -> None:
    process("add", "one memory", "--db", "notes.db", folder=tmp_path, cwd=tmp_path)
    assert (tmp_path / "notes.db").is_file()


def test_commands_and_a_server_share_the_file(tmp_path: Path) -> None:
    with Server(environment(tmp_path)) as server:
        added = server.call("add_memory", content="Tea is in the second drawer").data
        listed = json.loads(process("list", "--json", folder=tmp_path).stdout)
        assert [memory["id"] for memory in listed["memories"]] == [added["memory_id"]]
        process("add", "Coffee is in the first drawer", folder=tmp_path)
        assert server.call("get_all_memories").data["total"] == 2


def test_a_demo_of_one_command_leaves_no_file(tmp_path: Path) -> None:
    done = process("--demo", "add", "one memory", folder=tmp_path)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_in_a_terminal_it_explains_itself_instead_of_waiting(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "r3_lite"]
        done = subprocess.run(
            command, stdin=theirs, capture_output=True, env=environment(tmp_path), timeout=60, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    for expected in ("r3-lite config", "r3-lite serve", str(tmp_path / "memories.db")):
        assert expected in done.stdout.decode()


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "r3_lite", "stats"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, env=environment(tmp_path), check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_memory_cannot_steer_the_terminal(run: Run) -> None:
    run("add", "red \x1b[31malert\x07 [link=http://x]here[/link]")
    for command in ("list", "search red"):
        _, out, _ = run(*command.split())
        assert "\x1b[31m" not in out
        assert "␛[31malert␇ [link=http://x]here[/link]" in out


def test_only_serving_imports_fastmcp(tmp_path: Path) -> None:
    code = """
import sys
from r3_lite import cli
heavy = {"pydantic", "numpy", "rich", "importlib.metadata"} & set(sys.modules)
assert not heavy, heavy
for command in ("add one", "list", "search one", "stats", "config", "delete --all --yes"):
    assert cli.run(command.split()) == 0
    assert not {"fastmcp", "mcp", "onnxruntime"} & set(sys.modules), command
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_server_ends_in_good_order_while_the_model_is_at_work(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with Server(environment(tmp_path, R3_INTELLIGENCE="full"), stderr=log) as server:
        server.call("add_memory", content="Tea is in the second drawer")
    assert server.process.returncode == 0
    assert log.read_bytes() == b""
