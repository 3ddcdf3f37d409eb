"""The graph in the file: what a memory says is there as long as the memory says it, and only for its user."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import plans

from r3_lite import graph, jobs, store
from r3_lite.db import APPLICATION_ID, Database, load_migrations
from r3_lite.extract import Entity, Extraction, Method, Relation, extract
from r3_lite.graph import Neighbourhood, Node
from r3_lite.jobs import Job
from r3_lite.store import NewMemory

ALICE, BOB = "alice", "bob"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


def add(connection: apsw.Connection, text: str, user_id: str = ALICE) -> str:
    """Store a memory, with what the rules find in it, and return its id."""
    added = store.insert(connection, NewMemory(user_id, text), check_duplicates=False)
    examine(connection)
    return added.id


def examine(connection: apsw.Connection, method: Method = "rules") -> None:
    """Do all extraction that is owed, by rules, in the name of a method."""
    for job in jobs.due(connection, None, 10_000):
        assert graph.write(connection, job, extract(job.content), method, "1")


def whole(connection: apsw.Connection, user_id: str = ALICE, **chosen: Any) -> Neighbourhood:
    return graph.neighbourhood(connection, user_id, limit=chosen.pop("limit", 100), **chosen)


def names(found: Neighbourhood) -> list[str]:
    return [node.name for node in found.nodes]


def sentences(found: Neighbourhood) -> set[tuple[str, str, str]]:
    name = {node.id: node.name for node in found.nodes}
    return {(name[edge.source], edge.type, name[edge.target]) for edge in found.edges}


def contents(connection: apsw.Connection) -> dict[str, list[Any]]:
    """Everything in the graph, by names and memories instead of row numbers."""
    return {
        "entities": connection.execute("SELECT user_id, type, key FROM entities ORDER BY 1, 2, 3").fetchall(),
        "mentions": connection.execute(
            """SELECT m.id, e.user_id, e.type, e.key, position, name FROM mentions
               JOIN memories AS m ON m.seq = memory JOIN entities AS e ON e.id = entity ORDER BY 1, 2, 3, 4, 5"""
        ).fetchall(),
        "edges": connection.execute(
            """SELECT m.id, s.user_id, s.type, s.key, edges.type, t.user_id, t.type, t.key, confidence FROM edges
               JOIN memories AS m ON m.seq = memory JOIN entities AS s ON s.id = source
               JOIN entities AS t ON t.id = target ORDER BY 1, 2, 3, 4, 5, 6, 7, 8"""
        ).fetchall(),
        "extractions": connection.execute("SELECT memory, method, version FROM extractions ORDER BY 1").fetchall(),
    }


# What a memory says


def test_a_memory_fills_the_graph(connection: apsw.Connection) -> None:
    memory = add(connection, "Ana works for Acme Corp and uses Docker.")
    found = whole(connection)
    ids = {node.name: node.id for node in found.nodes}
    assert found.nodes == (
        Node(ids["Ana"], "people", "Ana", 1, (memory,)),
        Node(ids["Acme Corp"], "organizations", "Acme Corp", 1, (memory,)),
        Node(ids["Docker"], "technologies", "Docker", 1, (memory,)),
    )
    assert [(e.source, e.type, e.target, e.weight, e.memory_id) for e in found.edges] == [
        (ids["Ana"], "USES", ids["Docker"], 1, memory),
        (ids["Ana"], "WORKS_FOR", ids["Acme Corp"], 1, memory),
    ]
    assert (found.total_nodes, found.total_edges) == (3, 2)


def test_the_same_fact_in_three_memories_is_one_edge_of_weight_three(connection: apsw.Connection) -> None:
    texts = ("Ana uses Docker.", "Ana uses Docker every day.", "At work Ana uses Docker.")
    first, second, _ = (add(connection, text) for text in texts)
    (edge,) = whole(connection).edges
    assert (edge.weight, edge.memory_id) == (3, first)
    store.delete(connection, ALICE, first)
    (edge,) = whole(connection).edges
    assert (edge.weight, edge.memory_id) == (2, second)


def test_spellings_of_a_name_are_one_entity_named_as_first_written(connection: apsw.Connection) -> None:
    first = add(connection, "Ana works for Acme Corp.")
    add(connection, "Bo works for ACME-Corp.")
    add(connection, "Cy works for ACME Corp.")
    (acme,) = whole(connection, entity_type="organizations").nodes
    assert (acme.name, acme.mentions) == ("Acme Corp", 3)
    store.delete(connection, ALICE, first)
    (acme,) = whole(connection, entity_type="organizations").nodes
    assert (acme.name, acme.mentions) == ("ACME-Corp", 2)


def test_like_names_are_not_one_entity(connection: apsw.Connection) -> None:
    add(connection, "Maya knows Mayo. Ana uses Java and JavaScript.")
    assert {"Maya", "Mayo", "Java", "JavaScript"} <= set(names(whole(connection)))


def test_nothing_is_connected_to_itself(connection: apsw.Connection) -> None:
    seq = store.insert(connection, NewMemory(ALICE, "Redis and REDIS")).seq
    one, other = Entity("technologies", "Redis", 0, 5, 1.0), Entity("technologies", "REDIS", 10, 15, 1.0)
    found = Extraction((one, other), (Relation(one, "USES", other, 1.0),), (), "rules")
    assert graph.write(connection, Job(seq, ALICE, "Redis and REDIS", embed=False, extract=True), found, "rules", "1")
    assert names(whole(connection)) == ["Redis"]
    assert whole(connection).edges == ()


def test_unsure_entities_dates_and_endless_names_stay_outside(connection: apsw.Connection) -> None:
    text = "x" * 300
    seq = store.insert(connection, NewMemory(ALICE, text)).seq
    sure = Entity("people", "Ana", 0, 3, 0.5)
    entities = (
        sure,
        Entity("people", "Bo", 5, 7, 0.49),
        Entity("dates", "Monday", 9, 15, 1.0),
        Entity("projects", text, 0, 300, 1.0),
    )
    relations = (Relation(sure, "KNOWS", entities[1], 0.49),)
    graph.write(
        connection,
        Job(seq, ALICE, text, embed=False, extract=True),
        Extraction(entities, relations, (), "rules"),
        "rules",
        "1",
    )
    assert names(whole(connection)) == ["Ana"]


# It goes with the memory


@pytest.mark.parametrize("how", ["update", "delete", "other program"])
def test_what_a_memory_said_goes_with_its_text(connection: apsw.Connection, how: str) -> None:
    memory = add(connection, "Ana works for Acme Corp.")
    add(connection, "Ana uses Docker.")
    generation = store.generation(connection, ALICE)
    match how:
        case "update":
            store.update(connection, ALICE, memory, content="Ana works for Initech Inc.")
        case "delete":
            store.delete(connection, ALICE, memory)
        case _:
            connection.execute("DELETE FROM memories WHERE id = ?", (memory,))
    assert sorted(names(whole(connection))) == ["Ana", "Docker"]
    assert sentences(whole(connection)) == {("Ana", "USES", "Docker")}
    assert store.generation(connection, ALICE) > generation
    examine(connection)
    assert ("Initech Inc" in " ".join(names(whole(connection)))) == (how == "update")


def test_a_program_without_foreign_keys_leaves_nothing_behind(connection: apsw.Connection) -> None:
    add(connection, "Ana works for Acme Corp.")
    connection.execute("COMMIT; PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")
    connection.execute("DELETE FROM memories")
    for table in ("entities", "mentions", "edges", "extractions", "jobs"):
        assert connection.execute(f"SELECT count(*) FROM {table}").get == 0


def test_metadata_only_update_keeps_the_graph(connection: apsw.Connection) -> None:
    memory = add(connection, "Ana works for Acme Corp.")
    before = contents(connection)
    store.update(connection, ALICE, memory, metadata={"topic": "work"}, priority="high")
    assert contents(connection) == before
    assert jobs.due(connection, None, 10) == []


def test_a_memory_that_changed_while_it_was_read_stays_owed(connection: apsw.Connection) -> None:
    memory = store.insert(connection, NewMemory(ALICE, "Ana uses Docker.")).id
    (job,) = jobs.due(connection, None, 10)
    store.update(connection, ALICE, memory, content="Ana uses Podman.")
    assert not graph.write(connection, job, extract(job.content), "rules", "1")
    assert whole(connection).nodes == ()
    (job,) = jobs.due(connection, None, 10)
    assert job.content == "Ana uses Podman."


def test_after_many_random_changes_the_graph_is_the_one_rebuilt_from_scratch(connection: apsw.Connection) -> None:
    chance = random.Random(5)
    people, firms, tools = (
        ("Ana", "ANA", "Bo", "Cy"),
        ("Acme Corp", "ACME-Corp", "Initech Inc"),
        ("Docker", "Redis", "Go"),
    )
    alive: list[tuple[str, str]] = []

    def text(number: int) -> str:
        who, firm, tool = chance.choice(people), chance.choice(firms), chance.choice(tools)
        return f"{who} works for {firm} and uses {tool}. Note {number}."

    for number in range(2_000):
        user, action = chance.choice((ALICE, BOB)), chance.random()
        if action < 0.5 or len(alive) < 5:
            alive.append((user, store.insert(connection, NewMemory(user, text(number)), near=False).id))
        elif action < 0.8:
            owner, memory = chance.choice(alive)
            store.update(connection, owner, memory, content=text(number))
        elif action < 0.99:
            store.delete(connection, *alive.pop(chance.randrange(len(alive))))
        else:
            store.delete_all(connection, user)
            alive = [(owner, memory) for owner, memory in alive if owner != user]
        if chance.random() < 0.3:
            examine(connection)
    examine(connection)
    grown = contents(connection)
    shown = [whole(connection, user) for user in (ALICE, BOB)]
    assert len(grown["edges"]) > 100
    connection.execute("DELETE FROM edges; DELETE FROM mentions; DELETE FROM extractions")
    assert connection.execute("SELECT count(*) FROM entities").get == 0
    graph.owe_outdated(connection, "rules", "1")
    examine(connection)
    assert contents(connection) == grown
    for before, user in zip(shown, (ALICE, BOB), strict=True):
        again = whole(connection, user)
        assert sentences(again) == sentences(before)
        assert {(n.type, n.name, n.mentions) for n in again.nodes} == {
            (n.type, n.name, n.mentions) for n in before.nodes
        }


# What is read anew


def test_existing_memories_are_owed_after_the_migration(database: Database, tmp_path: Path) -> None:
    with database.write() as connection:
        memory_id = add(connection, "Ana works for Acme Corp.")
        expected = contents(connection)
    old = apsw.Connection(str(tmp_path / "old.db"))
    old.execute(load_migrations()[0].sql)
    old.execute(f"PRAGMA user_version = 1; PRAGMA application_id = {APPLICATION_ID}")
    old.execute(
        """INSERT INTO memories (id, user_id, content, hash, created_at, updated_at)
           VALUES (?, ?, 'Ana works for Acme Corp.', 'h', '2026', '2026')""",
        (memory_id, ALICE),
    )
    old.close()
    upgraded = Database(tmp_path / "old.db", synchronous="normal")
    with upgraded.write() as connection:
        assert [job.extract for job in jobs.due(connection, None, 10)] == [True]
        examine(connection)
        assert contents(connection) == expected
    upgraded.close()


@pytest.mark.parametrize(
    ("method", "version", "anew"),
    [
        ("rules", "1", []),
        ("rules", "2", ["rules"]),
        ("rules+head", "1", ["rules"]),
        ("rules+head", "2", ["rules", "rules+head"]),
        ("gliner", "1", ["rules", "rules+head"]),
        ("gliner", "2", ["rules", "rules+head", "gliner"]),
    ],
)
def test_a_better_method_or_a_new_version_reads_anew_and_a_worse_one_does_not(
    connection: apsw.Connection, method: Method, version: str, anew: list[str]
) -> None:
    for done in ("rules", "rules+head", "gliner"):
        store.insert(connection, NewMemory(ALICE, f"{done} uses Docker."))
        examine(connection, done)
    before = contents(connection)
    assert graph.outdated(connection, method, version) == len(anew)
    graph.owe_outdated(connection, method, version)
    assert [job.content.split()[0] for job in jobs.due(connection, None, 10)] == anew
    assert contents(connection) == before


def test_a_memory_that_is_neither_read_nor_owed_is_noticed(connection: apsw.Connection) -> None:
    add(connection, "Ana uses Docker.")
    assert graph.unread(connection) == 0
    connection.execute("DELETE FROM extractions")
    assert graph.unread(connection) == 1
    graph.owe_outdated(connection, "rules", "1")
    assert graph.unread(connection) == 0


# What is asked


@pytest.fixture
def office(connection: apsw.Connection) -> apsw.Connection:
    for text in (
        "Ana works for Acme Corp.",
        "Bo works for Acme Corp and uses Docker.",
        "Bo leads the Hermes project.",
        "The Hermes project depends on Redis.",
        "Acme Corp is located in Berlin.",
    ):
        add(connection, text)
    add(connection, "Zed works for Acme Corp and leads the Secret project.", BOB)
    return connection


def test_the_most_mentioned_come_first(office: apsw.Connection) -> None:
    found = whole(office, limit=2)
    assert names(found) == ["Acme Corp", "Bo"]
    assert sentences(found) == {("Bo", "WORKS_FOR", "Acme Corp")}
    assert (found.total_nodes, found.total_edges) == (7, 6)


def test_every_edge_has_both_ends_among_the_nodes(office: apsw.Connection) -> None:
    for limit in range(1, 8):
        found = whole(office, limit=limit)
        assert len(found.nodes) == limit
        assert {end for edge in found.edges for end in (edge.source, edge.target)} <= {node.id for node in found.nodes}


def test_a_type_chooses_nodes(office: apsw.Connection) -> None:
    found = whole(office, entity_type="people")
    assert sorted(names(found)) == ["Ana", "Bo"]
    assert (found.total_nodes, found.total_edges, found.edges) == (2, 0, ())


def test_a_name_chooses_nodes_and_brings_their_neighbours(office: apsw.Connection) -> None:
    found = whole(office, name="ACME")
    assert names(found)[0] == "Acme Corp"
    assert sorted(names(found)) == ["Acme Corp", "Ana", "Berlin", "Bo"]
    assert found.total_edges == 3
    assert names(whole(office, name="ACME", limit=1)) == ["Acme Corp"]


def test_a_relation_chooses_edges_and_their_ends(office: apsw.Connection) -> None:
    found = whole(office, relation="LEADS")
    assert sentences(found) == {("Bo", "LEADS", "Hermes")}
    assert sorted(names(found)) == ["Bo", "Hermes"]
    assert whole(office, relation="OWNS") == Neighbourhood((), (), 0, 0)


def test_users_never_mix(office: apsw.Connection) -> None:
    assert not {"Zed", "Secret"} & set(names(whole(office)))
    assert sorted(names(whole(office, BOB))) == ["Acme Corp", "Secret", "Zed"]
    assert (acme := graph.find(office, ALICE, "acme corp")) != graph.find(office, BOB, "acme corp")
    assert graph.find(office, ALICE, "zed") == []
    assert graph.alike(office, ALICE, "zed") == []
    assert {end for link in graph.links(office, BOB) for end in (link[0], link[2])}.isdisjoint(acme)
    for user in ("a%", "alice' OR '1'='1", ""):
        assert whole(office, user).nodes == ()


@pytest.mark.parametrize(
    ("asked", "found"), [("GRACE_v2", ["GRACE_v2"]), ("100%", ["100%"]), ("%", ["100%"]), ("_", [])]
)
def test_a_part_of_a_name_is_taken_literally(connection: apsw.Connection, asked: str, found: list[str]) -> None:
    text = "GRACE_v2 GRACEXv2 100% 1000"
    seq = store.insert(connection, NewMemory(ALICE, text)).seq
    entities = tuple(
        Entity("projects", word, text.index(word), text.index(word) + len(word), 1.0) for word in text.split()
    )
    graph.write(
        connection,
        Job(seq, ALICE, text, embed=False, extract=True),
        Extraction(entities, (), (), "rules"),
        "rules",
        "1",
    )
    assert names(whole(connection, name=asked)) == found


def test_a_name_is_found_in_any_spelling_and_by_the_id_of_a_node(office: apsw.Connection) -> None:
    (acme,) = graph.find(office, ALICE, "Acme Corp")
    for spelling in ("ACME corp", "acme-corp", " Acme_Corp. ", "organizations:acme corp"):
        assert graph.find(office, ALICE, spelling) == [acme]
    assert graph.find(office, ALICE, "people:acme corp") == []
    assert graph.find(office, ALICE, "acme") == []
    assert graph.alike(office, ALICE, "acme inc") == ["Acme Corp"]


def test_a_name_of_two_types_is_two_entities(connection: apsw.Connection) -> None:
    text = "Mercury"
    seq = store.insert(connection, NewMemory(ALICE, text)).seq
    entities = (Entity("projects", text, 0, 7, 1.0), Entity("technologies", text, 0, 7, 1.0))
    graph.write(
        connection,
        Job(seq, ALICE, text, embed=False, extract=True),
        Extraction(entities, (), (), "rules"),
        "rules",
        "1",
    )
    assert len(graph.find(connection, ALICE, "mercury")) == 2
    assert len(graph.find(connection, ALICE, "projects:mercury")) == 1


def test_each_link_is_listed_once(connection: apsw.Connection) -> None:
    for text in ("Ana uses Docker.", "Ana uses Docker a lot.", "Ana knows Bo."):
        add(connection, text)
    (ana,), (docker,), (bo,) = (graph.find(connection, ALICE, name) for name in ("Ana", "Docker", "Bo"))
    assert sorted(graph.links(connection, ALICE)) == sorted([(ana, "KNOWS", bo), (ana, "USES", docker)])


def test_shared_entities_of_memories_are_told_by_spelling(office: apsw.Connection) -> None:
    found = graph.named_in(office, ALICE, ["acme corp", "docker", "zed"])
    (acme,), (docker,) = (graph.find(office, ALICE, name) for name in ("acme corp", "docker"))
    assert found == {acme: ("acme corp", 3), docker: ("docker", 1)}
    assert graph.mentioned_by(office, found, [1, 2, 3]) == {
        1: {acme: "Acme Corp"},
        2: {acme: "Acme Corp", docker: "Docker"},
    }


@pytest.mark.parametrize(
    "call",
    [
        lambda c: whole(c, name="acme", limit=5),
        lambda c: graph.find(c, ALICE, "acme corp"),
        lambda c: graph.named_in(c, ALICE, ["acme corp"]),
        lambda c: graph.mentioned_by(c, [1], [1]),
    ],
    ids=range(4),
)
def test_no_call_reads_all_mentions_or_edges(
    office: apsw.Connection, call: Callable[[apsw.Connection], object]
) -> None:
    found = [plan for _, plan in plans(office, lambda: call(office))]
    assert found
    scans = ("SCAN mentions", "SCAN edges", "SCAN e ", "SCAN m ", "SCAN o ", "SCAN memories")
    assert [plan for plan in found if f"{plan} ".startswith(scans)] == []
