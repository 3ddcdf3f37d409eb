"""What passes the filter before the transport and what does not; how a process ends; what a start spares."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from r3_lite import wire
from r3_lite.wire import UNREADABLE, flat_schema, readable_lines


def call(arguments: str, request_id: str = "7") -> bytes:
    """A tool call in the order of the protocol's documents."""
    text = (
        f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call",'
        f'"params":{{"name":"add_memory","arguments":{arguments}}}}}\n'
    )
    return text.encode("utf-8", "surrogatepass")


def filtered(*lines: bytes) -> list[bytes]:
    return list(readable_lines(io.BytesIO(b"".join(lines))))


def refused(line: bytes) -> tuple[Any, str, str]:
    """The id, the tool and the reason of the one request that `line` became."""
    (out,) = filtered(line)
    message = json.loads(out)
    assert message["method"] == "tools/call"
    assert list(message["params"]["arguments"]) == [UNREADABLE]
    return message["id"], message["params"]["name"], message["params"]["arguments"][UNREADABLE]


@pytest.mark.parametrize(
    "line",
    [
        call('{"content": "plain"}'),
        call(r'{"content": "\ud83d\ude00 a\u0000b \/ é 日本"}'),
        call('{"content": "a\u2028b\u0085c"}'),
        call('{"metadata": {"n": 123456789012345678901234567890, "x": -1.50e+2}}'),
        call('{"metadata": {"a": ' + "[" * 180 + "]" * 180 + "}}"),
        call("null"),
        b'{ "jsonrpc" : "2.0", "id": "x", "method": "tools/list" }\n',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}\n',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        b'{"jsonrpc":"2.0","id":3,"result":{"action":"decline"}}\n',
    ],
)
def test_a_good_line_passes_byte_for_byte(line: bytes) -> None:
    assert filtered(line) == [line]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (r'{"content": "x\ud83d"}', "surrogate"),
        (r'{"content": "x\ude00 y"}', "surrogate"),
        (r'{"metadata": {"\ud83d": 1}}', "surrogate"),
        ('{"content": "x\ud83d"}', "UTF-8"),
        ('{"metadata": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested"),
        ('{"limit": ' + "1" * 5_000 + "}", "4,300 digits"),
        ('{"metadata": {"a": NaN}}', "finite"),
        ('{"threshold": -Infinity}', "finite"),
        ('{"metadata": {"a": [1e999]}}', "finite"),
        ('{"content": "a\tb"}', "control character"),
        ('{"content": "a",}', "not valid JSON"),
        ('{"limit": 1', "not valid JSON"),
        ('"add this"', "`arguments` must be"),
        ('"[1]"', "`arguments` must be"),
        ("[1]", "`arguments` must be"),
        ("5", "`arguments` must be"),
    ],
)
def test_an_unreadable_call_becomes_the_same_call_with_the_reason(arguments: str, word: str) -> None:
    request_id, tool, reason = refused(call(arguments))
    assert (request_id, tool) == (7, "add_memory")
    assert word in reason


def test_a_reason_is_short_and_quotes_nothing() -> None:
    _, _, reason = refused(call(r'{"content": "my secret \ud83d"}'))
    assert len(reason) < 120
    assert "secret" not in reason


@pytest.mark.parametrize(
    "line",
    [
        rb'{"method":"tools/call","params":{"name":"t","arguments":{"metadata":{"id":1,"name":"no","method":"no"},'
        rb'"content":"\ud83d"}},"jsonrpc":"2.0","id":"r-7"}',
        rb'{"params":{"arguments":{"id":1,"content":"\ud83d } ] \" \\","list":[{"name":"no"}]},"name":"t"},'
        rb'"method":"tools\/call","id":"r-7","jsonrpc":"2.0"}',
        rb'{"id" : "r-7", "jsonrpc":"2.0", "params":{"_meta":{"id":2,"name":"no"}, "name": "t", "arguments":'
        rb'{"content":"\"id\":3 \ud83d"}}, "method":"tools/call"}',
    ],
)
def test_id_and_tool_are_found_wherever_they_stand(line: bytes) -> None:
    assert refused(line + b"\n")[:2] == ("r-7", "t")


def test_arguments_sent_as_the_text_of_an_object_become_the_object() -> None:
    (out,) = filtered(call(json.dumps('{"content": "é \\n", "n": 1.5}')))
    assert out.endswith(b"\n")
    assert json.loads(out) == json.loads(call('{"content": "é \\n", "n": 1.5}'))


def test_arguments_sent_as_text_are_checked_like_others() -> None:
    assert "finite" in refused(call(json.dumps('{"x": NaN}')))[2]
    assert "nested" in refused(call(json.dumps('{"x": ' + "[" * 200 + "]" * 200 + "}")))[2]


