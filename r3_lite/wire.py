"""What FastMCP needs around it: a standard input on which every request gets an answer, and a quick start.

Input. The transport of the MCP library drops a line that it cannot parse, and the client waits for its
time-out. It also replaces broken UTF-8 silently, reads NaN, and sees no signal while it waits for input.
`guard_stdin` puts a filter in front: a thread reads the real standard input and hands on good lines byte for
byte. A line that cannot be read becomes a request of the same id and tool whose only argument, `unreadable`,
is the reason; the server answers it like any other wrong argument. Content is refused rather than mended, so
that what is stored is never silently different from what was sent.

Start. `quick_start`, `light_session_state` and `flat_schema` spare what an import of FastMCP and its first
`tools/list` cost beyond need.
"""

import gc
import logging
import math
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

from pydantic_core import from_json, to_json

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from pydantic import BaseModel

MAX_LINE = 16 * 1024 * 1024
"""Longest line in bytes. The tools' own limits are lower; this one bounds the memory that a line can take."""

UNREADABLE = "unreadable"
"""The argument of a tool call that carries the reason why the call could not be read."""

_GRACE = 1.5
"""Seconds from the first SIGINT or SIGTERM to the end of the process, whatever still runs."""

_TOO_LONG = "the request is longer than 16 MB; send less at once"
_NOT_FINITE = "a number is NaN, infinite or out of range; send a finite number, or text"
_NOT_OBJECT = "`arguments` must be a JSON object of argument names and values"
_NOT_RPC = "the request is not a JSON-RPC 2.0 object"
_NOT_JSON = "the request is not valid JSON"
# Words of the JSON parser's messages, and what the caller hears instead.
_CAUSES = (
    ("hex escape", "a text holds half of a surrogate pair (a broken emoji); send whole characters"),
    ("recursion", "a value is nested too deeply; send at most 190 levels"),
    ("number out of range", "a number has more than 4,300 digits; send it as text"),
    ("unicode code point", "a text is not valid UTF-8; send UTF-8"),
    ("control character", "a text holds a raw control character; escape it as JSON requires"),
)

# Enough of both ends of a line for all that stands around the arguments: id, method, name of the tool.
_HEAD, _TAIL = 65_536, 4_096
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
# A quote within a JSON string is escaped, so this finds keys of objects and never a piece of a text.
_MEMBER = re.compile(rb'"(id|method|name)"\s*:\s*("(?:[ !#-\[\]-~]|\\/)*+"|-?\d{1,18}(?=[\s,}]))')
_DEPTH = {b"id": 1, b"method": 1, b"name": 2}

# What every request of a connection says about its protocol, version 2026-07-28 and later.
_PROTOCOL = "io.modelcontextprotocol/"

_FASTMCP_SETTINGS = {
    "FASTMCP_ENV_FILE": os.devnull,
    "FASTMCP_LOG_LEVEL": "WARNING",
    "FASTMCP_ENABLE_RICH_LOGGING": "false",
}

_logger = logging.getLogger(__name__)


class _Refused(ValueError):
    """The line is JSON and still no good request; the text is the reason for the caller."""


def guard_stdin() -> None:
    """Put the filter before file descriptor 0, and let SIGINT and SIGTERM end the server in good order.

    Call once, in the main thread, just before the server starts to read. One daemon thread then reads ahead
    by at most a line. Descriptor 0 stays a real one (a pipe), so that the transport can hide it from child
    processes as it does with the original. Standard descriptors that the parent left closed are opened on
    the null device, lest another file takes their number and the output meant for them.

    The first signal is an end of input: the server finishes the running calls and closes its store. After
    1.5 s (not on Windows) or at a second signal the process ends anyway; nothing acknowledged depends on a
    good end.
    """
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(spare)
    source = os.dup(0)
    read_end, write_end = os.pipe()
    os.dup2(read_end, 0)
    os.close(read_end)

    def end_input() -> None:
        # The reader sees the end when the pipe has no writer left. The number stays taken, for the thread
        # may be about to write to it.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, write_end, inheritable=False)
        os.close(null)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, _GRACE)
        end_input()

    def pump() -> None:
        try:
            with os.fdopen(source, "rb") as lines, os.fdopen(write_end, "wb", closefd=False) as sink:
                for line in readable_lines(lines):
                    sink.write(line)
                    sink.flush()
        finally:
            end_input()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    threading.Thread(target=pump, name="stdin", daemon=True).start()


