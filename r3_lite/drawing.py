"""Pictures of a part of the graph: a tree for the terminal, Graphviz DOT, Mermaid, an interactive page. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from r3_lite.errors import InvalidParameters
from r3_lite.terminal import printable

if TYPE_CHECKING:
    from rich.tree import Tree

    from r3_lite.graph import Edge, Neighbourhood, Node

_SHAPES = {
    "people": "ellipse",
    "organizations": "box",
    "technologies": "hexagon",
    "projects": "component",
    "places": "house",
}
_BRACKETS = {
    "people": ("([", "])"),
    "organizations": ("[", "]"),
    "technologies": ("{{", "}}"),
    "projects": ("[[", "]]"),
    "places": ("[/", "\\]"),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A memory as a picture shows it."""

    date: str
    text: str


def tree(found: Neighbourhood, title: str) -> Tree:
    """Return a tree for rich: the first nodes as roots, every edge once, at the end of it that comes first."""
    from rich.text import Text
    from rich.tree import Tree

    nodes = {node.id: node for node in found.nodes}
    edges: dict[int, list[Edge]] = {node: [] for node in nodes}
    for edge in found.edges:
        edges[edge.source].append(edge)
        edges[edge.target].append(edge)
    drawn: set[Edge] = set()
    opened: set[int] = set()
    top = Tree(Text(printable(title), style="bold"), guide_style="dim")

    def label(node: Node, arrow: str = "") -> Text:
        text = Text.assemble((f"{arrow} ", "dim") if arrow else "", (printable(node.name), "bold"))
        return text.append(f"  {node.type}, {node.mentions}", style="dim")

    def grow(branch: Tree, number: int) -> None:
        """Hang the edges of a node below it, nearest first: its own before those of its neighbours."""
        opened.add(number)
        following: list[tuple[Tree, int]] = []
        for edge in edges[number]:
            if edge in drawn:
                continue
            drawn.add(edge)
            outward = edge.source == number
            other = edge.target if outward else edge.source
            arrow = f"--[{edge.type}]-->" if outward else f"<--[{edge.type}]--"
            grown = branch.add(label(nodes[other], arrow))
            if other not in opened:
                opened.add(other)
                following.append((grown, other))
        for grown, other in following:
            grow(grown, other)

    for node in found.nodes:
        if node.id not in opened:
            grow(top.add(label(node)), node.id)
    return top


def dot(found: Neighbourhood) -> str:
    """Return the graph in the language of Graphviz."""
    lines = [
        "digraph memories {",
        "  rankdir=LR;",
        '  node [fontname="Helvetica"]; edge [fontname="Helvetica", fontsize=10];',
    ]
    for node in found.nodes:
        lines.append(f"  n{node.id} [label={_dot_text(node.name)}, shape={_SHAPES[node.type]}];")
    for edge in found.edges:
        more = f", penwidth={min(1 + edge.weight / 2, 5):g}" if edge.weight > 1 else ""
        lines.append(f"  n{edge.source} -> n{edge.target} [label={_dot_text(edge.type)}{more}];")
    return "\n".join([*lines, "}", ""])


def mermaid(found: Neighbourhood) -> str:
    """Return the graph as a Mermaid flowchart."""
    lines = ["flowchart LR"]
    for node in found.nodes:
        opening, closing = _BRACKETS[node.type]
        lines.append(f'  n{node.id}{opening}"{_mermaid_text(node.name)}"{closing}')
    for edge in found.edges:
        lines.append(f"  n{edge.source} -->|{edge.type}| n{edge.target}")
    return "\n".join([*lines, ""])


def page(
    found: Neighbourhood,
    title: str,
    behind: Mapping[tuple[int, str, int], Sequence[str]],
    memories: Mapping[str, Evidence],
) -> str:
    """Return an HTML page that needs nothing else: the graph to pan, zoom and click, with the memories behind it.

    `behind` holds the ids of the memories behind each edge (source, type, target), `memories` what they say. Raises
    InvalidParameters where the package that brings D3 is not installed.
    """
    place = {node.id: number for number, node in enumerate(found.nodes)}
    data: dict[str, Any] = {
        "title": title,
        "summary": f"{len(found.nodes)} of {found.total_nodes} entities, {len(found.edges)} relations.",
        "nodes": [
            {"name": n.name, "type": n.type, "mentions": n.mentions, "memories": n.memories} for n in found.nodes
        ],
        "links": [
            {
                "source": place[edge.source],
                "target": place[edge.target],
                "type": edge.type,
                "weight": edge.weight,
                "confidence": edge.confidence,
                "memories": behind.get((edge.source, edge.type, edge.target), ()),
            }
            for edge in found.edges
        ],
        "memories": {name: asdict(evidence) for name, evidence in memories.items()},
    }
    # No "<" is left that could end the script, whatever the memories say.
    encoded = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")
    parts = {"%DATA%": encoded, "%D3%": _d3()}
    template = (files("r3_lite") / "pages" / "graph.html").read_text(encoding="utf-8")
    return re.sub("%DATA%|%D3%", lambda found: parts[found[0]], template)


def _d3() -> str:
    try:
        package = distribution("XStatic-D3")
    except PackageNotFoundError:
        raise InvalidParameters("The page needs D3, which r3-lite[graph] brings: install that.") from None
    (script,) = (file for file in package.files or () if file.name == "d3.js")
    text = script.read_text(encoding="utf-8")
    if "</script" in text.lower():
        raise InvalidParameters("The installed D3 cannot be put into a page: reinstall r3-lite[graph].")
    return text


def _dot_text(text: str) -> str:
    return '"' + " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mermaid_text(text: str) -> str:
    """Return text in which no character means anything to Mermaid or HTML: all but letters, digits, blanks as codes."""
    return re.sub(r"[^\w .,-]", lambda sign: f"#{ord(sign[0])};", " ".join(text.split()))
