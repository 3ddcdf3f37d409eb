"""The tools on memories: names, descriptions and schemas, and how results are shaped.

No SQL and no algorithm: each tool hands its arguments to the engine and shapes what comes back. The tools on the
knowledge graph are in `graph_tools`, those on the store as a whole in `upkeep_tools`; importing this module makes the
server whole.
"""

from typing import Annotated

from fastmcp.dependencies import Depends
from pydantic import Field

from r3_lite import arguments, models, render
from r3_lite.arguments import OMITTED, MemoryId, Metadata, MetadataFilter, UserId, null_means, published, whole
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters
from r3_lite.serving import INSTRUCTIONS, current_engine, mcp, tool
from r3_lite.text import query_terms

__all__ = ["INSTRUCTIONS", "graph_tools", "mcp", "upkeep_tools"]


@tool(render.added, open_world=True)
def add_memory(
    *,
    content: Annotated[
        arguments.OptionalText, OMITTED, published("string", "The text to remember, kept as it is. Or give messages.")
    ],
    messages: Annotated[
        arguments.OptionalMessages,
        OMITTED,
        published(arguments.MESSAGES, "A conversation; the user's and system's words are remembered."),
    ],
    user_id: UserId,
    metadata: Metadata,
    priority: Annotated[arguments.PriorityOr, null_means("medium")] = "medium",
    run_async: Annotated[
        bool, null_means(True), Field(alias="async", description="False waits for the search index too.")
    ] = True,
    skip_duplicate_check: Annotated[
        bool, null_means(False), Field(description="True stores a copy even of a known text.")
    ] = False,
    engine: Engine = Depends(current_engine),
) -> models.AddResult:
    """Remember a fact, preference, decision or conversation for later sessions. Use it whenever the user says
    something worth keeping. Stored for good before it answers with the id; the same text again returns the
    existing id, and similar memories are listed so that you can correct them."""
    text = _text_to_remember(content, messages)
    stored = engine.add(
        user_id,
        text,
        metadata=metadata,
        priority=priority,
        wait=not run_async,
        check_duplicates=not skip_duplicate_check,
    )
    duplicate = stored.added.duplicate
    return models.AddResult(
        memory_id=stored.added.id,
        message=render.add_message(duplicate, stored.differs, demo=engine.settings.demo),
        duplicate=duplicate,
        cached=stored.cached,
        indexing="done" if stored.indexed else "pending",
        similar=[
            models.SimilarMemory(id=s.id, memory=s.content[:500], score=round(s.score, 3)) for s in stored.added.similar
        ],
    )


@tool(render.memory, read_only=True, idempotent=True)
def get_memory(*, memory_id: MemoryId, user_id: UserId, engine: Engine = Depends(current_engine)) -> models.Memory:
    """Read one memory whole, by its id, with metadata, priority and dates. Use it when a list or search result
    was shortened. Changes nothing."""
    return models.Memory.of(engine.get(user_id, memory_id))


@tool(render.updated, idempotent=True)
def update_memory(
    *,
    memory_id: MemoryId,
    content: Annotated[arguments.OptionalText, OMITTED, published("string", "The new text; omit to keep it.")],
    metadata: Annotated[
        arguments.OptionalObject, OMITTED, published("object", "Keys to set; null removes a key, others stay.")
    ],
    priority: Annotated[arguments.OptionalPriority, OMITTED, published(arguments.PRIORITY)],
    user_id: UserId,
    engine: Engine = Depends(current_engine),
) -> models.UpdateResult:
    """Correct or extend a memory: new text, metadata keys or priority; what you do not give stays. Use it when a
    fact has changed, instead of adding a second one. Returns the memory as it is now; the old text stays in its
    history only."""
    record = engine.update(user_id, memory_id, content=content, metadata=metadata, priority=priority)
    (result,), cut = render.fit([models.UpdateResult.of(record, success=True, message="Updated")])
    return (
        result.model_copy(update={"message": "Updated\nIt is shortened here: get_memory shows it whole."})
        if cut
        else result
    )


def _only_a_write_changes(result: models.SearchResult, engine: Engine) -> bool:
    """Tell whether an answer may be kept.

    An empty one tells of other users too, whose writes this user's generation does not follow. One by keywords alone is
    better when the model is ready, unless that is switched off.
    """
    return bool(result.results) and (result.mode == "hybrid" or engine.encoder.state == "off")


