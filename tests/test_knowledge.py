"""The graph as an engine answers: filled by the worker, kept true, bounded, and never another user's."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import TinyModel
from fastmcp import Client
from mcp_helpers import call, data_of, eventually, failed, good, text_of, use_environment

from r3_lite import graph_text, knowledge
from r3_lite.app import mcp
from r3_lite.embed_models import BundledModel
from r3_lite.engine import Engine
from r3_lite.errors import InvalidParameters, ModelUnavailable
from r3_lite.extract import Entity, Extraction, Relation
from r3_lite.graph import MAX_NAME, TYPES
from r3_lite.knowledge import Answer
from r3_lite.render import CEILING

MakeEngine = Callable[..., Engine]


def names(engine: Engine, user_id: str | None = None, **chosen: Any) -> list[str]:
    found = knowledge.neighbourhood(engine, user_id, limit=chosen.pop("limit", 100), **chosen)
    return sorted(node.name for node in found.nodes)


def connected(engine: Engine, source: str, target: str | None = None, depth: int = 2) -> Answer:
    return knowledge.connections(engine, None, source, target, depth)


@pytest.fixture
def office(engine: Engine) -> Engine:
    for text in ("Ana works for Acme Corp.", "Bo works for Acme Corp and uses Docker."):
        engine.add(None, text, wait=True)
    return engine


# Filled by the worker


def test_a_waiting_add_answers_when_the_graph_holds_it(engine: Engine) -> None:
    assert engine.add(None, "Ana uses Docker.", wait=True).indexed
    assert names(engine) == ["Ana", "Docker"]


def test_an_add_that_does_not_wait_reaches_the_graph_soon(engine: Engine) -> None:
    engine.add(None, "Ana uses Docker.")
    eventually(lambda: names(engine) == ["Ana", "Docker"])


def test_an_import_reaches_the_graph(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "import.json"
    path.write_text(json.dumps(["Ana uses Docker.", "Bo uses Redis."]))
    engine.import_file(None, str(path))
    eventually(lambda: names(engine) == ["Ana", "Bo", "Docker", "Redis"])


def test_an_update_changes_the_graph_at_once_and_then_completely(office: Engine) -> None:
    memory = office.page(None, limit=1, offset=0).records[0].id
    office.update(None, memory, content="Bo uses Podman.")
    assert "Docker" not in names(office)
    eventually(lambda: names(office) == ["Acme Corp", "Ana", "Bo", "Podman"])


def test_a_delete_takes_what_only_it_said(office: Engine) -> None:
    office.delete(None, office.page(None, limit=1, offset=0).records[0].id)
    assert names(office) == ["Acme Corp", "Ana"]


def test_a_text_that_the_model_refuses_is_examined_all_the_same(engine: Engine, tiny_model: TinyModel) -> None:
    tiny_model.fails = lambda text: True
    assert not engine.add(None, "Ana uses Docker.", wait=True).indexed
    assert names(engine) == ["Ana", "Docker"]


def test_without_the_vector_extension_the_graph_is_filled(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("r3_lite.db._vector_extension", lambda: "/nonexistent/vec0")
    engine = make_engine()
    engine.add(None, "Ana uses Docker.")
    eventually(lambda: names(engine) == ["Ana", "Docker"])


def test_without_a_model_the_rules_fill_the_graph(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str | None, cache_dir: Path) -> TinyModel:
        raise ModelUnavailable("The model is not there: download it.")

    engine = make_engine()
    engine.encoder._settle(ModelUnavailable("gone"))
    monkeypatch.setattr("r3_lite.embed.open_model", fail)
    engine.add(None, "Ana uses Docker.")
    eventually(lambda: names(engine) == ["Ana", "Docker"])
    assert engine.pending()[0]["pending"] == 1


def test_what_basic_mode_left_is_examined_later(make_engine: MakeEngine) -> None:
    basic = make_engine(intelligence="basic")
    basic.add(None, "Ana uses Docker.")
    assert basic.pending() == ({"pending": 0, "failed": 0, "without_vector": 1}, [])
    basic.close()
    engine = make_engine()
    engine.start()
    eventually(lambda: names(engine) == ["Ana", "Docker"])


def test_what_the_rules_found_is_found_anew_by_the_head(make_engine: MakeEngine, db_path: Path) -> None:
    """The bundled model's head sees that an unheard-of first name belongs to the name."""
    engine = make_engine()
    engine.add(None, "Yesterday Zorvaxia Quillon joined us for lunch.", wait=True)
    assert names(engine) == ["Quillon"]
    engine.close()
    better = Engine(engine.settings.model_copy(update={"embedding_model": None}))
    better.encoder._settle(BundledModel())
    better.start()
    eventually(lambda: names(better) == ["Zorvaxia Quillon"])
    connection = apsw.Connection(str(db_path))
    assert connection.execute("SELECT method FROM extractions").get == "rules+head"
    connection.close()
    better.close()


# Asked


