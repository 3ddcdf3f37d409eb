"""How entities, graphs and connections cross the boundary to clients: results, their texts, and their ceiling. Pure."""

import json
from collections.abc import Sequence

from pydantic import BaseModel

from r3_lite.extract import Extraction
from r3_lite.graph import MAX_NAME, TYPES, Neighbourhood
from r3_lite.knowledge import PATHS_SHOWN, Answer
from r3_lite.models import ConnectionsResult, Entities, GraphEdge, GraphNode, KnowledgeGraph, Step
from r3_lite.render import CEILING, FRAME

_KINDS = (*TYPES, "dates")


def entities_of(found: Extraction) -> Entities:
    """Return the names of each type once, in the order of the text, and the relations; long lists are shortened."""
    lists = {
        kind: [entity.name for entity in found.entities if entity.type == kind and len(entity.name) <= MAX_NAME]
        for kind in _KINDS
    }
    lists["relationships"] = [str(relation) for relation in found.relations]
    lists = {name: list(dict.fromkeys(items)) for name, items in lists.items()}
    # The structured part names everything once, the readable part once more.
    room = (CEILING - FRAME) // 2
    if sum(map(_length, lists.values())) > room:
        lists = {name: _within(items, room // len(lists)) for name, items in lists.items()}
    return Entities(**lists, keywords=list(found.keywords), method=found.method)


def entities(result: Entities) -> str:
    """Text of extract_entities."""
    lists = [(kind, getattr(result, kind)) for kind in (*_KINDS, "relationships", "keywords")]
    lines = [f"{name}: {', '.join(items)}" for name, items in lists if items and name != "relationships"]
    if result.relationships:
        lines += ["relationships:", *(f"- {relation}" for relation in result.relationships)]
    if result.method == "rules":
        lines.append("(by rules and word lists alone: the embedding model is not ready or is another one)")
    return "\n".join(lines) or "No entities found"


def graph_of(found: Neighbourhood, limit: int) -> KnowledgeGraph:
    """Return the nodes and edges that stay under the ceiling, and a first line that says what was left out."""
    ids = {node.id: f"{node.type}:{node.name}" for node in found.nodes}
    nodes = {
        node.id: GraphNode(
            id=ids[node.id], type=node.type, name=node.name, memories=list(node.memories), mentions=node.mentions
        )
        for node in found.nodes
    }
    room = CEILING - FRAME
    kept_nodes: list[int] = []
    for number, node in nodes.items():
        room -= _size(node) + len(_node(node)) + 1
        if room < 0:
            break
        kept_nodes.append(number)
    edges: list[GraphEdge] = []
    kept = set(kept_nodes)
    for edge in found.edges:
        if edge.source not in kept or edge.target not in kept:
            continue
        shown = GraphEdge(
            source=ids[edge.source],
            to=ids[edge.target],
            type=edge.type,
            confidence=round(edge.confidence, 3),
            memory_id=edge.memory_id,
            weight=edge.weight,
        )
        room -= _size(shown) + len(_edge(shown)) + 1
        if room < 0:
            break
        edges.append(shown)
    truncated = len(kept_nodes) < found.total_nodes or len(edges) < found.total_edges
    return KnowledgeGraph(
        nodes=[nodes[number] for number in kept_nodes],
        edges=edges,
        total_nodes=found.total_nodes,
        total_edges=found.total_edges,
        truncated=truncated,
        message=_graph_message(found, len(kept_nodes), len(edges), truncated, limit),
    )


def graph(result: KnowledgeGraph) -> str:
    """Text of get_knowledge_graph: a line per entity and per relation."""
    return "\n".join([result.message, *map(_node, result.nodes), *map(_edge, result.edges)])


def connections_of(answer: Answer, depth: int) -> ConnectionsResult:
    """Return the result of find_connections."""
    return ConnectionsResult(
        source=answer.source,
        to=answer.target,
        max_depth=depth,
        paths_found=answer.total,
        paths=[[Step(source=a, to=b, type=kind) for a, kind, b in path] for path in answer.paths],
        message=_connections_message(answer, depth),
    )


def connections(result: ConnectionsResult) -> str:
    """Text of find_connections: a line per path, arrows as the memories say it."""
    return "\n".join([result.message, *(f"- {_walk(result.source, path)}" for path in result.paths)])


def _node(node: GraphNode) -> str:
    return f"- {node.name} ({node.type}; {node.mentions} memor{'y' if node.mentions == 1 else 'ies'})"


def _edge(edge: GraphEdge) -> str:
    names = (end.partition(":")[2] for end in (edge.source, edge.to))
    more = f" and {edge.weight - 1} more" if edge.weight > 1 else ""
    return f"- {f' --[{edge.type}]--> '.join(names)} ({edge.memory_id}{more})"


def _walk(start: str, path: Sequence[Step]) -> str:
    """Return a path as it is walked from `start`: A --[KNOWS]--> B <--[LEADS]-- C."""
    here = start if start in (path[0].source, path[0].to) else path[0].source
    walk = here
    for step in path:
        forward = step.source == here
        here = step.to if forward else step.source
        walk += f" --[{step.type}]--> {here}" if forward else f" <--[{step.type}]-- {here}"
    return walk


def _graph_message(found: Neighbourhood, nodes: int, edges: int, truncated: bool, limit: int) -> str:
    if not found.nodes:
        return "No entities found\nNothing remembered speaks of such entities, or the memories are still being read."
    notes = [f"{nodes} of {found.total_nodes} entities, {edges} of {found.total_edges} relations between them."]
    if limit > 100:
        notes.append("limit is at most 100.")
    if truncated:
        notes.append("The rest: entity_type, entity_name, relationship_type or a larger limit.")
    return " ".join(notes)


def _connections_message(answer: Answer, depth: int) -> str:
    if answer.unknown:
        parts = []
        for name, alike in answer.unknown.items():
            like = f" Names like it: {', '.join(alike)}." if alike else ""
            parts.append(f"No entity is known by the name {_short(name)}.{like}")
        return "No connections found\n" + " ".join(parts)
    within = f"within {depth} step{'s' if depth > 1 else ''}"
    if not answer.total:
        return f"No connections found\n{answer.source} is not connected to {answer.target} {within}."
    shown = f" The nearest {PATHS_SHOWN}:" if answer.total > PATHS_SHOWN else ""
    if answer.target == "any":
        return f"{answer.total} entities connected to {answer.source} {within}, nearest first.{shown}"
    return f"{answer.total} connections of {answer.source} and {answer.target} {within}, nearest first.{shown}"


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def _size(shown: BaseModel) -> int:
    return len(json.dumps(shown.model_dump(by_alias=True), ensure_ascii=False)) + 2


def _length(items: Sequence[str]) -> int:
    return sum(len(item) + 4 for item in items)


def _within(items: Sequence[str], room: int) -> list[str]:
    """Return as many of the first items as fit into so many characters."""
    kept = []
    for item in items:
        room -= len(item) + 4
        if room < 0:
            break
        kept.append(item)
    return kept
