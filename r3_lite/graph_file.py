"""The graph file of the MCP project's memory server as memories: what each of its entities and relations says.

A line is {"type": "entity", "name", "entityType", "observations": […]} or {"type": "relation", "from", "to",
"relationType"}. Each observation and each relation becomes a sentence in which our own extraction finds the entity, and
the relation, again; metadata keeps every word as it was. Ids are made of what is said, so the same file gives the same.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GRAPH_KINDS = ("entity", "relation")
# Longer observations stand word for word at the end of their memory, and not in the metadata as well.
MAX_OBSERVATION = 20_000
# Observations that begin with one of these go on where the name ends: "Works at Acme" is "Ann works at Acme".
_VERBS = frozenset(
    """is was has had lives lived works worked uses used likes loves prefers speaks leads led manages managed owns
    knows wants needs hates plays studies studied joined moved graduated created built founded reports depends runs
    enjoys teaches writes attends attended maintains requires supports belongs married plans""".split()
)
# Relation types that lack their verb: "part_of" is said "is part of".
_WITHOUT_VERB = frozenset(
    """part member located based built written related connected similar friend married owner child parent colleague
    brother sister author employee""".split()
)
_UNDERSCORES = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Statement(dict[str, Any]):
    """A memory that a part of a graph became."""


def is_graph(record: Any) -> bool:
    """Tell whether a record is one of such a file."""
    if not isinstance(record, dict) or record.get("type") not in GRAPH_KINDS:
        return False
    return all(key not in record for key in ("memory", "content", "text"))


def memories_of(records: Sequence[Any]) -> Iterator[Any]:
    """Yield the records, each entity as the memories of its observations and each relation as one memory.

    An entity of which nothing is observed is a memory too. Broken ones are yielded as they are.
    """
    types: dict[str, str] = {}
    for record in records:
        if is_graph(record) and _is_entity(record):
            types.setdefault(record["name"], record["entityType"])
    for record in records:
        if not is_graph(record):
            yield record
        elif _is_entity(record):
            yield from _entity(record, types)
        elif _is_relation(record):
            yield _relation(record, types)
        else:
            yield record


def _is_entity(record: Mapping[str, Any]) -> bool:
    named = all(isinstance(record.get(key), str) for key in ("name", "entityType"))
    return record["type"] == "entity" and named and isinstance(record.get("observations"), list)


def _is_relation(record: Mapping[str, Any]) -> bool:
    return record["type"] == "relation" and all(
        isinstance(record.get(key), str) for key in ("from", "to", "relationType")
    )


def _entity(record: Mapping[str, Any], types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    name, kind = record["name"], record["entityType"]
    # Another entity of the same name. That the type of an only one changes does not change its memories.
    other = () if kind == types[name] else ("", kind)
    known = {"entity": name, "entity_type": kind}
    for observation in record["observations"]:
        if not isinstance(observation, str) or not observation.strip():
            yield {"content": observation}
            continue
        kept = {"observation": observation} if len(observation) <= MAX_OBSERVATION else {}
        yield _memory(record, _observed(name, kind, observation), known | kept, name, observation, *other)
    if not record["observations"]:
        yield _memory(record, _introduced(name, kind), known, name, *other)


def _relation(record: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    source, target, kind = record["from"], record["to"], record["relationType"]
    parts = (_named(source, types.get(source, ""), "The"), _phrase(kind), _named(target, types.get(target, ""), "the"))
    known = {"relation": kind, "from": source, "to": target}
    return _memory(record, " ".join(part for part in parts if part), known, source, kind, target)


def _memory(record: Mapping[str, Any], content: str, metadata: dict[str, str], *said: str) -> dict[str, Any]:
    # Lengths first: no two ways to cut the same characters have one id. Half characters are refused later.
    text = "".join(f"{len(part)}:{part}" for part in (record["type"], *said))
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
    # Some offspring of the server note times.
    times = {key: record[key] for key in ("created_at", "createdAt", "updated_at", "updatedAt") if key in record}
    return Statement({"id": f"graph-{digest}", "content": content, "metadata": metadata, **times})


def _observed(name: str, kind: str, observation: str) -> str:
    if any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", observation) for form in {name, _spoken(name)} if form):
        return observation
    first = observation.split(" ", 1)[0]
    if first.lower() in _VERBS and len(observation) <= MAX_OBSERVATION:
        return f"{_named(name, kind, 'The')} {observation[0].lower()}{observation[1:]}"
    return f"{_named(name, kind, 'The')}: {observation}"


def _introduced(name: str, kind: str) -> str:
    what = _phrase(kind, lower=False)
    if not what:
        return _spoken(name)
    return f"{_spoken(name)} is {'an' if what[0].lower() in 'aeiou' else 'a'} {what}."


def _named(name: str, kind: str, article: str) -> str:
    """Return a name as a sentence has it. Of projects it takes the word to tell that they are some."""
    spoken = _spoken(name)
    is_project = kind.strip().lower() == "project" and "project" not in spoken.lower()
    return f"{article} {spoken} project" if is_project else spoken


def _spoken(name: str) -> str:
    return _UNDERSCORES.sub(" ", name)


def _phrase(identifier: str, *, lower: bool = True) -> str:
    """Return the words of an identifier: `worksAt`, `works_at`, `WORKS-AT` as "works at"."""
    words = re.sub(r"[\W_]+", " ", _CAMEL.sub(" ", identifier)).split()
    words = [word.lower() for word in words] if lower else words
    if lower and words and (words[0] in _WITHOUT_VERB or words[-1] == "by") and len(words) > 1:
        words.insert(0, "is")
    return " ".join(words)
