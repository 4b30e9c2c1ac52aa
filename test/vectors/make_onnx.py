"""
Makes onnx.json: small models exported by torch.onnx.export (TorchScript and dynamo exporters, opsets 17 to 23), with
PyTorch's losses, gradients in float64, and the losses of 20 steps of SGD.

    pip install torch onnx onnxscript
    python make_onnx.py
"""

import base64, json, os, sys, tempfile, warnings, zlib

import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
BATCH, PIXELS, TOKENS, VOCABULARY = 4, 8, 6, 11


class Rows(nn.Module):
    def __init__(self, outputs, act=torch.tanh):
        super().__init__()
        self.a, self.b, self.act = nn.Linear(5, 8), nn.Linear(8, outputs), act

    def forward(self, x):
        return self.b(self.act(self.a(x)))


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.prelu, self.b = nn.Linear(5, 6), nn.PReLU(6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.a(x)
        total = self.prelu(h) + F.elu(h) + F.selu(h) + F.celu(h, 0.7) + F.leaky_relu(h, 0.2) + F.hardswish(h)
        total = total + F.mish(h) + F.softplus(h) + F.softsign(h) + F.hardsigmoid(h) + F.silu(h) + F.gelu(h)
        total = total + F.gelu(h, approximate="tanh") + F.relu6(h * 4) + torch.clamp(h, -0.4, 0.3) + h.abs().sqrt() + h**3
        return self.b(total * 0.1)


class Shapes(nn.Module):
    """Slices, pads, tiles, reductions and comparisons."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.scale = nn.Linear(5, 12), nn.Linear(13, 3), nn.Parameter(torch.randn(3))

    def forward(self, x):
        h = self.a(x).view(-1, 3, 4)
        h = torch.cat([h[:, :, ::2], h.flip(2)[:, :, 1:3]], 2)
        h = h * torch.where(h > 0, h, 0.1 * h) / (1 + h.amax(1, keepdim=True).abs())
        h = F.pad(h, (1, 1), mode="reflect") + F.pad(h, (0, 2), value=0.5)
        h = h.permute(0, 2, 1) * self.scale + h.repeat(1, 2, 1)[:, :6, 3:] .sum(2, keepdim=True)
        pooled = torch.cat([h.mean(1), h.std(1), h.logsumexp(1), h.cumsum(1)[:, -1], h.norm(dim=(1, 2)).unsqueeze(1)], 1)
        return self.b(pooled)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm, self.b = nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.a(x))), 3, 2, 1)
        return self.head(F.relu(self.b(h)).mean((2, 3)))


class MobileNet(nn.Module):
    """Inverted residuals with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4)
        self.wide, self.deep = nn.Conv2d(4, 8, 1, bias=False), nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=8, bias=False)
        self.norm1, self.norm2, self.norm3 = nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.BatchNorm2d(4)
        self.narrow, self.squeeze, self.excite = nn.Conv2d(8, 4, 1, bias=False), nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        h = F.relu6(self.norm(self.stem(x)))
        wide = F.hardswish(self.norm2(self.deep(F.relu6(self.norm1(self.wide(h))))))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(wide, 1)))))
        h = h + self.norm3(self.narrow(wide * gate))
        return self.head(F.adaptive_avg_pool2d(h, 1).flatten(1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.down = None
        if stride > 1 or inputs != outputs:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(h + (x if self.down is None else self.down(x)))


class ResNet18(nn.Module):
    """The layers of ResNet-18, as narrow as `width`."""

    def __init__(self, width, channels=1, classes=3):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.Sequential(*[
            nn.Sequential(Block(a, b, 1 if i == 0 else 2), Block(b, b, 1))
            for i, (a, b) in enumerate(zip(widths, widths[1:]))
        ])
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        return self.fc(self.layers(F.relu(self.bn1(self.conv1(x)))).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, isBilinear):
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 3, 1)) if isBilinear else nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.out, self.norm = nn.Conv2d(6, 3, 3, padding=1), nn.InstanceNorm2d(3, affine=True)

    def forward(self, x):
        left = F.relu(self.down(x))
        right = self.up(F.relu(self.middle(F.avg_pool2d(left, 2))))
        return self.norm(self.out(torch.cat([left, right], 1))).tanh().mean((2, 3))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), nn.GroupNorm(2, 4)
        self.up, self.head = nn.Conv2d(4, 8, 1), nn.Linear(2, 3)

    def forward(self, x):
        h = F.avg_pool2d(F.silu(self.norm(self.a(x))), 3, 2, 1, ceil_mode=True, count_include_pad=False)
        h = F.pixel_shuffle(self.up(h), 2)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        return self.head(F.normalize(h.amax((2, 3)), dim=1))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.token, self.places = nn.Conv2d(1, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.block, self.head = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"), nn.Linear(8, 3)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.token.expand(x.shape[0], -1, -1), h], 1) + self.places
        return self.head(self.block(h)[:, 0])


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.embed, self.layer = nn.Embedding(VOCABULARY, 5), layer
        self.head = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), VOCABULARY)

    def forward(self, x):
        return self.head(self.layer(self.embed(x))[0])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layer, self.head = nn.Embedding(VOCABULARY, 8), nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True), nn.Linear(8, VOCABULARY)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(TOKENS)
        return self.head(self.layer(self.embed(x), src_mask=mask))


