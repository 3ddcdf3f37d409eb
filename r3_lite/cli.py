"""The r3-lite command: what it understands, and which module does it. Nothing heavy is imported before it is needed."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r3_lite import terminal
from r3_lite.errors import InvalidParameters, R3Error
from r3_lite.limits import PRIORITIES

if TYPE_CHECKING:
    from r3_lite.settings import Settings

EPILOG = """\
Without a command r3-lite serves an MCP client on standard input and output. Settings are environment variables
(R3_DB_PATH, R3_USER_ID, …); the README lists them."""

WELCOME = """\
r3-lite {version} is a memory for AI assistants. An MCP client starts it and speaks to it: nothing is typed here.

  connect a client    r3-lite config claude-desktop   (or claude-code, cursor, vscode, gemini)
  see it work         r3-lite demo
  use it by hand      r3-lite add "…"     r3-lite search "…"     r3-lite list
  all commands        r3-lite --help

The memories are in {path}
To serve in this terminal all the same: r3-lite serve"""

# Names of the clients in `clients.py`, which is imported only when one is asked for.
CLIENT_NAMES = ("claude-desktop", "claude-code", "cursor", "vscode", "gemini")
FORMATS = ("json", "jsonl", "csv", "markdown")


def main() -> None:
    """Run the command of sys.argv and end the process with its exit code: 0, 1 for a failure, 2 for wrong usage."""
    terminal.use_utf8()
    try:
        code = run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader (head, a pager) has seen enough
        code = 1
    # Everything is committed and closed by now. An ordinary end of the interpreter would abort the process when a
    # background thread is still inside the model's C++ code.
    os._exit(code)


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Flags are entered in os.environ, for child processes have them too.

    Raises SystemExit for --help, --version and wrong usage.
    """
    args = build_parser().parse_args(argv)
    os.environ.update(_environment(args))
    from r3_lite.settings import load_settings

    try:
        settings = load_settings()
    except InvalidParameters as error:
        terminal.complain(error.message)
        return 2
    try:
        run_command: Callable[[argparse.Namespace, Settings], int] = args.run
        return run_command(args, settings)
    except R3Error as error:
        terminal.complain(error.message)
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Return the parser. Each command sets `run`, a function of the arguments and the settings."""
    flags = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    flags.add_argument("--db", metavar="PATH", type=_path, help="the database file, instead of R3_DB_PATH")
    flags.add_argument("--user", metavar="ID", type=_filled, help="whose memories, instead of R3_USER_ID")
    flags.add_argument("--basic", action="store_true", help="keyword search only, without the embedding model")
    flags.add_argument("--demo", action="store_true", help="keep everything in memory: gone when the process ends")
    machine = argparse.ArgumentParser(add_help=False)
    machine.add_argument("--json", action="store_true", help="print JSON")

    parser = argparse.ArgumentParser(
        "r3-lite",
        description="Local memory for AI assistants: an MCP server that keeps everything in one SQLite file.",
        epilog=EPILOG,
        parents=[flags],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.set_defaults(run=_serve_or_explain)
    commands = parser.add_subparsers(metavar="command", title="commands")

    def command(
        name: str, run: Callable[[argparse.Namespace, "Settings"], int], text: str, *, with_json: bool = True
    ) -> argparse.ArgumentParser:
        parents = [flags, machine] if with_json else [flags]
        sub = commands.add_parser(name, help=text, description=text, parents=parents, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    command("serve", _serve, "serve an MCP client on standard input and output", with_json=False)
    command("demo", _demo, "show it working: store, restart, ask in other words", with_json=False)

    add = command("add", _command("add"), "remember a text")
    add.add_argument("text", nargs="*", type=terminal.argument, help="the text; - or nothing reads standard input")
    add.add_argument("--priority", choices=PRIORITIES, default="medium", help="default: medium")
    add.add_argument("--metadata", type=_json_object, metavar="JSON", help='an object, such as {"topic": "work"}')

    search = command("search", _command("search"), "find memories by meaning and keyword")
    search.add_argument("query", nargs="+", type=terminal.argument, help="a question or keywords")
    search.add_argument("--limit", type=_between(1, 100), default=10, metavar="N", help="1 to 100, default 10")
    search.add_argument("--threshold", type=_share(0), default=0.0, metavar="S", help="least score, 0 to 1, default 0")

    get = command("get", _command("get"), "print one memory whole")
    get.add_argument("id", help="its id, mem_…")

    listing = command("list", _command("list_memories"), "list memories, newest first")
    listing.add_argument("--limit", type=_between(1, 1_000_000), default=20, metavar="N", help="default 20")
    listing.add_argument("--offset", type=_between(0, 2**53), default=0, metavar="N", help="how many to leave out")

    delete = command("delete", _delete, "forget one memory, or all of a user")
    delete.add_argument("id", nargs="?", help="its id, mem_…")
    delete.add_argument("--all", action="store_true", help="all memories of the user, after a question")
    delete.add_argument("--yes", action="store_true", help="with --all: do not ask")
    delete.set_defaults(usage=delete.error)

    imports = command("import", _import, "bring memories in from a file, or from Mem0")
    imports.add_argument(
        "file",
        nargs="?",
        help="JSON, JSON Lines, a Mem0 export or the graph file of an MCP memory server; - reads standard input",
    )
    imports.add_argument("--mem0", action="store_true", help="from Mem0 itself, by MEM0_API_KEY and MEM0_BASE_URL")
    imports.add_argument("--priority", choices=PRIORITIES, default="high", help="where an item has none; default: high")
    imports.add_argument("--keep-copies", action="store_true", help="store a text as often as it occurs")
    imports.add_argument("--revive", action="store_true", help="bring back what was deleted here since")
    imports.set_defaults(usage=imports.error)

    alike = "share of common words that makes look-alikes, 0.5 to 1, default 0.85"
    dedupe = command("dedupe", _command("dedupe"), "show which memories say the same, and merge them")
    dedupe.add_argument("--threshold", type=_share(0.5), default=0.85, metavar="S", help=alike)
    dedupe.add_argument("--apply", action="store_true", help="merge them; without it nothing is changed")

    graph = command("graph", _command("graph"), "show who and what the memories speak of and how they are related")
    graph.add_argument("entity", nargs="*", type=terminal.argument, help="a name, or a part of one")
    graph.add_argument(
        "--type", type=_filled, metavar="T", help="people, organizations, technologies, projects, places"
    )
    graph.add_argument("--relation", type=_filled, metavar="R", help="such as WORKS_FOR or USES")
    graph.add_argument("--limit", type=_between(1, 1_000), default=40, metavar="N", help="most entities, default 40")
    graph.add_argument("--dot", metavar="FILE", type=_path, help="write Graphviz DOT")
    graph.add_argument("--mermaid", metavar="FILE", type=_path, help="write a Mermaid flowchart")
    graph.add_argument("--html", metavar="FILE", type=_path, help="write an interactive page; needs r3-lite[graph]")

    command("stats", _command("stats"), "show where the file is, how it is and what it holds")

    export = command("export", _command("export", "keeping"), "write all memories to a file", with_json=False)
    export.add_argument("--format", choices=FORMATS, default="json", help="default: json")
    export.add_argument("--output", type=_output, default="-", metavar="FILE", help="default: - for standard output")
    export.add_argument("--force", action="store_true", help="overwrite a file")
    export.add_argument("--all-users", action="store_true", help="not of one user alone")
    export.add_argument(
        "--with-history",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="former versions and deleted memories too, in JSON and JSON Lines; the default",
    )

    backup = command("backup", _command("make_backup", "keeping"), "copy the whole file, also while it is in use")
    backup.add_argument("file", nargs="?", type=_path, help="default: beside the file, with the time in its name")
    backup.add_argument("--force", action="store_true", help="overwrite a file")

    restore = command("restore", _command("restore", "keeping"), "exchange all memories for those of a backup")
    restore.add_argument("file", type=_path, help="a backup, or any file of r3-lite")

    past = command("history", _command("show_history", "keeping"), "show what a memory was, or what was deleted")
    past.add_argument("id", nargs="?", help="its id, mem_…; without one: which memories were deleted")
    past.add_argument("--limit", type=_between(1, 1_000_000), default=50, metavar="N", help="default 50")

    one = command("restore-memory", _command("restore_memory", "keeping"), "bring back a deleted or changed memory")
    one.add_argument("id", help="its id, mem_…")
    one.add_argument("--version", type=_between(1, 2**53), metavar="N", help="default: the last before the change")
    one.add_argument("--copy", action="store_true", help="also if its text is stored as another memory")

    purge = command("purge", _command("purge", "keeping"), "remove former versions and deleted memories for good")
    which = purge.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", help="of one memory, mem_…")
    which.add_argument("--deleted", action="store_true", help="of all deleted memories of the user")
    which.add_argument("--older-than", type=_between(0, 36_500), metavar="DAYS", help="those outdated for so long")

    for sub in (restore, purge):
        sub.add_argument("--yes", action="store_true", help="do not ask")
        sub.set_defaults(run=_asking(sub.get_default("run"), sub.error))

    config = command("config", _config, "print the entry that connects a client", with_json=False)
    config.add_argument("client", nargs="?", choices=CLIENT_NAMES, help="which client; without it the usual form")
    config.add_argument("--uvx", action="store_true", help="start through uvx instead of this installation")

    models = command("models", _command("models"), "list embedding models, or download one")
    models.set_defaults(action="list")
    actions = models.add_subparsers(metavar="download")
    download = actions.add_parser("download", help="fetch a model", parents=[flags, machine], allow_abbrev=False)
    download.add_argument("name", help="a name of the list")
    download.set_defaults(action="download")
    return parser


def _serve_or_explain(args: argparse.Namespace, settings: "Settings") -> int:
    if not terminal.is_interactive():
        return _serve(args, settings)
    from r3_lite import __version__

    path = "memory only (demo)" if settings.demo else str(settings.db_path)
    print(WELCOME.format(version=__version__, path=path))
    return 0


def _serve(_args: argparse.Namespace, settings: "Settings") -> int:
    from r3_lite import logs

    logs.configure(settings)
    if settings.demo:
        terminal.complain("demo: memories are kept in memory only and are gone when this process ends")
    from r3_lite.wire import guard_stdin, quick_start

    with quick_start():
        from r3_lite.app import mcp
    guard_stdin()
    mcp.run(transport="stdio", show_banner=False)
    return 0


def _demo(_args: argparse.Namespace, settings: "Settings") -> int:
    from r3_lite import logs

    logs.configure(settings)
    from r3_lite.wire import quick_start

    with quick_start():
        from r3_lite.demo import run
    return run(terminal.console())


def _command(name: str, module: str = "commands") -> Callable[[argparse.Namespace, "Settings"], int]:
    """Return a function that runs the command of this name in a module, importing it only then."""

    def run(args: argparse.Namespace, settings: "Settings") -> int:
        chosen: Callable[[argparse.Namespace, Settings], int]
        chosen = getattr(importlib.import_module(f"r3_lite.{module}"), name)
        return chosen(args, settings)

    return run


def _delete(args: argparse.Namespace, settings: "Settings") -> int:
    if (args.id is None) != args.all:
        args.usage("give one id, or --all")
    if args.all and not args.yes and not terminal.is_interactive():
        args.usage("--all asks before it deletes; without a terminal it needs --yes")
    return _command("delete")(args, settings)


def _asking(
    run: Callable[[argparse.Namespace, "Settings"], int], usage: Callable[[str], None]
) -> Callable[[argparse.Namespace, "Settings"], int]:
    """Return a command that asks before it acts: where nobody can answer it needs --yes."""

    def run_or_refuse(args: argparse.Namespace, settings: "Settings") -> int:
        if not args.yes and not terminal.is_interactive():
            usage("it asks before it acts; without a terminal it needs --yes")
        return run(args, settings)

    return run_or_refuse


def _import(args: argparse.Namespace, settings: "Settings") -> int:
    if (args.file is None) != args.mem0:
        args.usage("give one file, or --mem0")
    return _command("import_memories")(args, settings)


def _config(args: argparse.Namespace, _settings: "Settings") -> int:
    from r3_lite import clients

    launcher = clients.through_uvx() if args.uvx else clients.this_installation()
    if not Path(launcher.command).is_absolute():
        terminal.complain("uvx was not found. Install uv (https://docs.astral.sh/uv/), or leave --uvx away.")
        return 1
    env = {name: value for name, value in os.environ.items() if name.startswith("R3_") and value}
    terminal.show_json(clients.entry(clients.CLIENTS[args.client] if args.client else None, launcher, env))
    if args.client:
        notes = clients.instructions(args.client, launcher, env)
    else:
        notes = [f"the place and the exact form of a client: r3-lite config {{{','.join(CLIENT_NAMES)}}}"]
    for note in notes:
        terminal.complain(note)
    return 0


def _environment(args: argparse.Namespace) -> dict[str, str]:
    """Return the global flags as the settings that they stand for."""
    given = {"R3_DB_PATH": getattr(args, "db", None), "R3_USER_ID": getattr(args, "user", None)}
    if getattr(args, "basic", False):
        given["R3_INTELLIGENCE"] = "basic"
    if getattr(args, "demo", False):
        given["R3_DEMO"] = "true"
    return {name: value for name, value in given.items() if value is not None}


class _Version(argparse.Action):
    """Prints the version; unlike argparse's own action it looks it up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from r3_lite import __version__

        print(__version__)
        parser.exit()


def _path(text: str) -> str:
    # A path on the command line is meant from where one stands; R3_DB_PATH is taken from the home folder.
    return str(Path(_filled(text)).expanduser().absolute())


def _output(text: str) -> str:
    return text if text == "-" else _path(text)


def _filled(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return terminal.argument(text)


def _between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"is not between {least:,} and {most:,}")
        return value

    return number


def _share(least: float) -> Callable[[str], float]:
    def share(text: str) -> float:
        value = float(text)
        if not least <= value <= 1:
            raise argparse.ArgumentTypeError(f"is not between {least:g} and 1")
        return value

    return share


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(terminal.argument(text))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('is not a JSON object such as {"topic": "work"}')
    return value
