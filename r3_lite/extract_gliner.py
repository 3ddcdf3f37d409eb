"""Extraction by a GLiNER model, for other languages: needs the package `gliner` and a local model.

Nothing is ever downloaded: the model is a folder or already in the Hugging Face cache. Long texts are read in
windows that overlap, so that no name is cut off. Importing this module imports neither torch nor gliner.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from r3_lite.entity_words import Span
from r3_lite.errors import ModelUnavailable
from r3_lite.extract import Extraction, build_extraction

# What the model is asked for, in the words that GLiNER models are trained with.
LABELS = {
    "person": "people",
    "organization": "organizations",
    "company": "organizations",
    "team": "organizations",
    "technology": "technologies",
    "software": "technologies",
    "programming language": "technologies",
    "project": "projects",
    "location": "places",
    "date": "dates",
}
RELATION_LABELS = {
    "works for": "WORKS_FOR",
    "manages": "MANAGES",
    "leads": "LEADS",
    "reports to": "REPORTS_TO",
    "uses": "USES",
    "built with": "BUILT_WITH",
    "owns": "OWNS",
    "located in": "LOCATED_IN",
    "part of": "PART_OF",
    "knows": "KNOWS",
    "depends on": "DEPENDS_ON",
    "integrates with": "INTEGRATES_WITH",
    "related to": "RELATED_TO",
}
THRESHOLD = 0.5  # GLiNER's own default

# GLiNER counts words like this, signs included; above the model's `max_len` of them it cuts the text.
_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")


class GlinerExtractor:
    """Owns one loaded model. `extract` may be called from any thread; calls run one after the other."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._lock = threading.Lock()
        # Half of what the model takes: long words are several tokens, and the labels take room as well.
        self._window = max(2, int(getattr(model.config, "max_len", None) or 384) // 2)
        self._relations = hasattr(model, "predict_relations")

    def extract(self, text: str) -> Extraction:
        """Entities, relations and keywords of `text`; relations come from the model where it knows them.

        Otherwise the typed patterns of r3_lite.relations read them from the entities (in English text).
        """
        spans: list[Span] = []
        links: dict[tuple[int, str, int], float] = {}  # offsets of both ends and type -> confidence
        with self._lock:
            for start, end in windows(text, self._window):
                found, related = self._predict(text[start:end])
                for item in found:
                    place = (item["start"] + start, item["end"] + start)
                    spans.append(Span(*place, LABELS[item["label"]], float(item["score"])))
                for item in related:
                    ends = item["head"]["start"] + start, item["tail"]["start"] + start
                    key = (ends[0], RELATION_LABELS[item["relation"]], ends[1])
                    links[key] = max(links.get(key, 0.0), float(item["score"]))
        kept = without_overlaps(spans)
        if not self._relations:
            return build_extraction(text, kept, "gliner")
        at = {span.start: i for i, span in enumerate(kept)}
        relations = [
            (at[source], kind, at[target], sure)
            for (source, kind, target), sure in sorted(links.items())
            if source in at and target in at
        ]
        return build_extraction(text, kept, "gliner", relations=relations)

    def _predict(self, window: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        labels = list(LABELS)
        if self._relations:
            entities, relations = self._model.predict_relations(
                window, labels, list(RELATION_LABELS), threshold=THRESHOLD
            )
            return entities, relations
        return self._model.predict_entities(window, labels, threshold=THRESHOLD), []


def load_gliner(model: str, cache_dir: Path | None = None) -> GlinerExtractor:
    """Loads a model: a folder, or the name of one in the Hugging Face cache (`cache_dir`, else default).

    Raises ModelUnavailable, with what to do, where the package or the model is missing or cannot be read.
    Takes seconds; call it outside any transaction.
    """
    try:
        from gliner import GLiNER
    except ImportError as error:
        raise ModelUnavailable("GLiNER is not installed: install r3-lite[gliner] or unset R3_ENTITY_MODEL.") from error
    try:
        with _offline():
            loaded = GLiNER.from_pretrained(
                str(Path(model).expanduser()) if Path(model).expanduser().is_dir() else model,
                cache_dir=cache_dir,
                local_files_only=True,
            )
    except Exception as error:  # the loader raises whatever its libraries raise
        raise ModelUnavailable(
            "The GLiNER model cannot be loaded: set R3_ENTITY_MODEL to a model folder or to a model that is "
            "already in the Hugging Face cache; r3-lite never downloads it."
        ) from error
    return GlinerExtractor(loaded)


def windows(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Character spans of at most `size` words that cover the text; a quarter of each is also in the next."""
    words = [match.span() for match in _WORD.finditer(text)]
    step = max(1, size - size // 4)
    for first in range(0, len(words), step):
        last = min(first + size, len(words))
        yield words[first][0], words[last - 1][1]
        if last == len(words):
            return


def without_overlaps(spans: list[Span]) -> list[Span]:
    """The surest spans of those that overlap (longer ones first where equally sure), in reading order."""
    kept: list[Span] = []
    for span in sorted(set(spans), key=lambda s: (-s.confidence, s.start - s.end, s.start)):
        if all(span.end <= other.start or span.start >= other.end for other in kept):
            kept.append(span)
    return sorted(kept)


@contextmanager
def _offline() -> Iterator[None]:
    """Keeps the Hugging Face libraries from the network, also for the parts that a model folder may lack."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