@tool(render.searched, read_only=True, idempotent=True, lasting=_only_a_write_changes)
def search_memory(
    *,
    query: Annotated[arguments.Text, Field(description="A question or keywords, in plain words.")],
    user_id: UserId,
    limit: Annotated[int, whole(1, description="1 to 100."), arguments.whole_or(10)] = 10,
    prefer_cache: Annotated[bool, null_means(True)] = True,
    metadata_filter: MetadataFilter,
    threshold: Annotated[float, Field(ge=0, le=1, description="Least score, 0 to 1."), arguments.number_or(0.0)] = 0.0,
    engine: Engine = Depends(current_engine),
) -> models.SearchResult:
    """Find what is remembered about a topic, by meaning and by word. Use it before you answer anything that the
    user may have told you in an earlier session. Returns whole memories, best first, with scores from 0 to 1
    (below 0.3 is weak) and dates; changes nothing."""
    found = engine.search(
        user_id,
        query,
        limit=min(limit, 100),
        metadata_filter=metadata_filter,
        threshold=threshold,
    )
    hits = [
        models.SearchHit.of(
            hit.record,
            score=round(hit.score, 4),
            score_breakdown=hit.breakdown.shown(),
            matched_entities=list(hit.entities),
        )
        for hit in found.ranking.hits
    ]
    results, truncated = render.fit(hits, query_terms(query))
    return models.SearchResult(
        results=results,
        source="storage",
        mode=found.mode,
        total_candidates=found.ranking.candidates,
        below_threshold=found.ranking.below,
        truncated=truncated,
        message=render.search_message(found, len(results), len(hits), truncated, limit),
    )


@tool(render.listed, read_only=True, idempotent=True, lasting=lambda page, engine: True)
def get_all_memories(
    *,
    user_id: UserId,
    limit: Annotated[int, whole(1, description="1 to 500."), arguments.whole_or(100)] = 100,
    offset: Annotated[int, whole(0, 10**9), arguments.whole_or(0)] = 0,
    prefer_cache: Annotated[bool, null_means(True)] = True,
    include_cache_stats: Annotated[bool, null_means(True)] = True,
    metadata_filter: MetadataFilter,
    engine: Engine = Depends(current_engine),
) -> models.MemoryPage:
    """List memories, newest first, page by page. Use it to review or clean up what is stored; to find something,
    use search_memory. Long texts are shortened; the answer says how many there are and where the next page
    starts. Changes nothing."""
    page = engine.page(user_id, limit=min(limit, 500), offset=offset, metadata_filter=metadata_filter)
    memories, truncated = render.fit([models.Memory.of(record) for record in page.records])
    reached = offset + len(memories)
    return models.MemoryPage(
        total=page.total,
        limit=min(limit, 500),
        offset=offset,
        returned=len(memories),
        count=len(memories),
        hasMore=reached < page.total,
        source="storage",
        truncated=truncated,
        memories=memories,
        cache_stats=engine.cache_stats() if include_cache_stats else None,
        message=render.page_message(page.total, offset, len(memories), truncated, limit),
    )


@tool(render.deleted, destructive=True, idempotent=True)
def delete_memory(
    *, memory_id: MemoryId, user_id: UserId, engine: Engine = Depends(current_engine)
) -> models.DeleteResult:
    """Forget one memory, by its full id. Use it when the user asks to forget something or a memory is wrong
    beyond correction. It is gone from every search at once; its history can still be read."""
    record = engine.delete(user_id, memory_id)
    return models.DeleteResult(success=True, deleted=record.id, message=f"Deleted\n{render.line(record.content)}")


@tool(render.deleted, destructive=True, idempotent=True)
def delete_all_memories(
    *,
    user_id: UserId,
    confirm: Annotated[
        bool,
        null_means(False),
        Field(description="True deletes; otherwise you only learn how many would go."),
    ] = False,
    engine: Engine = Depends(current_engine),
) -> models.DeleteAllResult:
    """Forget all memories of one user. Only on the user's explicit wish: ask without confirm first and tell the
    user the number. Other users' memories stay. Returns how many were deleted."""
    count = engine.delete_all(user_id, confirm=confirm)
    message = (
        f"Deleted\n{count} memories." if confirm else f"{count} memories would be deleted. Repeat with confirm: true."
    )
    return models.DeleteAllResult(deleted=count if confirm else 0, message=message)


@tool(render.history, read_only=True, idempotent=True)
def get_memory_history(
    *,
    memory_id: MemoryId,
    user_id: UserId,
    limit: Annotated[int, whole(1, description="Newest versions to show, up to 500."), arguments.whole_or(50)] = 50,
    engine: Engine = Depends(current_engine),
) -> models.HistoryResult:
    """Show how a memory came to be what it is: every version with its text, metadata and time. Works for deleted
    memories too. Use it when the user asks what was known before, or wants it back. Changes nothing."""
    total, versions = engine.history(user_id, memory_id, min(limit, 500))
    entries, cut = render.fit_versions([models.HistoryEntry.of(version) for version in versions])
    return models.HistoryResult(history=entries, message=render.history_message(memory_id, total, entries, cut, limit))


def _text_to_remember(content: str | None, messages: list[arguments.Message] | None) -> str:
    if (content is None) == (messages is None):
        raise InvalidParameters("Give either content (a text) or messages (a conversation), exactly one of them.")
    if messages is None:
        return content or ""
    said = [message.content for message in messages if message.role != "assistant" and message.content.strip()]
    if not said:
        raise InvalidParameters("messages holds nothing that the user or system said. Send at least one such message.")
    return "\n".join(said)


from r3_lite import graph_tools, upkeep_tools  # noqa: E402 - the order of imports is the order in which tools are listed
