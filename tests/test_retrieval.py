"""From a query to candidates, on a real file: what stands beside a near memory, and for whom it does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_helpers import eventually, indexed

from r3_lite.engine import Engine

MakeEngine = Callable[..., Engine]
TURNS = ("Do you have a kitten?", "She is called Mia.", "The harbour is closed.")


def imported(engine: Engine, folder: Path, **more: Any) -> None:
    path = folder / "import.json"
    path.write_text(json.dumps([{"content": text, **more} for text in TURNS]))
    engine.import_file(None, str(path))
    eventually(lambda: indexed(engine))


def parts(engine: Engine, **more: Any) -> dict[str, dict[str, float]]:
    hits = engine.search(None, "feline", **more).ranking.hits
    return {hit.record.content: hit.breakdown.shown() for hit in hits}


@pytest.mark.parametrize(
    "metadata",
    [{"session_id": "monday"}, {"author": "Ana"}, {"role": "user", "thread_id": "t"}],
    ids=["session", "author", "both"],
)
def test_the_answer_to_a_near_question_is_found(
    make_engine: MakeEngine, tmp_path: Path, metadata: dict[str, str]
) -> None:
    engine = make_engine(import_roots=(tmp_path,))
    imported(engine, tmp_path, metadata=metadata)
    found = parts(engine)
    assert found[TURNS[1]]["answer"] > 0
    assert found[TURNS[1]]["session"] == found[TURNS[0]]["session"]


def test_notes_of_one_import_say_nothing_about_each_other(make_engine: MakeEngine, tmp_path: Path) -> None:
    engine = make_engine(import_roots=(tmp_path,))
    imported(engine, tmp_path)
    assert list(parts(engine)) == [TURNS[0]]


def test_messages_added_one_after_the_other_are_a_talk(make_engine: MakeEngine) -> None:
    engine = make_engine()
    for text, author in zip(TURNS, ("Ana", "Ben", "Ana"), strict=True):
        engine.add(None, text, metadata={"author": author}, wait=True)
    assert parts(engine)[TURNS[1]]["answer"] > 0


def test_what_a_filter_keeps_out_is_no_candidate_as_a_neighbour_either(make_engine: MakeEngine) -> None:
    engine = make_engine()
    for text, author in zip(TURNS, ("Ana", "Ben", "Ana"), strict=True):
        engine.add(None, text, metadata={"author": author, "session_id": "s"}, wait=True)
    assert TURNS[1] not in parts(engine, metadata_filter={"author": "Ana"})
