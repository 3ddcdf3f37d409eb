"""What a file of memories may look like: bytes to records, and one record to a checked item. Pure.

Known are a JSON array, an object with `results` or `memories` (Mem0, r3), JSON Lines, the graph file of the MCP
project's memory server, and our own export (`past`), each in any Unicode encoding with or without a byte order mark.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from r3_lite.clock import ID_PATTERN, parse_time, to_text
from r3_lite.errors import ImportFailed, InvalidParameters
from r3_lite.graph_file import GRAPH_KINDS, Statement, is_graph, memories_of
from r3_lite.limits import check_content, check_metadata
from r3_lite.past import Own, Past, is_head, own, past_of

_TEXT_KEYS = ("memory", "content", "text")
_LIST_KEYS = ("results", "memories")
# What Mem0 keeps beside the metadata and a memory would be poorer without; `run_id` is its session.
_BESIDE = ("agent_id", "app_id", "run_id", "session_id", "actor_id", "role", "categories", "expiration_date")
_PRIORITIES = {"critical": "critical", "high": "high", "medium": "medium", "normal": "medium", "low": "low"}
# An id of another program is kept when it cannot be mistaken for text.
_FOREIGN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
# A line that is not blank, from its first sign.
_LINE = re.compile(r"\S[^\n]*")
# Of so many records of a file one asks whether to stop.
ASK_EVERY = 4_096


@dataclass(frozen=True, slots=True)
class Item:
    """One memory as a file brings it, checked against all limits. What the file does not say is None."""

    content: str
    metadata: dict[str, Any]
    priority: str | None
    id: str | None
    created_at: str | None
    updated_at: str | None
    user_id: str | None
    # Only of our own export.
    past: Past | None = None
    # A part of a graph: its metadata says what its text alone does not.
    stated: bool = False


def records(data: bytes, stopped: Callable[[], bool] = lambda: False) -> list[Any]:
    """Return the records of a file, in order; a graph file as the memories that it holds.

    They are not looked at yet: see `item_of`. Raises ImportFailed where the file is of no known format, or if stopped;
    its message holds nothing of the file.
    """
    text = _decode(data)
    try:
        document = _loads(text)
    except ValueError:
        lines = list(_json_lines(text, stopped))
        if is_head(lines[0] if lines else None):
            return list(own(lines[1:]))
        found = list(itertools.chain.from_iterable(map(_records_of_line, lines)))
    else:
        found = _records_of(document)
    return list(memories_of(found)) if any(map(is_graph, found)) else found


def loads(text: str | bytes) -> Any:
    """Return what a JSON text says; numbers too long for Python are infinite. ValueError, RecursionError: no such."""
    whole = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    return _JSON.decode(whole)


def item_of(record: Any) -> Item | None:
    """Return the memory of a record, a text or an object with one, or None where the text is blank.

    A deleted memory of our own export is returned with its last text.

    Raises InvalidParameters that says what is wrong with it, without a word of it.
    """
    if record == "":
        return None
    past = past_of(record.fields) if isinstance(record, Own) else None
    if isinstance(record, Own):
        last = past.versions[-1] if past and past.deleted else {}
        record = {**last, **record.fields}
    if isinstance(record, str):
        record = {"content": record}
    if not isinstance(record, dict):
        raise InvalidParameters("not an object with memory, content or text")
    given = [record[key] for key in _TEXT_KEYS if record.get(key) is not None]
    content = next((text for text in given if text != ""), given[0] if given else None)
    if content is None:
        broken = record.get("type") in GRAPH_KINDS
        raise InvalidParameters("is no whole entity or relation" if broken else "has no memory, content or text")
    if not isinstance(content, str):
        raise InvalidParameters("its text is not a string")
    if not content.strip():
        return None
    created_at = _time(record, "created_at", "createdAt")
    user_id = record.get("user_id")
    return Item(
        content=check_content(content),
        metadata=check_metadata(_metadata(record)),
        priority=_PRIORITIES.get(str(record.get("priority")).strip().lower()),
        id=_id(record.get("id"), content),
        created_at=created_at,
        updated_at=_time(record, "updated_at", "updatedAt") or created_at,
        user_id=user_id if isinstance(user_id, str) and user_id else None,
        past=past,
        stated=isinstance(record, Statement),
    )


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    metadata = {} if record.get("metadata") is None else record["metadata"]
    if not isinstance(metadata, dict):
        raise InvalidParameters("its metadata is not an object")
    beside = {key: record[key] for key in _BESIDE if record.get(key) not in (None, "", [])}
    return {**beside, **metadata}


def _time(record: dict[str, Any], *keys: str) -> str | None:
    value = next((record[key] for key in keys if record.get(key) not in (None, "")), None)
    if value is None:
        return None
    moment = parse_time(value)
    if moment is None:
        raise InvalidParameters(f"its {keys[0]} is not an ISO 8601 time")
    return to_text(moment)


def derived_id(*parts: str) -> str:
    """Return the id that always stands for these texts."""
    # Lengths first: no two ways to cut the same characters have one id.
    said = "".join(f"{len(part)}:{part}" for part in parts)
    return f"derived-{hashlib.sha256(said.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _id(value: Any, content: str) -> str | None:
    """Return an id as it is or, where it cannot be kept, one made of it and the text.

    Numbers are counted from 1 in many a program: the text tells what one of them calls 7 from what another does.
    """
    if isinstance(value, str) and (ID_PATTERN.fullmatch(value) or _FOREIGN_ID.fullmatch(value)):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return derived_id(repr(value), content) if number or (isinstance(value, str) and value.strip()) else None


def _records_of(document: Any) -> list[Any]:
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        if is_head(document):
            return list(own([*_list_in(document, "memories"), *_list_in(document, "deleted")]))
        lists = [document[key] for key in _LIST_KEYS if isinstance(document.get(key), list)]
        if lists:
            return list(itertools.chain(*lists))
        if isinstance(document.get("entities"), list) and isinstance(document.get("relations", []), list):
            return [
                {"type": kind, **one} if isinstance(one, dict) else one
                for kind, name in (("entity", "entities"), ("relation", "relations"))
                for one in document.get(name, [])
            ]
        if is_graph(document) or any(key in document for key in _TEXT_KEYS):
            return [document]
    raise ImportFailed("The file holds no list of memories: expected an array, or an object with results or memories.")


def _records_of_line(line: Any) -> list[Any]:
    """Return what a line of JSON Lines holds: the records of a list or of a page of some, else itself alone."""
    if isinstance(line, list):
        return line
    page = isinstance(line, dict) and any(isinstance(line.get(key), list) for key in (*_LIST_KEYS, "entities"))
    if page and not is_graph(line) and not any(key in line for key in _TEXT_KEYS):
        return _records_of(line)
    return [line]


def _list_in(document: dict[str, Any], key: str) -> list[Any]:
    found = document.get(key)
    return found if isinstance(found, list) else []


def _loads(text: str) -> Any:
    try:
        return loads(text)
    except RecursionError:
        raise ImportFailed("The file is nested too deeply for a list of memories. Nothing was imported.") from None


def _integer(digits: str) -> float:
    # Python refuses to read numbers of thousands of digits; infinity is refused later, with its item alone.
    try:
        return int(digits)
    except ValueError:
        return math.inf


# Made once: to make one takes as long as to read a short line with it.
_JSON = json.JSONDecoder(parse_int=_integer)


def _json_lines(text: str, stopped: Callable[[], bool]) -> Iterator[Any]:
    # Not splitlines(): JSON may hold line separators of Unicode as they are.
    for number, line in enumerate(_LINE.finditer(text)):
        if number % ASK_EVERY == 0 and stopped():
            raise ImportFailed("The import was stopped while the file was read. Nothing was imported.")
        try:
            yield _loads(line[0])
        except ValueError:
            before = text.count("\n", 0, line.start())
            raise ImportFailed(
                f"The file is neither JSON nor JSON Lines (line {before + 1} is not JSON). Nothing was imported."
            ) from None


def _decode(data: bytes) -> str:
    try:
        # By the byte order mark or, without one, by where the zero bytes of the first characters are.
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        raise ImportFailed("The file is not UTF-8, UTF-16 or UTF-32 text. Nothing was imported.") from None
