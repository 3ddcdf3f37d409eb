"""Trains the entity head and writes r3_lite/weights/entity_head.npz and r3_lite/lexicon/word_counts.txt.

usage: python scripts/train_entity_head.py --data NER_DIR --encoder MODEL.onnx --tokenizer TOKENIZER.json

NER_DIR holds the CC BY 4.0 corpora: WNUT 2017 (wnut17train.conll, emerging.dev.conll), the Broad Twitter
Corpus (btc_*.conll) and wikigold (wikigold.conll). MODEL.onnx is the bundled encoder with the output
`layer_4`. Needs torch==2.13.0; about six minutes on one core. Only numpy is needed to run what it writes.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # it ships no types
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from synthetic_sentences import SLOT, Generator, Labelled, read_patterns  # noqa: E402  (needs the path above)

from r3_lite import entity_features as features  # noqa: E402
from r3_lite.entity_head import LABELS, WINDOW, Pieces, feature_matrix, word_vectors  # noqa: E402
from r3_lite.entity_rules import rule_spans  # noqa: E402
from r3_lite.entity_words import Word, split_words  # noqa: E402

SEED = 0
SYNTHETIC = 40_000
SYNTHETIC_WEIGHT = 1.5
HIDDEN, EPOCHS, BATCH = 96, 5, 64
LEARNING_RATE, WEIGHT_DECAY, SMOOTHING = 2e-3, 0.01, 0.02
VECTOR_DROPOUT, HIDDEN_DROPOUT, LIST_DROPOUT = 0.15, 0.2, 0.3
MASKED = -100
RARE = 3  # words seen less often than this are not counted

TYPES: dict[str, str | None] = {
    "person": "people",
    "per": "people",
    "corporation": "organizations",
    "org": "organizations",
    "product": "technologies",
    "location": "places",
    "loc": "places",
    "creative-work": None,
}  # labels that are not here (group, misc) are masked: they mix several of our types
NO_TECHNOLOGY_LABELS = ("btc", "wikigold")
CLOSING = frozenset(".,;:!?)]}%'’”") | {"n't", "'s", "'re", "'ll", "'m", "'ve", "'d", "’s", "..."}
OPENING = frozenset(("(", "[", "{", "“", "$", "#", "@"))


@dataclass(frozen=True, slots=True)
class Examples:
    """All sentences as one table of words. `starts[i]:starts[i+1]` are the words of sentence i."""

    vectors: NDArray[np.float16]
    features: NDArray[np.uint8]
    labels: NDArray[np.int64]
    weights: NDArray[np.float32]
    starts: NDArray[np.int64]


class Network(torch.nn.Module):
    """Linear, GELU, linear; dropout on the vectors and the hidden layer."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension
        width = dimension + (2 * WINDOW + 1) * features.COUNT
        self.hidden = torch.nn.Linear(width, HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, len(LABELS))
        self.vector_dropout = torch.nn.Dropout(VECTOR_DROPOUT)
        self.hidden_dropout = torch.nn.Dropout(HIDDEN_DROPOUT)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        vectors, rest = inputs[:, : self.dimension], inputs[:, self.dimension :]
        joined = torch.cat([self.vector_dropout(vectors), rest], dim=1)
        hidden = self.hidden_dropout(torch.nn.functional.gelu(self.hidden(joined)))
        logits: torch.Tensor = self.output(hidden)
        return logits


