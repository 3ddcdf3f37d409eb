"""What the tools on entities ask for: entities of a text, a part of the user's graph, connections in it.

Each function takes the engine; all but `extract_entities` need extraction to be switched on and read the file only.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from r3_lite import graph
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, ModelUnavailable
from r3_lite.extract import Extraction
from r3_lite.graph import TYPES, Neighbourhood, Node

RELATIONS = (
    "WORKS_FOR",
    "MANAGES",
    "LEADS",
    "REPORTS_TO",
    "USES",
    "BUILT_WITH",
    "OWNS",
    "LOCATED_IN",
    "PART_OF",
    "KNOWS",
    "DEPENDS_ON",
    "INTEGRATES_WITH",
    "RELATED_TO",
)
# Characters of a text whose entities are asked for: a second of work.
MAX_TEXT = 100_000
MAX_NAME = 1_000
# Seconds that a first call waits for the encoder, which finds more than the rules.
PATIENCE = 5.0
PATHS_SHOWN = 10

_SINGULAR = dict(zip(("person", "organization", "technology", "project", "place"), TYPES, strict=True))


@dataclass(frozen=True, slots=True)
class Answer:
    """The nearest connections and how many there are; `source` and `target` as the graph names them.

    A path is its edges in the order in which they are walked, each as (source, type, target) by name. `unknown` holds
    the asked names that the graph does not know, each with names like it.
    """

    source: str
    target: str
    total: int
    paths: tuple[tuple[tuple[str, str, str], ...], ...]
    unknown: dict[str, list[str]]


def extract_entities(engine: Engine, text: str) -> Extraction:
    """Return what a text says; stores nothing. Where no model is ready the rules answer, and the method says so.

    Raises InvalidParameters for an empty or too long text, ModelUnavailable where extraction is switched off.
    """
    if not text.strip():
        raise InvalidParameters("text is empty. Send the text to examine.")
    if len(text) > MAX_TEXT:
        raise InvalidParameters(f"text is longer than {MAX_TEXT:,} characters. Send it in parts.")
    _require(engine)
    engine.start()
    engine.encoder.wait_ready(PATIENCE)
    return engine.extractor.extract(text)


def neighbourhood(
    engine: Engine,
    user_id: str | None,
    *,
    limit: int,
    entity_type: str | None = None,
    entity_name: str | None = None,
    relationship_type: str | None = None,
) -> Neighbourhood:
    """Return a part of the user's graph, at most `limit` nodes, chosen as `graph.neighbourhood` says.

    Types are understood in the singular and in any case. Raises InvalidParameters for a type that does not exist.
    """
    _require(engine)
    user = engine.user(user_id)
    kind = _entity_type(entity_type) if entity_type else None
    relation = _relation(relationship_type) if relationship_type else None
    name = _name(entity_name, "entity_name") if entity_name else None
    engine.start()
    with engine.database.read() as connection:
        return graph.neighbourhood(connection, user, limit=limit, entity_type=kind, name=name, relation=relation)


def evidence(
    engine: Engine, found: Neighbourhood
) -> tuple[dict[tuple[int, str, int], list[str]], dict[str, tuple[str, str]]]:
    """Return the memories (ids) behind each edge of a neighbourhood, and of these and its nodes' date and beginning."""
    with engine.database.read() as connection:
        behind = graph.behind(connection, [node.id for node in found.nodes])
        ids = {memory for named in behind.values() for memory in named}
        ids |= {memory for node in found.nodes for memory in node.memories}
        return behind, graph.excerpts(connection, ids)


def connections(engine: Engine, user_id: str | None, source: str, target: str | None, depth: int) -> Answer:
    """Return how two entities of the user, or one and all others, are connected by at most `depth` edges.

    Names are understood in any spelling. An unknown name is no error: the answer lists names like it.
    """
    _require(engine)
    user = engine.user(user_id)
    asked = [_name(source, "from_entity"), *([_name(target, "to_entity")] if target else [])]
    engine.start()
    with engine.database.read() as connection:
        ends = [graph.find(connection, user, name) for name in asked]
        named = [_label(graph.nodes(connection, ids), name) for ids, name in zip(ends, asked, strict=True)]
        unknown = {name: graph.alike(connection, user, name) for ids, name in zip(ends, asked, strict=True) if not ids}
        begin, finish = ends[0], ends[1] if target else None
        shown = (named[0], named[1] if target else "any")
        if unknown:
            return Answer(*shown, 0, (), unknown)
        generation = graph.generation(connection, user)
        network = engine.networks.get(user, generation)
        if network is None:
            from r3_lite.network import Network

            network = Network(graph.links(connection, user))
            engine.networks.put(user, generation, network)
        found = network.connections(begin, finish, depth, PATHS_SHOWN)
        ids = {end for path in found.paths for link in path for end in (link[0], link[2])}
        names = {node.id: node.name for node in graph.nodes(connection, sorted(ids))}
    paths = tuple(tuple((names[a], kind, names[b]) for a, kind, b in path) for path in found.paths)
    return Answer(*shown, found.total, paths, {})


def _require(engine: Engine) -> None:
    if engine.encoder.state == "off":
        raise ModelUnavailable(
            "Entity extraction is switched off: basic mode is set (R3_INTELLIGENCE, INTELLIGENCE_MODE or --basic). "
            "Unset it to use the knowledge graph.",
            state="off",
        )


def _label(nodes: Iterable[Node], name: str) -> str:
    """Return how the graph spells a name, or the name as it was asked for."""
    return next((node.name for node in nodes), name)


def _name(name: str, argument: str) -> str:
    if not name.strip():
        raise InvalidParameters(f"{argument} is empty. Give a name, or leave it out.")
    if len(name) > MAX_NAME:
        raise InvalidParameters(f"{argument} is longer than {MAX_NAME:,} characters. Give a name.")
    return name.strip()


def _entity_type(word: str) -> str:
    kind = word.strip().lower()
    kind = _SINGULAR.get(kind, kind)
    if kind not in TYPES:
        raise InvalidParameters(f"entity_type is not known. Use one of {', '.join(TYPES)}.")
    return kind


def _relation(word: str) -> str:
    kind = "_".join(word.upper().replace("-", " ").replace("_", " ").split())
    if kind not in RELATIONS:
        raise InvalidParameters(f"relationship_type is not known. Use one of {', '.join(RELATIONS)}.")
    return kind
