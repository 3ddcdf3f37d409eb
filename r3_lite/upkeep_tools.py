"""The tools on the store as a whole: merging duplicates, bringing memories in, and how work and health stand."""

from typing import Annotated, Literal

from anyio import from_thread
from fastmcp import Context
from fastmcp.dependencies import CurrentContext, Depends
from pydantic import Field

from r3_lite import arguments, duplicates_text, models, render
from r3_lite.arguments import OMITTED, UserId, null_means, published, whole
from r3_lite.engine import Engine, How
from r3_lite.errors import InvalidParameters
from r3_lite.serving import cancelled, current_engine, current_load, tool


@tool(duplicates_text.deduplicated, destructive=True)
def deduplicate_memories(
    *,
    user_id: UserId,
    similarity_threshold: Annotated[
        float,
        Field(ge=0.5, le=1, description="Of look-alikes, 0.5 to 1."),
        null_means(0.85),
    ] = 0.85,
    dry_run: Annotated[bool, null_means(True), Field(description="False merges what the preview showed.")] = True,
    engine: Engine = Depends(current_engine),
) -> models.DedupeResult:
    """Find memories that say the same in other words, and merge them into the oldest. Use it to clean up, preview
    first. What differs in a fact only looks alike and stays. The history keeps what is removed."""
    if dry_run:
        return duplicates_text.result(engine.duplicates(user_id, similarity_threshold))
    return duplicates_text.result(*engine.merge_duplicates(user_id, similarity_threshold))


@tool(render.imported, open_world=True, slow=True)
def import_memories(
    *,
    source: Annotated[Literal["json_file", "mem0_api"], Field(description="Where they come from.")],
    file_path: Annotated[arguments.OptionalText, OMITTED, published("string", "For json_file: its absolute path.")],
    api_key: Annotated[
        arguments.OptionalText, OMITTED, published("string", "For mem0_api, instead of MEM0_API_KEY; never stored.")
    ],
    user_id: UserId,
    batch_size: Annotated[int, whole(10, 200), arguments.whole_or(50)] = 50,
    priority: Annotated[arguments.PriorityOr, null_means("high")] = "high",
    skip_duplicates: Annotated[bool, null_means(True)] = True,
    engine: Engine = Depends(current_engine),
    context: Context = CurrentContext(),
) -> models.ImportResult:
    """Bring memories in from a file or from Mem0: JSON or JSON Lines with memory, content or text and optionally id,
    metadata, created_at, a Mem0 export, or the graph file of the MCP memory server. Running it again changes
    nothing. Returns how many were imported, were known already or failed, and why."""
    how: How = {
        "priority": priority,
        "skip_duplicates": skip_duplicates,
        "batch_size": batch_size,
        "progress": lambda done, total: from_thread.run(context.report_progress, done, total),
        "stopped": cancelled,
    }
    if source == "mem0_api":
        return models.ImportResult.of(engine.import_mem0(user_id, api_key or None, **how))
    if not file_path:
        raise InvalidParameters("file_path is missing. Give the absolute path of a JSON or JSON Lines file.")
    return models.ImportResult.of(engine.import_file(user_id, file_path, **how))


@tool(render.synced, read_only=True, idempotent=True)
def sync_status(engine: Engine = Depends(current_engine)) -> models.SyncStatus:
    """Tell whether all stored memories are indexed for search by meaning, and which are still waiting or failed.
    Use it after a large import, or when a new memory is not found. Changes nothing."""
    counts, jobs = engine.pending()
    waiting = counts["pending"] + counts["failed"]
    return models.SyncStatus(
        pending=counts["pending"],
        failed=counts["failed"],
        jobs=[models.JobStatus.of(job) for job in jobs],
        message=f"{waiting} operations pending" if waiting else "All operations complete",
    )


@tool(render.healthy, read_only=True, idempotent=True)
def health_check(engine: Engine = Depends(current_engine)) -> models.Health:
    """Examine the memory itself: file, indexes, embedding model, counts and version, each measured now. Use it
    when something seems wrong; the answer names the next step. Changes nothing."""
    from r3_lite.health import measure

    return measure(engine)


@tool(render.cache, read_only=True, idempotent=True)
def cache_stats(
    engine: Engine = Depends(current_engine), load: dict[str, int] = Depends(current_load)
) -> models.CacheStats:
    """Show how often this server answered from its memory instead of the file since it started, what it holds, and
    the most used memories. Use it when asked how the cache does. Changes nothing."""
    from r3_lite.cache_upkeep import statistics

    return statistics(engine, load)


@tool(render.optimized, idempotent=True, open_world=True)
def optimize_cache(
    *,
    force_refresh: Annotated[
        bool, null_means(False), Field(description="True reads all of them from the file anew.")
    ] = False,
    max_memories: Annotated[int, whole(100, 10_000, "How many to hold."), arguments.whole_or(1_000)] = 1_000,
    engine: Engine = Depends(current_engine),
) -> models.CacheReport:
    """Hold the most used, most important and newest memories at hand and drop the others from the cache. Use it
    after a large import or a long break; answers are right without it. Touches no stored memory."""
    from r3_lite.cache_upkeep import optimize

    return optimize(engine, force_refresh=force_refresh, max_memories=max_memories)