def main() -> None:
    """Counts words, encodes all sentences, trains and writes the two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="folder to keep the encoded sentences in")
    arguments = parser.parse_args()
    corpora = list(read_corpora(arguments.data))
    write_word_counts(corpora)
    sentences = [*corpora, *Generator(SEED).sentences(SYNTHETIC)]
    vectors = encode(sentences, arguments.encoder, arguments.tokenizer, arguments.cache)
    network = train(build_examples(sentences, vectors))
    path = ROOT / "r3_lite" / "weights" / "entity_head.npz"
    path.parent.mkdir(exist_ok=True)
    save(network, path)
    print(f"{path.name} {path.stat().st_size} bytes sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


def read_corpora(folder: Path) -> Iterator[Labelled]:
    """The sentences of the three corpora as running text."""
    for name in ("wnut17train.conll", "emerging.dev.conll"):
        yield from read_conll(folder / name, "wnut")
    for path in sorted(folder.glob("btc_*.conll")):
        yield from read_conll(path, "btc")
    yield from read_conll(folder / "wikigold.conll", "wikigold")


def read_conll(path: Path, source: str) -> Iterator[Labelled]:
    """Sentences of up to 120 words of a file with one word and its label a line."""
    tokens: list[str] = []
    labels: list[str] = []
    for line in [*path.read_text(encoding="utf-8", errors="replace").split("\n"), ""]:
        parts = line.split("\t") if "\t" in line else line.split()
        if len(parts) >= 2 and parts[0].strip() and parts[-1].strip():
            tokens.append(parts[0].strip())
            labels.append(parts[-1].strip())
        elif tokens:
            if len(tokens) <= 120:
                yield running_text(tokens, labels, source)
            tokens, labels = [], []


def running_text(tokens: Sequence[str], labels: Sequence[str], source: str) -> Labelled:
    """Joins tokens as a person would write them and maps the labels to our types."""
    text = ""
    spans = []
    before = ""
    for token in tokens:
        if text and token not in CLOSING and before not in OPENING:
            text += " "
        spans.append((len(text), len(text) + len(token)))
        text += token
        before = token
    entities = []
    unknown = []
    i = 0
    while i < len(tokens):
        kind = labels[i].partition("-")[2]
        j = i + 1
        while kind and j < len(tokens) and labels[j] == f"I-{kind}":
            j += 1
        if kind:
            span = (spans[i][0], spans[j - 1][1])
            if kind.lower() not in TYPES:
                unknown.append(span)
            elif mapped := TYPES[kind.lower()]:
                entities.append((*span, mapped))
        i = j
    return Labelled(text, tuple(entities), tuple(unknown), source)


def write_word_counts(corpora: Iterable[Labelled]) -> None:
    """Counts words in lower case and capitalised inside a sentence, in the corpora and our patterns."""
    patterns = read_patterns()
    own = (SLOT.sub("", line) for name in ("plain", "further", "empty") for line in patterns[name])
    lower: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for text in (*(sentence.text for sentence in corpora), *own):
        for i, word in enumerate(split_words(text)):
            if word.text.islower():
                lower[word.text] += 1
            elif i and word.text[0].isupper():
                capital[word.text.lower()] += 1
    words = sorted(w for w in {*lower, *capital} if w.isalpha() and lower[w] + capital[w] >= RARE)
    lines = ["[word counts]", *(f"{w} {lower[w]} {capital[w]}" for w in words)]
    (ROOT / "r3_lite" / "lexicon" / "word_counts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def encode(
    sentences: Sequence[Labelled], encoder: Path, tokenizer_file: Path, cache: Path | None
) -> NDArray[np.float16]:
    """Word vectors of all sentences below each other. Each sentence is encoded alone, as a memory is."""
    digest = hashlib.sha256(encoder.read_bytes())
    for sentence in sentences:
        digest.update(sentence.text.encode() + b"\0")
    stored = cache / f"vectors-{digest.hexdigest()[:16]}.npy" if cache else None
    if stored and stored.exists():
        cached: NDArray[np.float16] = np.load(stored)
        return cached
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(encoder), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.enable_truncation(256)
    tokenizer.no_padding()
    rows = []
    for sentence in sentences:
        encoding = tokenizer.encode(sentence.text)
        ids = np.array([encoding.ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        (layer,) = session.run(["layer_4"], inputs)
        pieces = Pieces(layer[0], np.array(encoding.offsets, np.int64))
        rows.append(word_vectors(split_words(sentence.text), pieces).astype(np.float16))
    vectors = np.concatenate(rows)
    if stored:
        np.save(stored, vectors)
    return vectors


def build_examples(sentences: Sequence[Labelled], vectors: NDArray[np.float16]) -> Examples:
    """Features, labels and weights of every word."""
    tables, labels, weights, starts = [], [], [], [0]
    for sentence in sentences:
        words = split_words(sentence.text)
        bits = features.word_features(sentence.text, words)
        bits = features.with_rule_tags(bits, words, rule_spans(sentence.text, words, bits))
        row = label_words(sentence, words)
        if sentence.source in NO_TECHNOLOGY_LABELS:
            named = [bool(b & (features.SAFE_TECH | features.TECH_INSIDE)) for b in bits]
            row[np.array(named, bool) & (row == 0)] = MASKED
        tables.append(feature_matrix(bits) if words else np.zeros((0, features.COUNT), np.uint8))
        labels.append(row)
        weight = SYNTHETIC_WEIGHT if sentence.source == "synthetic" else 1.0
        weights.append(np.full(len(words), weight, np.float32))
        starts.append(starts[-1] + len(words))
    return Examples(vectors, np.concatenate(tables), np.concatenate(labels), np.concatenate(weights), np.array(starts))


def label_words(sentence: Labelled, words: Sequence[Word]) -> NDArray[np.int64]:
    """The label index of each word; MASKED where the corpus does not say."""
    row = np.zeros(len(words), np.int64)
    for i, word in enumerate(words):
        for start, end, kind in sentence.entities:
            if word.start < end and word.end > start:
                prefix = "I" if i and words[i - 1].end > start else "B"
                row[i] = LABELS.index(f"{prefix}-{kind}")
                break
        else:
            if any(word.start < end and word.end > start for start, end in sentence.unknown):
                row[i] = MASKED
    return row


def train(examples: Examples) -> Network:
    """AdamW with one cycle; in each batch the word lists are hidden in some of the sentences."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    random = np.random.default_rng(SEED)
    count = len(examples.starts) - 1
    sentence_of = np.repeat(np.arange(count), np.diff(examples.starts))
    neighbours = [neighbour_rows(sentence_of, k) for k in range(-WINDOW, WINDOW + 1)]
    # One more row of zeros stands for the words before the first and after the last.
    table = np.concatenate([examples.features, np.zeros((1, features.COUNT), np.uint8)])
    network = Network(examples.vectors.shape[1])
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = EPOCHS * (count // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1, pct_start=0.1)
    network.train()
    for epoch in range(EPOCHS):
        order = random.permutation(count)
        total = 0.0
        for first in range(0, count - BATCH + 1, BATCH):
            batch = order[first : first + BATCH]
            rows = np.concatenate([np.arange(*examples.starts[i : i + 2]) for i in batch])
            rows = rows[examples.labels[rows] != MASKED]
            hidden = (random.random(count) < LIST_DROPOUT)[sentence_of[rows]]
            window = [table[near[rows]] for near in neighbours]
            for part in window:
                part[np.ix_(hidden, features.LIST_FEATURES)] = 0
            inputs = np.concatenate([examples.vectors[rows], *window], axis=1, dtype=np.float32)
            losses = torch.nn.functional.cross_entropy(
                network(torch.from_numpy(inputs)),
                torch.from_numpy(examples.labels[rows]),
                reduction="none",
                label_smoothing=SMOOTHING,
            )
            weights = torch.from_numpy(examples.weights[rows])
            loss = (losses * weights).sum() / weights.sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(f"epoch {epoch + 1}: loss {total / (count // BATCH):.4f}", flush=True)
    return network.eval()


def neighbour_rows(sentence_of: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
    """Row of the word `distance` further on in the same sentence; the row of zeros where there is none."""
    count = len(sentence_of)
    rows = np.arange(count) + distance
    inside = (rows >= 0) & (rows < count)
    inside &= sentence_of[np.clip(rows, 0, count - 1)] == sentence_of
    return np.where(inside, rows, count)


def save(network: Network, path: Path) -> None:
    """Writes the weights as float16, inputs first."""

    def array(tensor: torch.Tensor) -> NDArray[np.float16]:
        return np.ascontiguousarray(tensor.detach().numpy().T.astype(np.float16))

    np.savez_compressed(
        path,
        hidden=array(network.hidden.weight),
        hidden_bias=array(network.hidden.bias),
        output=array(network.output.weight),
        output_bias=array(network.output.bias),
    )


if __name__ == "__main__":
    main()
