/** A real model beside Hugging Face's transformers: token ids, losses and logits (test/vectors/make_smollm2.py). */

import { compileTraining, countParameters, initialParameters, loraModel } from 'nostrain/model';
import { openLocalModel, nodeRuntime as ort } from 'nostrain/node/parts';
import { expect, test } from 'vitest';
import { floats, tensorOf, vector } from '../../src/trainer/runtime.ts';
import { describeWith } from '../support/needs.ts';
import { adamwSpec } from '../support/ort-models.ts';
import { readWeights } from '../support/read-weights.ts';
import { smolLM2, smolLM2Missing } from '../support/smollm2.ts';
import { readVectors } from '../support/vectors.ts';

interface Fixture {
  readonly text: string;
  readonly ids: readonly number[];
  readonly losses: readonly number[];
  /** Of the last position: the largest logits by token. */
  readonly highest: Readonly<Record<string, number>>;
}

const MINUTES = 3 * 60_000;
const norm = (values: readonly number[]) => Math.hypot(...values);
const error = (actual: readonly number[], expected: readonly number[]) =>
  norm(expected.map((value, i) => actual[i]! - value)) / norm(expected);

describeWith(smolLM2Missing)('SmolLM2-135M-Instruct', () => {
  const { text, ids, losses, highest } = readVectors<Fixture>('smollm2.json');

  test(
    'has the ids, losses and logits of transformers, also with adapters that have learned nothing yet',
    async () => {
      const base = await openLocalModel(smolLM2, { context: ids.length });
      expect(countParameters(base.spec)).toBe(134_515_008);
      expect([...base.tokenizer.encode(text).tokens]).toEqual(ids);
      const weights = await readWeights(base);
      const spec = { rank: 8, alpha: 16, targets: 'qv', train: 'both' } as const;
      const model = loraModel(base.spec, spec);
      const program = compileTraining(model, adamwSpec, 1);
      const session = await ort.createSession(program.forward(), 'cpu', 1);
      const frozen = (model.frozen ?? []).map(({ name, shape }) => [
        name,
        tensorOf(ort, { elements: weights.get(name)!, shape }),
      ]);
      const { predictions } = await session.run({
        ...Object.fromEntries(frozen),
        params: vector(ort, initialParameters(model, 1)),
        inputs: tensorOf(ort, { elements: Int32Array.from(ids), shape: [1, ids.length] }),
      });
      const logits = floats(predictions);
      const row = (at: number) => logits.subarray(at * 49_152, (at + 1) * 49_152);
      const lossAt = (at: number) => {
        const own = row(at);
        const most = own.reduce((a, b) => Math.max(a, b));
        const sum = own.reduce((total, logit) => total + Math.exp(logit - most), 0);
        return most + Math.log(sum) - own[ids[at + 1]!]!;
      };
      expect(
        error(
          losses.map((_, at) => lossAt(at)),
          losses,
        ),
      ).toBeLessThan(1e-4);
      const last = row(ids.length - 1);
      const tokens = Object.keys(highest).map(Number);
      expect(
        error(
          tokens.map((token) => last[token]!),
          Object.values(highest),
        ),
      ).toBeLessThan(1e-4);
    },
    MINUTES,
  );
});
