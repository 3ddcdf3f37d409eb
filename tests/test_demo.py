"""The demo succeeds, and fails when a memory is not what the question asks for."""

import contextlib
import io
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_helpers import environment
from rich.console import Console

from r3_lite import app, demo


def test_the_demo_succeeds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "r3_lite", "demo"], env=environment(tmp_path), capture_output=True, check=False
    )
    shown = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b""), shown
    assert "Nothing is lost: 12 memories" in shown
    assert "he sees 0 memories of alice" in shown
    assert "Everything as expected." in shown


@pytest.mark.usefixtures("tiny_model")
def test_the_demo_fails_when_an_expected_memory_is_not_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tiny model knows none of the words, and the server runs in this process.
    @contextlib.asynccontextmanager
    async def in_memory(*_: Any) -> AsyncIterator[Client[Any]]:
        async with Client(app.mcp) as client:
            yield client

    monkeypatch.setenv("R3_DB_PATH", str(tmp_path / "memories.db"))
    monkeypatch.setenv("R3_EMBEDDING_MODEL", "tiny")
    monkeypatch.setattr(demo, "_server", in_memory)
    console = Console(file=io.StringIO(), record=True, width=200)
    assert demo.run(console) == 1
    assert "did not find" in console.export_text()


def test_the_demo_fails_when_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    console = Console(file=io.StringIO(), record=True, width=200)
    assert demo.run(console) == 1
    assert "the server could not be used" in console.export_text()
