"""Paths in a graph against networkx, which enumerates what is computed here."""

import random

import networkx as nx
import pytest

from r3_lite.network import MAX_DEPTH, Connections, Link, Network

ALL = 10**6
RELATIONS = ("USES", "KNOWS", "OWNS")


def random_links(chance: random.Random) -> list[Link]:
    """Return a small graph with parallel links and cycles; its entities are some of 3, 10, 17 …"""
    size = chance.randrange(2, 12)
    drawn = {
        (chance.randrange(size), chance.choice(RELATIONS), chance.randrange(size))
        for _ in range(chance.randrange(1, 30))
    }
    return sorted((7 * a + 3, kind, 7 * b + 3) for a, kind, b in drawn if a != b)


def oracle(links: list[Link]) -> "nx.MultiGraph[int]":
    graph: nx.MultiGraph[int] = nx.MultiGraph()
    for link in links:
        graph.add_edge(link[0], link[2], key=link)
    return graph


@pytest.mark.parametrize("seed", range(200))
def test_paths_and_their_number_are_those_of_networkx(seed: int) -> None:
    chance = random.Random(seed)
    links = random_links(chance) or [(3, "USES", 10)]
    graph, network = oracle(links), Network(links)
    start, end = chance.sample(sorted(graph), 2)
    for depth in range(1, MAX_DEPTH + 1):
        expected = {tuple(link for *_, link in path) for path in nx.all_simple_edge_paths(graph, start, end, depth)}
        found = network.connections([start], [end], depth, ALL)
        assert found.total == len(found.paths) == len(expected)
        assert set(found.paths) == expected
        assert [len(path) for path in found.paths] == sorted(map(len, expected))
        reached = nx.single_source_shortest_path_length(graph, start, depth)
        everything = network.connections([start], None, depth, ALL)
        assert everything.total == len(reached) - 1
        ends = [set(path[-1][::2]) - (set(path[-2][::2]) if len(path) > 1 else {start}) for path in everything.paths]
        assert [{name: len(path)} for path, (name,) in zip(everything.paths, ends, strict=True)] == [
            {name: reached[name]} for (name,) in ends
        ]


def test_the_nearest_are_returned_and_all_are_counted() -> None:
    """A and B share 30 neighbours, of which the first is linked to the second: 30 + 2 paths, and one direct."""
    links = [link for n in range(10, 40) for link in ((0, "USES", n), (1, "USES", n))]
    network = Network([*links, (0, "KNOWS", 1), (10, "KNOWS", 11)])
    found = network.connections([0], [1], 3, 10)
    assert found.total == 33
    assert [len(path) for path in found.paths] == [1] + 9 * [2]
    assert found.paths[0] == ((0, "KNOWS", 1),)


def test_arrows_are_kept_when_an_edge_is_walked_backwards() -> None:
    network = Network([(1, "WORKS_FOR", 3), (2, "WORKS_FOR", 3)])
    assert network.connections([1], [2], 2, 10).paths == (((1, "WORKS_FOR", 3), (2, "WORKS_FOR", 3)),)
    assert network.connections([2], [1], 2, 10).paths == (((2, "WORKS_FOR", 3), (1, "WORKS_FOR", 3)),)


def test_parallel_links_make_a_path_for_each_type_and_direction() -> None:
    network = Network([(1, "KNOWS", 2), (1, "LEADS", 2), (2, "KNOWS", 1)])
    found = network.connections([1], [2], 5, 10)
    assert sorted(found.paths) == [((1, "KNOWS", 2),), ((1, "LEADS", 2),), ((2, "KNOWS", 1),)]
    assert network.connections([1], None, 5, 10).total == 1


def test_cycles_end(  # A-B-C-A, and two links between A and B
) -> None:
    network = Network([(1, "KNOWS", 2), (1, "USES", 2), (2, "KNOWS", 3), (3, "KNOWS", 1)])
    found = network.connections([1], [2], 5, 10)
    assert found.total == 3
    for path in found.paths:
        entities = [end for link in path for end in link[::2]]
        assert max(map(entities.count, entities)) <= 2


def test_without_a_target_there_is_one_shortest_path_to_each_entity() -> None:
    network = Network([(1, "KNOWS", 2), (2, "KNOWS", 3), (3, "KNOWS", 1), (3, "USES", 4)])
    found = network.connections([1], None, 2, 10)
    assert [len(path) for path in found.paths] == [1, 1, 2]
    assert found.paths[2] == ((3, "KNOWS", 1), (3, "USES", 4))


def test_several_starts_are_one() -> None:
    """A name that is a technology and a project: what either is connected to counts, itself does not."""
    network = Network([(1, "USES", 3), (2, "USES", 4), (1, "PART_OF", 2)])
    found = network.connections([1, 2], None, 1, 10)
    assert sorted(found.paths) == [((1, "USES", 3),), ((2, "USES", 4),)]
    assert network.connections([1, 2], [4], 2, 10).total == 2


@pytest.mark.parametrize(("starts", "ends"), [([9], [1]), ([1], [9]), ([9], None), ([], [])])
def test_an_entity_without_links_is_connected_to_nothing(starts: list[int], ends: list[int] | None) -> None:
    assert Network([(1, "USES", 2)]).connections(starts, ends, 5, 10) == Connections((), 0)
    assert Network([]).connections(starts, ends, 5, 10) == Connections((), 0)


def test_hubs_are_counted_without_walking_every_path() -> None:
    """Two hubs of 2,000 that share all neighbours: 2,000 paths of two steps, and 2,000 x 1,999 through a third hub."""
    links = [(hub, "USES", n) for n in range(10, 2010) for hub in (0, 1, 2)]
    found = Network(links).connections([0], [1], 5, 10)
    assert found.total == 2000 + 2000 * 1999
    assert [len(path) for path in found.paths] == 10 * [2]
