"""Rules of r3_lite.entity_features."""

from r3_lite import entity_features as F
from r3_lite.entity_words import Span, split_words


def bits_of(text: str) -> list[int]:
    return F.word_features(text, split_words(text))


def test_there_are_66_features_and_lists_come_last() -> None:
    assert F.COUNT == 66
    assert (F.LIST_FEATURES[0], F.LIST_FEATURES[-1]) == (40, 65)


def test_shape_of_words() -> None:
    title, upper, mixed, number = bits_of("Ana USA gRPC 42")
    assert title & F.TITLE
    assert not title & F.UPPER
    assert upper & F.UPPER
    assert mixed & F.MIXED
    assert not mixed & F.TITLE
    assert number & F.NUMBER


def test_each_sentence_has_a_start() -> None:
    bits = bits_of("One two. Three\n- four")
    assert [i for i, b in enumerate(bits) if b & F.SENTENCE_START] == [0, 3, 4, 5]


def test_all_lower_is_a_feature_of_every_word() -> None:
    assert all(b & F.ALL_LOWER for b in bits_of("no capitals here"))
    assert not any(b & F.ALL_LOWER for b in bits_of("One capital"))


def test_words_of_a_listed_name_are_begin_and_inside() -> None:
    _, begin, inside = bits_of("in New York")
    assert begin & F.PLACE
    assert not begin & F.PLACE_INSIDE
    assert inside & F.PLACE_INSIDE
    assert not inside & F.PLACE


def test_case_exact_names_need_their_case_in_text_with_capitals() -> None:
    assert bits_of("We use Flask")[2] & F.CASED_TECH
    assert not bits_of("We drank a flask")[3] & F.CASED_TECH
    assert bits_of("We drank a flask")[3] & F.LOWER_AMBIGUOUS


def test_repository_names_are_kebab() -> None:
    assert bits_of("deploy auth-service")[1] & F.KEBAB
    assert not bits_of("a well-known fact")[1] & F.KEBAB


def test_rule_tags_go_into_the_last_bits() -> None:
    words = split_words("Ana Ruiz left")
    tagged = F.with_rule_tags([0, 0, 0], words, [Span(0, 8, "people", 1.0), Span(9, 13, "dates", 1.0)])
    assert tagged == [1 << 56, 1 << 57, 0]