def test_two_colleagues_are_connected_through_their_employer(office: Engine) -> None:
    there, back = connected(office, "ana", "BO"), connected(office, "Bo", "Ana")
    assert (there.source, there.target, there.total) == ("Ana", "Bo", 1)
    assert there.paths == ((("Ana", "WORKS_FOR", "Acme Corp"), ("Bo", "WORKS_FOR", "Acme Corp")),)
    assert back.paths == (there.paths[0][::-1],)


def test_without_a_target_everything_within_reach_is_listed_nearest_first(office: Engine) -> None:
    found = connected(office, "ana", depth=3)
    assert (found.target, found.total) == ("any", 3)
    assert [len(path) for path in found.paths] == [1, 2, 3]
    assert connected(office, "ana", depth=1).total == 1


def test_a_write_shows_in_the_next_answer(office: Engine) -> None:
    assert connected(office, "ana", "redis").unknown == {"redis": []}
    office.add(None, "Ana uses Redis.", wait=True)
    assert connected(office, "ana", "redis").total == 1
    office.delete(None, office.page(None, limit=1, offset=0).records[0].id)
    assert connected(office, "ana", "redis").unknown == {"redis": []}


def test_an_unknown_name_is_answered_with_names_like_it(office: Engine) -> None:
    found = connected(office, "acme inc")
    assert (found.total, found.unknown) == (0, {"acme inc": ["Acme Corp"]})


def test_another_users_entities_are_unknown(office: Engine) -> None:
    office.add("bob", "Ana uses Redis.", wait=True)
    assert names(office, "bob") == ["Ana", "Redis"]
    assert knowledge.connections(office, "bob", "ana", None, 5).total == 1
    assert knowledge.connections(office, "bob", "acme corp", None, 5).unknown == {"acme corp": []}
    assert connected(office, "redis").unknown == {"redis": []}


@pytest.mark.parametrize(
    ("word", "kind"),
    [("person", "people"), ("Technology", "technologies"), (" place ", "places"), ("projects", "projects")],
)
def test_types_are_understood_in_the_singular_and_in_any_case(office: Engine, word: str, kind: str) -> None:
    found = knowledge.neighbourhood(office, None, limit=9, entity_type=word)
    assert found == knowledge.neighbourhood(office, None, limit=9, entity_type=kind)
    assert {node.type for node in found.nodes} <= {kind}


