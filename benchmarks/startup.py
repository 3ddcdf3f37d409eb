"""Measure how long a client waits for a fresh server: spawn, `initialize` answered, `tools/list` answered.

    python benchmarks/startup.py [--starts 15] [--db FILE] [--json FILE] [command ...]

The command (default: this Python with `-m r3_lite`) is compared with an empty FastMCP server of one tool.
Starts alternate, each in an empty home folder and, unless `--db` names a database to copy there, with no
database. Times are milliseconds of wall clock at the client's end of a raw pipe; the ratio is taken pair by
pair.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EMPTY_SERVER = '''
from fastmcp import FastMCP

server = FastMCP("empty")


@server.tool
def ping() -> str:
    """Answer pong."""
    return "pong"


server.run(transport="stdio", show_banner=False)
'''

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "startup", "version": "1"},
}
MARKS = ("initialize", "tools/list")
TIMEOUT = 60.0
"""Seconds that a server may take to end after its input has ended."""


def start(command: list[str], home: Path, db: Path | None) -> dict[str, float]:
    """Start a server, list its tools, stop it; return the milliseconds from the spawn to each answer.

    Raises RuntimeError if the server ends or sends anything but the answers.
    """
    database = home / "memory.db"
    if db is not None:
        shutil.copyfile(db, database)
    folders = {name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA")}
    environment = {**os.environ, **folders, "R3_DB_PATH": str(database)}
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def send(message: dict[str, Any]) -> None:
            assert server.stdin is not None
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()

        def answered() -> float:
            assert server.stdout is not None
            answer = json.loads(server.stdout.readline() or b"{}")
            if "result" not in answer:
                raise RuntimeError("the server ended or answered with an error; run its command by hand to see why")
            return (time.perf_counter() - started) * 1000

        try:
            send({"id": 1, "method": "initialize", "params": INITIALIZE})
            initialized = answered()
            send({"method": "notifications/initialized"})
            send({"id": 2, "method": "tools/list"})
            listed = answered()
        except BaseException:
            server.kill()
            raise
        server.stdin.close()
        server.wait(TIMEOUT)
    return dict(zip(MARKS, (initialized, listed), strict=True))


def compare(command: list[str], starts: int, db: Path | None) -> dict[str, Any]:
    """Return medians and ratios over `starts` alternating starts of the empty server and of `command`."""
    with tempfile.TemporaryDirectory() as folder:
        empty_server = Path(folder) / "empty_server.py"
        empty_server.write_text(EMPTY_SERVER, encoding="utf-8")
        commands = {"empty": [sys.executable, str(empty_server)], "server": command}
        times: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        # The first round only warms the caches of the disk and the compiled modules.
        for turn in range(starts + 1):
            for name in sorted(commands, reverse=bool(turn % 2)):
                with tempfile.TemporaryDirectory(dir=folder) as home:
                    measured = start(commands[name], Path(home), db)
                if turn:
                    times[name].append(measured)
    result: dict[str, Any] = {"command": command, "starts": starts, "existing_db": db is not None}
    for mark in MARKS:
        empty, server = ([one[mark] for one in times[name]] for name in ("empty", "server"))
        ratios = [ours / theirs for ours, theirs in zip(server, empty, strict=True)]
        result[mark] = {
            "empty_ms": statistics.median(empty),
            "server_ms": statistics.median(server),
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
        }
    return result


def table(result: dict[str, Any]) -> str:
    """Return the figures of `compare` as lines of text, medians in milliseconds."""
    lines = [f"{'median of ' + str(result['starts']):14} {'empty':>8} {'server':>8} {'ratio':>7}   pairs"]
    for mark in MARKS:
        row = result[mark]
        spread = f"{row['ratio_min']:.2f} to {row['ratio_max']:.2f}"
        lines.append(f"{mark:14} {row['empty_ms']:8.0f} {row['server_ms']:8.0f} {row['ratio']:7.3f}   {spread}")
    return "\n".join(lines)


def main() -> None:
    """Read the command line, measure, print the table and write the JSON file if one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="*", default=[sys.executable, "-m", "r3_lite"])
    parser.add_argument("--starts", type=int, default=15, help="starts of each server (default: 15)")
    parser.add_argument("--db", type=Path, help="existing database, copied for each start")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    result = compare(arguments.command, arguments.starts, arguments.db)
    print(table(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
