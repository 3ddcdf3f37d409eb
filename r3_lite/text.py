"""What counts as a word: tokens, spellings, stop words, scripts without spaces, normalised text and its hash."""

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# Scripts whose words are not set apart by spaces, and Hangul, whose particles cling to the word before them:
# Thai, Lao, Tibetan, Myanmar, Khmer · Hangul Jamo · kana, bopomofo, Han and their extensions · Hangul ·
# compatibility ideographs, half-width kana, supplementary ideographs · the letters of which flags are made.
_SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff"
    "\u3005-\u3007\u3040-\u30ff\u3100-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U000323af\U0001f1e6-\U0001f1ff"
)
_SPACELESS_CHARACTER = re.compile(f"[{_SPACELESS}]")
_SPACELESS_RUN = re.compile(f"[{_SPACELESS}]+")
# Emoji that may be younger than the Unicode tables of FTS5 or Python. FTS5 takes what it does not know for letters.
_YOUNG_EMOJI = re.compile("[\u23f4-\u23ff\u2b4d-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]")
# Symbols that the keyword index leaves out (migrations/0003): they cling to numbers and names.
_MERE_SIGNS = "©®°™"
# What only changes the look of an emoji (presentation, skin, keycap, the letters of regional flags), and currency signs
# that FTS5 takes for letters. None is looked for.
_UNSEEN = re.compile("[\ufe0e\ufe0f\u20e3\u20ba-\u20cf\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")


def _spellings() -> dict[int, str]:
    """Return what is written in two ways and the keyword index does not know to be the same, by code point.

    It knows Latin accents. The points and marks of Greek, Hebrew and Arabic are left out by most writers, and so
    are the dots of the Russian ё and of borrowed sounds in Hindi.
    """
    # Latin and Russian · Arabic alef wasla, alef maksura, Persian letters, teh marbuta · Devanagari candrabindu.
    forms = "ß:ss ẞ:SS æ:ae Æ:AE œ:oe Œ:OE ø:o Ø:O ł:l Ł:L đ:d Đ:D ı:i ё:е Ё:Е ς:σ ٱ:ا ى:ي ی:ي ک:ك ة:ه ँ:ं"
    table = {ord(letter): plain for letter, plain in (form.split(":") for form in forms.split())}
    # Soft hyphen, tatweel, nukta.
    table |= dict.fromkeys(map(ord, "\u00ad\u0640\u093c"), "")
    pointed = [*range(0x370, 0x400), *range(0x1F00, 0x2000), *range(0x591, 0x6D4), *range(0x6D6, 0x6EE)]
    for code in pointed:
        bare = "".join(c for c in unicodedata.normalize("NFD", chr(code)) if unicodedata.category(c) != "Mn")
        if code not in table and bare != chr(code):
            table[code] = bare
    return table


_SPELLINGS = _spellings()
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)

_LATIN_ACCENT = re.compile("(?<=[A-Za-z\u0300-\u036f])[\u0300-\u036f]")
_NO_WORD = re.compile(rf"[\s\d{_SPACELESS}]")

