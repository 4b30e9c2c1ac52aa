/** An engine evaluates and writes text while an inner phase is under way. */

import { deriveKey } from 'nostrain/base';
import { initialParameters } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import type { EngineTrainer as OrtTrainer } from 'nostrain/node/parts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EvaluationOptions } from '../../src/worker/ports.ts';
import { adamwSpec, chainCorpus, smallGpt } from '../support/ort-models.ts';

describe('an engine', () => {
  let trainer: OrtTrainer;
  beforeAll(async () => {
    const corpus = chainCorpus(4000, smallGpt.vocabulary);
    const data = { kind: 'tokens', shard: corpus.subarray(0, 3000), validation: corpus } as const;
    const setup = { model: smallGpt, optimizer: adamwSpec, batch: 8, data } as const;
    trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1, precision: 'f16' });
  });
  afterAll(() => trainer.close());

  it('evaluates and writes between two calls of a phase: a round does not wait for the end of the next one', async () => {
    const abort = new AbortController();
    const params = initialParameters(smallGpt, 1);
    const batchKey = deriveKey('test', 'worker');
    const request = { prompt: Uint8Array.of(4, 1), length: 5, temperature: 0, seed: 3 };
    const loss = await trainer.evaluate(params, 'validation');
    const text = await trainer.sample(params, request);
    let isOver = false;
    const task = { params, moments: [], round: 1, steps: 10_000_000, firstStep: 0, batchKey };
    const long = trainer
      .train(task, () => {}, abort.signal)
      .catch(() => {
        isOver = true;
      });
    expect(await trainer.evaluate(params, 'validation')).toBe(loss);
    expect(await trainer.sample(params, request)).toEqual(text);
    expect(isOver).toBe(false);
    abort.abort(new Error('enough'));
    await long;
    expect(isOver).toBe(true);
  });

  it('C-02: measures drawn rows to the same bits as another engine, and with more threads within 1e-5', async () => {
    const params = initialParameters(smallGpt, 1);
    const corpus = chainCorpus(4000, smallGpt.vocabulary);
    const data = { kind: 'tokens', shard: corpus.subarray(0, 3000), validation: corpus } as const;
    const setup = { model: smallGpt, optimizer: adamwSpec, batch: 8, data, device: 'cpu' } as const;
    const engines = await Promise.all(
      [1, 1, 2].map((threads) => createTrainer({ ...setup, threads })),
    );
    const draw = { key: deriveKey('test', 'shared rows'), rows: 100 };
    const [first, again, threaded] = await Promise.all(
      engines.map((engine) => engine.measure!(params, 'validation', draw)),
    );
    await Promise.all(engines.map((engine) => engine.close()));
    expect(first).toHaveLength(100);
    expect(new Set(first).size).toBeGreaterThan(50);
    expect(again).toEqual(first);
    for (const [i, loss] of threaded!.entries()) {
      expect(Math.abs(loss - first![i]!)).toBeLessThanOrEqual(1e-5 * Math.abs(first![i]!));
    }
  });

  it('says how many batches of an evaluation are done, and their loss so far', async () => {
    const params = initialParameters(smallGpt, 1);
    const seen: Parameters<NonNullable<EvaluationOptions['onProgress']>>[0][] = [];
    const onProgress: EvaluationOptions['onProgress'] = (progress) => seen.push(progress);
    const loss = await trainer.evaluate(params, 'validation', { batches: 10, onProgress });
    expect(seen.map(({ batch, batches }) => [batch, batches])).toEqual([
      [4, 10],
      [8, 10],
      [10, 10],
    ]);
    expect(seen.at(-1)!.loss).toBe(loss);
    expect(loss).toBe(await trainer.evaluate(params, 'validation', { batches: 10 }));
  });
});