class Decoder(nn.Module):
    """Causal attention of PyTorch's fused function, learned positions, a head that shares the table of tokens."""

    def __init__(self):
        super().__init__()
        self.embed, self.places, self.norm = nn.Embedding(VOCABULARY, 8), nn.Embedding(TOKENS, 8), nn.LayerNorm(8)
        self.qkv, self.out, self.up, self.down = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        h = self.embed(x) + self.places(torch.arange(x.shape[1]))
        q, k, v = (each.view(-1, TOKENS, 2, 4).transpose(1, 2) for each in self.qkv(self.norm(h)).split(8, 2))
        h = h + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(-1, TOKENS, 8))
        return F.linear(h + self.down(F.gelu(self.up(h))), self.embed.weight)


class Llama(nn.Module):
    """RMSNorm, rotary positions, grouped queries, SwiGLU."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(VOCABULARY, 8), nn.RMSNorm(8, 1e-5), nn.Linear(8, VOCABULARY, bias=False)
        self.q, self.k, self.v = nn.Linear(8, 8, bias=False), nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False)
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((8, 12), (8, 12), (12, 8)))

    def rotate(self, x):
        angles = torch.arange(TOKENS, dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.1], dtype=x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, x):
        h = self.embed(x)
        n = self.norm(h)
        q, k, v = (each.view(-1, TOKENS, heads, 4).transpose(1, 2) for each, heads in ((self.q(n), 2), (self.k(n), 1), (self.v(n), 1)))
        k, v = (each.expand(-1, 2, -1, -1) for each in (self.rotate(k), v))
        h = h + F.scaled_dot_product_attention(self.rotate(q), k, v, is_causal=True).transpose(1, 2).reshape(-1, TOKENS, 8)
        n = self.norm(h)
        return self.head(h + self.down(F.silu(self.gate(n)) * self.up(n)))


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k, self.head = nn.Embedding(VOCABULARY, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, VOCABULARY)

    def forward(self, x):
        h = self.embed(x)
        shares = torch.einsum("bid,bjd->bij", self.q(h), self.k(h)).softmax(1)
        return F.log_softmax(self.head(torch.einsum("bij,bjd->bid", shares, h)), -1)


class Series(nn.Module):
    """Convolutions over time; 12 steps of 2 channels become 3."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv1d(2, 4, 3, padding=2, dilation=2), nn.Conv1d(4, 4, 4, 2, 1, groups=2), nn.Linear(24, 6)

    def forward(self, x):
        h = F.leaky_relu(self.b(F.relu(self.a(x.transpose(1, 2)))))
        return self.c(h.flatten(1)).view(-1, 3, 2)


class Sorted(nn.Module):
    """Ends in probabilities, whose logarithm the loss takes."""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Linear(5, 4), nn.BatchNorm1d(4)
        self.b = nn.Linear(4, 3)

    def forward(self, x):
        return self.b(self.norm(self.a(x)).sigmoid()).softmax(-1)


