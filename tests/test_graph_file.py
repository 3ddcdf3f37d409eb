"""The graph file of the MCP memory server: every word is kept, and our extraction finds the graph again."""

import json
from typing import Any

import pytest

from r3_lite import formats
from r3_lite.embed import Encoder
from r3_lite.extractor import Extractor
from r3_lite.formats import item_of
from r3_lite.graph_file import MAX_OBSERVATION


def entity(name: str, kind: str, *observations: Any, **more: Any) -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(observations), **more}


def relation(source: str, kind: str, target: str) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": kind}


def memories(*lines: Any) -> list[dict[str, Any]]:
    return formats.records("\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode())


def texts(*lines: Any) -> list[str]:
    return [memory["content"] for memory in memories(*lines)]


@pytest.mark.parametrize(
    ("name", "kind", "observation", "text"),
    [
        ("Ann", "person", "tea in the morning", "Ann: tea in the morning"),
        ("Ann", "person", "Works at Acme", "Ann works at Acme"),
        ("Ann", "person", "prefers tea", "Ann prefers tea"),
        ("Ann", "person", "Annual report due", "Ann: Annual report due"),
        ("Ann", "person", "In May Ann moved to Oslo", "In May Ann moved to Oslo"),
        ("John_Smith", "person", "Speaks fluent Spanish", "John Smith speaks fluent Spanish"),
        ("John_Smith", "person", "John Smith is tall", "John Smith is tall"),
        ("React_Migration", "project", "Was started in 2021", "The React Migration project was started in 2021"),
        ("React_Migration", "Project", "Deadline: 3 March", "The React Migration project: Deadline: 3 March"),
        ("Project_Alpha", "project", "Deadline: 3 March", "Project Alpha: Deadline: 3 March"),
        ("_x_", "", " two\nlines ", "_x_:  two\nlines "),
        ("東京", "city", "人口が多い", "東京: 人口が多い"),
    ],
)
def test_an_observation_reads_as_a_sentence_and_is_kept_word_for_word(
    name: str, kind: str, observation: str, text: str
) -> None:
    (memory,) = memories(entity(name, kind, observation))
    assert memory["content"] == text
    assert memory["metadata"] == {"entity": name, "entity_type": kind, "observation": observation}


def test_a_long_observation_stands_at_the_end_of_its_text_alone() -> None:
    observation = "Works " + "x" * MAX_OBSERVATION
    (memory,) = memories(entity("Ann", "person", observation))
    assert memory["content"] == f"Ann: {observation}"
    assert memory["metadata"] == {"entity": "Ann", "entity_type": "person"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("works_at", "Ann works at Acme"),
        ("worksAt", "Ann works at Acme"),
        ("WORKS_FOR", "Ann works for Acme"),
        ("member of", "Ann is member of Acme"),
        ("part_of", "Ann is part of Acme"),
        ("managed-by", "Ann is managed by Acme"),
        ("owner", "Ann owner Acme"),
        ("", "Ann Acme"),
    ],
)
def test_a_relation_reads_as_a_sentence_and_is_kept_word_for_word(kind: str, text: str) -> None:
    (memory,) = memories(relation("Ann", kind, "Acme"))
    assert memory["content"] == text
    assert memory["metadata"] == {"relation": kind, "from": "Ann", "to": "Acme"}


def test_ends_of_a_relation_that_are_projects_are_called_so() -> None:
    alpha, beta = entity("Alpha", "project", "x"), entity("Beta", "project", "y")
    *_, memory = texts(relation("Alpha", "depends_on", "Beta"), alpha, beta, relation("Alpha", "uses", "Go"))
    assert memory == "The Alpha project uses Go"
    assert "The Alpha project depends on the Beta project" in texts(
        relation("Alpha", "depends_on", "Beta"), alpha, beta
    )


def test_an_entity_of_which_nothing_is_observed_is_not_lost() -> None:
    assert texts(entity("Ann", "person"), entity("Acme_Corp", "Organization"), entity("x", "")) == [
        "Ann is a person.",
        "Acme Corp is an Organization.",
        "x",
    ]


