"""A query's words find their other forms among the words that a user's memories hold."""

import apsw
import pytest

from r3_lite import store, wordforms
from r3_lite.db import Database
from r3_lite.store import NewMemory


def learn(connection: apsw.Connection, *texts: str, user_id: str = "ada") -> None:
    for text in texts:
        store.insert(connection, NewMemory(user_id, text))


def words_of(connection: apsw.Connection, user_id: str = "ada") -> list[str]:
    rows = connection.execute("SELECT word FROM vocabulary WHERE user_id = ? ORDER BY word", (user_id,))
    return [word for (word,) in rows]


@pytest.mark.parametrize(
    ("term", "text", "form"),
    [
        ("versicherung", "Krankenversicherung", "krankenversicherung"),
        ("versicherungen", "Krankenversicherung", "krankenversicherung"),
        ("schutzbrief", "Auslandskrankenschutzbriefe", "auslandskrankenschutzbriefe"),
        ("krankenversicherung", "Versicherung", "versicherung"),
        ("schluessel", "Schlüssel", "schlussel"),
        ("schlüssel", "Schluessel", "schluessel"),
        ("книга", "книгу", "книгу"),
        ("كتاب", "الكتاب", "الكتاب"),
        ("الكتاب", "كتاب", "كتاب"),
        ("הסלון", "בסלון", "בסלון"),
        ("fermeture", "fermée", "fermee"),
        ("गाडियां", "गाड़ी", "गाडी"),
    ],
)
def test_a_term_finds_another_form_of_itself(term: str, text: str, form: str, database: Database) -> None:
    with database.write() as connection:
        learn(connection, text, "Unrelated words: мороз, قطار, दिल्ली")
        assert wordforms.other_forms(connection, "ada", term) == [form]


def test_the_most_alike_forms_come_first_and_the_term_itself_is_none(database: Database) -> None:
    with database.write() as connection:
        learn(connection, "Versicherung Versicherungen Pflegeversicherung Versicherungsnummer")
        assert wordforms.other_forms(connection, "ada", "versicherung") == [
            "versicherungen",  # 12 of 14 letters
            "pflegeversicherung",  # 12 of 18
            "versicherungsnummer",  # 12 of 19
        ]


def test_distant_forms_are_asked_for_only_where_there_are_no_near_ones(database: Database) -> None:
    with database.write() as connection:
        learn(connection, "fermetures fermier")
        assert wordforms.other_forms(connection, "ada", "fermeture") == ["fermetures"]


def test_a_term_without_relatives_has_no_forms(database: Database) -> None:
    with database.write() as connection:
        learn(connection, "internet connection")
        assert wordforms.other_forms(connection, "ada", "kubernetes") == []


def test_there_are_at_most_24_forms(database: Database) -> None:
    with database.write() as connection:
        learn(connection, " ".join(f"wolke{chr(97 + n)}" for n in range(26)))
        assert len(wordforms.other_forms(connection, "ada", "wolke")) == 24


def test_a_word_is_kept_once_for_each_user(database: Database) -> None:
    with database.write() as connection:
        learn(connection, "Blue Lagoon", "the blue whale")
        learn(connection, "blue", user_id="bob")
        assert words_of(connection) == ["blue", "lagoon", "whale"]
        assert words_of(connection, "bob") == ["blue"]


def test_the_words_go_with_the_last_memory_of_their_user(database: Database) -> None:
    with database.write() as connection:
        learn(connection, "blue whale", "red lagoon")
        learn(connection, "green forest", user_id="bob")
        store.delete_all(connection, "ada")
        assert words_of(connection) == []
        assert words_of(connection, "bob") == ["forest", "green"]
        assert store.keyword_index_sound(connection)


def test_a_rebuilt_vocabulary_holds_the_words_of_the_memories(database: Database) -> None:
    with database.write() as connection:
        learn(connection, "blue whale")
        connection.execute("UPDATE memories SET content = 'red lagoon'")
        connection.execute("INSERT INTO parts (parts) VALUES ('delete-all')")
        assert not store.keyword_index_sound(connection)
        store.rebuild_keyword_index(connection)
        assert words_of(connection) == ["lagoon"]
        assert wordforms.other_forms(connection, "ada", "lago") == ["lagoon"]
        assert store.keyword_index_sound(connection)
