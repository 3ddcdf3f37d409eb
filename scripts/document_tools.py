"""Write docs/tools.md from what the server itself tells its clients.

    python scripts/document_tools.py [--check]

--check writes nothing; the exit code is 1 if the file is not what it would be.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from mcp.types import Tool

from r3_lite.app import INSTRUCTIONS, mcp

TARGET = Path(__file__).parents[1] / "docs" / "tools.md"
HEADER = """\
# The tools

Written by `make docs` from the running server; a test checks that it is current. Every answer is a readable text, and
beside it the structured result that is given here. An error is `isError` with the text `CODE: what is wrong and what to
do` and the structure `{error, code, details}`.

The server introduces itself to the assistant with these instructions:
"""


def document(tools: list[Tool]) -> str:
    """Return the page: the instructions, then a section for each tool in the order of the server."""
    quoted = "\n".join(f"> {line}" for line in INSTRUCTIONS.splitlines())
    return "\n".join([HEADER, quoted, "", *map(_section, tools)])


def _section(tool: Tool) -> str:
    required = tool.input_schema.get("required", [])
    rows = [
        f"| `{name}`{' (required)' if name in required else ''} | {_type(schema)} | {_default(schema)} "
        f"| {schema.get('description', '').replace('|', chr(92) + '|')} |"
        for name, schema in tool.input_schema["properties"].items()
    ]
    table = ["| argument | type | default | |", "|---|---|---|---|", *rows, ""] if rows else ["No arguments.", ""]
    hints = tool.annotations
    assert hints is not None
    words = [
        "reads only" if hints.read_only_hint else "writes",
        *(["destroys"] if hints.destructive_hint else []),
        *(["a repetition changes nothing"] if hints.idempotent_hint else []),
    ]
    result = f"Result: `{_shape(tool.output_schema or {})}`"
    return "\n".join([f"## {tool.name}", "", f"{tool.description} *({', '.join(words)})*", "", *table, result, ""])


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " ".join(f"`{value}`" for value in schema["enum"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if kind == "object" and "properties" in schema:
        return f"`{_shape(schema)}`"
    bounds = [f"≥ {schema['minimum']}"] if "minimum" in schema else []
    bounds += [f"≤ {schema['maximum']}"] if "maximum" in schema else []
    return f"{kind} {', '.join(bounds)}".strip()


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema:
        return ""
    value = schema["default"]
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _shape(schema: dict[str, Any]) -> str:
    """Return the fields of a result in short: names, choices, and what is in lists and objects."""
    if "enum" in schema:
        return " or ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return _shape(schema["anyOf"][0])
    if schema.get("type") == "array":
        return f"[{_shape(schema.get('items', {}))}]"
    if "properties" in schema:
        fields = [
            name if (shape := _shape(field)) in ("", "[]") else f"{name}: {shape}"
            for name, field in schema["properties"].items()
        ]
        return "{" + ", ".join(fields) + "}"
    return ""


async def _tools() -> list[Tool]:
    async with Client(mcp) as client:
        tools: list[Tool] = await client.list_tools()
        return tools


def main(argv: list[str]) -> int:
    """Write the page, or check it, and return the exit code."""
    page = document(asyncio.run(_tools()))
    if "--check" in argv:
        current = TARGET.exists() and TARGET.read_text(encoding="utf-8") == page
        if not current:
            print("docs/tools.md is out of date: run `make docs`.", file=sys.stderr)
        return 0 if current else 1
    TARGET.write_text(page, encoding="utf-8")
    print(f"{TARGET.name}: {page.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
