/** State files against the libraries that made their formats: what we write loads there, what they write loads here. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import {
  initializeLinearRegressionState as linearState,
  initializeMlpRegressionState as mlpState,
  type StoredState,
} from 'nostrain/python';
import {
  loadModelState as readStateFile,
  writeModelState as writeStateFile,
} from 'nostrain/python/node';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { python, pythonMissing } from '../python/support/python.ts';
import { describeWith } from '../support/needs.ts';

const linear: StoredState = { ...linearState(3), runtime: 'linear-regression' };
linear.values.set([0.25, -1, 1e-300, -0]);
const mlp: StoredState = {
  ...mlpState({ features: 3, hiddenSize: 5, seed: 4, weightScale: 1 }),
  runtime: 'mlp-regression',
};
const odd: StoredState = {
  layout: createLayout([
    { name: 'a.é\u{1f600}', shape: [] },
    { name: 'b/__proto__', shape: [2, 0, 3] },
    { name: 'c', shape: [2, 1, 2] },
  ]),
  values: Float64Array.of(3.5, -0, 5e-324, Number.MAX_VALUE, 0.1),
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nostrain-python-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));
const file = (name: string) => join(folder, name);

const HASH = `
import sys
from nostrain import load_model_state, state_digest
for name in sys.argv[1:]:
    print(state_digest(load_model_state(name)))
`;

describeWith(pythonMissing)('what we write', () => {
  it('has its hash there', async () => {
    const digests = new Map<string, string>();
    const write = async (name: string, state: StoredState, options = {}) => {
      await writeStateFile(file(name), state, options);
      digests.set(file(name), stateDigest(state));
    };
    for (const [kind, state] of [['linear', linear] as const, ['mlp', mlp] as const]) {
      for (const ending of ['json', 'npz', 'pt.npz', 'pt', 'pth']) {
        await write(`${kind}.${ending}`, state);
      }
      await write(`${kind}-module.pt`, state, { torchPayload: 'module' });
    }
    await write('odd.json', odd);
    await write('odd.npz', odd);
    const printed = await python('-c', HASH, ...digests.keys());
    expect(printed.trim().split('\n')).toEqual([...digests.values()]);
  });

  it('has its hash there, whatever its names, shapes and values', async () => {
    const special = [0, -0, 1, 5e-324, -2.2e-308, Number.MAX_VALUE, -Number.MAX_VALUE, 1 / 3, 1e23];
    const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
    const tensor = fc.record({
      name: fc.string({ unit: 'grapheme', minLength: 1 }),
      shape: fc.array(fc.nat(3), { maxLength: 3 }),
    });
    const tensors = fc.uniqueArray(tensor, { minLength: 1, selector: ({ name }) => name });
    const value = fc.oneof(finite, fc.constantFrom(...special));
    const digests = new Map<string, string>();
    for (const list of fc.sample(tensors, { seed: 7, numRuns: 60 })) {
      const layout = createLayout(list);
      const values = fc.sample(value, { seed: digests.size, numRuns: layout.size });
      const name = file(`drawn-${digests.size}.${digests.size % 2 === 0 ? 'json' : 'npz'}`);
      const state = { layout, values: Float64Array.from(values) };
      await writeStateFile(name, state);
      digests.set(name, stateDigest(await readStateFile(name)));
    }
    const printed = await python('-c', HASH, ...digests.keys());
    expect(printed.trim().split('\n')).toEqual([...digests.values()]);
  });

  it('N-19: opens in PyTorch alone, weights only, and modules predict', async () => {
    await writeStateFile(file('mlp.pt'), mlp);
    await writeStateFile(file('mlp.npz'), mlp);
    await writeStateFile(file('mlp-module.pt'), mlp, { torchPayload: 'module' });
    await writeStateFile(file('linear-module.pt'), linear, { torchPayload: 'module' });
    await writeStateFile(file('odd.safetensors'), odd);
    const script = `
import sys, torch, numpy, safetensors.numpy
d = sys.argv[1]
state = torch.load(d + '/mlp.pt', weights_only=True)
module = torch.load(d + '/mlp-module.pt', weights_only=False)
assert all(torch.equal(state[k], v) for k, v in module.state_dict().items())
assert list(state) == sorted(module.state_dict()), list(state)
x = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
hidden = torch.tanh(x @ state['hidden.weight'].T + state['hidden.bias'])
assert torch.allclose(module(x), hidden @ state['output.weight'].T + state['output.bias'], rtol=1e-12)
linear = torch.load(d + '/linear-module.pt', weights_only=False)
linear(x).sum().backward()
assert torch.equal(linear.weight.grad, x) and linear.bias.grad.item() == 1
torch.save(linear, d + '/again.pt')
copy = torch.nn.Linear(3, 1, dtype=torch.float64)
copy.load_state_dict(linear.state_dict())
mapped = torch.load(d + '/mlp.pt', weights_only=True, mmap=True)
assert all(torch.equal(mapped[k], v) for k, v in state.items())
odd = safetensors.numpy.load_file(d + '/odd.safetensors')
assert odd['c'].tolist() == [[[-0.0, 5e-324]], [[sys.float_info.max, 0.1]]] and odd['b/__proto__'].shape == (2, 0, 3)
with numpy.load(d + '/mlp.npz', allow_pickle=False) as archive:
    assert archive['__nostrain_version__'].dtype == numpy.int64
print('ok')
`;
    expect((await python('-c', script, folder)).trim()).toBe('ok');
    expect(stateDigest(await readStateFile(file('again.pt')))).toBe(stateDigest(linear));
  });
});

const WRITE = `
import sys, torch, numpy, collections, argparse, safetensors.torch
from nostrain import load_model_state, state_digest
d = sys.argv[1] + '/'
torch.manual_seed(1)
Linear = torch.nn.Linear
def mlp(dtype=torch.float64):
    return torch.nn.Sequential(collections.OrderedDict(hidden=Linear(3, 4, dtype=dtype), act=torch.nn.Tanh(), output=Linear(4, 1, dtype=dtype)))
files = {
  'module.pt': mlp(),
  'parallel.pt': torch.nn.DataParallel(mlp(torch.float32)),
  'state.pt': mlp().state_dict(),
  'half.pt': mlp(torch.float16).state_dict(),
  'bfloat.pt': mlp(torch.bfloat16).state_dict(),
  'ints.pt': {'weight': torch.arange(-2, 4, dtype=torch.int64).reshape(1, 6), 'bias': torch.tensor([True])},
  'bytes.pt': {'weight': torch.arange(250, 256, dtype=torch.uint8).reshape(1, 6), 'bias': torch.tensor(3, dtype=torch.int8)},
  'strided.pt': {'weight': torch.arange(6.0).reshape(2, 3).t()[1:2], 'bias': torch.arange(9.0)[4:5]},
  'wrapped.pth': {'module.model.' + k: v for k, v in mlp().state_dict().items()},
  'lightning.pt': {'epoch': 3, 'global_step': 12, 'hyper_parameters': {'lr': 0.1, 'runtime': 'mlp-regression'},
     'state_dict': {'net.' + k: v for k, v in mlp().state_dict().items()},
     'optimizer_states': [{'state': {}, 'param_groups': [{'lr': 1e-3, 'betas': (0.9, 0.999), 'foreach': None}]}]},
  'hinted.pt': {'meta': {'runtime': ' Linear-Regression '}, 'trainer': {'ema': Linear(2, 1)}},
  'deep.pt': {'a': {'b': {'c': Linear(2, 1).state_dict()}}},
  'proto4.pt': None,
}
model = mlp(); optimizer = torch.optim.AdamW(model.parameters())
model(torch.zeros(1, 3, dtype=torch.float64)).sum().backward(); optimizer.step()
files['adamw.pt'] = {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': 1}
for name, value in files.items():
    if value is not None: torch.save(value, d + name)
torch.save({'model_state_dict': mlp().state_dict()}, d + 'proto4.pt', pickle_protocol=4)
rng = numpy.random.default_rng(1)
numpy.savez_compressed(d + 'packed.npz', **{'w': rng.normal(size=(3, 2)), 'zeros': numpy.zeros(5000), 'é': numpy.float64(1.5)})
numpy.savez(d + 'types.npz', f=numpy.asfortranarray(rng.normal(size=(2, 3, 4))), big=rng.normal(size=3).astype('>f8'),
  half=rng.normal(size=4).astype('f2'), single=rng.normal(size=4).astype('f4'), i=numpy.arange(-3, 3, dtype='i2'),
  u=numpy.array([2**64 - 1, 5], dtype='u8'), b=numpy.array([True, False]), s=rng.normal(size=(6, 6))[::2, 1:3])
for name in [*files, 'packed.npz', 'types.npz']:
    print(name, state_digest(load_model_state(d + name)))
class Opened:
    def __reduce__(self): return (open, (d + 'owned', 'w'))
torch.save({'state_dict': Linear(2, 1).state_dict(), 'x': Opened()}, d + 'bad-open.pt')
torch.save({'state_dict': Linear(2, 1).state_dict(), 'args': argparse.Namespace(lr=1)}, d + 'bad-namespace.pt')
torch.save({'state_dict': Linear(2, 1).state_dict(), 'best': numpy.float64(1)}, d + 'bad-numpy.pt')
torch.save(Linear(2, 1).state_dict(), d + 'bad-legacy.pt', _use_new_zipfile_serialization=False)
torch.save({'weight': torch.zeros(1, 1).expand(1, 2**20), 'bias': torch.zeros(1)}, d + 'bad-expanded.pt')
torch.save({'state_dict': Linear(2, 1).state_dict(), 'seen': {1, 2}, 'big': 2**70}, d + 'bad-big.pt')
torch.jit.save(torch.jit.trace(Linear(2, 1), torch.zeros(1, 2)), d + 'bad-script.pt')
numpy.savez(d + 'bad-object.npz', w=numpy.array([{}], dtype=object))
numpy.savez(d + 'bad-complex.npz', w=numpy.array([1j]))
numpy.savez(d + 'bad-nan.npz', w=numpy.array([numpy.nan]))
numpy.savez(d + 'bad-empty.npz')
`;

describeWith(pythonMissing)('what they write', () => {
  beforeAll(async () => {
    await writeFile(file('digests'), await python('-c', WRITE, folder));
  });

  it('has its hash here', async () => {
    const lines = (await readFile(file('digests'), 'utf8')).trim().split('\n');
    expect(lines.length).toBe(16);
    for (const line of lines) {
      const [name, digest] = line.split(' ');
      expect([name, stateDigest(await readStateFile(file(name!)))]).toEqual([name, digest]);
    }
  });

  it.each([
    [
      'bad-open.pt',
      /it names (io|_io|builtins|__builtin__)\.open, which is not allowed in a state/,
    ],
    ['bad-namespace.pt', /it names argparse\.Namespace/],
    ['bad-numpy.pt', /it names numpy\.\S+\.scalar/],
    ['bad-legacy.pt', /not a zip archive; PyTorch before 1\.6/],
    ['bad-expanded.pt', /a tensor \[1,1048576\] does not fit its storage of 1/],
    ['bad-big.pt', /opcode LONG1 holds 9 bytes/],
    ['bad-script.pt', /a TorchScript program/],
    ['bad-object.npz', /unsupported array type \|O/],
    ['bad-complex.npz', /unsupported array type <c16/],
    ['bad-nan.npz', /w: has a value that is not finite/],
    ['bad-empty.npz', /the state has no tensors/],
  ])('is refused by name: %s', async (name, message) => {
    await expect(readStateFile(file(name))).rejects.toThrow(message);
  });
});
