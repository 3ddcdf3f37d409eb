"""The server against r3's documents: every tool, argument, type, enum and annotation in data/r3-tools.json."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import TinyModel
from fastmcp import Client
from mcp_helpers import MODES, added, call, data_of, failed, good, text_of, use_environment

from r3_lite.app import mcp

pytestmark = pytest.mark.anyio

R3 = {t["name"]: t for t in json.loads((Path(__file__).parent / "data" / "r3-tools.json").read_text())["tools"]}
OURS = {tool.name: tool.to_mcp_tool() for tool in asyncio.run(mcp.list_tools())}
CODES = {
    "INVALID_PARAMETERS",
    "MEMORY_NOT_FOUND",
    "RATE_LIMIT_EXCEEDED",
    "STORAGE_ERROR",
    "STORAGE_BUSY",
    "IMPORT_ERROR",
    "MEM0_API_ERROR",
    "MODEL_UNAVAILABLE",
}
EXAMPLES: dict[str, Any] = {
    "content": "The contract holds",
    "messages": [{"role": "user", "content": "I said so"}, {"role": "assistant", "content": "Noted"}],
    "user_id": "someone",
    "metadata": {"topic": "contract", "nothing": None},
    "query": "contract",
    "limit": 7.0,
    "offset": 0.0,
    "metadata_filter": {"topic": "contract"},
    "batch_size": 20.0,
    "text": "Ana works for Acme",
    "entity_type": "people",
    "entity_name": "Ana",
    "relationship_type": "WORKS_FOR",
    "from_entity": "Ana",
    "to_entity": "Acme",
    "max_depth": 3.0,
    "source": "json_file",
    "api_key": "a key",
    "similarity_threshold": 0.9,
}
"""A value of the type that r3 documents, by argument; priorities and booleans are tried one by one."""
GRAPH_TOOLS = {"extract_entities", "get_knowledge_graph", "find_connections"}
VOLATILE = re.compile(r"mem_[0-9a-z]{23}|\d{4}-\d\d-\d\dT[\d:.]+Z|\d+\.\d+")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def use_environment_of(tool: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Load no model, but for the tools that need one a tiny one."""
    if tool not in GRAPH_TOOLS:
        use_environment(monkeypatch, folder)
        return
    monkeypatch.setattr("r3_lite.embed.open_model", lambda name, cache_dir: TinyModel())
    use_environment(monkeypatch, folder, R3_INTELLIGENCE="full", R3_EMBEDDING_MODEL="tiny")


@pytest.fixture
async def client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Client[Any]]:
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    use_environment_of(parameters.get("tool", ""), monkeypatch, tmp_path)
    async with Client(mcp) as connected:
        yield connected


async def required(client: Client[Any], tool: str, folder: Path) -> dict[str, Any]:
    """The arguments without which a call of the tool makes no sense."""
    if tool == "add_memory":
        return {"content": "Something to remember"}
    if tool == "import_memories":
        path = folder / "import.json"
        path.write_text('[{"memory": "An imported one"}]')
        return {"source": "json_file", "file_path": str(path)}
    given: dict[str, Any] = {}
    if "memory_id" in OURS[tool].input_schema["properties"]:
        given["memory_id"] = await added(client, "A memory to work on")
    if tool == "update_memory":
        given["content"] = "A memory that was worked on"
    for argument in {"query", "text", "from_entity"} & set(OURS[tool].input_schema["properties"]):
        given[argument] = EXAMPLES[argument]
    return given


def schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all schemas in it."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from schemas(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key])


def stable(result: dict[str, Any]) -> str:
    """A result without what differs from call to call: ids, times, measurements, whether it was kept."""
    volatile = {"memory", "database", "source", "cache_stats"}
    kept = {key: value for key, value in result.items() if key not in volatile}
    return VOLATILE.sub("*", json.dumps(kept))


def test_every_tool_is_one_of_r3() -> None:
    assert set(OURS) <= set(R3)


@pytest.mark.parametrize("tool", OURS)
def test_annotations_are_those_of_r3(tool: str) -> None:
    annotations = OURS[tool].annotations
    assert annotations is not None
    assert annotations.model_dump(by_alias=True, exclude_none=True) == R3[tool]["annotations"]


