"""Other forms of a query's words: inflections, compounds and spellings that a user's memories really hold.

No grammar of any language: words count as forms of each other by the letters they share. The vocabulary holds each
word of a user once, so it stays small beside the memories, and quick at any number of them.
"""

import json
import re
from collections.abc import Iterable

import apsw

from r3_lite.text import bare, has_forms, stem_of, vocabulary

# Forms of one word that are searched for, the most alike first.
MAX_FORMS = 24
# Words that hold a part are so many at most before the most alike are chosen.
_MAX_HOLDERS = 500
# Hebrew and Arabic, where articles and prepositions are written together with the word.
_CLINGING = re.compile("[\u0590-\u08ff]")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def learn(connection: apsw.Connection, user_id: str, text: str) -> None:
    """Add the words of a text to the user's vocabulary. Writes."""
    connection.execute(
        "INSERT OR IGNORE INTO vocabulary (user_id, word) SELECT ?, value FROM json_each(?)",
        (user_id, json.dumps(sorted(vocabulary(text)), ensure_ascii=False)),
    )


def rebuild(connection: apsw.Connection) -> None:
    """Make every user's vocabulary anew from the memories. Writes."""
    # An index out of step cannot forget a word that it does not know.
    connection.execute("INSERT INTO parts (parts) VALUES ('rebuild')")
    connection.execute("DELETE FROM vocabulary")
    for user_id, content in connection.execute("SELECT user_id, content FROM memories"):
        learn(connection, user_id, content)


def other_forms(connection: apsw.Connection, user_id: str, term: str) -> list[str]:
    """Return words of the user's memories that share their root with a lower-case term, the most alike first.

    These are words that begin with the term or with its stem ("книга": "книгу"), hold it ("versicherung":
    "krankenversicherung"), end or begin it ("الكتاب": "كتاب"), and the same of its spellings with and without
    umlauts ("schluessel": "schlüssel"). Where there are none, those that share the longest part of it, half of it at
    least ("fermeture": "fermée"). At most 24, without accents; the term itself is not among them.
    """
    plain = bare(term)
    likeness: dict[str, float] = {}
    for spelling in _spellings(term, plain):
        stem = stem_of(spelling)
        for word in {
            *_beginning_with(connection, user_id, stem),
            *_holding(connection, user_id, stem if len(stem) > 5 else spelling),
            *_known(connection, user_id, _parts(spelling)),
        }:
            likeness[word] = max(likeness.get(word, 0.0), _likeness(spelling, word))
    likeness.pop(plain, None)
    if likeness:
        return sorted(likeness, key=lambda word: (-likeness[word], word))[:MAX_FORMS]
    return sorted(_distant_forms(connection, user_id, plain))[:MAX_FORMS]


def _distant_forms(connection: apsw.Connection, user_id: str, term: str) -> set[str]:
    """Return the words that begin as the term does or, where other words cling to the front, hold a part of it."""
    european = term[0] < "\u0590"
    least = max(5 if term.isascii() else 4, (len(term) + 1) // 2) if european else max(3, len(term) // 2)
    found: set[str] = set()
    for length in range(len(term) - 1, least - 1, -1):
        if _CLINGING.match(term):
            for start in range(len(term) - length + 1):
                found.update(_holding(connection, user_id, term[start : start + length]))
        else:
            found.update(_beginning_with(connection, user_id, term[:length]))
        if found:
            break
    return found - {term}


def _beginning_with(connection: apsw.Connection, user_id: str, part: str) -> Iterable[str]:
    rows = connection.execute(
        "SELECT word FROM vocabulary WHERE user_id = ? AND word >= ? AND word < ? LIMIT ?",
        (user_id, part, part + chr(0x10FFFF), _MAX_HOLDERS),
    )
    return (word for (word,) in rows)


def _holding(connection: apsw.Connection, user_id: str, part: str) -> Iterable[str]:
    rows = connection.execute(
        """SELECT v.word FROM parts CROSS JOIN vocabulary AS v ON v.id = parts.rowid
           WHERE parts.word GLOB ? AND v.user_id = ? LIMIT ?""",
        (f"*{part}*", user_id, _MAX_HOLDERS),
    )
    return (word for (word,) in rows)


def _known(connection: apsw.Connection, user_id: str, candidates: Iterable[str]) -> Iterable[str]:
    rows = connection.execute(
        "SELECT word FROM vocabulary WHERE user_id = ? AND word IN (SELECT value FROM json_each(?))",
        (user_id, json.dumps(list(candidates), ensure_ascii=False)),
    )
    return (word for (word,) in rows)


def _spellings(term: str, plain: str) -> set[str]:
    without = plain.replace("ae", "a").replace("oe", "o").replace("ue", "u")
    return {spelling for spelling in (plain, bare(term.translate(_UMLAUTS)), without) if has_forms(spelling)}


def _parts(word: str) -> set[str]:
    """Return the beginnings and ends of a word that may be words of their own."""
    least = 5 if word.isascii() else 3
    return {part for n in range(least, len(word)) for part in (word[:n], word[-n:])}


def _likeness(term: str, word: str) -> float:
    """Return how near two words are, 0 to 1: the share of the longer that they begin with, or that the other fills."""
    shorter, longer = sorted((term, word), key=len)
    if shorter in longer:
        return len(shorter) / len(longer)
    common = next(i for i, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b)
    return common / len(longer)
