"""What counts as a word, what the keyword index is asked for, and which texts are the same text."""

import itertools
import re

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from r3_lite.db import load_migrations
from r3_lite.text import (
    STOP_WORDS,
    bare,
    has_forms,
    match_any,
    normalised,
    plain_spelling,
    query_terms,
    space_out,
    stem_of,
    text_hash,
    vocabulary,
    word_set,
    words,
)

SCRIPTS = "abzÀéñßİıçΩжאبहिकाกำ한국東京のカ１２3٣ 𝒳🤖❤️₽€-_.'/\u200d\ue000\u0301"


def tokenizer() -> str:
    """The tokenizer of the keyword index: that of the last migration that makes it."""
    made = [re.search(r'USING fts5 \(\s+content,[^;]+tokenize = ("[^"]+")', m.sql) for m in load_migrations()]
    return next(match[1] for match in reversed(made) if match)


def tokens_of_the_index(text: str) -> int:
    """How many words FTS5 itself sees in a text, with the tokenizer of the schema."""
    connection = apsw.Connection(":memory:")
    connection.execute(f"CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = {tokenizer()})")
    connection.execute("INSERT INTO t VALUES (?)", (text,))
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)")
    return int(connection.execute("SELECT count(*) FROM v").get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 20.04, foo/bar_baz!", ["It", "s", "20", "04", "foo", "bar", "baz"]),
        ("naïve café", ["naïve", "café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("東京タワー", ["東京タワー"]),
        ("", []),
        ("?! …", []),
    ],
)
def test_words_are_runs_of_letters_digits_and_marks(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(st.sampled_from([c for c in SCRIPTS if c not in "🤖❤️₽"]), max_size=30))
def test_words_are_split_as_the_keyword_index_does(text: str) -> None:
    assert len(words(text)) == tokens_of_the_index(text)


@given(st.text(st.characters(max_codepoint=127), max_size=50))
def test_ascii_words_are_split_as_the_keyword_index_does(text: str) -> None:
    assert len(words(text)) == tokens_of_the_index(text.replace("\0", " "))


@pytest.mark.parametrize("text", ["", "plain", "naïve café €5 — “done”", "Привет мой мир", "שלום"])
def test_scripts_with_spaces_need_nothing_set_apart(text: str) -> None:
    assert space_out(text) == ""


def test_characters_of_spaceless_scripts_are_set_apart_and_the_rest_kept() -> None:
    assert space_out("東京でSRE-4711を見た").split() == ["東", "京", "で", "SRE-4711", "を", "見", "た"]


def test_words_that_emoji_cling_to_are_set_apart() -> None:
    assert space_out("Ship it🤞 today, cost 500₽") == "it 🤞 500"


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("Die Straße ist gesperrt", "Strasse"),
        ("Ёлка и мёд", "Елка мед"),
        ("قرأت الكِتَاب هنا", "قرات الكتاب"),
        ("שָׁלוֹם רב", "שלום"),
        ("ＡＢＣ wait… naïve", "ABC"),
        ("Kranken\u00adversicherung", "Krankenversicherung"),
    ],
)
def test_words_with_a_plainer_spelling_are_added_in_it(text: str, spaced: str) -> None:
    assert space_out(text) == spaced


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Größe", "Grösse"),
        ("أحمد إلى آخر ٱلكتاب", "احمد الي اخر الكتاب"),
        ("مدرسة", "مدرسه"),
        ("طـــائرة", "طايره"),
        ("άνθρωπος", "ανθρωποσ"),
        ("लड़का", "लडका"),
        ("ｻｰﾊﾞｰ", "サーバー"),
        ("東京が", "東京が"),
        ("й", "й"),
        ("naïve", "naïve"),
    ],
)
def test_a_plain_spelling_leaves_out_what_writers_leave_out(written: str, plain: str) -> None:
    assert plain_spelling(written) == plain


def test_bare_words_have_no_latin_accents_but_all_letters() -> None:
    assert bare("Schlüssel à Łódź, мой हिन्दी") == "Schlussel a Lodz, мой हिन्दी"


def test_the_vocabulary_holds_words_that_may_have_forms() -> None:
    text = f"Die Über Bücher 2024 ab12 дом мы 東京 {'x' * 41}"
    assert vocabulary(text) == {"uber", "bucher", "дом"}
    assert not any(map(has_forms, ["die", "ab12", "мы", "東京", "東 京", "x" * 41]))


