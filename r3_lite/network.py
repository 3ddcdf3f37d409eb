"""A user's graph in memory: which paths connect entities, and how many. Pure.

Edges are walked both ways and keep their arrows. A path visits no entity twice; parallel edges of different type or
direction make different paths. Numbers of paths are computed, not enumerated, so that they are exact at any size:
sums over walks of one to five steps, less those that come back to an entity (inclusion and exclusion).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Link = tuple[int, str, int]
Path = tuple[Link, ...]

# Steps that paths may have; `Network.count` knows the formulas for these.
MAX_DEPTH = 5
# Entities that a search for paths may try: in a graph made of dead ends it gives up, and the count tells of the rest.
_MAX_TRIED = 200_000


@dataclass(frozen=True, slots=True)
class Connections:
    """The nearest paths, and how many there are: of all paths, or without a target, of entities reached."""

    paths: tuple[Path, ...]
    total: int


class Network:
    """An undirected multigraph made of links (source, type, target), which must be distinct and no loops.

    Immutable after it is made; safe to use from several threads. Entities are any integers.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self._links: dict[tuple[int, int], list[Link]] = {}
        flat = chain.from_iterable((source, target) for source, _, target in links)
        ends = np.fromiter(flat, np.int64, 2 * len(links)).reshape(-1, 2)
        self._names, places = np.unique(ends, return_inverse=True)
        self._size = len(self._names)
        places = places.reshape(-1, 2)
        both = np.concatenate([places, places[:, ::-1]])
        cells, counts = np.unique(both[:, 0] * max(self._size, 1) + both[:, 1], return_counts=True)
        self._cells: Ints = cells
        self._row, self._column = np.divmod(cells, max(self._size, 1))
        self._weight = counts.astype(np.float64)
        self._first: Ints = np.searchsorted(self._row, np.arange(self._size + 1))
        self._all = links

    def connections(self, starts: Collection[int], ends: Collection[int] | None, depth: int, limit: int) -> Connections:
        """Return the `limit` nearest paths of at most `depth` steps (1 to 5) and the number of all.

        Several starts or ends are the types of one name; paths join any of them. Without ends there is one path to
        each entity within reach, a shortest one.
        """
        begin = [place for place in map(self._place, starts) if place is not None]
        if ends is None:
            return self._reach(begin, depth, limit)
        finish = [place for place in map(self._place, ends) if place is not None]
        pairs = [(s, t) for s in begin for t in finish if s != t]
        counts = {pair: self.count(*pair, depth) for pair in pairs}
        paths = (
            path
            for length in range(1, depth + 1)
            for pair in pairs
            if counts[pair][length - 1]
            for path in self._paths(*pair, length, min(limit, counts[pair][length - 1]))
        )
        return Connections(tuple(islice(paths, limit)), sum(map(sum, counts.values())))

    def count(self, s: int, t: int, depth: int) -> list[int]:
        """Return how many paths of 1, 2, … `depth` steps join two places.

        With s and t taken out of the graph, x and y their links to the others and M the links between these:
        x·y, x·My, x·MMy and x·MMMy count walks; those that come back to an entity are subtracted.
        """
        x, y = self._links_of(s), self._links_of(t)
        direct = float(x[t])
        x[[s, t]] = y[[s, t]] = 0

        def step(vector: Floats) -> Floats:
            stepped = self._step(vector)
            stepped[[s, t]] = 0
            return stepped

        inner = (self._row != s) & (self._row != t) & (self._column != s) & (self._column != t)
        weight = np.where(inner, self._weight, 0)
        counts = [direct, float(x @ y)]
        if depth > 2:
            after = step(y)
            counts.append(float(x @ after))
        if depth > 3:
            back = np.bincount(self._row, weight**2, self._size)  # there and back again
            counts.append(float(x @ step(after) - (x * y) @ back))
        if depth > 4:
            before = step(x)
            returns = (x * back) @ after + (before * back) @ y + self._triangles(x * y, s, t)
            twice = x @ np.bincount(self._row, weight**3 * y[self._column], self._size)
            counts.append(float(before @ step(after) - returns + twice))
        return [round(number) for number in counts[:depth]]

    def _place(self, name: int) -> int | None:
        place = int(np.searchsorted(self._names, name))
        return place if place < self._size and self._names[place] == name else None

    def _neighbours(self, place: int) -> Ints:
        return self._column[self._first[place] : self._first[place + 1]]

    def _links_of(self, place: int) -> Floats:
        vector = np.zeros(self._size)
        part = slice(self._first[place], self._first[place + 1])
        vector[self._column[part]] = self._weight[part]
        return vector

    def _step(self, vector: Floats) -> Floats:
        return np.bincount(self._row, self._weight * vector[self._column], self._size).astype(np.float64)

    def _triangles(self, wanted: Floats, s: int, t: int) -> float:
        """Return the closed walks of three steps that avoid s and t, weighted by where they begin."""
        total = 0.0
        for place in np.flatnonzero(wanted):
            links = self._links_of(int(place))
            links[[s, t]] = 0
            near = np.flatnonzero(links)
            if len(near) ** 2 < len(self._cells):
                cells = (near[:, None] * self._size + near).ravel()
                at = np.minimum(np.searchsorted(self._cells, cells), len(self._cells) - 1)
                between = np.where(self._cells[at] == cells, self._weight[at], 0).reshape(len(near), len(near))
                total += wanted[place] * (links[near] @ between @ links[near])
            else:
                total += wanted[place] * (links @ self._step(links))
        return total

    def _paths(self, s: int, t: int, length: int, limit: int) -> Iterator[Path]:
        """Yield at most `limit` paths of exactly `length` steps from s to t."""
        # From which places t can be reached in exactly so many steps without passing s or t.
        reach = [np.zeros(self._size, bool)]
        reach[0][t] = True
        for _ in range(length - 1):
            reach.append(self._step(reach[-1].astype(np.float64)) > 0)
            reach[-1][[s, t]] = False
        tried = found = 0
        path = [s]
        open_: list[Iterator[int]] = [iter(self._ahead(s, reach[length - 1]))]
        while open_ and found < limit and tried < _MAX_TRIED:
            place = next(open_[-1], None)
            if place is None:
                open_.pop()
                path.pop()
                continue
            tried += 1
            if place in path:
                continue
            path.append(place)
            if len(path) <= length:
                open_.append(iter(self._ahead(place, reach[length - len(path)])))
                continue
            for links in islice(self._with_links(path), limit - found):
                found += 1
                yield links
            path.pop()

    def _ahead(self, place: int, reach: NDArray[np.bool_]) -> list[int]:
        near = self._neighbours(place)
        ahead: list[int] = near[reach[near]].tolist()
        return ahead

    def _reach(self, starts: Sequence[int], depth: int, limit: int) -> Connections:
        came_from = np.full(self._size, -1)
        seen = np.zeros(self._size, bool)
        seen[starts] = True
        edge = seen.copy()
        reached: list[int] = []
        for _ in range(depth):
            out = np.flatnonzero(edge[self._row] & ~seen[self._column])[::-1]
            came_from[self._column[out]] = self._row[out]
            edge = np.zeros(self._size, bool)
            edge[self._column[out]] = True
            seen |= edge
            reached += np.flatnonzero(edge).tolist()
        paths = []
        for place in reached[:limit]:
            path = [place]
            while came_from[path[-1]] >= 0:
                path.append(int(came_from[path[-1]]))
            paths.append(next(self._with_links(path[::-1])))
        return Connections(tuple(paths), len(reached))

    def _with_links(self, path: Sequence[int]) -> Iterator[Path]:
        """Yield the paths along these places: one for each choice among parallel links."""
        names = [int(self._names[place]) for place in path]
        return iter(product(*(self._between(*pair) for pair in pairwise(names))))

    def _between(self, one: int, other: int) -> list[Link]:
        if not self._links:
            links: dict[tuple[int, int], list[Link]] = {}
            for link in self._all:
                links.setdefault((min(link[0], link[2]), max(link[0], link[2])), []).append(link)
            self._links = links
        return self._links[min(one, other), max(one, other)]
