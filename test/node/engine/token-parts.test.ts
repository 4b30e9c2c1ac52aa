/** Training on tokens of which only some count, and on tokens that stay in a file: the same steps as from memory. */
import { writeFile } from 'node:fs/promises';
import { deriveKey } from 'nostrain/base';
import { initialParameters, type TokenPart } from 'nostrain/model';
import { createTrainer, type TrainerSetup } from 'nostrain/node';
import { describe, expect, test } from 'vitest';
import { fitWindow, type StoredTokens } from '../../../src/model/data/tokens.ts';
import { openTokens } from '../../../src/node/data/token-file.ts';
import { adamwSpec, chainCorpus, smallGpt } from '../../support/ort-models.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const at = temporaryFolder();
const model = { ...smallGpt, width: 16, layers: 1, context: 64 };
const corpus = chainCorpus(5000, model.vocabulary);
/** Questions of 60 tokens that do not count, and answers of 30 that do. */
const answers = Uint8Array.from(corpus, (_, i) => (i % 90 < 60 ? 0 : 1));
const never = new AbortController().signal;

/** The corpus in a file, in two ranges of which the second comes first. */
async function store(counted?: Uint8Array): Promise<StoredTokens> {
  const bytes = new DataView(new ArrayBuffer(4 * (corpus.length + 100)));
  const places = (i: number) => (i < 3000 ? i + 2100 : i - 3000);
  const marks = new Uint8Array(corpus.length + 100);
  corpus.forEach((token, i) => {
    bytes.setInt32(4 * places(i), token, true);
    marks[places(i)] = counted?.[i] ?? 1;
  });
  await writeFile(at('ids'), new Uint8Array(bytes.buffer));
  await writeFile(at('counted'), marks);
  return {
    file: at('ids'),
    ...(counted && { countedFile: at('counted') }),
    ranges: Float64Array.of(2100, 5100, 0, 2000),
    length: 5000,
    vocabulary: model.vocabulary,
  };
}

async function play(shard: TokenPart, changes: Partial<TrainerSetup> = {}) {
  const trainer = await createTrainer({
    ...{ model, optimizer: adamwSpec, batch: 32, device: 'cpu', threads: 1 },
    data: { kind: 'tokens', shard, validation: shard },
    ...changes,
  });
  try {
    const task = { moments: [], round: 0, steps: 4, firstStep: 0, batchKey: deriveKey('t', 'w') };
    const params = initialParameters(model, 1);
    const { losses, params: after } = await trainer.train({ ...task, params }, () => {}, never);
    return { losses, after, loss: await trainer.evaluate(after, 'validation') };
  } finally {
    await trainer.close();
  }
}

const far = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Math.max(...Array.from(a, (value, i) => Math.abs(value - b[i]!)));

describe.each([false, true])('masked: %s', (masked) => {
  const memory: TokenPart = masked ? { tokens: corpus, counted: answers } : corpus;

  test('from a file the steps have the same bits', async () => {
    expect(await play(await store(masked ? answers : undefined))).toEqual(await play(memory));
  });

  test('in parts, on 1 and 3 threads the same bits', { timeout: 120_000 }, async () => {
    const parts = await play(memory);
    expect(await play(memory, { threads: 3 })).toEqual(parts);
    const whole = await play(memory, { accumulate: 2 });
    expect(far(parts.losses, whole.losses)).toBeLessThan(1e-5);
    expect(far(parts.after, whole.after)).toBeLessThan(1e-4);
  });
});

test('only what counts is learnt and measured', async () => {
  const all = await play(corpus);
  const some = await play({ tokens: corpus, counted: answers });
  expect(far(all.losses, some.losses)).toBeGreaterThan(1e-3);
  const everything = await play({ tokens: corpus, counted: new Uint8Array(5000).fill(1) });
  expect(far(all.losses, everything.losses)).toBeLessThan(1e-5);
  expect(Math.abs(all.loss - everything.loss)).toBeLessThan(1e-5);
});

test('a window with nothing that counts moves to the next one that has', () => {
  const counted = new Uint8Array(1000);
  counted.fill(1, 500, 520);
  const reader = openTokens({ tokens: new Uint8Array(1000), counted });
  const moved = (start: number) => fitWindow(reader, start, 64);
  expect(moved(480)).toBe(480);
  // the target of position 500 is the last one of the window that starts at 436
  expect(moved(436)).toBe(436);
  expect(moved(435)).toBe(467);
  expect(moved(519)).toBe(467);
  expect(moved(935)).toBe(467);
  const edges = new Uint8Array(100);
  edges[1] = 1;
  edges[99] = 1;
  const both = openTokens({ tokens: new Uint8Array(100), counted: edges });
  expect(fitWindow(both, 5, 64)).toBe(35);
  expect(fitWindow(both, 1, 64)).toBe(35);
  expect(fitWindow(both, 0, 64)).toBe(0);
});

test('marks that are too few, count nothing or lie in one part only are refused', async () => {
  const data = (shard: TokenPart, validation: TokenPart) => ({
    data: { kind: 'tokens', shard, validation } as const,
  });
  const none = { tokens: corpus, counted: new Uint8Array(5000) };
  const some = { tokens: corpus, counted: answers };
  const short = { tokens: corpus, counted: answers.subarray(1) };
  await expect(play(some, data(none, some))).rejects.toThrow('no token of the shard data counts');
  await expect(play(some, data(some, none))).rejects.toThrow('validation data counts');
  await expect(play(some, data(short, some))).rejects.toThrow('a mask of the same length');
  await expect(play(some, data(some, corpus))).rejects.toThrow('both parts');
});

test('a file that became shorter, or holds other ids, ends training', async () => {
  const part = await store();
  await writeFile(at('ids'), new Uint8Array(400));
  await expect(play(part)).rejects.toThrow('became shorter');
  await writeFile(at('ids'), new Uint8Array(4 * 5100).fill(1));
  await expect(play(part)).rejects.toThrow('outside the vocabulary');
});
