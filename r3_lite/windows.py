"""Cut a text into windows, the pieces that get one vector each."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from r3_lite.text import STOP_WORDS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Tokens per window, about two sentences. A mean over more drowns each single fact. Measured with facts hidden
# in notes of 600 to 20,000 characters beside 2,000 memories of a sentence: the note is among the first three for
# 95 % of the facts with 46 tokens, for 50 % with 128, for 20 % with 256.
WINDOW = 46
OVERLAP = 12  # tokens that neighbouring windows share where no sentence ends between them
MAX_WINDOWS = 6_000  # per text, about 1 MB of English; what comes after is found by keyword only
BLOCK, BLOCK_OVERLAP = 16_000, 200  # characters tokenized at once; a tokenized megabyte takes 200 MB

# What stands for a piece that is not in the vocabulary: an emoji, a word of a script that the model never saw.
UNKNOWN = "[UNK]"

_SENTENCE_END = re.compile(r"[.!?؟।]\s+|[。！？\n]\s*")


class Window(NamedTuple):
    """A piece of a text and its tokens, without the special ones; `spans` are their characters in the block.

    `known`: how much of it the tokenizer knows, 0 to 1; see `known_share`.
    """

    ids: list[int]
    text: str
    spans: list[tuple[int, int]]
    known: float = 1.0


class Block(NamedTuple):
    """A part of a long text, or the whole of a short one: where it begins, its text and its windows."""

    start: int
    text: str
    windows: list[Window]


def parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in parts of at most BLOCK characters with their starts; neighbours share BLOCK_OVERLAP."""
    for start in range(0, max(len(text) - BLOCK_OVERLAP, 1), BLOCK - BLOCK_OVERLAP):
        yield start, text[start : start + BLOCK]


def windows(text: str, tokenizer: Tokenizer, size: int = WINDOW) -> Iterator[Window]:
    """Yield the windows of a text in order: `size` tokens or fewer each, one at least, MAX_WINDOWS at most.

    The tokenizer must neither pad nor truncate. Pure; reads a text block by block, as far as asked.
    """
    return islice((window for _, part in parts(text) for window in _cut(part, tokenizer, size)), MAX_WINDOWS)


def blocks(text: str, tokenizer: Tokenizer) -> Iterator[Block]:
    """Yield the whole text block by block with the windows that `windows` makes of it.

    Blocks behind the last of MAX_WINDOWS windows have none; the block in which that is has all of its own.
    """
    left = MAX_WINDOWS
    for start, part in parts(text):
        found = list(_cut(part, tokenizer, WINDOW)) if left > 0 else []
        left -= len(found)
        yield Block(start, part, found)


def known_share(tokens: Sequence[str]) -> float:
    """Return the share of a text's pieces that a model can know, punctuation left aside; 1 where none is unknown.

    0 where all that is known are numbers and function words: those say nothing about what stands between them.
    """
    unknown = tokens.count(UNKNOWN)
    if not unknown:
        return 1.0
    known = [token for token in tokens if token != UNKNOWN and any(map(str.isalnum, token))]
    if all(token in STOP_WORDS or token.lstrip("#").isdigit() for token in known):
        return 0.0
    return len(known) / (len(known) + unknown)


def _cut(text: str, tokenizer: Tokenizer, size: int) -> Iterator[Window]:
    """Yield windows that end with a sentence where one ends in their second half, and else overlap."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    ids, spans, tokens = encoding.ids, encoding.offsets, encoding.tokens
    sentences = {match.end() for match in _SENTENCE_END.finditer(text)}
    breaks = [index for index, (start, _) in enumerate(spans) if start in sentences]

    def window(begin: int, end: int) -> Window:
        piece = text[spans[begin][0] : spans[end - 1][1]] if ids else text
        return Window(ids[begin:end], piece, spans[begin:end], known_share(tokens[begin:end]))

    begin = 0
    while begin + size < len(ids):
        last = bisect_right(breaks, begin + size) - 1
        if last >= 0 and breaks[last] > begin + size // 2:
            end = following = breaks[last]
        else:
            end, following = begin + size, begin + size - OVERLAP
        yield window(begin, end)
        begin = following
    # A short rest would say little by itself: the last window is at least half a window.
    yield window(max(min(begin, len(ids) - size // 2), 0), len(ids))
