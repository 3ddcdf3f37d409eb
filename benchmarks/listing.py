"""How much of a model's context do the tools take before the first question?

Method: start the server, shake hands, send `tools/list`, count the bytes of the JSON-RPC line that answers, and of
each tool in it.

Bar: the whole line at most 24 KB (24,576 bytes).

    python -m benchmarks.listing [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.server import environment

LIMIT_KB = 24
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "listing", "version": "1"}}


def tools_line() -> bytes:
    """Return the line by which a fresh server answers `tools/list`."""
    with (
        TemporaryDirectory() as home,
        subprocess.Popen(
            [sys.executable, "-m", "r3_lite"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment(Path(home))},
            cwd=home,
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        for message in (
            {"id": 1, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
        server.stdout.readline()
        line = server.stdout.readline()
        server.stdin.close()
        return line


def measure() -> dict[str, Any]:
    """Return the bytes of the answer and of each tool in it, the largest first."""
    line = tools_line()
    tools = {
        tool["name"]: len(json.dumps(tool, ensure_ascii=False, separators=(",", ":")).encode())
        for tool in json.loads(line)["result"]["tools"]
    }
    return {"bytes": len(line), "tools": dict(sorted(tools.items(), key=lambda item: -item[1]))}


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bar of this benchmark."""
    return [at_most(f"answer to tools/list, {len(figures['tools'])} tools", figures["bytes"] / 1024, LIMIT_KB, "KB")]


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    figures = measure()
    print("\n".join(f"{size:6,} {name}" for name, size in figures["tools"].items()))
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()
