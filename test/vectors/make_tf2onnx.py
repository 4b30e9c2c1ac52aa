"""
Writes tf2onnx.json: a convolutional network of Keras as tf2onnx writes it (channels last), its logits for two pictures,
and the gradient of the cross-entropy by the weights that keep their layout.

    pip install tensorflow-cpu tf2onnx
    python make_tf2onnx.py
"""

import base64, json, os, zlib
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tf2onnx

tf.keras.utils.set_random_seed(5)
layers = tf.keras.layers
x = tf.keras.Input((8, 8, 1))
h = layers.Conv2D(4, 3, padding="same", use_bias=False)(x)
h = layers.BatchNormalization()(h)
h = layers.MaxPooling2D()(layers.ReLU()(h))
h = layers.DepthwiseConv2D(3, padding="same", activation="relu6")(h)
h = layers.Dense(5, activation="swish")(layers.GlobalAveragePooling2D()(h))
model = tf.keras.Model(x, layers.Dense(3)(h))


@tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 1), tf.float32, name="x")])
def forward(x):
    return {"y": model(x, training=False)}


proto, _ = tf2onnx.convert.from_function(forward, input_signature=forward.input_signature, opset=17)
pixels = np.random.default_rng(1).integers(0, 256, (2, 8, 8, 1))
labels = np.array([2, 0])
with tf.GradientTape() as tape:
    logits = model(tf.constant(pixels / 127.5 - 1, tf.float32), training=False)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
kernels = [each for each in model.trainable_variables if each.ndim == 2]
made = {
    "made_by": f"make_tf2onnx.py, TensorFlow {tf.__version__}, tf2onnx {tf2onnx.__version__}",
    "onnx": base64.b64encode(zlib.compress(proto.SerializeToString(), 9)).decode(),
    "pixels": pixels.flatten().tolist(), "labels": labels.tolist(), "logits": logits.numpy().flatten().tolist(),
    "loss": float(loss),
    "gradients": [{"shape": each.shape.as_list(), "values": value.numpy().flatten().tolist()}
                  for each, value in zip(kernels, tape.gradient(loss, kernels))],
}
(Path(__file__).parent / "tf2onnx.json").write_text(json.dumps(made, indent=1) + "\n")
