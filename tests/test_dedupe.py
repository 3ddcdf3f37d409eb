"""When two texts say the same: nothing that differs in a fact may ever be merged."""

import itertools
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from r3_lite.dedupe import NEAR_MATCH, group, jaccard, required_overlap, same, same_meaning, wording
from r3_lite.text import normalised, text_hash, word_set

SAME = [
    ("The deploy runs on Friday at noon", "the deploy runs on friday, at noon!"),
    ("I'm sure we'll need what they've sent", "I am sure we will need what they have sent"),
    ("They won't ship and shan't refund", "They will not ship and shall not refund"),
    ("Ana lives in Oslo", "By the way, Ana lives in Oslo"),
    ("Ana lives in Oslo", "Please remember that Ana lives in Oslo"),
    ("Ana lives in Oslo", "Note: Ana lives in Oslo"),
    ("Ana lives in Oslo", "Reminder - Ana lives in Oslo"),
    ("Ana lives in Oslo", "Well, Ana lives in Oslo"),
    ("I really like tea", "I like tea"),
    ("It’s the “main” server", "It's the main server"),
    ("It costs 5.", "It costs 5"),
    ("2 × 3 ≤ 7 → ok", "2 × 3 ≤ 7 → OK"),
]

# One fact apart each: number, sign, unit, date, name, negation, scope, order, modality, tense, question, symbol.
DIFFERENT = [
    ("The database listens on port 5432", "The database listens on port 5433"),
    ("Upgrade to version 1.2.3", "Upgrade to version 1.3.2"),
    ("Take .5 mg every day", "Take 5 mg every day"),
    ("Take 0.5 mg every day", "Take 05 mg every day"),
    ("It was -5 degrees", "It was 5 degrees"),
    ("FYI -5 degrees tonight", "FYI 5 degrees tonight"),
    ("Tolerance ±5", "Tolerance 5"),
    ("The limit is 10² nodes", "The limit is 102 nodes"),
    ("The pipe is 6' long", 'The pipe is 6" long'),
    ("The link does 5 Mb", "The link does 5 MB"),
    ("The radio needs 5 mW", "The radio needs 5 MW"),
    ("It costs €5", "It costs $5"),
    ("It costs 5 ₹", "It costs 5 ¥"),
    ("Set it to 20 °C", "Set it to 20 °F"),
    ("5 km away", "5 miles away"),
    ("grew by 5%", "grew by 5"),
    ("x ≤ 5 holds", "x ≥ 5 holds"),
    ("x = y holds", "x != y holds"),
    ("The review is on 03-04", "The review is on 03-05"),
    ("Meet at 12:30", "Meet at 12:45"),
    ("Open Mon-Fri", "Open Mon Fri"),
    ("Due in 2024", "Due in 2025"),
    ("Ana manages Bo", "Bo manages Ana"),
    ("Maya owns the key", "Mayo owns the key"),
    ("He has blood type A-", "He has blood type A+"),
    ("He has blood type A-", "He has blood type A"),
    ("Written in C", "Written in C++"),
    ("Written in C++", "Written in C#"),
    ("Built on .NET", "Built on NET"),
    ("The service must run as root", "The service must not run as root"),
    ("It is safe", "It isn't safe"),
    ("He can swim", "He can't swim"),
    ("He is not just a singer", "He is not a singer"),
    ("I don't just drink tea", "I don't drink tea"),
    ("It is not totally safe", "It is not safe"),
    ("She has a few friends", "She has few friends"),
    ("There is a little time", "There is little time"),
    ("No, dogs are allowed here", "No dogs are allowed here"),
    ("She may come", "She must come"),
    ("She will come", "She came"),
    ("He works here", "He worked here"),
    ("She likes tea", "She dislikes tea"),
    ("Stop before the gate", "Stop after the gate"),
    ("The door is open", "The door is closed"),
    ("My sister lives in Rome", "His sister lives in Rome"),
    ("deploy ✅ today", "deploy ❌ today"),
    ("I feel 😀", "I feel 😢"),
    ("Note 7 explodes", "7 explodes"),
    ("Ana lives in Oslo", "Ana lives in Oslo and Rome"),
    ("I moved to Oslo. Then I married.", "Then I married. I moved to Oslo."),
    ("I moved to Oslo. I met Ana. I married.", "I married. I met Ana. I moved to Oslo."),
    ("Did Ana call? No. Did Bo call? Yes.", "Did Ana call? Yes. Did Bo call? No."),
    ("Written by J. K. Rowling", "Written by K. J. Rowling"),
    ("我住在北京", "我住在南京"),
    ("Он живёт в Москве", "Он не живёт в Москве"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_rewordings_without_a_new_fact_mean_the_same(a: str, b: str) -> None:
    assert same_meaning(a, b)
    assert same_meaning(b, a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_a_changed_fact_is_another_meaning(a: str, b: str) -> None:
    assert not same_meaning(a, b)
    assert not same_meaning(b, a)
    assert normalised(a) != normalised(b)


NAMES = ["Ana", "Bo", "Chen", "Dmitri", "Élodie"]
VERBS = ["manages", "calls", "owes", "replaced", "likes"]
MODALS = ["may", "must", "can", "will", "should", "did", "might"]
UNITS = ["km", "miles", "kg", "mg", "MB", "GB", "%", "€"]
DAYS = ["Monday", "Tuesday", "2024-05-06", "2024-06-05", "7 May", "8 May", "yesterday", "tomorrow"]
FACTS = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(MODALS),
    st.sampled_from(["", "not", "never"]),
    st.sampled_from(VERBS),
    st.sampled_from(NAMES),
    st.decimals(-1000, 1000, places=2).map(str) | st.integers(-1000, 1000).map(str),
    st.sampled_from(UNITS),
    st.sampled_from(DAYS),
)


def sentence(fact: tuple[str, ...]) -> str:
    return " ".join(part for part in fact if part)


@given(FACTS, FACTS)
def test_two_facts_mean_the_same_only_if_they_are_the_same(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    assert same_meaning(sentence(a), sentence(b)) == (a == b)


@given(FACTS, st.integers(0, 7), FACTS)
def test_a_fact_changed_in_one_place_is_another_fact(fact: tuple[str, ...], place: int, other: tuple[str, ...]) -> None:
    assume(fact[place] != other[place])
    changed = fact[:place] + other[place : place + 1] + fact[place + 1 :]
    assert not same_meaning(sentence(fact), sentence(changed))
    assert normalised(sentence(fact)) != normalised(sentence(changed))


@given(FACTS)
def test_the_two_sides_of_a_verb_do_not_change_places(fact: tuple[str, ...]) -> None:
    assume(fact[0] != fact[4])
    swapped = (fact[4], *fact[1:4], fact[0], *fact[5:])
    assert not same_meaning(sentence(fact), sentence(swapped))


WORDS = ["port", "server", "not", "Ana", "Bo", "5", "6", "tea", "may", "left", "right", "before", "after", "x"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), st.lists(st.sampled_from(WORDS), max_size=8))
def test_texts_of_content_words_mean_the_same_only_in_the_same_order(a: list[str], b: list[str]) -> None:
    """The edit distance between the words is the oracle: any insertion, deletion or move is another statement."""
    assert same_meaning(" ".join(a), " ".join(b)) == (Indel.distance(a, b) == 0)


@given(st.lists(st.sampled_from([*WORDS, "really", "just", ".", "?", "-", "n't", "'s"]), max_size=10))
def test_a_text_means_what_it_means(parts: list[str]) -> None:
    text = " ".join(parts)
    assert same_meaning(text, text)


@given(st.text(), st.text())
def test_the_comparison_knows_no_sides(a: str, b: str) -> None:
    assert same_meaning(a, b) == same_meaning(b, a)
    assert jaccard(a, b) == jaccard(b, a)


def test_jaccard_is_the_share_of_common_words() -> None:
    assert jaccard("a b c", "b c d") == 2 / 4
    assert jaccard("a b", "A  b!") == 1
    assert jaccard("a", "b") == 0
    assert jaccard("", "?!") == 1


@pytest.mark.parametrize("threshold", [0.5, 0.55, 0.6, 0.7, 0.85, 1.0])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 15, 20, 40])
def test_near_texts_share_a_required_word(threshold: float, size: int) -> None:
    """Brute force over all ways to keep just enough of the words and to add just few enough."""
    ours = [f"{'w' * (n % 5)}{n}" for n in range(size)]
    required = set(required_overlap(ours, threshold))
    rarest_last = sorted(ours, key=lambda word: word in required)
    for kept in range(1, size + 1):
        for extra in range(size):
            theirs = {*rarest_last[:kept], *(f"x{n}" for n in range(extra))}
            similarity = len(theirs & set(ours)) / len(theirs | set(ours))
            assert similarity < threshold or theirs & required


