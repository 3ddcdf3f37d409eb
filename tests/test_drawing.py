"""Pictures of a graph: complete, and safe whatever the names and memories hold."""

import io
import json
import re
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError

import pytest
from rich.console import Console

from r3_lite import drawing
from r3_lite.drawing import Evidence
from r3_lite.errors import InvalidParameters
from r3_lite.graph import Edge, Neighbourhood, Node

ANA = Node(1, "people", "Ana", 2, ("mem_1", "mem_2"))
ACME = Node(2, "organizations", "Acme", 2, ("mem_1",))
BO = Node(3, "people", "Bo", 1, ("mem_2",))
LONER = Node(4, "places", "Oslo", 1, ("mem_3",))
OFFICE = Neighbourhood(
    (ANA, ACME, BO, LONER),
    (
        Edge(1, "WORKS_FOR", 2, 2, 0.9, "mem_1"),
        Edge(3, "WORKS_FOR", 2, 1, 0.8, "mem_2"),
        Edge(3, "KNOWS", 1, 1, 0.7, "mem_2"),
    ),
    5,
    3,
)
NASTY = 'A "quoted" \\ name; </script><b>x</b> #1 | }] -->'
HOSTILE = Neighbourhood(
    (Node(1, "people", NASTY, 1, ("mem_1",)), Node(2, "projects", "\x1b[31m\nred", 1, ())),
    (Edge(1, "LEADS", 2, 1, 1.0, "mem_1"),),
    2,
    1,
)


def printed(found: Neighbourhood) -> list[str]:
    console = Console(file=io.StringIO(), width=100, markup=False, highlight=False)
    console.print(drawing.tree(found, "Title"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def page(found: Neighbourhood) -> str:
    behind = {(1, "LEADS", 2): ["mem_1"], (1, "WORKS_FOR", 2): ["mem_1", "mem_2"]}
    return drawing.page(found, NASTY, behind, {"mem_1": Evidence("2026-01-31", f"said {NASTY}")})


class Parser(HTMLParser):
    """Collects scripts, and the names of all other elements."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def test_the_tree_shows_every_edge_once_and_every_node() -> None:
    assert printed(OFFICE) == [
        "Title",
        "├── Ana  people, 2",
        "│   ├── --[WORKS_FOR]--> Acme  organizations, 2",
        "│   │   └── <--[WORKS_FOR]-- Bo  people, 1",
        "│   └── <--[KNOWS]-- Bo  people, 1",
        "└── Oslo  places, 1",
    ]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert not any("\x1b" in line for line in printed(HOSTILE))


def test_dot_holds_nodes_and_edges() -> None:
    lines = drawing.dot(OFFICE).splitlines()
    assert lines[0] == "digraph memories {"
    assert '  n1 [label="Ana", shape=ellipse];' in lines
    assert '  n1 -> n2 [label="WORKS_FOR", penwidth=2];' in lines
    assert '  n3 -> n1 [label="KNOWS"];' in lines
    assert lines[-1] == "}"


def test_dot_names_cannot_end_their_quotes() -> None:
    for line in drawing.dot(HOSTILE).splitlines()[3:-1]:
        strings = re.findall(r'"(?:[^"\\]|\\.)*"', line)
        assert len(strings) == 1
        assert line.replace(strings[0], "").count('"') == 0
    assert r"\"quoted\" \\ name" in drawing.dot(HOSTILE)


def test_mermaid_holds_nodes_and_edges() -> None:
    lines = drawing.mermaid(OFFICE).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n1(["Ana"])' in lines
    assert '  n2["Acme"]' in lines
    assert "  n1 -->|WORKS_FOR| n2" in lines


def test_mermaid_names_hold_no_sign_that_means_something() -> None:
    first, second = drawing.mermaid(HOSTILE).splitlines()[1:3]
    name = first.removeprefix('  n1(["').removesuffix('"])')
    assert set(re.sub(r"#\d+;", "", name)) <= set("AquotednamescriptbxLR1 ./-")
    assert re.sub(r"#(\d+);", lambda code: chr(int(code[1])), name) == " ".join(NASTY.split())
    assert "\x1b" not in second


def test_the_page_needs_nothing_else_and_may_load_nothing() -> None:
    parser = Parser()
    parser.feed(page(OFFICE))
    assert [name for name, attributes in parser.elements if "src" in attributes] == []
    assert [a["href"] for name, a in parser.elements if name == "link"] == ["data:,"]
    policy = next(a["content"] for name, a in parser.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'; script-src 'unsafe-inline'")
    assert len(parser.scripts) == 3


def test_the_page_holds_the_graph_and_the_memories_behind_it() -> None:
    parser = Parser()
    parser.feed(page(OFFICE))
    data = json.loads(parser.scripts[0])
    assert [node["name"] for node in data["nodes"]] == ["Ana", "Acme", "Bo", "Oslo"]
    works = data["links"][0]
    assert (works["source"], works["target"], works["type"], works["memories"]) == (
        0,
        1,
        "WORKS_FOR",
        ["mem_1", "mem_2"],
    )
    assert data["memories"] == {"mem_1": {"date": "2026-01-31", "text": f"said {NASTY}"}}


def test_no_memory_can_end_the_script_that_holds_it() -> None:
    parser = Parser()
    parser.feed(page(HOSTILE))
    assert len(parser.scripts) == 3
    assert "b" not in {name for name, _ in parser.elements}
    assert json.loads(parser.scripts[0])["nodes"][0]["name"] == NASTY


def test_signs_of_the_template_in_a_memory_stay_text() -> None:
    text = drawing.page(OFFICE, "%D3%", {}, {"mem_1": Evidence("%DATA%", "%D3%")})
    parser = Parser()
    parser.feed(text)
    data = json.loads(parser.scripts[0])
    assert (data["title"], data["memories"]["mem_1"]) == ("%D3%", {"date": "%DATA%", "text": "%D3%"})


def test_without_d3_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(drawing, "distribution", missing)
    with pytest.raises(InvalidParameters, match=r"r3-lite\[graph\]"):
        page(OFFICE)


def test_an_empty_graph_is_drawn_too() -> None:
    nothing = Neighbourhood((), (), 0, 0)
    assert printed(nothing) == ["Title"]
    assert drawing.dot(nothing).endswith("}\n")
    assert drawing.mermaid(nothing) == "flowchart LR\n"
    assert '"nodes": []' in drawing.page(nothing, "Title", {}, {})
