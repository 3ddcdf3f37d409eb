"""LoCoMo (very long dialogues with questions about them) as memories to import and questions to search for.

One dialogue turn is one memory; the gold answer of a question is the set of turns named as its evidence.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ANSWERABLE = frozenset({1, 2, 3, 4})
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance; `id` is unique over all conversations of a file."""

    id: str
    session: str
    date: datetime
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the ids of the turns that answer it, and its category (1 to 5)."""

    text: str
    gold: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one dialogue in order, and the questions about it that have evidence."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def load(path: Path) -> list[Conversation]:
    """Read the conversations of a LoCoMo file. Raises KeyError or ValueError when it has another shape."""
    return [_conversation(item) for item in json.loads(path.read_text(encoding="utf-8"))]


def session_date(text: str) -> datetime:
    """Return the moment that a session's date names: "1:56 pm on 8 May, 2023". Raises ValueError otherwise."""
    plain = " ".join(text.replace(".", "").split())
    for month in ("%B", "%b"):
        try:
            return datetime.strptime(plain, f"%I:%M %p on %d {month}, %Y")
        except ValueError:
            continue
    raise ValueError("not a session date")


def import_items(conversation: Conversation) -> list[dict[str, Any]]:
    """Return the turns as import_memories takes them: the words as content, the rest as metadata."""
    return [
        {
            "content": turn.text,
            "metadata": {"author": turn.speaker, "session_id": turn.session, "dia_id": turn.id},
            "created_at": turn.date.isoformat(),
        }
        for turn in conversation.turns
        if turn.text
    ]


def _conversation(item: dict[str, Any]) -> Conversation:
    name = item["sample_id"]
    turns = tuple(_turns(name, item["conversation"]))
    known = {turn.id for turn in turns}
    questions = []
    for question in item["qa"]:
        named = (
            f"{name}/D{int(a)}:{int(b)}" for text in question.get("evidence", ()) for a, b in _EVIDENCE.findall(text)
        )
        gold = frozenset(named) & known
        if gold:
            questions.append(Question(question["question"], gold, question["category"]))
    return Conversation(name, turns, tuple(questions))


def _turns(name: str, dialogue: dict[str, Any]) -> Iterator[Turn]:
    numbers = sorted(int(key.removeprefix("session_")) for key in dialogue if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        date = session_date(dialogue[f"session_{number}_date_time"])
        for turn in dialogue[f"session_{number}"]:
            yield Turn(
                id=f"{name}/{turn['dia_id']}",
                session=f"{name}/{number}",
                date=date,
                speaker=turn["speaker"],
                text=turn["text"].strip(),
            )
