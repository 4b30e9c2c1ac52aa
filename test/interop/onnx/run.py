"""Reads a list of {path, shape, type, input} from stdin, and prints the first output of each model in onnxruntime."""

import json, sys

import numpy as np
import onnxruntime

made = []
for case in json.load(sys.stdin):
    session = onnxruntime.InferenceSession(case["path"], providers=["CPUExecutionProvider"])
    feed = np.array(case["input"], case["type"]).reshape(case["shape"])
    [output, *_] = session.run(None, {session.get_inputs()[0].name: feed})
    made.append(output.flatten().tolist())
json.dump(made, sys.stdout)
