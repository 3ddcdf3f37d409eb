"""The GLiNER adapter with the real package and a tiny model made here: `make test-gliner`.

Not among the other tests, since it needs r3-lite[gliner] and torch; warnings are those of these libraries.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import eventually
from gliner import GLiNER
from gliner.config import GLiNERConfig
from transformers import BertConfig, BertTokenizer

from r3_lite import knowledge
from r3_lite.engine import Engine
from r3_lite.errors import ModelUnavailable
from r3_lite.extract_gliner import GlinerExtractor, load_gliner
from r3_lite.health import measure

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *("alice", "filler", "person"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one small layer that has learned that `alice` is a person and `filler` is nothing."""
    base = tmp_path_factory.mktemp("gliner")
    encoder = base / "encoder"
    encoder.mkdir()
    (encoder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    BertTokenizer.from_pretrained(encoder).save_pretrained(encoder)
    BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    ).save_pretrained(encoder)
    torch.manual_seed(0)
    config = GLiNERConfig(
        model_name=str(encoder), hidden_size=32, max_len=64, max_width=2, dropout=0.0, num_rnn_layers=0
    )
    model = GLiNER.from_config(config, backbone_from_pretrained=False)
    collate = model.data_collator_class(model.config, data_processor=model.data_processor, prepare_labels=True)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    draw = random.Random(0)
    model.train()
    for _ in range(40):
        batch = collate([example(draw) for _ in range(8)])
        output = model(**{name: value for name, value in batch.items() if isinstance(value, torch.Tensor)})
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
    model.save_pretrained(base / "model")
    return base / "model"


def example(draw: random.Random) -> dict[str, object]:
    words = ["filler"] * draw.randrange(5, 40)
    place = draw.randrange(len(words))
    words[place] = "alice"
    return {"tokenized_text": words, "ner": [[place, place, "person"]]}


@pytest.fixture(scope="module")
def extractor(folder: Path) -> GlinerExtractor:
    return load_gliner(str(folder))


def test_real_model_answers_in_our_shape(extractor: GlinerExtractor) -> None:
    found = extractor.extract("filler filler alice filler")
    assert found.method == "gliner"
    assert [(e.name, e.start, e.end) for e in found.entities] == [("alice", 14, 19)]
    assert found.entities[0].confidence > 0.5


def test_ten_names_in_1500_words_are_all_found(extractor: GlinerExtractor) -> None:
    words = ["filler"] * 1_500
    places = [149 + 150 * i for i in range(10)]
    for place in places:
        words[place] = "alice"
    found = extractor.extract(" ".join(words))
    assert [e.start for e in found.entities] == [place * 7 - i for i, place in enumerate(places)]


def test_the_graph_is_filled_by_the_model_that_is_set(folder: Path, make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(entity_model=str(folder))
    engine.add(None, "filler filler alice filler", wait=True)
    engine.start()
    eventually(lambda: engine.extractor.method == "gliner" and not engine.pending()[0]["pending"])
    eventually(lambda: [node.name for node in knowledge.neighbourhood(engine, None, limit=9).nodes] == ["alice"])
    assert measure(engine).graph == {"entities": 1, "relations": 0, "method": "gliner", "gliner": "ready"}


def test_a_folder_without_a_model_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="R3_ENTITY_MODEL"):
        load_gliner(str(tmp_path))