# The usual function words of English, without the ones that carry a meaning of their own in notes.
STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing down during each few for from further get got had has have having
    he her here hers him his how i if in into is it its itself just let me more most my no nor not now of off on
    once only or other our out over own s same she should so some such t than that the their them then there
    these they this those through to too under until up very was we were what when where which while who whom
    whose why will with would you your yours""".split()
)


@lru_cache(maxsize=4096)
def _is_word_character(character: str) -> bool:
    # As the keyword index has it: without the combining marks Hindi and Thai fall apart; Co are private characters.
    category = unicodedata.category(character)
    return category[0] in "LNM" or category == "Co" or "\U0001f1e6" <= character <= "\U0001f1ff"


@lru_cache(maxsize=4096)
def is_symbol(character: str) -> bool:
    """Tell whether a character is an emoji or another symbol that is a word of its own: 🍕, ★, ♥."""
    if character in _MERE_SIGNS or _is_word_character(character):
        return False
    return unicodedata.category(character) == "So" or _YOUNG_EMOJI.match(character) is not None


def words(text: str) -> list[str]:
    """Split text into words: runs of letters, digits, marks and private characters, and each symbol by itself.

    The keyword index does the same, once `space_out` has set symbols apart from what they cling to.
    """
    if text.isascii():
        return re.findall(r"[A-Za-z0-9]+", text)
    apart = (c if _is_word_character(c) else f" {c} " if is_symbol(c) else " " for c in _bare_symbols(text))
    return "".join(apart).split()


def _bare_symbols(text: str) -> str:
    return _UNSEEN.sub(" ", text)


def plain_spelling(text: str) -> str:
    """Return text as its writer would who leaves out what can be left out: one form of each letter, no points.

    Compatibility forms (full-width letters, ligatures) become the usual ones, ß becomes ss, ё becomes е, a
    vocalised Arabic or Hebrew text loses its points. Latin accents stay: the keyword index sees through them.
    """
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_SPELLINGS)


def space_out(text: str) -> str:
    """Return what the keyword index would otherwise not know for words, "" where there is nothing of the kind.

    The second half of that index: a text with characters of a spaceless script comes back whole, each of them set
    apart, so that a word from the middle of a Chinese sentence is found as the sequence of its characters, and a
    name in Latin letters glued to it as a word of its own. Of other texts come the emoji and symbols that are not by
    themselves, with the words that they cling to, and the words with another, plainer spelling, in that spelling.
    """
    if text.isascii():
        return ""
    if _SPACELESS_CHARACTER.search(text):
        return _set_apart(plain_spelling(_symbols_apart(text)))
    special = (chunk for chunk in text.split() if _holds_symbols(chunk) or _has_plainer_spelling(chunk))
    return " ".join(plain_spelling(_symbols_apart(" ".join(special))).split())


def _holds_symbols(chunk: str) -> bool:
    """Tell whether the keyword index would take symbols and what is around them for one word."""
    return len(chunk) > 1 and (_UNSEEN.search(chunk) is not None or any(map(is_symbol, chunk)))


def _symbols_apart(text: str) -> str:
    text = _bare_symbols(text)
    return text.translate({ord(character): f" {character} " for character in set(text) if is_symbol(character)})


def _has_plainer_spelling(chunk: str) -> bool:
    plain = plain_spelling(chunk)
    # Of "wait…" only the dots have one.
    return plain != chunk and words(plain) != words(chunk)


def query_terms(query: str, *, limit: int = 64) -> list[str]:
    """Return what to look for in the keyword index: distinct words, or phrases of spaced characters.

    Words come in their plain spelling. Stop words are dropped unless nothing else is left. A run of a spaceless
    script becomes its overlapping pairs of characters ("東京都" → "東 京", "京 都"), a single character stays alone.
    At most `limit` terms.
    """
    found: list[str] = []
    for word in words(_POSSESSIVE.sub("", plain_spelling(_symbols_apart(query[:20_000])))):
        position = 0
        for run in _SPACELESS_RUN.finditer(word):
            found.append(word[position : run.start()])
            characters = run[0]
            pairs = [f"{a} {b}" for a, b in itertools.pairwise(characters)]
            found.extend(pairs or [characters])
            position = run.end()
        found.append(word[position:])
    # A combining mark by itself is a word to the index, but nothing to look for.
    distinct = list(dict.fromkeys(term.lower() for term in found if any(map(_says_something, term))))
    return ([term for term in distinct if term not in STOP_WORDS] or distinct)[:limit]


def _says_something(character: str) -> bool:
    return character.isalnum() or is_symbol(character) or _SPACELESS_CHARACTER.match(character) is not None


def vocabulary(text: str) -> set[str]:
    """Return the words of a text that may be looked for by a part or in another form, bare of all accents.

    From 4 letters on, 3 outside the Latin script, to 40; no numbers, nothing of a spaceless script, whose
    characters are found one by one.
    """
    return {word for word in map(str.lower, words(bare(text))) if has_forms(word)}


def bare(text: str) -> str:
    """Return text in plain spelling and without Latin accents, as the keyword index compares it."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _LATIN_ACCENT.sub("", unicodedata.normalize("NFD", plain_spelling(text))))


def has_forms(word: str) -> bool:
    """Tell whether a lower-case word is one that `vocabulary` takes."""
    if word.isascii():
        return 4 <= len(word) <= 40 and word.isalpha()
    return 3 <= len(word) <= 40 and not _NO_WORD.search(word)


def stem_of(word: str) -> str:
    """Return a word less the letters that inflections change in most languages: two of a long word, one of a short."""
    least = 4 if word.isascii() else 3
    return word[: max(least, len(word) - (2 if len(word) > 5 else 1))]


def word_set(text: str) -> frozenset[str]:
    """Return the set of lower-case words that Jaccard similarity compares; spaceless scripts by character."""
    return frozenset(words(unicodedata.normalize("NFKC", _set_apart(text)).casefold()))


def _set_apart(text: str) -> str:
    return _SPACELESS_CHARACTER.sub(lambda match: f" {match[0]} ", text)


def folded(text: str) -> str:
    """Return text in one Unicode form (NFKC) and case, without making different statements look alike.

    "10²" stays apart from 102, "5 Mb" from 5 MB. A token of letters and digits keeps its case: it may be a key.
    """
    return _lowered(_unified(text))


def _unified(text: str) -> str:
    return unicodedata.normalize("NFKC", _RAISED.sub(r"^\g<0>", text))


def _lowered(text: str) -> str:
    if not _DIGIT.search(text):
        return text.lower()
    text = _UNIT.sub(_mark_capitals, text)
    codes = {word for word in _WITH_DIGIT.findall(text) if word != word.lower()}
    return _CODE.sub(_lower_unless_code, text) if any(map(_is_code, codes)) else text.lower()