CASES = [
    ("mlp", "onnx-rows", lambda: Rows(1), "script", 17),
    ("mlp of classes", "onnx-classes", lambda: Rows(3, F.relu), "dynamo", 18),
    ("mlp, optimized", "onnx-classes", lambda: Rows(3, F.gelu), "optimized", 20),
    ("activations", "onnx-classes", Activations, "script", 20),
    ("activations of dynamo", "onnx-classes", Activations, "dynamo", 23),
    ("shapes", "onnx-classes", Shapes, "script", 17),
    ("shapes of dynamo", "onnx-classes", Shapes, "dynamo", 20),
    ("probabilities", "onnx-classes", Sorted, "script", 17),
    ("cnn", "onnx-images", Cnn, "script", 17),
    ("cnn of dynamo", "onnx-images", Cnn, "dynamo", 18),
    ("mobilenet", "onnx-images", MobileNet, "script", 18),
    ("mobilenet of dynamo", "onnx-images", MobileNet, "dynamo", 22),
    ("resnet-18", "onnx-images", lambda: ResNet18(2), "dynamo", 20),
    ("u-net", "onnx-images", lambda: UNet(False), "script", 17),
    ("u-net, bilinear", "onnx-images", lambda: UNet(True), "dynamo", 20),
    ("norms", "onnx-images", Norms, "script", 18),
    ("norms of dynamo", "onnx-images", Norms, "dynamo", 21),
    ("vit", "onnx-images", Vit, "script", 17),
    ("vit of dynamo", "onnx-images", Vit, "dynamo", 20),
    ("rnn", "onnx-text", lambda: Recurrent(nn.RNN(5, 4, batch_first=True)), "script", 17),
    ("lstm", "onnx-text", lambda: Recurrent(nn.LSTM(5, 4, batch_first=True)), "script", 17),
    ("lstm of dynamo", "onnx-text", lambda: Recurrent(nn.LSTM(5, 4, batch_first=True)), "dynamo", 20),
    ("lstm of both directions", "onnx-text", lambda: Recurrent(nn.LSTM(5, 3, 2, batch_first=True, bidirectional=True)), "optimized", 20),
    ("gru", "onnx-text", lambda: Recurrent(nn.GRU(5, 4, batch_first=True)), "script", 17),
    ("gru of dynamo", "onnx-text", lambda: Recurrent(nn.GRU(5, 4, batch_first=True)), "dynamo", 20),
    ("encoder", "onnx-text", Encoder, "script", 17),
    ("encoder, optimized", "onnx-text", Encoder, "optimized", 18),
    ("decoder", "onnx-text", Decoder, "script", 17),
    ("decoder with Attention", "onnx-text", Decoder, "dynamo", 23),
    ("llama", "onnx-text", Llama, "dynamo", 18),
    ("llama with RMSNormalization", "onnx-text", Llama, "dynamo", 23),
    ("einsum", "onnx-text", Einsum, "script", 17),
    ("series", "onnx-series", Series, "dynamo", 18),
]


def data(kind, channels, pixels):
    """Returns the batch as stored numbers, the input of the model, and the targets."""
    if kind == "onnx-images":
        stored = torch.randint(0, 256, (BATCH, pixels, pixels, channels))
        return stored, (stored.double() / 127.5 - 1).permute(0, 3, 1, 2), torch.randint(0, 3, (BATCH,))
    if kind == "onnx-text":
        stored = torch.randint(0, VOCABULARY, (BATCH, TOKENS + 1))
        return stored, stored[:, :-1], stored[:, 1:]
    if kind == "onnx-series":
        stored = torch.randn(BATCH, 15, 2)
        return stored, stored[:, :12].double(), stored[:, 12:].double()
    stored = torch.randn(BATCH, 5)
    return stored, stored.double(), torch.randn(BATCH) if kind == "onnx-rows" else torch.randint(0, 3, (BATCH,))


