"""Draw what calls cost against the size of the store, from the JSON files of the scale and peers benchmarks.

The lines are medians in milliseconds, both axes logarithmic; short bars mark the limits that the searches are held to.
Peers are drawn where their files hold two sizes or more. The same figures give the same file: no dates, fixed names.
Colours are of middle brightness on no background, so that they can be read on a light page and on a dark one.

    python -m benchmarks.plots SCALE_JSON [--peers PEERS_JSON ...] [--svg docs/latency.svg]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.scale import FILTERED, SEARCH, SEARCH_MS, SMALL_SEARCH
from benchmarks.server import ROOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#768390"
COLOURS = ("#2f81d6", "#cf6a14", "#2a9968", "#9467cf", "#cf4550", "#8a7a2e", "#3a97a6", "#b0508e")
SEARCHES = (SEARCH, FILTERED, SMALL_SEARCH)
OTHERS = ("add", "list of 100", "get")
SVG = ROOT / "docs" / "latency.svg"
STYLE: Any = {
    "svg.hashsalt": "r3-lite",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}

Line = list[tuple[int, float]]
"""(memories, milliseconds), by size."""


def scale_lines(columns: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Line]:
    """Return one line per call that was measured."""
    ordered = sorted(columns, key=lambda column: int(column["memories"]))
    return {
        name: [(column["memories"], column["costs"][name]["ms"]) for column in ordered if name in column["costs"]]
        for name in names
        if any(name in column["costs"] for column in ordered)
    }


def peer_lines(documents: Sequence[Mapping[str, Any]]) -> dict[str, Line]:
    """Return the search of each peer that was measured at two sizes or more."""
    lines: dict[str, dict[int, float]] = {}
    for document in documents:
        for name, row in document["peers"].items():
            lines.setdefault(name, {})[document["memories"]] = row["search"]["p50"]
    return {name: sorted(points.items()) for name, points in lines.items() if len(points) > 1}


def figures_of(path: Path) -> dict[str, Any]:
    """Return the figures of a benchmark's JSON file."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    figures: dict[str, Any] = document["figures"]
    return figures


def draw(scale: Mapping[str, Any], peers: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write the plots into an SVG file. Raises ImportError where matplotlib is not installed (the extra `bench`)."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    panels = [
        ("Searches of one user, above the embedding of the query", scale_lines(scale["sizes"], SEARCHES)),
        ("Other calls", scale_lines(scale["sizes"], OTHERS)),
        ("Search, beside peers (embedding included)", peer_lines(peers)),
    ]
    panels = [(title, lines) for title, lines in panels if lines]
    with mpl.rc_context(STYLE):
        figure, axes = pyplot.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.6), squeeze=False)
        for ax, (title, lines) in zip(axes[0], panels, strict=True):
            _panel(ax, title, lines)
        sizes = [column["memories"] for column in scale["sizes"]]
        _limits(axes[0][0], {size: ms for size, ms in SEARCH_MS.items() if min(sizes) <= size <= max(sizes)})
        for ax in axes[0]:
            ax.legend(fontsize=8)
        figure.tight_layout()
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, transparent=True, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def _panel(ax: "Axes", title: str, lines: Mapping[str, Line]) -> None:
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        ax.plot([size for size, _ in line], [ms for _, ms in line], marker="o", markersize=4, color=colour, label=name)
    ax.set(title=title, xscale="log", yscale="log", xlabel="memories", ylabel="ms, median")
    ax.title.set_fontsize(9)
    # 0.1 and 10 are read more easily than powers.
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_minor_formatter(lambda value, _: "")
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    ax.grid(True, which="major")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _limits(ax: "Axes", limits: Mapping[int, float]) -> None:
    for number, (size, ms) in enumerate(limits.items()):
        label = "limit of the search" if number == 0 else "_nolegend_"
        ax.hlines(ms, size / 1.5, size * 1.5, color=COLOURS[4], linewidth=2, label=label)


def main() -> None:
    """Read the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scale", type=Path, help="JSON file of benchmarks.scale")
    parser.add_argument("--peers", type=Path, nargs="*", default=[], help="JSON files of benchmarks.peers, one a size")
    parser.add_argument("--svg", type=Path, default=SVG, help="file to write (default: docs/latency.svg)")
    arguments = parser.parse_args()
    draw(figures_of(arguments.scale), [figures_of(path) for path in arguments.peers], arguments.svg)
    print(f"written to {arguments.svg}")


if __name__ == "__main__":
    main()
