"""
Writes fused.json: what onnxruntime computes for operators of com.microsoft and for Attention, whose inputs are rows of
a model with one input.

    pip install onnx onnxruntime
    python make_fused.py
"""

import base64, json, zlib
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

B, T, HEADS, SIZE = 2, 5, 2, 4
WIDTH = HEADS * SIZE
random = np.random.default_rng(7)


def weights(*shape):
    return (random.standard_normal(shape) * 0.5).astype(np.float32)


def case(name, type, domain, inputs, attributes={}, opset=20, shape=(T, WIDTH)):
    """A node whose inputs are weights, or products of the input with weights where they are the text `x`."""
    nodes, initializers, names = [], [], []
    for i, each in enumerate(inputs):
        if each is None:
            names.append("")
        elif isinstance(each, str):
            initializers.append(numpy_helper.from_array(weights(shape[-1], shape[-1]), f"w{i}"))
            nodes.append(helper.make_node("MatMul", ["x", f"w{i}"], [f"x{i}"]))
            names.append(f"x{i}")
        else:
            initializers.append(numpy_helper.from_array(each, f"c{i}"))
            names.append(f"c{i}")
    nodes.append(helper.make_node(type, names, ["y"], domain=domain, **attributes))
    graph = helper.make_graph(
        nodes, "fused", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", *shape])], initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    x = random.standard_normal((B, *shape)).astype(np.float32)
    [y] = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return {"name": name, "onnx": base64.b64encode(zlib.compress(model, 9)).decode(),
            "x": x.flatten().tolist(), "shape": list(x.shape), "y": y.flatten().tolist()}


MS = "com.microsoft"
mask = np.where(np.tri(T), 0, -1e4).astype(np.float32)[None, None].repeat(B, 0)
angles = np.outer(np.arange(T), 1 / 100 ** (np.arange(SIZE // 2) / (SIZE // 2)))
tables = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
cases = [
    case("MultiHeadAttention", "MultiHeadAttention", MS, ["x", "x", "x"], {"num_heads": HEADS}),
    case("MultiHeadAttention with bias and mask", "MultiHeadAttention", MS, ["x", "x", "x", weights(3 * WIDTH), None, mask[:1, :, :, :]],
         {"num_heads": HEADS, "scale": 0.3}),
    case("MultiHeadAttention, causal", "MultiHeadAttention", MS, ["x", "x", "x"], {"num_heads": HEADS, "unidirectional": 1}),
    case("Attention, packed", "Attention", MS, ["x", weights(WIDTH, 3 * WIDTH), weights(3 * WIDTH)], {"num_heads": HEADS}),
    case("Attention, packed and causal", "Attention", MS, ["x", weights(WIDTH, 3 * WIDTH), weights(3 * WIDTH)],
         {"num_heads": HEADS, "unidirectional": 1}),
    case("Attention of opset 23", "Attention", "", ["x", "x", "x"], {"q_num_heads": HEADS, "kv_num_heads": HEADS, "is_causal": 1}, 23),
    case("FusedMatMul", "FusedMatMul", MS, ["x", weights(WIDTH, WIDTH)], {"alpha": 0.7, "transB": 1}),
    case("Gelu", "Gelu", MS, ["x"]),
    case("FastGelu", "FastGelu", MS, ["x"]),
    case("QuickGelu", "QuickGelu", MS, ["x"], {"alpha": 1.5}),
    case("BiasGelu", "BiasGelu", MS, ["x", weights(WIDTH)]),
    case("SkipLayerNormalization", "SkipLayerNormalization", MS, ["x", "x", weights(WIDTH), weights(WIDTH), weights(WIDTH)], {"epsilon": 1e-5}),
    case("SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", MS, ["x", "x", weights(WIDTH)], {"epsilon": 1e-5}),
]
path = Path(__file__).parent / "fused.json"
path.write_text(json.dumps({"made_by": f"make_fused.py, onnxruntime {onnxruntime.__version__}", "cases": cases}, indent=1) + "\n")
