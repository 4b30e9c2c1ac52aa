/** The residual of a worker under each rule, also if a contribution did not count. */
import fc from 'fast-check';
import { fields, type ResidualRule } from 'nostrain/run';
import { CHUNK_LENGTH, type PartialVector } from 'nostrain/tensor';
import { genesis, type Plan, runWorker, type WorkerState } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import {
  deltaOf,
  residualAfter,
  restoreSent,
  takeSent,
  withdrawSent,
} from '../../src/worker/residual.ts';
import { contribution } from '../support/contributions.ts';
import { type FakeOptions, fakePorts, layout, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { dense } from '../support/vectors.ts';

const PEER = 'b'.repeat(64);

/** One worker and a peer without learning; every round closes at its deadline. */
async function playOn(start: WorkerState, more: Partial<Plan>, options: FakeOptions) {
  const clock = createManualClock();
  const ports = fakePorts(clock, options);
  const abort = new AbortController();
  const session = { plan: plan({ rounds: 1, ...more }), ports, signal: abort.signal };
  const run = runWorker(start, session);
  run.catch(() => undefined);
  await clock.advance(1);
  ports.arrive(contribution(PEER, [0, 0], { round: start.round }));
  return {
    ports,
    async finish(): Promise<WorkerState> {
      await clock.advance(20_000);
      return run;
    },
    async kill(): Promise<void> {
      abort.abort(new Error('killed'));
      await clock.advance(10_000);
    },
  };
}

const fresh = () => genesis({ layout, values: new Float32Array(2) }, 9);
const numbers = (values: ArrayLike<number>) => Array.from(values);

/** Each round learns 0.5 and sends half of what is due; returns residual and next gradient. */
const rules: readonly {
  readonly rule: ResidualRule;
  readonly counted: number;
  readonly refused: number;
  readonly sentNext: number;
}[] = [
  // not counted: all 0.5 is due again, in addition to the 0.5 of the next round
  { rule: 'feedback', counted: 0.25, refused: 0.5, sentNext: 0.5 },
  { rule: 'none', counted: 0, refused: 0, sentNext: 0.25 },
];

describe.each(rules)('under $rule', ({ rule: residual, counted, refused, sentNext }) => {
  it('a gradient that counted leaves what was not sent', async () => {
    const state = await (await playOn(fresh(), { residual }, { sends: 0.5 })).finish();
    expect(numbers(state.residual)).toEqual([counted, counted]);
    expect(state.rounds[0]!.residualShare).toBe(0.25);
  });

  it('a gradient that did not count returns to the residual, and is sent with the next', async () => {
    const half = { sends: 0.5 };
    const lost = await (await playOn(fresh(), { residual }, { ...half, counts: false })).finish();
    expect(numbers(lost.residual)).toEqual([refused, refused]);
    expect(lost.rounds[0]).toMatchObject({ accepted: [PEER], residualShare: 1 });
    const next = await playOn(lost, { residual, rounds: 2 }, half);
    await next.finish();
    expect(JSON.parse(next.ports.sent[0]!.content)).toEqual([sentNext, sentNext]);
  });

  it('a worker killed before the round closed returns it exactly once', async () => {
    const options = { sends: 0.5, counts: false };
    const first = await playOn(fresh(), { residual }, options);
    await first.kill();
    const sealed = first.ports.saved.at(-1)!;
    expect(sealed.sent).toBeDefined();
    expect(numbers(sealed.residual)).toEqual([counted, counted]);
    const again = await playOn(sealed, { residual }, options);
    const settled = await again.finish();
    expect(again.ports.sent).toEqual(first.ports.sent);
    expect(numbers(settled.residual)).toEqual([refused, refused]);
    const twice = await (await playOn(settled, { residual }, options)).finish();
    expect(numbers(twice.residual)).toEqual([refused, refused]);
  });

  it('async: others may still use it later, so it does not return', async () => {
    const more = { residual, sync: { strategy: 'async' } } as const;
    const run = await playOn(fresh(), more, { sends: 0.5, counts: false });
    run.ports.catchUp();
    expect(numbers((await run.finish()).residual)).toEqual([counted, counted]);
  });
});

it('returns exactly what was taken if the difference is exact', () => {
  const steps = fc.array(fc.integer({ min: -1e6, max: 1e6 }), { minLength: 1, maxLength: 9 });
  fc.assert(
    fc.property(steps, fc.constantFrom(...fields.residual.words), (values, rule) => {
      const delta = Float64Array.from(values);
      const sent = dense(values.map((value) => Math.round(value / 3)));
      const { residual } = takeSent(delta.slice(), sent, rule);
      const back = numbers(restoreSent(residual, sent, rule));
      expect(back).toEqual(rule === 'none' ? values.map(() => 0) : values);
      const again = withdrawSent(restoreSent(residual, sent, rule), sent, rule);
      expect(numbers(again)).toEqual(numbers(residual));
      expect(numbers(withdrawSent(Float64Array.from(back), sent, rule))).toEqual(numbers(residual));
    }),
  );
});

it('a residual is in the next delta, or nothing if it was dropped', () => {
  const [shared, residual] = [Float32Array.of(1, 2), Float64Array.of(0.5, -0.25)];
  for (const rule of fields.residual.words) {
    const due = numbers(deltaOf(shared, shared, residual, rule));
    expect(due).toEqual(rule === 'none' ? [0, 0] : [0.5, -0.25]);
  }
});

const size = 3 * CHUNK_LENGTH;
/** A payload with 1 for every value of the first chunk. */
const sent: PartialVector = {
  size,
  chunks: Uint32Array.of(0),
  addChunk(_, weight, target, at) {
    for (let i = 0; i < CHUNK_LENGTH; i++) target[at + i]! += weight;
  },
  weighChunk: () => undefined,
};
/** First value of each chunk's residual for a delta of 3 everywhere. */
const kept = (rule: ResidualRule) => {
  const { residual } = takeSent(new Float64Array(size).fill(3), sent, rule);
  return [0, 1, 2].map((chunk) => residual[chunk * CHUNK_LENGTH]);
};

it('keeps what was not sent, and counts its share of the chunks that were', () => {
  expect(kept('feedback')).toEqual([2, 3, 3]);
  const share = (...values: readonly number[]) => {
    const delta = new Float64Array(size);
    delta.set(values);
    return takeSent(delta, sent, 'feedback').share;
  };
  expect(takeSent(new Float64Array(size).fill(3), sent, 'feedback').share).toBeCloseTo(4 / 9, 12);
  // a chunk of noise: more is left than there was
  expect(share(1)).toBe(CHUNK_LENGTH - 1);
  expect(share()).toBe(0);
});

it('drops everything without a residual', () => {
  expect(kept('none')).toEqual([0, 0, 0]);
});

it('after a round takes what it learned for chunks that moved or counted, and keeps the rest', () => {
  const [before, after, mean] = [1, 2, 5].map((value) => new Float64Array(4 * CHUNK_LENGTH - 7).fill(value)); // biome-ignore format: one line
  const fate = { sent: [0, 2], moved: [0, 1, 2], still: new Set([2]), isSettled: true };
  const of = (more: object) => {
    const residual = residualAfter(before!, after!, { ...fate, instead: undefined, ...more });
    return [0, 1, 2, 3].map((chunk) => residual[chunk * CHUNK_LENGTH]);
  };
  expect(of({})).toEqual([2, 2, 1, 1]);
  expect(of({ isSettled: false })).toEqual([1, 2, 1, 1]);
  expect(of({ instead: mean })).toEqual([-4, 2, 1, 1]);
  expect(of({ still: new Set() })).toEqual([2, 2, 2, 1]);
  expect(before!.every((value) => value === 1)).toBe(true);
});
