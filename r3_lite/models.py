"""What crosses the boundary to clients: the results of the tools, and how a memory looks everywhere."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from r3_lite.history import Version
from r3_lite.jobs import JobState
from r3_lite.store import Record
from r3_lite.transfer import MAX_ERRORS_SHOWN, Tally


class Memory(BaseModel):
    """One memory. `memory` and `content` are the same text: callers know it by either name."""

    id: str
    memory: str
    content: str
    user_id: str
    metadata: dict[str, Any]
    priority: str
    hash: str
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, record: Record, **more: Any) -> Self:
        """Return the memory of a row, with the fields that a subclass adds."""
        return cls(
            id=record.id,
            memory=record.content,
            content=record.content,
            user_id=record.user_id,
            metadata=record.metadata,
            priority=record.priority,
            hash=record.hash,
            created_at=record.created_at,
            updated_at=record.updated_at,
            **more,
        )


class SimilarMemory(BaseModel):
    id: str
    memory: str
    score: float


class AddResult(BaseModel):
    memory_id: str
    message: str
    duplicate: bool
    cached: bool
    indexing: Literal["done", "pending"]
    similar: list[SimilarMemory]


class UpdateResult(Memory):
    success: bool
    message: str


class SearchHit(Memory):
    score: float
    score_breakdown: dict[str, float]
    matched_entities: list[str]


class SearchResult(BaseModel):
    results: list[SearchHit]
    source: Literal["cache", "storage"]
    mode: Literal["hybrid", "keyword"]
    total_candidates: int
    below_threshold: int
    truncated: bool
    message: str


class MemoryPage(BaseModel):
    total: int
    limit: int
    offset: int
    returned: int
    count: int
    hasMore: bool
    source: Literal["cache", "storage"]
    truncated: bool
    memories: list[Memory]
    # Left out when null; a null, or a default of null, in the schema makes some clients refuse it.
    cache_stats: dict[str, Any] | SkipJsonSchema[None] = Field(default_factory=lambda: None)
    message: str


class DeleteResult(BaseModel):
    success: bool
    deleted: str
    message: str


class DeleteAllResult(BaseModel):
    deleted: int
    message: str


class HistoryEntry(BaseModel):
    version: int
    action: Literal["created", "updated", "deleted", "restored", "merged"]
    content: str
    metadata: dict[str, Any]
    priority: str
    timestamp: str

    @classmethod
    def of(cls, version: Version) -> Self:
        """Return the entry of a stored version."""
        return cls(
            version=version.version,
            action=version.action,
            content=version.content,
            metadata=version.metadata,
            priority=version.priority,
            timestamp=version.timestamp,
        )


class HistoryResult(BaseModel):
    history: list[HistoryEntry]
    message: str


class NamedMemory(BaseModel):
    id: str
    memory: str


class DuplicateMemory(NamedMemory):
    similarity: float


class DuplicateGroup(BaseModel):
    primary: NamedMemory
    duplicates: list[DuplicateMemory]


class LookAlike(DuplicateMemory):
    other_id: str
    other_memory: str


class DedupeResult(BaseModel):
    dry_run: bool
    groups: list[DuplicateGroup]
    look_alikes: list[LookAlike]
    duplicates_found: int
    deleted: int
    message: str


class ImportProblem(BaseModel):
    index: int
    reason: str


class ImportResult(BaseModel):
    total: int
    imported: int
    duplicates: int
    empty: int
    skipped: int
    failed: int
    errors: list[ImportProblem]
    message: str

    @classmethod
    def of(cls, tally: Tally) -> Self:
        """Return the result of an import; the first problems are listed, all are counted."""
        parts = {
            "imported": tally.imported,
            "known already": tally.duplicates,
            "empty": tally.empty,
            "skipped": tally.skipped,
            "failed": tally.failed,
        }
        shown = ", ".join(f"{count} {name}" for name, count in parts.items() if count or name == "imported")
        return cls(
            total=tally.total,
            imported=tally.imported,
            duplicates=tally.duplicates,
            empty=tally.empty,
            skipped=tally.skipped,
            failed=tally.failed,
            errors=[ImportProblem(index=i, reason=reason) for i, reason in sorted(tally.errors)[:MAX_ERRORS_SHOWN]],
            message=" ".join([f"Import of {tally.total} items: {shown}.", *_import_notes(tally)]),
        )


def _import_notes(tally: Tally) -> list[str]:
    notes = []
    if tally.unreached:
        notes.append(f"It was stopped: {tally.unreached} items were not reached; run it again for the rest.")
    if tally.strangers:
        notes.append(f"{tally.strangers} items named another user; all went to the user of this import.")
    if tally.incomplete:
        notes.append("Mem0 may have more than it gave.")
    return notes


class JobStatus(BaseModel):
    memory_id: str
    kind: str
    attempts: int
    waiting: float
    last_error: str

    @classmethod
    def of(cls, job: JobState) -> Self:
        """Return the status of an unfinished job."""
        return cls(
            memory_id=job.memory_id,
            kind=job.kind,
            attempts=job.attempts,
            waiting=job.waiting,
            last_error=job.last_error,
        )


class SyncStatus(BaseModel):
    pending: int
    failed: int
    jobs: list[JobStatus]
    message: str


class MostUsed(BaseModel):
    id: str
    accesses: int


class CacheStats(BaseModel):
    """`size` counts memories; the other numbers all caches, `parts` each. Bytes; milliseconds."""

    hits: int
    misses: int
    hit_rate: str
    size: int
    max_size: int
    l1_size: int
    l2_size: int
    memory_usage: int
    evictions: int
    avg_response_time: float
    connection_pool: dict[str, int]
    top_accessed: list[MostUsed]
    parts: dict[str, Any]


class CacheReport(BaseModel):
    promoted: int
    demoted: int
    expired: int
    evicted: int
    duration: float
    memory_freed: int
    cached: int
    message: str


class Health(BaseModel):
    status: Literal["ok", "degraded", "error"]
    database: dict[str, Any]
    counts: dict[str, Any]
    index: dict[str, Any]
    model: dict[str, Any]
    graph: dict[str, Any]
    cache: dict[str, Any]
    redis: bool
    mem0: bool
    uptime: float
    memory: dict[str, Any]
    version: str
    next_step: str


class Entities(BaseModel):
    people: list[str]
    organizations: list[str]
    technologies: list[str]
    projects: list[str]
    places: list[str]
    dates: list[str]
    relationships: list[str]
    keywords: list[str]
    method: Literal["rules", "rules+head", "gliner"]


class GraphNode(BaseModel):
    id: str
    type: str
    name: str
    memories: list[str]
    mentions: int


class GraphEdge(BaseModel):
    source: str = Field(serialization_alias="from")
    to: str
    type: str
    confidence: float
    memory_id: str
    weight: int


class KnowledgeGraph(BaseModel):
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    total_nodes: int
    total_edges: int
    truncated: bool
    message: str


class Step(BaseModel):
    source: str = Field(serialization_alias="from")
    to: str
    type: str


class ConnectionsResult(BaseModel):
    source: str = Field(serialization_alias="from")
    to: str
    max_depth: int
    paths_found: int
    paths: list[list[Step]]
    message: str
