"""What the tests of the server share: settings on a temporary path, and a server process on a raw pipe."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult

from r3_lite.engine import Engine

MODES = ["auto", "legacy"]
PATIENCE = 60.0
"""Seconds after which a missing answer fails a test; only a server that hangs comes near it."""

_OWN_VARIABLES = ("R3_", "MEM0_", "FASTMCP_", "HF_", "INTELLIGENCE_MODE", "DEMO_MODE", "QUIET_MODE", "DEBUG")


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a server that keeps everything below `folder` and loads no model unless told so."""
    foreign = {key: value for key, value in os.environ.items() if not key.startswith(_OWN_VARIABLES)}
    own = {"HOME": str(folder), "R3_DB_PATH": str(folder / "memories.db"), "R3_INTELLIGENCE": "basic"}
    # No test cuts the power: only that needs a wait for the disk at every commit.
    own["R3_SYNCHRONOUS"] = "normal"
    return foreign | own | settings


def use_environment(monkeypatch: pytest.MonkeyPatch, folder: Path, **settings: str) -> None:
    """Give servers in this process the environment that `environment` gives to processes."""
    for name in list(os.environ):
        if name.startswith(_OWN_VARIABLES):
            monkeypatch.delenv(name)
    for name, value in environment(folder, **settings).items():
        monkeypatch.setenv(name, value)


async def call(client: Client[Any], tool: str, /, **arguments: Any) -> CallToolResult:
    """Call a tool and return its result, be it an error."""
    return await client.call_tool(tool, arguments, raise_on_error=False)


async def good(client: Client[Any], tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool, check that it succeeded and return the structured part."""
    result = await call(client, tool, **arguments)
    assert not result.is_error, text_of(result)
    return data_of(result)


async def failed(client: Client[Any], tool: str, /, **arguments: Any) -> str:
    """Call a tool, check that it failed as every tool fails, and return the code of the error."""
    result = await call(client, tool, **arguments)
    assert result.is_error
    text, data = text_of(result), data_of(result)
    assert list(data) == ["error", "code", "details"]
    assert text == f"{data['code']}: {data['error']}"
    assert len(text) < 300
    assert "\n" not in text
    assert "Traceback" not in text
    assert "pydantic" not in text
    return str(data["code"])


async def added(client: Client[Any], content: str, /, **arguments: Any) -> str:
    """Add a memory and return its id."""
    data = await good(client, "add_memory", content=content, **arguments)
    return str(data["memory_id"])


async def found(client: Client[Any], query: str, /, **arguments: Any) -> list[str]:
    """Search and return the ids of the hits, best first."""
    data = await good(client, "search_memory", query=query, **arguments)
    return [hit["id"] for hit in data["results"]]


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the background worker has brought a condition about."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the background worker did not do it"
        time.sleep(0.01)


def indexed(engine: Engine) -> bool:
    """Tell whether every memory has its vectors."""
    return engine.pending()[0] == {"pending": 0, "failed": 0, "without_vector": 0}


def text_of(result: CallToolResult) -> str:
    """Return the one text block of a tool result."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def data_of(result: CallToolResult) -> dict[str, Any]:
    """Return the structured part of a tool result."""
    assert isinstance(result.structured_content, dict)
    return result.structured_content


class Answer:
    """The result of a raw tool call."""

    def __init__(self, message: dict[str, Any]) -> None:
        assert "result" in message, message
        self.result: dict[str, Any] = message["result"]
        self.is_error: bool = self.result.get("isError", False)
        self.data: dict[str, Any] = self.result.get("structuredContent", {})
        (block,) = self.result["content"]
        self.text: str = block["text"]


OBEY_PERMISSIONS = """
import ctypes, sys
if sys.platform == "linux":
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP
"""
"""Makes a process of root obey file permissions like anybody else's. For `prelude`."""


class Server:
    """`python -m r3_lite` on a raw pipe, initialised as a client of 2025-11-25. Use as a context manager.

    Every line of its standard output must be a JSON-RPC message, up to the end of the process. `prelude` is Python
    that the process runs before it becomes the server.
    """

    def __init__(self, env: dict[str, str], *, stderr: Path | int = subprocess.DEVNULL, prelude: str = "") -> None:
        self.notifications: list[dict[str, Any]] = []
        self.answered: list[int] = []
        """The requests in the order in which their answers came."""
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._early: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._bad: list[bytes] = []
        command = [sys.executable, "-m", "r3_lite"]
        if prelude:
            command = [sys.executable, "-c", f"{prelude}\nimport os\nos.execv({sys.executable!r}, {command!r})"]
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(stderr.open("wb")) if isinstance(stderr, Path) else stderr
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        self.initialised = self.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )["result"]
        self.notify("notifications/initialized")
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> int:
        """Close the input, wait for the process and check that nothing but messages came out."""
        if self.process.stdin and not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self._reader.join(5)
            if self.process.stdout:
                self.process.stdout.close()
        assert not self._bad, "something that is no JSON-RPC message on standard output"
        return code

    def kill(self) -> None:
        """End the process at once, as kill -9 does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.end()

    def send(self, line: bytes) -> None:
        """Write one line as it is."""
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {})
        self.send(json.dumps(message).encode() + b"\n")

    def post(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request without waiting; return its id for `wait`."""
        with self._lock:
            self._next += 1
            number = self._next
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
            self.send(json.dumps(message).encode() + b"\n")
        return number

    def wait(self, number: int, patience: float = PATIENCE) -> dict[str, Any]:
        """Return the answer to a request. Raises queue.Empty when none comes."""
        while number not in self._early:
            message = self._answers.get(timeout=patience)
            self._early[message["id"]] = message
        return self._early.pop(number)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        return self.wait(self.post(method, params))

    def start_call(self, tool: str, /, **arguments: Any) -> int:
        """Send a tool call without waiting; return its id for `answer`."""
        return self.post("tools/call", {"name": tool, "arguments": arguments})

    def answer(self, number: int, patience: float = PATIENCE) -> Answer:
        """Return the result of a tool call that was sent before."""
        return Answer(self.wait(number, patience))

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        """Call a tool and return its result."""
        return self.answer(self.start_call(tool, **arguments))

    def saved(self, content: str, **arguments: Any) -> str:
        """Add a memory, check that it was accepted and return its id."""
        answer = self.call("add_memory", content=content, **arguments)
        assert not answer.is_error, answer.text
        return str(answer.data["memory_id"])

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
            except (ValueError, TypeError, KeyError, AssertionError):
                self._bad.append(line)
                continue
            if "id" in message and "method" not in message:
                self.answered.append(message["id"])
                self._answers.put(message)
            else:
                self.notifications.append(message)


@contextlib.contextmanager
def servers(count: int, env: dict[str, str]) -> Iterator[list[Server]]:
    """Start several server processes at the same moment and initialise them all."""
    with contextlib.ExitStack() as stack:
        started = [Server(env) for _ in range(count)]
        yield [stack.enter_context(server) for server in started]