@pytest.mark.parametrize("word", ["works for", "Works-For", "WORKS_FOR"])
def test_relations_are_understood_in_words(office: Engine, word: str) -> None:
    assert names(office, relationship_type=word) == ["Acme Corp", "Ana", "Bo"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("entity_type", "animals"),
        ("entity_type", "people' OR '1'='1"),
        ("relationship_type", "HATES"),
        ("relationship_type", "USES'); DROP TABLE edges; --"),
        ("entity_name", " "),
        ("entity_name", "x" * 1_001),
    ],
)
def test_wrong_words_are_refused_without_being_repeated(office: Engine, argument: str, value: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        knowledge.neighbourhood(office, None, limit=9, **{argument: value})
    assert argument in caught.value.message
    assert value not in caught.value.message or value == " "
    assert names(office)


@pytest.mark.parametrize("text", ["", " \n", "x" * 100_001])
def test_a_text_without_words_or_end_is_refused(engine: Engine, text: str) -> None:
    with pytest.raises(InvalidParameters):
        knowledge.extract_entities(engine, text)


def test_basic_mode_refuses_with_the_reason(make_engine: MakeEngine) -> None:
    engine = make_engine(intelligence="basic")
    for call_it in (
        lambda: knowledge.extract_entities(engine, "Ana"),
        lambda: knowledge.neighbourhood(engine, None, limit=1),
        lambda: knowledge.connections(engine, None, "Ana", None, 1),
    ):
        with pytest.raises(ModelUnavailable, match="basic mode"):
            call_it()


# Shown


def entity(kind: str, name: str) -> Entity:
    return Entity(kind, name, 0, len(name), 1.0)


def test_entities_are_listed_by_type_once_each() -> None:
    ana, acme, day = entity("people", "Ana"), entity("organizations", "Acme"), entity("dates", "Monday")
    found = Extraction((ana, acme, ana, day), (Relation(ana, "WORKS_FOR", acme, 1.0),), ("lunch",), "rules")
    result = graph_text.entities_of(found)
    assert (result.people, result.organizations, result.dates) == (["Ana"], ["Acme"], ["Monday"])
    assert (result.relationships, result.keywords) == (["Ana --[WORKS_FOR]--> Acme"], ["lunch"])
    text = graph_text.entities(result)
    assert text.splitlines()[:2] == ["people: Ana", "organizations: Acme"]
    assert "rules" in text.splitlines()[-1]


def test_a_text_of_thousands_of_names_stays_under_the_ceiling() -> None:
    many = tuple(entity(kind, f"{kind} {'x' * 50} {n}") for n in range(5_000) for kind in TYPES)
    result = graph_text.entities_of(Extraction(many, (), (), "rules+head"))
    assert len(result.model_dump_json()) + len(graph_text.entities(result)) <= CEILING
    assert all(getattr(result, kind) for kind in TYPES)


def test_a_walk_reads_from_the_start_and_keeps_the_arrows() -> None:
    paths = ((("Ana", "WORKS_FOR", "Acme"), ("Bo", "WORKS_FOR", "Acme"), ("Bo", "USES", "Docker")),)
    result = graph_text.connections_of(Answer("Ana", "Docker", 1, paths, {}), 3)
    assert graph_text.connections(result).splitlines()[1] == (
        "- Ana --[WORKS_FOR]--> Acme <--[WORKS_FOR]-- Bo --[USES]--> Docker"
    )


def test_paths_through_endless_names_stay_under_the_ceiling() -> None:
    names = [str(n) * MAX_NAME for n in range(6)]
    path = tuple((a, "DEPENDS_ON", b) for a, b in pairwise(names))
    result = graph_text.connections_of(Answer(names[0], names[5], 30, (path,) * 10, {}), 5)
    assert len(result.paths) == 10
    assert len(json.dumps(result.model_dump(by_alias=True))) + len(graph_text.connections(result)) <= CEILING


async def _answers(folder: Path) -> None:
    async with Client(mcp) as client:
        lines = [f"Person{n:03} Smith knows Person{n * 7 % 500:03} Smith and uses Docker." for n in range(500)]
        path = folder / "import.json"
        path.write_text(json.dumps(lines))
        await good(client, "import_memories", source="json_file", file_path=str(path))
        while (await good(client, "sync_status"))["pending"]:
            await asyncio.sleep(0.05)
        for tool, arguments in (
            ("get_knowledge_graph", {}),
            ("get_knowledge_graph", {"limit": 1_000}),
            ("get_knowledge_graph", {"limit": 100, "entity_name": "docker"}),
            ("find_connections", {"from_entity": "docker", "max_depth": 5}),
        ):
            result = await call(client, tool, **arguments)
            data, text = data_of(result), text_of(result)
            assert len(json.dumps(data)) + len(text) <= CEILING
            if tool == "get_knowledge_graph":
                assert data["truncated"]
                assert data["total_nodes"] > 400
                ids = {node["id"] for node in data["nodes"]}
                assert all(edge["from"] in ids and edge["to"] in ids for edge in data["edges"])
            else:
                assert data["paths_found"] > 400
                assert len(data["paths"]) == 10
        assert await failed(client, "find_connections", from_entity="docker", max_depth=6) == "INVALID_PARAMETERS"
        unknown = await call(client, "find_connections", from_entity="Nobody Known")
        assert data_of(unknown)["paths_found"] == 0
        assert text_of(unknown).startswith("No connections found\n")


def test_answers_on_a_large_graph_stay_under_the_ceiling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("r3_lite.embed.open_model", lambda name, cache_dir: TinyModel())
    settings = {"R3_INTELLIGENCE": "full", "R3_EMBEDDING_MODEL": "tiny", "R3_IMPORT_ROOTS": str(tmp_path)}
    use_environment(monkeypatch, tmp_path, **settings)
    asyncio.run(_answers(tmp_path))


# Search


def test_hits_tell_the_names_that_they_share_with_the_query(office: Engine) -> None:
    hits = office.search(None, "who is at ACME-Corp and uses docker?").ranking.hits
    assert {hit.record.content: set(hit.entities) for hit in hits} == {
        "Ana works for Acme Corp.": {"Acme Corp"},
        "Bo works for Acme Corp and uses Docker.": {"Acme Corp", "Docker"},
    }
    ana, bo = sorted(hits, key=lambda hit: hit.record.content)
    assert 0 < ana.breakdown.entity < bo.breakdown.entity
    assert bo.breakdown.shown()["entity"] == round(bo.breakdown.entity, 4)


def test_a_rare_name_tells_more_than_a_frequent_one(engine: Engine) -> None:
    for n in range(6):
        engine.add(None, f"Ana uses Docker for project number {n}.", wait=True)
    engine.add(None, "Ana met Zoe.", wait=True)
    hits = {hit.record.content: hit for hit in engine.search(None, "Docker Zoe").ranking.hits}
    assert hits["Ana met Zoe."].breakdown.entity > hits["Ana uses Docker for project number 1."].breakdown.entity


def test_the_name_of_an_author_tells_nothing_by_being_mentioned(engine: Engine) -> None:
    engine.add(None, "I bought a bicycle.", metadata={"author": "Ana"}, wait=True)
    engine.add(None, "Ana, how is the bicycle?", metadata={"author": "Bo"}, wait=True)
    found = {hit.record.content: hit for hit in engine.search(None, "What did Ana buy?").ranking.hits}
    assert found["Ana, how is the bicycle?"].entities == ("Ana",)
    assert found["Ana, how is the bicycle?"].breakdown.entity == 0


def test_another_users_names_are_no_names_here(office: Engine) -> None:
    office.add("bob", "docker is mentioned in lower case", wait=True)
    office.add("carol", "A text about the acme corp", wait=True)
    for user in ("bob", "carol"):
        hits = office.search(user, "Acme Corp docker").ranking.hits
        names_here = names(office, user)
        assert all(set(hit.entities) <= set(names_here) for hit in hits)
