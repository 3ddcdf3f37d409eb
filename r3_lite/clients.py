"""The entries that connect MCP clients with this server: their form, where they belong, what to do then.

Every command in them is an absolute path: clients that start from the desktop do not have the PATH of a terminal.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

NAME = "r3-lite"


@dataclass(frozen=True, slots=True)
class Client:
    """A program that speaks MCP. `places` are the files for the entry by sys.platform, "" for all others."""

    title: str
    places: Mapping[str, str]
    then: str
    key: str = "mcpServers"
    typed: bool = False


CLIENTS: dict[str, Client] = {
    "claude-desktop": Client(
        "Claude Desktop",
        {
            "darwin": "~/Library/Application Support/Claude/claude_desktop_config.json",
            "win32": "%APPDATA%\\Claude\\claude_desktop_config.json",
            "": "~/.config/Claude/claude_desktop_config.json",
        },
        "Quit Claude Desktop entirely and start it again.",
    ),
    "claude-code": Client(
        "Claude Code",
        {"": ".mcp.json in a project (for all projects use the command below)"},
        "/mcp shows the connection.",
        typed=True,
    ),
    "cursor": Client("Cursor", {"": "~/.cursor/mcp.json"}, "Settings, MCP shows the connection."),
    "vscode": Client(
        "VS Code",
        {"": "the file that the command `MCP: Open User Configuration` opens, or .vscode/mcp.json in a project"},
        "`MCP: List Servers` shows the connection; the tools are there in agent mode.",
        key="servers",
        typed=True,
    ),
    "gemini": Client("Gemini CLI", {"": "~/.gemini/settings.json"}, "/mcp shows the connection."),
}


@dataclass(frozen=True, slots=True)
class Launcher:
    """The command that starts the server; `command` is an absolute path."""

    command: str
    args: tuple[str, ...]


def entry(client: Client | None, launcher: Launcher, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON document of a client's configuration with this server alone; None means the usual form."""
    server: dict[str, Any] = {"command": launcher.command, "args": list(launcher.args)}
    if env:
        server["env"] = dict(env)
    if client is not None and client.typed:
        server = {"type": "stdio", **server}
    return {client.key if client is not None else "mcpServers": {NAME: server}}


def instructions(name: str, launcher: Launcher, env: Mapping[str, str], platform: str = sys.platform) -> list[str]:
    """Return what to do with the entry of a client, in lines."""
    client = CLIENTS[name]
    place = client.places.get(platform, client.places[""])
    lines = [f"{client.title}: merge this entry into {place}"]
    command = shortcut(name, launcher, env)
    if command:
        lines.append(f"or run: {command}")
    return [*lines, client.then]


def shortcut(name: str, launcher: Launcher, env: Mapping[str, str]) -> str | None:
    """Return the client's own command that adds the entry for all projects, for POSIX shells, or None."""
    start = [launcher.command, *launcher.args]
    settings = [f"{key}={value}" for key, value in env.items()]
    if name == "claude-code":
        flags = [part for setting in settings for part in ("--env", setting)]
        return shlex.join(["claude", "mcp", "add", "--scope", "user", NAME, *flags, "--", *start])
    if name == "gemini":
        flags = [part for setting in settings for part in ("--env", setting)]
        return shlex.join(["gemini", "mcp", "add", "--scope", "user", *flags, NAME, *start])
    if name == "vscode":
        server = entry(CLIENTS[name], launcher, env)["servers"][NAME]
        return shlex.join(["code", "--add-mcp", json.dumps({"name": NAME, **server}, ensure_ascii=False)])
    return None


def this_installation() -> Launcher:
    """Return the command that starts what is running now: through uvx if uvx made it, else this program itself."""
    if _made_by_uvx(Path(sys.prefix)):
        return through_uvx()
    script = Path(sys.argv[0])
    if script.stem != NAME or not script.is_file():
        script = Path(sys.executable).with_name(NAME + Path(sys.executable).suffix)
    if script.is_file():
        return Launcher(str(script.absolute()), ())
    return Launcher(sys.executable, ("-m", "r3_lite"))


def through_uvx() -> Launcher:
    """Return the command that has uvx fetch and start the package, from where this copy came if it was a file.

    Without uvx on this machine the command is the bare "uvx", which the caller has to warn of.
    """
    origin = _origin()
    return Launcher(find_uvx() or "uvx", ("--from", origin, NAME) if origin else (NAME,))


def find_uvx() -> str | None:
    """Return the absolute path of uvx: beside the uv that started this process, on PATH, or in its usual folders."""
    suffix = ".exe" if os.name == "nt" else ""
    folders = [
        Path.home() / ".local/bin",
        Path.home() / ".cargo/bin",
        Path("/opt/homebrew/bin"),
        Path("/usr/local/bin"),
    ]
    candidates = [folder / f"uvx{suffix}" for folder in folders]
    on_path = shutil.which("uvx")
    if on_path:
        candidates.insert(0, Path(on_path))
    if os.environ.get("UV"):
        candidates.insert(0, Path(os.environ["UV"]).with_name(f"uvx{suffix}"))
    return next((str(path.absolute()) for path in candidates if os.access(path, os.X_OK)), None)


def _made_by_uvx(prefix: Path) -> bool:
    # Environments of uvx live in the cache and may be gone tomorrow; uv marks its cache folder with this file.
    return any(
        folder.name.startswith("archive-v") and (folder.parent / "CACHEDIR.TAG").is_file() for folder in prefix.parents
    )


def _origin() -> str | None:
    """Return the local file or folder that this copy was installed from (PEP 610), None for a package index."""
    try:
        record = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = str(json.loads(record).get("url", "")) if record else ""
    return url or None
