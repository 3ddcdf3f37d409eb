"""A figure, the bar it has to clear, and how both are printed and written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Bar:
    """One measured figure and the limit it is held to; `passed` None where nothing was measured."""

    name: str
    figure: float | None
    relation: Literal["<=", ">="]
    limit: float
    unit: str = ""
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Tell whether the figure clears the bar."""
        if self.figure is None:
            return None
        return self.figure <= self.limit if self.relation == "<=" else self.figure >= self.limit

    def as_json(self) -> dict[str, Any]:
        """Return the bar as the JSON files hold it."""
        return {**asdict(self), "passed": self.passed}


def at_most(name: str, figure: float | None, limit: float, unit: str = "", note: str = "") -> Bar:
    """Return a bar that the figure must not exceed."""
    return Bar(name, figure, "<=", limit, unit, note)


def at_least(name: str, figure: float | None, limit: float, unit: str = "", note: str = "") -> Bar:
    """Return a bar that the figure must reach."""
    return Bar(name, figure, ">=", limit, unit, note)


def print_bars(bars: Sequence[Bar], title: str = "") -> None:
    """Print one row per bar."""
    table = Table(title=title or None, title_justify="left")
    for heading, justify in (("", "left"), ("measured", "right"), ("bar", "right"), ("", "left"), ("", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # rich's literal, widened by the tuple
    verdicts = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: "[yellow]not measured[/]"}
    for bar in bars:
        measured = "–" if bar.figure is None else f"{_number(bar.figure)} {bar.unit}".rstrip()
        limit = f"{'≤' if bar.relation == '<=' else '≥'} {_number(bar.limit)} {bar.unit}".rstrip()
        table.add_row(bar.name, measured, limit, verdicts[bar.passed], bar.note)
    Console(width=None if Console().is_terminal else 150).print(table)


def write_json(path: Path | None, bars: Sequence[Bar], figures: Mapping[str, Any]) -> None:
    """Write {"bars": […], "figures": {…}} to a file, where one is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"bars": [bar.as_json() for bar in bars], "figures": figures}
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"