def readable_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of `stream`, each a message that the transport can read, until the stream ends.

    A good line is yielded unchanged. `arguments` sent as the text of a JSON object become that object. A
    request that cannot be read is yielded as one that the server answers with the reason. A line that nobody
    waits for, since it holds no id and method, is logged and left out. Blocks in `stream.readline`; its
    OSError passes through.
    """
    envelope: dict[str, Any] = {}
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            readable = _refusal(line[:_HEAD], _rest(stream, line), _TOO_LONG, envelope)
        else:
            line = line.removeprefix(b"\xef\xbb\xbf")
            if line.isspace():
                continue
            try:
                readable = _checked(line, envelope)
            except ValueError as error:
                readable = _refusal(line[:_HEAD], line[-_TAIL:], _reason(error), envelope)
        if readable:
            yield readable
        else:
            _logger.warning("A line of standard input is no message that can be read or answered; left out.")


def _checked(line: bytes, envelope: dict[str, Any]) -> bytes:
    """Return `line` as the transport shall read it, and keep its envelope; ValueError if it is unreadable."""
    message = from_json(line)
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise _Refused(_NOT_RPC)
    params = message.get("params")
    if params is not None:
        if not isinstance(params, dict):
            raise _Refused(_NOT_RPC)
        arguments = params.get("arguments")
        if message.get("method") == "tools/call" and not isinstance(arguments, dict | None):
            params["arguments"] = _object(arguments)
            return _checked(to_json(message) + b"\n", envelope)
        if not _finite(params):
            raise _Refused(_NOT_FINITE)
        if isinstance(meta := params.get("_meta"), dict):
            envelope.update((key, value) for key, value in meta.items() if key.startswith(_PROTOCOL))
    # Outside of strings a carriage return is white space to JSON, but the transport would end the line at it.
    return line.replace(b"\r", b" ") if b"\r" in line else line


def _object(arguments: Any) -> dict[str, Any]:
    """Return the object that `arguments` is the JSON text of. _Refused: it is no such text."""
    try:
        value = from_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        raise _Refused(_NOT_OBJECT) from error
    if not isinstance(value, dict):
        raise _Refused(_NOT_OBJECT)
    return value


def _finite(value: Any) -> bool:
    """Return whether every number in a JSON value is finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return not isinstance(value, list) or all(map(_finite, value))


def _reason(error: ValueError) -> str:
    """Return what the caller hears of `error`, in words that quote nothing of the line."""
    words = str(error)
    if isinstance(error, _Refused):
        return words
    return next((reason for sign, reason in _CAUSES if sign in words), _NOT_JSON)


def _rest(stream: BinaryIO, line: bytes) -> bytes:
    """Read the rest of a line that is too long, keeping none of it but the tail, and return that."""
    tail = line[-_TAIL:]
    while not tail.endswith(b"\n") and (more := stream.readline(_HEAD)):
        tail = (tail + more)[-_TAIL:]
    return tail


def _refusal(head: bytes, tail: bytes, reason: str, envelope: dict[str, Any]) -> bytes:
    """Return a line that the server answers with `reason` in place of the request with this head and tail.

    A tool call stays a call of that tool. Any other request gets a method that does not exist, and the answer
    "Method not found" repeats the reason. Empty if the line is no request or its id is not found.
    """
    # The arguments may hold any key too: only the depth, counted from the nearer end, tells whose key it is.
    found: dict[bytes, Any] = {}
    depth = end = 0
    for member in _MEMBER.finditer(head):
        depth += _opened(head[end : member.start()])
        end = member.end()
        if depth == _DEPTH[member[1]]:
            found.setdefault(member[1], from_json(member[2]))
    for member in _MEMBER.finditer(tail):
        if -_opened(tail[member.end() :]) == _DEPTH[member[1]]:
            found.setdefault(member[1], from_json(member[2]))
    if b"id" not in found or b"method" not in found:
        return b""
    method, params = f"{UNREADABLE}: {reason}", {"_meta": envelope}
    if found[b"method"] == "tools/call" and b"name" in found:
        method = "tools/call"
        params |= {"name": found[b"name"], "arguments": {UNREADABLE: reason}}
    return to_json({"jsonrpc": "2.0", "id": found[b"id"], "method": method, "params": params}) + b"\n"


def _opened(text: bytes) -> int:
    """Return the brackets opened minus those closed in a piece of JSON that starts outside a string."""
    bare = _STRING.sub(b"", text)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


@contextmanager
def quick_start() -> Iterator[None]:
    """Import FastMCP and build the server in this context: sooner, and whatever folder the process starts in.

    The garbage collector rests, for an import makes few cycles and many objects that stay; those are then
    frozen, which spares later collections too. FastMCP does not read a `.env` file of the working directory,
    which belongs to somebody else's project and can even stop it, and logs from WARNING on in plain lines.
    Variables that the user has set win. Changes the process: call it once, in the command that serves.
    """
    for name, value in _FASTMCP_SETTINGS.items():
        os.environ.setdefault(name, value)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _SessionState:
    """The state that tools set through their Context, kept as long as the process lives."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    async def get(self, key: str) -> Any:
        """Return the value of `key`, or None."""
        return self._values.get(key)

    async def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep `value`; `ttl` is accepted and ignored."""
        self._values[key] = value

    async def delete(self, key: str) -> None:
        """Forget `key`, if it is there."""
        self._values.pop(key, None)


def light_session_state(server: "FastMCP") -> None:
    """Give `server` a plain dictionary for its session state, before it serves.

    FastMCP asks its state store for visibility rules at every list and call, and wraps each store, even one
    passed as `session_state_store`, in an adapter that is slow to import. The name set here is private to
    FastMCP: should it go, FastMCP makes its own store and only the time is lost.
    """
    vars(server)["_FastMCP__state_store"] = _SessionState()


def flat_schema(model: "type[BaseModel]") -> dict[str, Any]:
    """Return the JSON schema of `model` as it is serialised, with no reference in it and no generated title.

    Passed as `output_schema=`, it spares FastMCP its resolver of references, which imports an HTTP client,
    and it spares readers the titles. `model` must not contain itself: RecursionError if it does.
    """
    schema = model.model_json_schema(mode="serialization")
    definitions = schema.pop("$defs", {})

    def flat(node: Any) -> Any:
        if isinstance(node, list):
            return [flat(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            node = definitions[node["$ref"].removeprefix("#/$defs/")] | node
        # A property may be called title too: its value is a schema and no text.
        return {
            key: flat(value)
            for key, value in node.items()
            if key != "$ref" and not (key == "title" and isinstance(value, str))
        }

    result: dict[str, Any] = flat(schema)
    return result
