"""The tools on entities and the knowledge graph: names, descriptions, schemas, and how results are shaped."""

from typing import Annotated

from fastmcp.dependencies import Depends
from pydantic import Field

from r3_lite import arguments, graph_text, models
from r3_lite.arguments import OMITTED, UserId, published, whole
from r3_lite.engine import Engine
from r3_lite.serving import current_engine, tool


@tool(graph_text.entities, read_only=True, idempotent=True)
def extract_entities(
    *, text: Annotated[arguments.Text, Field(description="Any text.")], engine: Engine = Depends(current_engine)
) -> models.Entities:
    """List the people, organizations, technologies, projects, places, dates and keywords of a text, and who does
    what with whom. Use it to examine a text before you remember it; memories are examined by themselves. Stores
    nothing."""
    from r3_lite.knowledge import extract_entities

    return graph_text.entities_of(extract_entities(engine, text))


@tool(graph_text.graph, read_only=True, idempotent=True)
def get_knowledge_graph(
    *,
    entity_type: Annotated[
        arguments.OptionalText,
        OMITTED,
        published("string", "people, organizations, technologies, projects or places."),
    ],
    entity_name: Annotated[arguments.OptionalText, OMITTED, published("string", "Part of a name.")],
    relationship_type: Annotated[
        arguments.OptionalText, OMITTED, published("string", "E.g. WORKS_FOR, USES, LEADS, DEPENDS_ON.")
    ],
    limit: Annotated[int, whole(1, description="Most nodes, 1 to 100."), arguments.whole_or(20)] = 20,
    user_id: UserId,
    engine: Engine = Depends(current_engine),
) -> models.KnowledgeGraph:
    """Show which people, organizations, technologies, projects and places the memories speak of and how they are
    related. Use it for an overview, or with entity_name to see what one of them is connected to. Returns the most
    mentioned first, with the memories that say so; changes nothing."""
    from r3_lite.knowledge import neighbourhood

    found = neighbourhood(
        engine,
        user_id,
        limit=min(limit, 100),
        entity_type=entity_type,
        entity_name=entity_name,
        relationship_type=relationship_type,
    )
    return graph_text.graph_of(found, limit)


@tool(graph_text.connections, read_only=True, idempotent=True)
def find_connections(
    *,
    from_entity: Annotated[arguments.Text, Field(description="A name, in any spelling.")],
    to_entity: Annotated[
        arguments.OptionalText, OMITTED, published("string", "Another name; omit for everything within reach.")
    ],
    max_depth: Annotated[int, whole(1, 5, "Most steps, 1 to 5."), arguments.whole_or(2)] = 2,
    user_id: UserId,
    engine: Engine = Depends(current_engine),
) -> models.ConnectionsResult:
    """Tell how two people, organizations, technologies, projects or places are connected through what is remembered,
    or what one of them is connected to. Relations are followed both ways, nearest connections first, at most 10 with
    the true number; changes nothing."""
    from r3_lite.knowledge import connections

    return graph_text.connections_of(connections(engine, user_id, from_entity, to_entity, max_depth), max_depth)
