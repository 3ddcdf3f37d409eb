"""Client entries: valid for each client, with a command that starts the server from anywhere."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_helpers import environment

from r3_lite import clients
from r3_lite.cli import CLIENT_NAMES
from r3_lite.clients import CLIENTS, Launcher, entry, instructions, shortcut, this_installation, through_uvx

UVX = Launcher("/opt/uv/uvx", ("r3-lite",))
SETTINGS = {"R3_USER_ID": "ada lovelace"}


def test_the_command_line_offers_every_client() -> None:
    assert tuple(CLIENTS) == CLIENT_NAMES


@pytest.mark.parametrize("name", ["claude-desktop", "cursor", "gemini"])
def test_most_clients_take_the_usual_form(name: str) -> None:
    expected = {
        "mcpServers": {
            "r3-lite": {"command": "/opt/uv/uvx", "args": ["r3-lite"], "env": {"R3_USER_ID": "ada lovelace"}}
        }
    }
    assert entry(CLIENTS[name], UVX, SETTINGS) == expected
    assert entry(None, UVX, SETTINGS) == expected


def test_vscode_and_claude_code_want_the_type() -> None:
    server = {"type": "stdio", "command": "/opt/uv/uvx", "args": ["r3-lite"]}
    assert entry(CLIENTS["vscode"], UVX, {}) == {"servers": {"r3-lite": server}}
    assert entry(CLIENTS["claude-code"], UVX, {}) == {"mcpServers": {"r3-lite": server}}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-code", "claude mcp add --scope user r3-lite --env R3_USER_ID=ada·lovelace -- /opt/uv/uvx r3-lite"),
        ("gemini", "gemini mcp add --scope user --env R3_USER_ID=ada·lovelace r3-lite /opt/uv/uvx r3-lite"),
    ],
)
def test_the_clients_own_command_is_quoted_for_the_shell(name: str, words: str) -> None:
    command = shortcut(name, UVX, SETTINGS)
    assert command is not None
    assert shlex.split(command) == [word.replace("·", " ") for word in words.split()]


def test_vscodes_own_command_carries_the_entry_as_json() -> None:
    command = shortcut("vscode", UVX, {})
    assert command is not None
    *start, document = shlex.split(command)
    assert start == ["code", "--add-mcp"]
    assert json.loads(document) == {
        "name": "r3-lite",
        "type": "stdio",
        "command": "/opt/uv/uvx",
        "args": ["r3-lite"],
    }


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("darwin", "~/Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "%APPDATA%\\Claude\\claude_desktop_config.json"),
        ("linux", "~/.config/Claude/claude_desktop_config.json"),
    ],
)
def test_the_place_of_an_entry_depends_on_the_platform(platform: str, place: str) -> None:
    assert place in instructions("claude-desktop", UVX, {}, platform)[0]


def test_an_installed_program_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "r3-lite"
    script.touch()
    monkeypatch.setattr(sys, "argv", [str(script), "config"])
    assert this_installation() == Launcher(str(script), ())


def test_a_module_without_a_script_names_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "__main__.py"), "config"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert this_installation() == Launcher(str(tmp_path / "python"), ("-m", "r3_lite"))


def test_an_environment_of_uvx_names_uvx_and_not_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "uv"
    prefix = cache / "archive-v0" / "4f3a"
    prefix.mkdir(parents=True)
    (cache / "CACHEDIR.TAG").touch()
    uvx = tmp_path / "bin" / "uvx"
    uvx.parent.mkdir()
    uvx.touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(clients, "_origin", lambda: None)
    monkeypatch.setenv("UV", str(tmp_path / "bin" / "uv"))
    assert this_installation() == Launcher(str(uvx), ("r3-lite",))


def test_a_copy_from_a_file_is_started_from_that_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_origin", lambda: "file:///tmp/r3_lite-0.1.0-py3-none-any.whl")
    monkeypatch.setattr(clients, "find_uvx", lambda: "/opt/uv/uvx")
    args = ("--from", "file:///tmp/r3_lite-0.1.0-py3-none-any.whl", "r3-lite")
    assert through_uvx() == Launcher("/opt/uv/uvx", args)


def test_uvx_is_found_outside_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uvx = tmp_path / ".local" / "bin" / "uvx"
    uvx.parent.mkdir(parents=True)
    uvx.touch(mode=0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("UV", raising=False)
    assert clients.find_uvx() == str(uvx)


@pytest.mark.parametrize("name", [*CLIENT_NAMES, None])
def test_the_printed_entry_is_json_with_a_command_that_can_be_executed(tmp_path: Path, name: str | None) -> None:
    argv = [sys.executable, "-m", "r3_lite", "config", *([name] if name else [])]
    done = subprocess.run(argv, capture_output=True, env=environment(tmp_path), check=True)
    (servers,) = json.loads(done.stdout).values()
    command = Path(servers["r3-lite"]["command"])
    assert command.is_absolute()
    assert os.access(command, os.X_OK)
    assert servers["r3-lite"]["env"]["R3_DB_PATH"] == str(tmp_path / "memories.db")


def test_without_uvx_the_entry_for_it_is_refused(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "r3_lite", "config", "--uvx"]
    done = subprocess.run(argv, capture_output=True, env=environment(tmp_path, PATH="", UV=""), check=False, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "uvx was not found" in done.stderr


def test_the_printed_command_starts_a_server_in_the_bare_environment_of_a_desktop(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "r3_lite", "--basic", "config"]
    done = subprocess.run(argv, capture_output=True, env=environment(tmp_path), check=True)
    server = json.loads(done.stdout)["mcpServers"]["r3-lite"]
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    )
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **server["env"]}
    started = subprocess.run(
        [server["command"], *server["args"]], input=hello, capture_output=True, env=bare, cwd="/", check=True
    )
    assert json.loads(started.stdout)["result"]["serverInfo"]["name"] == "r3-lite"
