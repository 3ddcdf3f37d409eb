"""Our own export read again: what it says of a memory beside its present, checked. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from r3_lite.clock import parse_time, to_text
from r3_lite.errors import ImportFailed, InvalidParameters
from r3_lite.limits import PRIORITIES, check_content, check_metadata

FORMAT = "r3-lite"
# Raised when a reader of the version before would misunderstand what is written.
VERSION = 1
_ACTIONS = ("created", "updated", "deleted", "restored", "merged")
_LAST_NUMBER = 2**53


@dataclass(frozen=True, slots=True)
class Own:
    """A record of a file that is our own export."""

    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """What became of a memory: its versions, oldest first (fields of `history.Version`), and whether it is deleted.

    `copy` is above 0 for a purposeful copy; `batch` names what it was imported with.
    """

    versions: tuple[dict[str, Any], ...]
    copy: int
    batch: str | None
    deleted: bool


def head() -> dict[str, Any]:
    """Return what an export begins with."""
    return {"format": FORMAT, "version": VERSION}


def is_head(value: Any) -> bool:
    """Tell whether a JSON value is a whole export of ours, or the first line of one.

    Raises ImportFailed where a newer version wrote it.
    """
    if not isinstance(value, dict) or value.get("format") != FORMAT or "content" in value:
        return False
    if value.get("version") != VERSION:
        raise ImportFailed("The file was written by a newer r3-lite. Upgrade r3-lite; nothing was imported.")
    return True


def own(records: list[Any]) -> Iterator[Any]:
    """Mark the records of our own export; what is no object is left to be refused like any other."""
    for record in records:
        yield Own(record) if isinstance(record, dict) else record


def past_of(fields: dict[str, Any]) -> Past:
    """Return the past of a record. Raises InvalidParameters that says what is wrong with it, without a word of it."""
    states = fields.get("history", [])
    if not isinstance(states, list):
        raise InvalidParameters("its history is not a list")
    versions = tuple(map(_version, states))
    numbers = [version["version"] for version in versions]
    if numbers != sorted(set(numbers)):
        raise InvalidParameters("the versions of its history are not in order")
    deleted = fields.get("deleted") is True
    if deleted and not versions:
        raise InvalidParameters("it is deleted and has no history")
    copy, batch = fields.get("copy") or 0, fields.get("batch")
    if not _is_number(copy, 0) or not isinstance(batch, str | None):
        raise InvalidParameters("its copy is not a number, or its batch is not a text")
    return Past(versions, copy, batch, deleted)


def _version(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise InvalidParameters("a version of its history is not an object")
    moment = parse_time(state.get("timestamp"))
    known = state.get("action") in _ACTIONS and state.get("priority") in PRIORITIES
    content, metadata = state.get("content"), state.get("metadata")
    if not (known and moment and isinstance(content, str) and isinstance(metadata, dict)):
        raise InvalidParameters("a version of its history is not whole")
    if not _is_number(state.get("version"), 1):
        raise InvalidParameters("a version of its history has no number")
    return {
        "version": state["version"],
        "action": state["action"],
        "content": check_content(content),
        "metadata": check_metadata(metadata),
        "priority": state["priority"],
        "timestamp": to_text(moment),
    }


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= _LAST_NUMBER