def test_an_unreadable_request_that_calls_no_tool_names_the_reason_as_its_method() -> None:
    (out,) = filtered(b'{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"\\ud83d"}}\n')
    message = json.loads(out)
    assert message["id"] == 5
    assert message["method"].startswith("unreadable: a text holds half")


def test_a_request_without_the_protocol_version_is_answered() -> None:
    assert "JSON-RPC" in refused(call("{}").replace(b'"jsonrpc":"2.0",', b""))[2]


@pytest.mark.parametrize(
    "line",
    [
        b"hello\n",
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":"\\ud83d"}}\n',
        b'{"jsonrpc":"2.0","id":3,"result":{"x":"\\ud83d"}}\n',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping","params":{"x":"\\ud83d"}}\n',
    ],
)
def test_a_line_that_nobody_waits_for_is_logged_and_left_out(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert filtered(line, call("{}")) == [call("{}")]
    assert len(caplog.records) == 1


def test_blank_lines_and_a_byte_order_mark_are_left_out() -> None:
    assert filtered(b"\xef\xbb\xbf" + call("{}"), b"\n", b"\r\n", call("{}")) == [call("{}"), call("{}")]


def test_a_carriage_return_between_tokens_does_not_end_the_line() -> None:
    assert filtered(call('{\r"a": 1}')) == [call('{ "a": 1}')]


@pytest.mark.parametrize(
    "line",
    [
        call('{"content": "' + "x" * 20_000 + '"}'),
        b'{"method":"tools/call","params":{"name":"add_memory","arguments":{"content":"'
        + b'\\"id\\":1,' * 2_000
        + b'"}},"jsonrpc":"2.0","id":7}\n',
    ],
)
def test_a_line_that_is_too_long_is_refused_and_the_next_one_passes(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", 10_000)
    first, second = filtered(line, call('{"content": "next"}', "8"))
    assert json.loads(first)["id"] == 7
    assert json.loads(first)["params"]["name"] == "add_memory"
    assert "longer than" in json.loads(first)["params"]["arguments"][UNREADABLE]
    assert second == call('{"content": "next"}', "8")


def test_the_longest_line_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", len(call("{}")))
    assert filtered(call("{}")) == [call("{}")]


def test_a_line_cut_off_by_the_end_of_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", 10_000)
    assert "longer than" in refused(call('{"content": "' + "x" * 20_000)[:-3])[2]


def test_a_refused_call_carries_the_protocol_envelope_of_the_connection() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 3}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    _, second = filtered(json.dumps(hello).encode() + b"\n", call(r'{"content": "\ud83d"}'))
    envelope = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert json.loads(second)["params"]["_meta"] == envelope


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from(["id", "name", "method", '"id":1', "{[", "\\"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=()), max_size=3) | st.sampled_from(["id", "name", "method"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(
    arguments=json_values,
    request_id=st.integers(-(10**17), 10**17) | st.text("abc-_ 09", max_size=8),
    id_first=st.booleans(),
)
def test_every_call_reaches_the_transport_with_its_id(arguments: Any, request_id: int | str, id_first: bool) -> None:
    head: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
    rest = {"method": "tools/call", "params": {"name": "search", "arguments": arguments}}
    line = json.dumps(head | rest if id_first else rest | head).encode() + b"\n"
    (out,) = filtered(line)
    message = mcp_types.jsonrpc_message_adapter.validate_json(out, by_name=False)
    assert isinstance(message, mcp_types.JSONRPCRequest)
    assert message.id == request_id
    assert message.params is not None
    assert message.params["name"] == "search"
    assert out == line or isinstance(arguments, str) or list(message.params["arguments"]) == [UNREADABLE]


ECHO = """
import sys
from r3_lite.wire import guard_stdin
guard_stdin()
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
print("end")
"""


def start(code: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        **options,
    )


def test_end_of_input_ends_the_reader() -> None:
    with start(ECHO) as process:
        out, _ = process.communicate(call("{}"), timeout=10)
    assert out == call("{}") + b"end\n"
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send these signals to a child")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_end_of_input(number: signal.Signals) -> None:
    with start(ECHO) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(call("{}"))
        process.stdin.flush()
        assert process.stdout.readline() == call("{}")
        process.send_signal(number)
        assert process.stdout.readline() == b"end\n"
        assert process.wait(10) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send these signals to a child")
def test_a_server_that_does_not_end_is_killed() -> None:
    code = "from r3_lite import wire\nwire._GRACE = 0.1\n" + ECHO + "import time\ntime.sleep(60)\n"
    with start(code) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdin.write(call("{}"))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) < 0


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors the way of POSIX")
def test_a_closed_standard_error_is_not_taken_by_the_input() -> None:
    code = ECHO + "import os\nprint(os.fstat(2).st_rdev == os.stat(os.devnull).st_rdev)\n"
    with start(code, preexec_fn=lambda: os.close(2)) as process:
        out, _ = process.communicate(b"", timeout=10)
    assert out == b"end\nTrue\n"


SERVER = """
import subprocess, sys
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel
from r3_lite.wire import flat_schema, guard_stdin, light_session_state

class Item(BaseModel):
    name: str

class Result(BaseModel):
    items: list[Item]

def add_memory(content: str = "", unreadable: str = "") -> str:
    if unreadable:
        raise ToolError(unreadable)
    print("noise", flush=True)
    child = subprocess.run([sys.executable, "-c", "print('noise'); input()"])
    return f"{content} {child.returncode}"

async def loaded(ctx: Context) -> Result:
    calls = (await ctx.get_state("calls") or 0) + 1
    await ctx.set_state("calls", calls)
    if calls == 2:
        await ctx.delete_state("calls")
    names = [name for name in ("key_value", "griffe", "jsonref") if name in sys.modules]
    return Result(items=[Item(name=name) for name in [str(calls), *names]])

server = FastMCP("test")
server.tool(add_memory, description="Add.")
server.tool(loaded, description="Say what was loaded.", output_schema=flat_schema(Result))
light_session_state(server)
guard_stdin()
server.run(transport="stdio", show_banner=False)
"""
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)


def conversation(*lines: bytes) -> list[Any]:
    """The results that SERVER answers one after the other; every line of its output must be one of them."""
    with start(SERVER, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        results = []
        for line in (HELLO, *lines):
            process.stdin.write(line)
            process.stdin.flush()
            results.append(json.loads(process.stdout.readline())["result"])
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0
    return results[1:]


def test_a_server_behind_the_filter_answers_and_keeps_its_pipe_to_itself() -> None:
    broken, whole = conversation(call(r'{"content": "\ud83d"}'), call('{"content": "next"}', "8"))
    assert broken["isError"]
    assert broken["content"][0]["text"].startswith("a text holds half of a surrogate pair")
    # The child found its standard input empty (EOFError, code 1), and nothing it printed is in the answers.
    assert whole["content"][0]["text"] == "next 1"


def test_listing_and_calling_import_neither_state_store_nor_resolver_nor_docstring_parser() -> None:
    ask = call("{}").replace(b"add_memory", b"loaded")
    listed, *answers = conversation(b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n', ask, ask, ask)
    assert "$ref" not in json.dumps(listed)
    # The state lives from call to call and can be deleted, as with the store of FastMCP.
    names = [[item["name"] for item in answer["structuredContent"]["items"]] for answer in answers]
    assert names == [["1"], ["2"], ["1"]]


def test_quick_start_ignores_a_foreign_env_file_and_leaves_the_collector_on(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FASTMCP_LOG_LEVEL=nonsense\n", encoding="utf-8")
    code = """
import gc, sys
sys.path.insert(0, sys.argv[1])
from r3_lite.wire import quick_start
with quick_start():
    assert not gc.isenabled()
    import fastmcp
assert gc.isenabled() and gc.get_freeze_count() > 1_000
print(fastmcp.settings.log_level)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTMCP_")}
    arguments = [sys.executable, "-c", code, str(Path(__file__).parents[1])]
    out = subprocess.check_output(arguments, cwd=tmp_path, env=environment, text=True)
    assert out == "WARNING\n"


class Leaf(BaseModel):
    """A nested model."""

    title: str
    weight: float = Field(default=1.0, description="A number.")


class Tree(BaseModel):
    """A model with references in a list, a union and a mapping."""

    leaves: list[Leaf]
    best: Leaf | None = Field(description="The first.")
    by_name: dict[str, Leaf]


def test_a_flat_schema_has_no_reference_and_no_generated_title() -> None:
    leaf = {
        "type": "object",
        "description": "A nested model.",
        "properties": {
            "title": {"type": "string"},
            "weight": {"type": "number", "default": 1.0, "description": "A number."},
        },
        "required": ["title"],
    }
    assert flat_schema(Tree) == {
        "type": "object",
        "description": "A model with references in a list, a union and a mapping.",
        "properties": {
            "leaves": {"type": "array", "items": leaf},
            "best": {"anyOf": [leaf, {"type": "null"}], "description": "The first."},
            "by_name": {"type": "object", "additionalProperties": leaf},
        },
        "required": ["leaves", "best", "by_name"],
    }