def test_ids_depend_on_what_is_said_and_on_nothing_else() -> None:
    first = memories(entity("Ann", "person", "a", "b"), relation("Ann", "knows", "Bob"))
    later = memories(relation("Ann", "knows", "Bob"), entity("Ann", "human", "c", "b", "a"))
    ids = {memory["content"]: memory["id"] for memory in first}
    assert len(set(ids.values())) == 3
    assert {m["content"]: m["id"] for m in later if m["content"] in ids} == ids
    assert len({m["id"] for m in memories(entity("a", "x", "bc"), entity("ab", "x", "c"), entity("abc", "x"))}) == 3
    assert all(getattr(item_of(memory), "id", None) == memory["id"] for memory in first)


def test_another_entity_of_the_same_name_has_memories_of_its_own() -> None:
    planet, element = entity("Mercury", "planet", "is hot"), entity("Mercury", "element", "is hot")
    alone, both = memories(planet), memories(planet, element, entity("Mercury", "god"), entity("Mercury", "is hot"))
    assert both[0] == alone[0]
    assert len({memory["id"] for memory in both}) == 4
    assert memories(element)[0]["id"] == alone[0]["id"]


def test_the_answer_of_read_graph_is_the_same_as_the_file() -> None:
    ann, knows = entity("Ann", "person", "tea"), relation("Ann", "knows", "Bob")
    bare = [{key: value for key, value in line.items() if key != "type"} for line in (ann, knows)]
    document = json.dumps({"entities": bare[:1], "relations": bare[1:]})
    assert formats.records(document.encode()) == memories(ann, knows)


def test_one_line_is_a_graph_too() -> None:
    assert texts(entity("Ann", "person", "tea")) == ["Ann: tea"]


def test_other_lines_among_them_stay_what_they_are() -> None:
    found = memories(entity("Ann", "person", "tea"), {"memory": "plain", "type": "entity"}, "text", {"type": "entity"})
    assert found[1:] == [{"memory": "plain", "type": "entity"}, "text", {"type": "entity"}]


def test_observations_that_are_no_text_or_blank_stay_alone_with_it() -> None:
    found = memories(entity("Ann", "person", "tea", "", 7, "milk"))
    assert [memory["content"] for memory in found] == ["Ann: tea", "", 7, "Ann: milk"]


def test_times_of_offspring_of_the_server_are_kept() -> None:
    (memory,) = memories(entity("Ann", "person", "tea", createdAt="2024-01-01T00:00:00Z"))
    assert getattr(item_of(memory), "created_at", None) == "2024-01-01T00:00:00.000000Z"


GRAPH = [
    entity("John_Smith", "person", "Speaks fluent Spanish", "Prefers morning meetings"),
    entity("Priya", "person", "Leads the data team"),
    entity("Anthropic", "organization", "Founded in 2021"),
    entity("React_Migration", "project", "The deadline is 3 March"),
    entity("PostgreSQL", "technology", "Runs on port 5432"),
    relation("John_Smith", "works_at", "Anthropic"),
    relation("Priya", "manages", "John_Smith"),
    relation("React_Migration", "uses", "PostgreSQL"),
    relation("Priya", "leads", "React_Migration"),
]


def test_the_graph_is_found_again(tmp_path: Any) -> None:
    encoder = Encoder(None, cache_dir=tmp_path)
    encoder.load()
    extractor = Extractor(encoder)
    found = [extractor.extract(text) for text in texts(*GRAPH)]
    names = {(e.type, e.name) for one in found for e in one.entities if e.confidence >= 0.5}
    assert names >= {
        ("people", "John Smith"),
        ("people", "Priya"),
        ("organizations", "Anthropic"),
        ("projects", "React Migration"),
        ("technologies", "PostgreSQL"),
    }
    assert {str(r) for one in found for r in one.relations} >= {
        "John Smith --[WORKS_FOR]--> Anthropic",
        "Priya --[MANAGES]--> John Smith",
        "React Migration --[USES]--> PostgreSQL",
        "Priya --[LEADS]--> React Migration",
    }