def normalised(text: str) -> str:
    """Return text without what cannot change its meaning: Unicode form, case, white space, sentence punctuation.

    Runs of white space become one space; where a text has several lines these stay apart, with their indentation,
    for it may be code. The marks, quotation marks and brackets around a word go, and dashes between words. What is part
    of a token stays: signs and points of numbers, "./x" and "/x", "C++", "!ready", "f(x)", emoji. So does the mark
    behind a denial, which says where the denial ends: "No, dogs are allowed". Case stays in units, file names, paths,
    identifiers and codes: 5 Mb and 5 MB, README.md and readme.md, getUser and getuser.
    """
    unified = _unified(text.strip())
    # Most texts have nothing of what the slower expressions look for.
    if unified.upper() != unified and unified[1:].lower() != unified[1:]:
        unified = _CASED.sub(_mark_capitals, unified)
    plain = _BETWEEN_WORDS.sub(" - ", _lowered(unified)).translate(_TYPOGRAPHY)
    lines = (line[: len(line) - len(line.lstrip())] + _bare_words(line.split()) for line in plain.splitlines())
    # A text of nothing but marks is itself.
    return "\n".join(line for line in lines if line.strip()) or plain


def _bare_words(chunks: list[str]) -> str:
    """Return the chunks of a line without the punctuation around them."""
    kept = []
    for place, chunk in enumerate(chunks):
        if chunk in _LOOSE_MARKS:
            if not (_is_prose(chunks[place - 1 : place]) and _is_prose(chunks[place + 1 : place + 2])):
                kept.append(chunk)
            continue
        match = _AROUND.fullmatch(chunk)
        if match is None:
            kept.append(_CLOSED.sub("", chunk))
            continue
        word, after = match.groups()
        if not _is_word(word):
            # Quotation marks behind a number are inches, brackets bounds; "hunter2!" may be a password.
            cut = chunk.rstrip(".,;:…。") if _is_code(word) else chunk.rstrip(".,;:!?…。")
            kept.append(cut or chunk)
        else:
            denied = after and place + 1 < len(chunks) and DENIAL.fullmatch(word)
            kept.append(f"{word}," if denied else word)
    return " ".join(kept)


def _is_prose(chunk: list[str]) -> bool:
    match = _AROUND.fullmatch(chunk[0]) if chunk else None
    return bool(match and _is_word(match[1]))


def _is_word(text: str) -> bool:
    """Tell whether a chunk is a word, not a number, code or the name of a variable."""
    return (len(text) > 1 or text in {"i", "a"}) and not any(map(str.isdigit, text)) and text.strip("-") == text


def _is_code(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _mark_capitals(match: re.Match[str]) -> str:
    return "".join(f"^{letter}" if letter.isupper() else letter for letter in match[0])


def _lower_unless_code(match: re.Match[str]) -> str:
    word = match[0]
    return word if _is_code(word) else word.lower()


def text_hash(text: str) -> str:
    """Return 128 bits of the SHA-256 of the normalised text in hexadecimal: equal for the same statement."""
    return hashlib.sha256(normalised(text).encode()).hexdigest()[:32]


# What NFKC would run together with the digit before it: superscripts anywhere; fractions, subscripts, circled numbers.
_RAISED = re.compile("[⁰¹²³⁴-⁹⁻]+|(?<=\\d)[¼-¾⅐-⅞↉₀-₉①-⑳]+")
# What follows a number may be a unit, and of units the case counts: kB and kb, mW and MW, g and G.
_UNIT = re.compile(r"(?<=\d)\s?[^\W\d_]{1,4}(?![^\W_])")
_CODE = re.compile(r"[^\W_]+")
_DIGIT = re.compile(r"\d")
_WITH_DIGIT = re.compile(r"(?<![^\W_])[^\W\d_]*\d[^\W_]*")
_TYPOGRAPHY = str.maketrans("“”„«»‘’‚‐‒–—−", '"""""\'\'\'-----')
# What is a file, an identifier or an option: there the case counts.
_CASED = re.compile(
    r"(?<![\w.\\/~-])(?=[\w.~-]*[\\/_])[\w.\\/~-]+|(?<![\w.])\w+(?:\.[A-Za-z]\w*)+|(?<!\w)[a-z]{2,}[A-Z][a-z]\w*|"
    r"(?<=\s-)[A-Z](?!\w)|\b(?:US|IT|WHO|AIDS|ARM)\b"
)
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_])—(?=[^\W\d_])")
_LOOSE_MARKS = frozenset(["-", "--", ".", "..", "...", ",", "!", "?", ";", ":"])
# A word or number with the punctuation around it.
_AROUND = re.compile(r"[\"'(\[¿¡]*([^\W_](?:[\w'-]*\w)?)((?:(?<=\w{3})-+)?[.,;:!?…。؟،؛।\"')\]]*)")
_CLOSED = re.compile(r"(?<=[\w%+#)\]])[.,;:!?…。]+$")
# Where one of these ends a clause, the mark behind it tells so.
DENIAL = re.compile(
    r"no|not|never|nor|none|don't|nicht|kein\w*|nie|nein|pas|non|jamais|nunca|не|нет|нельзя|никогда|stop"
)


def match_any(terms: Iterable[str], column: str = "") -> str:
    """Return the FTS5 expression that matches any of the terms. Each is quoted: no character is syntax."""
    quoted = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    return f"{column} : ({quoted})" if column else quoted