@pytest.mark.parametrize("tool", OURS)
def test_arguments_have_the_names_types_and_enums_of_r3(tool: str) -> None:
    ours, theirs = OURS[tool].input_schema, R3[tool]["inputSchema"]
    for name, schema in theirs["properties"].items():
        assert ours["properties"][name]["type"] == schema["type"]
        assert set(schema.get("enum", [])) <= set(ours["properties"][name].get("enum", []))
    assert ours.get("required", []) == theirs.get("required", [])


def test_messages_have_the_shape_of_r3() -> None:
    ours = OURS["add_memory"].input_schema["properties"]["messages"]
    assert ours["items"] == R3["add_memory"]["inputSchema"]["properties"]["messages"]["items"]


@pytest.mark.parametrize("tool", OURS)
def test_schemas_hold_one_plain_type_per_property(tool: str) -> None:
    assert OURS[tool].output_schema is not None
    for whole in (OURS[tool].input_schema, OURS[tool].output_schema or {}):
        for schema in schemas(whole):
            assert isinstance(schema["type"], str)
            assert schema["type"] != "null"
            assert not {"anyOf", "oneOf", "allOf", "not", "const", "$ref", "$defs"} & set(schema)
            assert schema.get("default", "") is not None
            assert schema.get("required", [""]) is not None
            assert schema["type"] != "array" or "type" in schema["items"]


@pytest.mark.parametrize("tool", OURS)
def test_descriptions_say_enough_on_one_line(tool: str) -> None:
    description = OURS[tool].description
    assert description is not None
    assert len(description) >= 50
    assert "\n" not in description


