"""How the command line reads and prints: UTF-8 whatever the locale, tables, JSON, and errors in one line."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console, RenderableType

# What a terminal would obey instead of showing; tab and line feed are harmless.
_CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_CONTROLS |= dict.fromkeys(range(0x7F, 0xA0), "\ufffd")
# Columns where there is no terminal to ask.
_WIDTH = 120


def use_utf8() -> None:
    """Read and write the standard streams as UTF-8, also under a locale that has no emoji. Closed streams stay so."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # By lines: what a library prints while the server runs must not come out of a buffer when it has ended.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def argument(text: str) -> str:
    """Return a command-line argument as the UTF-8 that was typed, also where the locale made something else of it."""
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError:
        return text


def is_interactive() -> bool:
    """Return whether a person types at the standard input."""
    return sys.stdin is not None and sys.stdin.isatty()


def complain(message: str) -> None:
    """Write one line to standard error, if there is one."""
    if sys.stderr is not None:
        print(f"r3-lite: {message}", file=sys.stderr)


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str, wide: str) -> None:
    """Print a table. The column `wide` takes the room that is left and wraps; the others are never shortened."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", expand=False)
    for column in columns:
        table.add_column(column, no_wrap=column != wide, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    show(table)


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(printable(value)))
    show(table)


def show(renderable: "RenderableType") -> None:
    """Print anything that rich can render."""
    console().print(renderable)


def console() -> "Console":
    """Return a console on standard output; no text is taken as markup."""
    from rich.console import Console

    width = None if sys.stdout is not None and sys.stdout.isatty() else _WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def printable(text: str) -> str:
    """Return text with its control characters made visible: a memory shall not steer the terminal."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar on standard error while the block runs, if that is a terminal; nothing of it stays.

    Give it a description, how much is done and how much there is, None where that is unknown.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = sys.stderr is None or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Let the block end in good order at Ctrl-C: it asks what is given whether to. A second one ends it at once."""
    asked = False

    def ask(number: int, _frame: "FrameType | None") -> None:
        nonlocal asked
        asked = True
        signal.signal(number, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