@pytest.mark.parametrize(
    ("word", "stem"),
    [("versicherungen", "versicherung"), ("haus", "haus"), ("perro", "perr"), ("книга", "книг"), ("рука", "рук")],
)
def test_a_stem_is_a_word_less_its_last_letters(word: str, stem: str) -> None:
    assert stem_of(word) == stem


def test_an_emoji_of_its_own_leaves_nothing_to_set_apart() -> None:
    assert space_out("Ship it 🤞 ❤") == ""


@pytest.mark.parametrize(
    ("text", "looked_for"),
    [
        ("I love 🍕 on Fridays", "🍕"),
        ("done✅ at last", "✅"),
        ("done✅ at last", "done"),
        ("so good🪩🪩", "🪩"),
        ("thumbs 👍🏽", "👍"),
        ("thumbs 👍", "👍🏿"),
        ("with ❤ from here", "❤️"),
        ("with ❤️ from here", "❤"),
        ("the 👨‍👩‍👧 came", "👨‍👩‍👧"),
        ("the 👨‍👩‍👧 came", "👧"),
        ("to 🇫🇷🇩🇪 by train", "🇩🇪"),
        ("step 1️⃣ first", "1"),
        ("会議🎉です", "🎉"),
        ("★★★ hotel", "★"),
        ("it is 20°C, says Acme™", "20 acme"),
    ],
)
def test_emoji_and_symbols_are_found_whatever_they_cling_to(text: str, looked_for: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(f"CREATE VIRTUAL TABLE t USING fts5 (content, spaced, tokenize = {tokenizer()})")
    connection.execute("INSERT INTO t VALUES (?, ?)", (text, space_out(text)))
    terms = query_terms(looked_for)
    assert terms
    for term in terms:
        assert connection.execute("SELECT count(*) FROM t WHERE t MATCH ?", (match_any([term]),)).get == 1, term


def test_another_emoji_is_another_text() -> None:
    assert text_hash("Ship it 🤞") != text_hash("Ship it 🎉") != text_hash("Ship it")


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What is the Port of the server?", ["port", "server"]),
        ("Ana's port, Ana’s server", ["ana", "port", "server"]),
        ("go Go GO", ["go"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("C++ / R / go", ["c", "r", "go"]),
        ("東京都", ["東 京", "京 都"]),
        ("東", ["東"]),
        ("東京SRE計画", ["東 京", "sre", "計 画"]),
        ("서울에서", ["서 울", "울 에", "에 서"]),
        ("❤️ recipe", ["❤", "recipe"]),
        ("👍🏽👨‍👩‍👧 🇫🇷", ["👍", "👨", "👩", "👧", "🇫 🇷"]),
        ("Straße Ёлка أحمد", ["strasse", "елка", "احمد"]),
        ("?!", []),
        ("", []),
    ],
)
def test_a_query_becomes_distinct_terms_without_stop_words(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


def test_a_query_has_at_most_64_terms() -> None:
    assert query_terms(" ".join(f"w{n}" for n in range(500))) == [f"w{n}" for n in range(64)]


def test_stop_words_are_lower_case_words() -> None:
    assert all(words(word) == [word] and word == word.lower() for word in STOP_WORDS)


@given(st.text(st.sampled_from(SCRIPTS), max_size=40))
@example("ok🤖go")
def test_every_term_of_a_text_finds_it(text: str) -> None:
    """A text is found by each of its own words, whatever the script and whatever clings to them."""
    connection = apsw.Connection(":memory:")
    connection.execute(f"CREATE VIRTUAL TABLE t USING fts5 (content, spaced, tokenize = {tokenizer()})")
    connection.execute("INSERT INTO t VALUES (?, ?)", (text, space_out(text)))
    for term in query_terms(text):
        assert connection.execute("SELECT count(*) FROM t WHERE t MATCH ?", (match_any([term]),)).get == 1, term


def test_similarity_compares_folded_words_and_single_characters() -> None:
    assert word_set("Straße STRASSE ＡＢＣ abc") == {"strasse", "abc"}
    assert word_set("東京 tower") == {"東", "京", "tower"}


SAME = [
    ("Hello, world!", "hello world"),
    ("ﬁne", "FINE"),
    ("Ｆｕｌｌ width", "full width"),
    ("She said “yes”.", 'she said "Yes"'),
    ("wait - what", "wait — what"),
    ("Mon–Fri", "mon-fri"),
    ("cafe\u0301", "café"),
    ("10²", "10^2"),
    ("I said no.", "I said no"),
    ("a list: one, two", "a list one two"),
    ("Is it safe?", "is it safe"),
    ("(Really) - “fine”…", "really fine"),
    ("All good- thanks", "all good thanks"),
    ("We ship in C++.", "we ship in c++"),
]

DIFFERENT = [
    ("port 5432", "port 5433"),
    ("1.5 mg", "15 mg"),
    (".5 mg", "5 mg"),
    ("-5 degrees", "5 degrees"),
    ("temperature - 5", "temperature 5"),
    ("10²", "102"),
    ("1½ cups", "11⁄2 cups"),
    ("base 10₂", "base 102"),
    ("5 Mb", "5 MB"),
    ("5 kB", "5 kb"),
    ("5 mW", "5 MW"),
    ("a 6' pipe", 'a 6" pipe'),
    ("a 6’ pipe", "a 6” pipe"),
    ("€5", "$5"),
    ("5%", "5"),
    ("5 + 3", "5 3"),
    ("x = y", "x != y"),
    ("if ready", "if !ready"),
    ("Send it to US", "Send it to us"),
    ("f(x) is even", "f x is even"),
    ("Never. Again I said it", "Never again I said it"),
    ("Edit README.md", "Edit readme.md"),
    ("x < y", "x > y"),
    ("C", "C++"),
    ("C++", "C#"),
    ("NET", ".NET"),
    ("_id", "id"),
    ("grep -v", "grep v"),
    ("blood type A-", "blood type A+"),
    ("blood type A-", "blood type A"),
    ("re-sign", "resign"),
    ("open Mon-Fri", "open Mon Fri"),
    ("12:30", "1230"),
    ("1,5", "15"),
    ("1,5", "1 5"),
    ("2024-03-04", "2024 0304"),
    ("No, dogs are allowed", "No dogs are allowed"),
    ("No. Smoking is allowed", "No smoking is allowed"),
    ("deploy ✅", "deploy ❌"),
    ("😀", "😢"),
    ("10.0.0.1", "10.0.01"),
    ("refund of -$500", "refund of $500"),
    ("[ ! -f .env ]", "[ -f .env ]"),
    ("Казнить нельзя, помиловать", "Казнить, нельзя помиловать"),
    ("logs are in ./logs", "logs are in /logs"),
    ("rm -rf ./*", "rm -rf /*"),
    ("git reset --hard", "git reset -hard"),
    ("the default is []", "the default is {}"),
    ("(a + b) * c", "a + (b * c)"),
    ("if a:\n    b\n    c", "if a:\n    b\nc"),
    ("The password is Hunter2", "The password is hunter2"),
    ("The password is hunter2!", "The password is hunter2"),
    ("8 MHz", "8 mHz"),
    ("5 mPa", "5 MPa"),
    ("64 KB", "64 Kb"),
    ("16 GiB", "16 Gib"),
    ("不要吃，花生", "不要，吃花生"),
    ("Maßen", "Massen"),
    ("all well :)", "all well :("),
    ("北京", "南京"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_unicode_form_case_space_and_punctuation_make_no_difference(a: str, b: str) -> None:
    assert normalised(a) == normalised(b)
    assert text_hash(a) == text_hash(b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_signs_that_carry_meaning_make_a_difference(a: str, b: str) -> None:
    assert normalised(a) != normalised(b)
    assert text_hash(a) != text_hash(b)


def test_a_hash_has_128_bits() -> None:
    assert re.fullmatch("[0-9a-f]{32}", text_hash("anything"))


@given(st.text(min_size=1))
def test_text_never_vanishes_in_normalising(text: str) -> None:
    assert normalised(text) or not text.strip()


@given(st.lists(st.sampled_from(["alpha", "beta", "not", "7", "8.5", "2024-05-06", "x86", "C++"]), max_size=6))
def test_texts_of_other_words_never_have_the_same_hash(chosen: list[str]) -> None:
    text = " ".join(chosen)
    for other in itertools.permutations(chosen):
        assert (text_hash(" ".join(other)) == text_hash(text)) == (list(other) == chosen)
    for place in range(len(chosen)):
        shorter = chosen[:place] + chosen[place + 1 :]
        assert text_hash(" ".join(shorter)) != text_hash(text)
