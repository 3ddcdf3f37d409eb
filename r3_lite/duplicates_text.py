"""How duplicates and look-alikes are shown: as many as fit, the true numbers, and one text. Pure."""

import json
from collections.abc import Iterable
from itertools import islice
from math import inf
from typing import TypeVar

from r3_lite.merging import Group, LookAlike, Member, Merged, Plan
from r3_lite.models import DedupeResult, DuplicateGroup, DuplicateMemory, NamedMemory
from r3_lite.models import LookAlike as ShownLookAlike
from r3_lite.render import CEILING, FRAME, line

# Of one group, and characters of one text: enough to recognise it.
SHOWN_DUPLICATES = 50
SHOWN_TEXT = 160
# Look-alikes are the lesser part: they get what the groups leave, but at least this share of the room.
_SHARE_OF_LOOK_ALIKES = 0.3

S = TypeVar("S", DuplicateGroup, ShownLookAlike)


def result(plan: Plan, merged: Merged | None = None, room: float = CEILING - FRAME) -> DedupeResult:
    """Return the answer to a preview, or to a live run that came to `merged`, in at most `room` characters and a frame.

    Groups come oldest first, look-alikes the most alike first; the message tells how many there are in all.
    """
    what = plan if merged is None else merged
    shown, used = _fitting(map(_group, what.groups), room * (1 - _SHARE_OF_LOOK_ALIKES if what.look_alikes else 1))
    alike, _ = _fitting(map(_look_alike, what.look_alikes), room - used)
    return DedupeResult(
        dry_run=merged is None,
        groups=shown,
        look_alikes=alike,
        duplicates_found=plan.duplicates,
        deleted=merged.deleted if merged else 0,
        message=_message(plan, merged, shown, len(alike)),
    )


def whole(plan: Plan, merged: Merged | None = None) -> DedupeResult:
    """Return the same without a limit, for the command line."""
    return result(plan, merged, inf)


def deduplicated(found: DedupeResult) -> str:
    """Text of deduplicate_memories."""
    lines = [found.message]
    for one in found.groups:
        lines.append(_group_line(one))
        lines += [f"  {'would merge' if found.dry_run else 'merged'} {_named(other)}" for other in one.duplicates]
    lines += [_look_alike_line(one) for one in found.look_alikes]
    return "\n".join(lines)


def _group_line(one: DuplicateGroup) -> str:
    return f"- {one.primary.id}: {one.primary.memory}"


def _named(other: DuplicateMemory) -> str:
    return f"{other.id} ({other.similarity:.2f}): {other.memory}"


def _look_alike_line(one: ShownLookAlike) -> str:
    return f"~ {_named(one)}\n  {one.other_id}: {one.other_memory}"


def _group(one: Group) -> DuplicateGroup:
    return DuplicateGroup(
        primary=NamedMemory(id=one.primary.id, memory=_text(one.primary)),
        duplicates=[
            DuplicateMemory(id=d.member.id, memory=_text(d.member), similarity=round(d.similarity, 3))
            for d in islice(one.duplicates, SHOWN_DUPLICATES)
        ],
    )


def _look_alike(one: LookAlike) -> ShownLookAlike:
    return ShownLookAlike(
        id=one.first.id,
        memory=_text(one.first),
        similarity=round(one.similarity, 3),
        other_id=one.second.id,
        other_memory=_text(one.second),
    )


def _text(member: Member) -> str:
    return line(member.text, SHOWN_TEXT)


def _fitting(items: Iterable[S], room: float) -> tuple[list[S], float]:
    """Return the first items that fit, at least one, and the characters they take as text and structure."""
    kept: list[S] = []
    used = 0.0
    for item in items:
        # The text repeats the ids and texts; what is around them there is no more than the names of the fields here.
        size = 2 * len(json.dumps(item.model_dump(), ensure_ascii=False))
        if kept and used + size > room:
            break
        kept.append(item)
        used += size
    return kept, used


def _message(plan: Plan, merged: Merged | None, shown: list[DuplicateGroup], alike: int) -> str:
    what = plan if merged is None else merged
    duplicates, groups = plan.duplicates if merged is None else merged.deleted, len(what.groups)
    if merged is None:
        notes = [
            f"{duplicates} duplicates in {groups} groups would be merged, each into the oldest that says the same."
        ]
        if duplicates:
            notes.append("Repeat with dry_run: false to merge just these.")
        else:
            notes = ["No duplicates found."]
    else:
        notes = [f"Merged {duplicates} duplicates in {groups} groups; get_memory_history shows what was removed."]
        if merged.left_alone:
            notes.append(f"{merged.left_alone} were left alone: their group changed meanwhile.")
        if merged.kept_apart:
            notes.append(f"{merged.kept_apart} metadata values differed from the oldest's: only the history has them.")
    if sum(len(one.duplicates) for one in shown) < duplicates:
        notes.append(f"{len(shown)} groups are shown, of each at most {SHOWN_DUPLICATES}.")
    if what.alike:
        pairs = f"{alike} of {len(what.look_alikes)} pairs" if alike < len(what.look_alikes) else f"{alike} pairs"
        notes.append(
            f"{what.alike} memories look alike but may say different things, or others said them ({pairs} shown); "
            "they stay."
        )
    if not plan.complete:
        notes.append("There may be more of these: comparing all would have taken too long. Try a higher threshold.")
    return " ".join(notes)
