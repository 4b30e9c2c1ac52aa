/** Training part of a mixture of experts, and a model without the experts of one group. */
import { deriveKey } from 'nostrain/base';
import { expertRanges, gptSpec, initialParameters, modelLayout } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { completeSettings, type OptimizerSpec, presets } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { numbersFor, openGptWriter } from '../../src/node/files/trained-run.ts';
import { adamwSpec, chainCorpus, muonSpec } from '../support/ort-models.ts';

const settings = completeSettings(presets['char-gpt'], {
  ...{ model: 'char-gpt', relay: [], run: 'run', tokens: 'bytes', experts: 4, expertsPerToken: 2 },
  ...{ width: 16, layers: 2, heads: 2, context: 8, ffn: 24, groups: ['a=0,1', 'b=2,3'] },
});
const model = gptSpec(settings, 256);
const parts = expertRanges(model);
const params = initialParameters(model, 1);
const corpus = chainCorpus(2000, 256);

const optimizers: readonly (readonly [string, OptimizerSpec, number])[] = [
  ['adamw', { ...adamwSpec, weightDecay: 0.1, clipNorm: 1 }, 1],
  ['adamw on two threads', { ...adamwSpec, weightDecay: 0.1, clipNorm: 1 }, 2],
  ['muon', { ...muonSpec, weightDecay: 0.1 }, 1],
];

describe.each(optimizers)('%s', (_, optimizer, threads) => {
  test('moves the given ranges alone, and keeps the bits of all else', async () => {
    const trainer = await createTrainer({
      ...{ model, optimizer, batch: 4, device: 'cpu', threads },
      data: { kind: 'tokens', shard: corpus, validation: corpus },
    });
    const task = {
      ...{ params, moments: [], round: 0, steps: 3, firstStep: 0 },
      ...{ batchKey: deriveKey('test', 'worker'), trains: [parts[1]!, parts[2]!] },
    };
    const play = (more: object) =>
      trainer.train({ ...task, ...more }, () => undefined, new AbortController().signal);
    const moved = ({ params: after }: Awaited<ReturnType<typeof play>>, before = params) =>
      parts.map(({ from, to }) => {
        const old = before.subarray(from, to);
        return Array.from(after.subarray(from, to)).some((value, k) => !Object.is(value, old[k]));
      });
    const first = await play({});
    expect(moved(first)).toEqual([false, true, true, false, false]);
    // the moments of one round do not decide what the next one trains
    const next = { round: 1, firstStep: 3, params: first.params, moments: first.moments };
    const second = await play({ ...next, trains: [parts[0]!, parts[3]!] });
    expect(moved(second, first.params as typeof params)).toEqual([true, false, false, true, false]);
    expect(moved(await play({ trains: undefined }))).toEqual(Array(5).fill(true));
    await trainer.close();
  });
});

test('a worker of a group trains its experts alone, with the settings of its own', () => {
  const homeOf = (group: string) => gptSpec({ ...settings, group }, 256).experts?.home;
  expect([homeOf('b'), homeOf('')]).toEqual([[2, 3], undefined]);
  expect(modelLayout(gptSpec({ ...settings, group: 'b' }, 256))).toEqual(modelLayout(model));
});

test('a model without a group writes what the exported smaller model writes', async () => {
  const layout = modelLayout(model);
  const run = { path: 'run', isFolder: true, settings, layout, values: params };
  const textOf = async (one: typeof run, without?: string) => {
    const writer = await openGptWriter(one, 1, without);
    const tokens: number[] = [];
    const request = { prompt: [65, 66], length: 24, temperature: 1, seed: 3 };
    await writer.write(request, (token) => void tokens.push(token));
    await writer.close();
    return tokens;
  };
  // the file of `model export --state FILE --without b` holds this layout
  const small = modelLayout(gptSpec(settings, 256, 'b'));
  expect(small.slots.some(({ name }) => /^experts\.[23]\./.test(name))).toBe(false);
  const values = numbersFor(run, small)!;
  const exported = {
    ...{ path: 'file', isFolder: false, layout: small, values },
    settings: { ...settings, experts: 2, groups: ['a=0,1'] },
  };
  expect(await textOf(run, 'b')).toEqual(await textOf(exported));
  await expect(textOf(run, 'c')).rejects.toThrow('cannot be cut down by the group c');
});