def test_required_words_find_every_near_text_of_a_random_store() -> None:
    """Brute-force Jaccard over a store is the oracle: prefix filtering may miss nothing."""
    chance = random.Random(7)
    vocabulary = [f"word{n}" for n in range(30)]
    store = [" ".join(chance.sample(vocabulary, chance.randint(1, 12))) for _ in range(150)]
    store += [" ".join([*text.split()[:-1], "other"]) for text in store]
    for threshold, text in itertools.product((0.6, NEAR_MATCH), store[:60]):
        near = {other for other in store if jaccard(text, other) >= threshold}
        required = set(required_overlap(word_set(text), threshold))
        assert near <= {other for other in store if required & word_set(other)}


def test_few_and_long_words_are_required() -> None:
    assert required_overlap(["a", "bbb", "cc", "dddd", "eeeee"], 0.6) == ["eeeee", "dddd", "bbb"]
    assert required_overlap([], 0.6) == []


WORDINGS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "benchmarks" / "wordings.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("pair", [pair for pair in WORDINGS if not pair["same"]], ids=lambda pair: pair["a"])
def test_no_pair_that_differs_in_a_fact_is_the_same(pair: dict[str, Any]) -> None:
    assert not same_meaning(pair["a"], pair["b"])
    assert not same_meaning(pair["b"], pair["a"])
    assert text_hash(pair["a"]) != text_hash(pair["b"])


