"""Rules of r3_lite.entity_words."""

from r3_lite.entity_words import lexicon, phrase_length, split_words


def split(text: str) -> list[str]:
    return [word.text for word in split_words(text)]


def test_names_with_signs_stay_one_word() -> None:
    assert split("C++, C# and .NET with Next.js") == ["C++", ",", "C#", "and", ".NET", "with", "Next.js"]


def test_hyphens_and_underscores_join() -> None:
    assert split("auth-service uses snake_case") == ["auth-service", "uses", "snake_case"]


def test_possessive_is_a_word_of_its_own_and_other_apostrophes_are_not() -> None:
    assert split("O'Brien's cat doesn't care") == ["O'Brien", "'s", "cat", "doesn't", "care"]


def test_addresses_are_one_word() -> None:
    assert split("mail ana@x.org or https://x.org/a?b=1 now") == [
        "mail",
        "ana@x.org",
        "or",
        "https://x.org/a?b=1",
        "now",
    ]


def test_offsets_give_back_the_text() -> None:
    text = "Zoë  met\tLi-Na…"
    assert all(text[word.start : word.end] == word.text for word in split_words(text))


def test_long_runs_of_signs_and_numbers_take_linear_time() -> None:
    assert len(split_words("." * 50_000)) == 50_000
    assert len(split_words("1." * 50_000)) == 100_000


def test_phrase_length_prefers_the_longest_name() -> None:
    written = ["Docker", "Compose", "files"]
    lower = [word.lower() for word in written]
    safe = lexicon().technologies_safe
    assert phrase_length(safe, written, lower, 0, exact_case=False) == 2
    assert phrase_length(safe, written, lower, 2, exact_case=False) == 0


def test_phrase_length_respects_case_where_asked() -> None:
    places = lexicon().places
    assert phrase_length(places, ["paris"], ["paris"], 0, exact_case=True) == 0
    assert phrase_length(places, ["paris"], ["paris"], 0, exact_case=False) == 1