@pytest.mark.parametrize("mode", MODES)
async def test_the_whole_list_of_tools_fits_into_24_kilobytes(
    mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_environment(monkeypatch, tmp_path)
    async with Client(mcp, mode=mode) as client:
        listed = await client.list_tools_mcp()
    assert [tool.name for tool in listed.tools] == list(OURS)
    assert len(listed.model_dump_json(by_alias=True, exclude_unset=True).encode()) <= 24 * 1024


@pytest.mark.parametrize(
    ("tool", "argument"), [(tool, argument) for tool in OURS for argument in R3[tool]["inputSchema"]["properties"]]
)
async def test_every_argument_of_r3_is_accepted(tool: str, argument: str, client: Client[Any], tmp_path: Path) -> None:
    schema = R3[tool]["inputSchema"]["properties"][argument]
    given = await required(client, tool, tmp_path)
    values = [True, False] if schema["type"] == "boolean" else schema.get("enum", [EXAMPLES.get(argument)])
    if argument == "messages":
        del given["content"]
    if argument in given:
        values = [given[argument]]
    for value in values:
        arguments = given | {argument: value}
        if "memory_id" in given:
            arguments["memory_id"] = await added(client, "The one", user_id=arguments.get("user_id"))
        await good(client, tool, **arguments)


@pytest.mark.parametrize("tool", OURS)
async def test_a_null_for_every_optional_argument_means_not_given(
    tool: str, client: Client[Any], tmp_path: Path
) -> None:
    given = await required(client, tool, tmp_path)
    nulls = {name: None for name in OURS[tool].input_schema["properties"] if name not in given}
    plain = await good(client, tool, **given)
    if tool in {"add_memory", "update_memory", "delete_memory", "import_memories"}:
        await good(client, "delete_all_memories", confirm=True)
        given = await required(client, tool, tmp_path)
    assert stable(await good(client, tool, **given, **nulls)) == stable(plain)


@pytest.mark.parametrize("tool", OURS)
async def test_results_match_their_schema_and_have_a_readable_text(
    tool: str, client: Client[Any], tmp_path: Path
) -> None:
    await added(client, "One memory", metadata={"topic": "tea", "n": [1, {"a": None}]})
    result = await call(client, tool, **await required(client, tool, tmp_path))
    assert not result.is_error
    jsonschema.validate(data_of(result), OURS[tool].output_schema or {})
    assert not text_of(result).startswith(("{", "["))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", OURS)
async def test_every_failing_call_names_a_code_and_says_the_same_twice(
    tool: str, mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_environment_of(tool, monkeypatch, tmp_path)
    async with Client(mcp, mode=mode) as client:
        assert await failed(client, tool, no_such_argument=1) == "INVALID_PARAMETERS"
        (tmp_path / "memories.db").write_bytes(b"no database" * 1000)
        (tmp_path / "import.json").write_text('["A memory"]')
        example = {
            "get_memory": {"memory_id": "mem_1"},
            "update_memory": {"memory_id": "mem_1", "content": "x"},
            "delete_memory": {"memory_id": "mem_1"},
            "get_memory_history": {"memory_id": "mem_1"},
            "add_memory": {"content": "x"},
            "search_memory": {"query": "x"},
            "extract_entities": {"text": " "},
            "find_connections": {"from_entity": "x"},
            "import_memories": {"source": "json_file", "file_path": str(tmp_path / "import.json")},
        }.get(tool, {})
        if tool == "health_check":
            assert (await good(client, tool))["status"] == "error"
        else:
            # The one tool that opens no file fails for its own reason.
            expected = "INVALID_PARAMETERS" if tool == "extract_entities" else "STORAGE_ERROR"
            assert await failed(client, tool, **example) == expected


@pytest.mark.parametrize("tool", sorted(GRAPH_TOOLS))
async def test_in_basic_mode_the_graph_tools_say_that_and_why_they_are_off(
    tool: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_environment(monkeypatch, tmp_path)
    async with Client(mcp) as client:
        result = await call(client, tool, **await required(client, tool, tmp_path))
    assert data_of(result)["code"] == "MODEL_UNAVAILABLE"
    assert "basic mode" in text_of(result)


NASTY: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 1.5, 1e308, -1e-300, 10**25, -(10**400)),
    *(
        "",
        " ",
        "x",
        "0",
        "-1",
        "null",
        "true",
        "1e5",
        "mem_",
        "mem_" + "0" * 23,
        "\u0000",
        "\ufffe\uffff",
        "%",
        "'\"\\",
        "/",
        "~",
    ),
    *("a" * 300, "word " * 50_000, "[]", "{}", "[1]", '{"a": {"$gt": 1}}', "[" * 1000, "2024-01-01", "日本語"),
    *([], [None], [1, "x"], [{"role": "user", "content": "x"}], [{"role": "user"}], [[[]]]),
    *({}, {"": ""}, {"a": None}, {"$gt": 1}, {"a": {"$in": []}}, {"a": {"$gt": "x"}}, {"a": {"$eq": 10**400}}),
    *({"created_at": {"$gt": 10**30}}, {"priority": 5}, {"a": [1, [2]]}, {"\u0000": "\u0000"}, {"user_id": "x"}),
]


@pytest.mark.parametrize("tool", OURS)
async def test_no_value_of_an_argument_is_a_fault(tool: str, client: Client[Any], tmp_path: Path) -> None:
    properties = OURS[tool].input_schema["properties"]
    chance = random.Random(tool)
    for value in NASTY * len(properties):
        given = await required(client, tool, tmp_path)
        given |= {name: chance.choice(NASTY) for name in properties if chance.random() < 0.2}
        given[chance.choice(list(properties))] = value
        result = await call(client, tool, **given)
        if result.is_error:
            assert data_of(result)["code"] in {"INVALID_PARAMETERS", "MEMORY_NOT_FOUND", "IMPORT_ERROR"}, given
            assert len(text_of(result)) < 300
    assert (await good(client, "health_check"))["status"] == "ok"


async def test_an_unknown_tool_is_an_error_like_any_other(client: Client[Any]) -> None:
    assert await failed(client, "remember_everything", content="x") == "INVALID_PARAMETERS"


def test_codes_of_errors_are_those_of_the_contract() -> None:
    source = (Path(__file__).parents[1] / "r3_lite" / "errors.py").read_text()
    assert set(re.findall(r'code(?:: ClassVar\[str\])? = "(\w+)"', source)) <= CODES
