"""Exports ResNet-18 for pictures of 32 x 32 pixels (`--export FILE`), or prints the times of its training steps as JSON."""

import argparse, json, os, sys, time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../vectors"))
sys.argv, arguments = sys.argv[:1] + ["none"], sys.argv[1:]  # make_onnx makes no vectors when it is imported
from make_onnx import ResNet18

parser = argparse.ArgumentParser()
parser.add_argument("--export")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
flags = parser.parse_args(arguments)
torch.set_num_threads(flags.threads)
torch.manual_seed(1)
model = ResNet18(flags.width, 3, 10)
if flags.export:
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.onnx.export(model.eval(), (torch.zeros(2, 3, 32, 32),), flags.export, dynamo=True, optimize=False,
                      opset_version=20, dynamic_shapes=({0: batch},), external_data=False, verbose=False)
    sys.exit()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(flags.batch, 3, 32, 32), torch.randint(0, 10, (flags.batch,))
times = []
for step in range(flags.steps + 1):
    start, spent = time.perf_counter(), time.process_time()
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    if step > 0:
        times.append([1000 * (time.perf_counter() - start), 1000 * (time.process_time() - spent)])
print(json.dumps(times))
