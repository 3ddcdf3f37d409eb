"""Which of a user's memories a search may answer with: all, those that pass a filter where they are few, or a test."""

import json
from collections.abc import Collection
from dataclasses import dataclass

import apsw

from r3_lite.filters import EVERYTHING, Clause

# So many memories that pass a filter are listed, in some milliseconds; where more pass, candidates are tested.
FEW = 20_000
# A user with less than this share of the file's memories is looked up in the keyword index by a word of theirs.
SMALL_SHARE = 0.125


@dataclass(frozen=True, slots=True)
class Scope:
    """A user and a filter in one snapshot. `few` are all memories (seq) that pass, or None where they are many.

    `own` is how many memories the user has; `small` tells that most of the file's are those of other users, `alone`
    that there are none of others.
    """

    connection: apsw.Connection
    user_id: str
    where: Clause = EVERYTHING
    few: frozenset[int] | None = None
    own: int = 0
    small: bool = False
    alone: bool = False

    def passing(self, memories: Collection[int]) -> set[int]:
        """Return those of the memories that are the user's and pass the filter."""
        if self.few is not None:
            return set(self.few.intersection(memories))
        if self.alone and self.where == EVERYTHING:
            return set(memories)
        rows = self.connection.execute(
            f"""SELECT m.seq FROM memories AS m
                WHERE +m.user_id = ?1 AND m.seq IN (SELECT value FROM json_each(?2)) AND {self.where.sql}""",
            (self.user_id, json.dumps(list(memories)), *self.where.params),
        )
        return {seq for (seq,) in rows}


def scope_of(connection: apsw.Connection, user_id: str, where: Clause = EVERYTHING) -> Scope:
    """Return the scope of a search in the caller's transaction. Reads the memories that pass a filter, if any."""
    own, total = connection.execute(
        "SELECT coalesce((SELECT memories FROM users WHERE user_id = ?), 0), (SELECT total(memories) FROM users)",
        (user_id,),
    ).get
    few: frozenset[int] | None = None
    if where != EVERYTHING:
        # The planner takes the user for the better choice, however few the values of the metadata leave.
        user = "+m.user_id" if where.indexed else "m.user_id"
        rows = connection.execute(
            f"SELECT m.seq FROM memories AS m WHERE {user} = ?1 AND {where.sql} LIMIT {FEW + 1}",
            (user_id, *where.params),
        )
        passing = frozenset(seq for (seq,) in rows)
        few = passing if len(passing) <= FEW else None
    return Scope(connection, user_id, where, few, own, small=own < SMALL_SHARE * total, alone=own == total)
