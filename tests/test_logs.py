"""Standard error of a server: quiet, one line for each message, and nothing of what callers send."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_helpers import Server, environment

from r3_lite import logs
from r3_lite.settings import Settings


@pytest.fixture(autouse=True)
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("r3_lite")
    handlers, level, own_level = root.handlers[:], root.level, ours.level
    monkeypatch.setenv("FASTMCP_LOG_ENABLED", "true")
    monkeypatch.setattr("threading.excepthook", lambda ended: None)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(own_level)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "warning"),
        ({"quiet": False}, "info warning"),
        ({"debug": True}, "debug info warning"),
    ],
)
def test_settings_choose_what_is_told(
    capsys: pytest.CaptureFixture[str], settings: dict[str, Any], expected: str
) -> None:
    logs.configure(Settings(**settings))
    for level in ("debug", "info", "warning"):
        getattr(logging.getLogger("r3_lite.indexer"), level)(level)
        getattr(logging.getLogger("library"), level)("not ours")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"r3-lite {level}: {level}" for level in expected.split()]


def test_errors_of_libraries_show_their_type_alone(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(debug=True))
    try:
        raise ValueError("CANARY")
    except ValueError:
        logging.getLogger("library.part").exception("calling with %r", "CANARY")
    assert capsys.readouterr().err == "r3-lite error: library.part reports an error (ValueError)\n"


def test_our_own_errors_show_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings())
    try:
        raise ValueError("CANARY")
    except ValueError:
        logging.getLogger("r3_lite.engine").exception("indexing is\nput off")
    assert capsys.readouterr().err == "r3-lite error: indexing is put off\n"


def test_a_server_tells_nothing_of_what_it_is_sent(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with Server(environment(tmp_path, R3_DEBUG="1"), stderr=log) as server:
        server.call("add_memory", content="CANARY")
        server.call("add_memory", content=["CANARY"], CANARY="CANARY")
        server.call("import_memories", source="json_file", api_key=["CANARY"])
        server.call("import_memories", source="json_file", file_path="/CANARY", api_key="CANARY")
        server.call("search_memory", query="CANARY", metadata_filter={"CANARY": {"$near": "CANARY"}})
        server.call("CANARY")
    assert b"CANARY" not in log.read_bytes()


def test_a_session_without_a_fault_writes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with Server(environment(tmp_path), stderr=log) as server:
        memory_id = server.saved("Tea is in the second drawer")
        server.call("search_memory", query="tea")
        server.call("get_memory", memory_id="mem_unknown")
        server.call("delete_memory", memory_id=memory_id)
    assert log.read_bytes() == b""


def test_a_server_in_memory_says_so(tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with Server(environment(tmp_path, R3_DEMO="true"), stderr=log):
        pass
    assert log.read_text() == ("r3-lite: demo: memories are kept in memory only and are gone when this process ends\n")


def test_a_closed_standard_error_harms_nothing(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m r3_lite 2>&-"
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    )
    env = environment(tmp_path, R3_DEMO="true", R3_DEBUG="1")
    done = subprocess.run(["/bin/sh", "-c", command], input=hello, env=env, stdout=subprocess.PIPE, check=True)
    assert b"serverInfo" in done.stdout
