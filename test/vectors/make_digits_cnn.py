"""
Writes the files of `nostrain demo onnx` into docs/assets: digits.onnx, an untrained network as torch.onnx.export writes
it, and digits.png, the 1797 digits of "Optical Recognition of Handwritten Digits" with a class in each row.

    pip install torch onnx onnxscript scikit-learn pillow
    python make_digits_cnn.py
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from sklearn.datasets import load_digits

assets = Path(__file__).parents[2] / "docs/assets"

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Flatten(), nn.Linear(512, 10),
)
batch = torch.export.Dim("batch", min=1, max=4096)
torch.onnx.export(model, (torch.zeros(2, 1, 8, 8),), assets / "digits.onnx", dynamo=True, optimize=False,
                  opset_version=20, dynamic_shapes=({0: batch},), external_data=False)

digits = load_digits()
sheet = np.zeros((80, 8 * np.bincount(digits.target).max()), np.uint8)
for label in range(10):
    for i, picture in enumerate(digits.images[digits.target == label]):
        sheet[8 * label : 8 * label + 8, 8 * i : 8 * i + 8] = np.round(picture * 255 / 16)
Image.fromarray(sheet).save(assets / "digits.png", optimize=True)