def losses(name, kind, made, targets):
    if kind == "onnx-rows":
        return (made[:, 0] - targets) ** 2
    if kind == "onnx-series":
        return ((made - targets) ** 2).mean((1, 2))
    if name == "probabilities":
        return F.nll_loss(made.log(), targets, reduction="none")
    if kind == "onnx-text":
        return F.cross_entropy(made.transpose(1, 2), targets, reduction="none").mean(1)
    return F.cross_entropy(made, targets, reduction="none")


def export(model, example, how, opset, path):
    names = {"input_names": ["x"], "output_names": ["y"]}
    if how == "script":
        mode = torch.onnx.TrainingMode.TRAINING
        torch.onnx.export(model, (example,), path, dynamo=False, opset_version=opset, training=mode, do_constant_folding=False, dynamic_axes={"x": {0: "batch"}}, **names)
    else:
        shapes = ({0: torch.export.Dim("batch", min=1, max=4096)},)
        torch.onnx.export(model, (example,), path, dynamo=True, opset_version=opset, optimize=how == "optimized", dynamic_shapes=shapes, external_data=False, verbose=False, **names)


def floats(tensor):
    return base64.b64encode(tensor.detach().float().contiguous().numpy().tobytes()).decode()


def case(index, name, kind, create, how, opset):
    torch.manual_seed(index)
    model = create()
    with torch.no_grad():
        for key, buffer in model.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            elif key.endswith("running_var"):
                buffer.uniform_(0.8, 1.2)
        for key, parameter in model.named_parameters():
            # nothing is 0 or 1, so that exporters share no weights
            parameter.add_(torch.randn_like(parameter) * 0.1)
    channels = 3 if name.startswith(("mobilenet", "norms")) else 1
    # four times four numbers and more in each batch norm: norms over fewer amplify the rounding of f32
    pixels = 32 if name == "resnet-18" else PIXELS
    stored, inputs, targets = data(kind, channels, pixels)
    path = tempfile.mktemp(suffix=".onnx")
    model.train(how == "script")
    example = inputs if kind == "onnx-text" else inputs.float()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    export(model, example, how, opset, path)
    # tracing in training mode moves running statistics: take those of the file
    stored_tensors = {each.name: each for each in onnx.load(path).graph.initializer}
    for key in state:
        if "running" in key and key in stored_tensors:
            state[key] = torch.tensor(onnx.numpy_helper.to_array(stored_tensors[key]))
    model.load_state_dict(state)
    model.double()
    if kind in ("onnx-rows",):
        targets = targets.float().double()
    model.eval()
    evaluated = losses(name, kind, model(inputs), targets)
    model.train()
    first = losses(name, kind, model(inputs), targets).mean()
    first.backward()
    gradient = {key: floats(value.grad) for key, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.load_state_dict({key: value.double() if value.is_floating_point() else value for key, value in state.items()})
    steps = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = losses(name, kind, model(inputs), targets).mean()
        loss.backward()
        optimizer.step()
        steps.append(loss.item())
    buffers = {key: floats(value) for key, value in model.named_buffers() if "running" in key}
    return {
        "name": name, "model": kind, "exporter": how, "opset": opset,
        "onnx": base64.b64encode(zlib.compress(open(path, "rb").read(), 9)).decode(),
        "data": stored.flatten().tolist() if kind != "onnx-rows" and stored.dtype == torch.int64 else floats(stored),
        "targets": None if kind in ("onnx-text", "onnx-series") else (targets.tolist()),
        "losses": evaluated.tolist(), "loss": first.item(), "gradient": gradient,
        "steps": steps, "statistics": buffers,
    }


def write(cases):
    """Writes the file after each case, because exporting takes minutes on a busy machine."""
    made = {"made_by": f"make_onnx.py, PyTorch {torch.__version__}", "batch": BATCH, "cases": cases}
    path = os.environ.get("OUT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx.json")
    with open(path, "w") as file:
        json.dump(made, file, indent=1)
        file.write("\n")


only = sys.argv[1:]
cases = []
for index, each in enumerate(CASES):
    if only and each[0] not in only:
        continue
    try:
        cases.append(case(index, *each))
        write(cases)
        print(each[0], flush=True)
    except Exception as error:
        print("failed:", each[0], repr(error)[:500], file=sys.stderr, flush=True)