@pytest.mark.parametrize("pair", [pair for pair in WORDINGS if pair["same"]], ids=lambda pair: pair["a"])
def test_pairs_that_differ_in_wording_alone_are_the_same(pair: dict[str, Any]) -> None:
    assert same_meaning(pair["a"], pair["b"])
    assert same_meaning(pair["b"], pair["a"])


known = cache(wording)


def by_brute_force(texts: list[str]) -> list[list[int]]:
    """The groups as their definition has them, every pair compared: each free text takes all later free ones."""
    taken: set[int] = set()
    groups = []
    for first, text in enumerate(texts):
        if first not in taken:
            later = [n for n in range(first + 1, len(texts)) if n not in taken and same(known(text), known(texts[n]))]
            taken |= {first, *later}
            groups += [[first, *later]] if later else []
    return groups


STATEMENTS = [
    "Ana lives in Oslo",
    "Ana lives in Rome",
    "I'm so happy about the port 5432",
    "He lives in Rome. She lives in Oslo.",
    "That's awesome, Ana! What made you want to start teaching it?",
    "She must not go",
]


def reworded(chance: random.Random, text: str) -> str:
    rewordings = [
        text,
        text.lower(),
        f"Note: {text}",
        f"{text}!",
        text.replace("I'm", "I am").replace("That's", "That is"),
        text.replace("so happy", "happy"),
        text.replace("must not", "must"),
        " ".join(text.split(". ")[::-1]),
        "".join(c for c in text.lower() if c.isalnum() or c in " '"),
    ]
    return chance.choice(rewordings)


def test_groups_are_those_of_brute_force_on_2000_random_stores() -> None:
    chance = random.Random(5)
    for _ in range(2_000):
        texts = [reworded(chance, chance.choice(STATEMENTS)) for _ in range(chance.randint(0, 9))]
        assert group([known(text) for text in texts]) == by_brute_force(texts)


def test_what_says_the_same_as_two_different_texts_joins_the_older_one() -> None:
    plain = "that's awesome ana what made you want to start teaching it"
    swapped = "What made you want to start teaching it? That's awesome, Ana!"
    whole = "That's awesome, Ana! What made you want to start teaching it?"
    assert same_meaning(plain, whole)
    assert same_meaning(swapped, whole)
    assert not same_meaning(plain, swapped)
    assert group([wording(text) for text in (plain, swapped, whole)]) == [[0, 2]]
    assert group([wording(text) for text in (whole, swapped, plain)]) == [[0, 1, 2]]
