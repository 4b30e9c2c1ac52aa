/**
 * T-21: inner phases recomputed by members: honest workers are never at fault, cheats are, and workers that disclose
 * nothing are only reported.
 */

import { nativeSha256 } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { type RunSpec, specRules, type Untyped } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  encodePrivate,
  mostPrivateBytes,
  readPrivate,
} from '../../src/certified/features/disclosure.ts';
import {
  type CheckFinding,
  type CheckResult,
  checkable,
  checkContribution,
  type ListedContribution,
  listedContributions,
} from '../../src/certified/features/rerun.ts';
import { isDrawn } from '../../src/run/committee.ts';
import { certifiedSpec } from '../support/certified-swarm.ts';
import {
  type Cheat,
  elsewhere,
  killed,
  noisy,
  playRerun,
  readRerun,
  trainerOn,
} from '../support/rerun.ts';
import { keyOf } from '../support/swarm.ts';

let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());

interface Change {
  readonly training?: Untyped;
  readonly rule?: string | undefined;
  readonly permille?: number;
  readonly timing?: Untyped;
  readonly pace?: Untyped;
}

const never = (): never => {
  throw new Error('none');
};

const specOf = (
  rounds: number,
  founders: number,
  { training = {}, rule, permille = 1000, timing = {}, pace }: Change = {},
): RunSpec =>
  certifiedSpec({
    founders: Array.from({ length: founders }, (_, i) => i),
    ...{ rounds, timing },
    training: {
      ...{ model: 'mlp', hidden: [8], packing: 'int8', owners: 0 },
      ...{ residual: 'feedback', ...training },
    },
    document: {
      rerun: { permille, relays: [relay.url] },
      ...(pace && { pace }),
      ...(rule && { tier: 'verified', aggregation: { rule, hostile: 1 } }),
      ...(rule && { admission: { kind: 'list', keys: [keyOf(0)] } }),
    },
  });

interface Checked extends ListedContribution {
  /** The author's first contribution, so its start is public. */
  readonly isFirst: boolean;
  readonly finding: CheckFinding;
}

/** Checks the contributions that a test selects, on trainers of this build. */
async function check(
  spec: RunSpec,
  of: (contribution: ListedContribution) => boolean = ({ drawn }) => drawn,
  { build = 'arithmetic-1', change = (trainer: Trainer) => trainer } = {},
): Promise<readonly Checked[]> {
  const { start, gathered, fetch } = await readRerun(spec, relay.url);
  const wanted = listedContributions(start, gathered).filter(of);
  const checked: Checked[] = [];
  for (const { listed, contribution } of checkable(start, gathered, wanted)) {
    if (typeof contribution === 'string') {
      checked.push({
        ...listed,
        isFirst: false,
        finding: { result: 'unanswered', reason: contribution },
      });
      continue;
    }
    const { shard = '1/1' } = contribution.manifest.features?.rerun ?? {};
    const finding = await checkContribution(contribution, {
      ...{ trainer: change(trainerOn(spec, shard, build)), evidence: gathered, fetch },
      ...{ sha256: nativeSha256, signal: new AbortController().signal },
    });
    checked.push({ ...listed, isFirst: contribution.last === undefined, finding });
  }
  expect(checked).toHaveLength(wanted.length);
  return checked;
}

const resultsBy = (checked: readonly Checked[], index: number): readonly CheckResult[] =>
  checked.filter(({ worker }) => worker === keyOf(index)).map(({ finding }) => finding.result);

/** A machine with slightly different results. */
const inexact =
  (by: number) =>
  (trainer: Trainer): Trainer => ({
    ...trainer,
    async train(task, onProgress, signal) {
      const ended = await trainer.train(task, onProgress, signal);
      return { ...ended, params: Float32Array.from(ended.params, (v, i) => v + by * Math.cos(i)) };
    },
  });

// the statement requires a hundred checks
describe('T-21: honest workers', { timeout: 240_000 }, () => {
  it('pass 100 of 100 checks', { timeout: 120_000 }, async () => {
    const spec = specOf(26, 4);
    const ended = await playRerun(spec, relay.url, 4);
    const checked = await check(spec);
    expect(checked.length).toBeGreaterThanOrEqual(100);
    expect(new Set(checked.map(({ finding }) => finding.result))).toEqual(new Set(['same']));
    const told = ended[0]!.events.filter(
      (event) => event.type === 'notice' && event.message.includes('drawn for a check'),
    );
    expect(told.length).toBeGreaterThan(20);
  });

  it.each([
    ['owners of chunks', { training: { owners: 1, residual: 'none', packing: 'trellis' } }],
    ['a rule that leaves rows out', { rule: 'krum' }],
    ['everything sent in every round', { training: { residual: 'none', packing: 'int8' } }],
  ] as const)('are not with %s', async (_, { training = {}, rule }: Change) => {
    const spec = specOf(4, 5, { training, rule });
    await playRerun(spec, relay.url, 5);
    const checked = await check(spec);
    expect(checked.length).toBeGreaterThanOrEqual(15);
    expect(new Set(checked.map(({ finding }) => finding.result))).toEqual(new Set(['same']));
  });
});

describe('T-21: a worker that is killed', { timeout: 60_000 }, () => {
  it('in the middle of its inner phase takes the remaining steps and passes the check', async () => {
    // the others wait for it, however long it takes
    const spec = specOf(4, 4, { timing: { graceMinMs: 30_000, graceMaxMs: 40_000 } });
    let rest = 0;
    const resumes = (honest: Trainer): Trainer => ({
      ...honest,
      train: (task, ...more) => {
        rest += task.keeping?.from ? 1 : 0;
        return honest.train(task, ...more);
      },
    });
    await playRerun(spec, relay.url, 4, { 2: (honest) => killed(resumes(honest)) });
    expect(rest).toBe(1);
    const checked = await check(spec);
    expect(resultsBy(checked, 2)).toHaveLength(4);
    expect(new Set(checked.map(({ finding }) => finding.result))).toEqual(new Set(['same']));
  });
});

/** Takes fewer or more steps, and reports the true count. */
const taking =
  (steps: number, says = steps): Cheat =>
  (honest) => ({
    ...honest,
    async train(task, onProgress, signal) {
      const ended = await honest.train({ ...task, steps }, onProgress, signal);
      return { ...ended, steps: says };
    },
  });

describe('T-21: workers of a run with time-based inner phases', {
  timeout: 60_000,
}, () => {
  it('are checked for the steps that they report, within the limits of the run', async () => {
    const pace = { innerSeconds: 60, leastSteps: 2 };
    const spec = specOf(3, 5, { pace });
    expect(spec.features).toContain('pace');
    const { innerSteps } = spec.training;
    const cheats = { 1: taking(3), 2: taking(1), 3: taking(3, 4), 4: taking(innerSteps + 1) };
    await playRerun(spec, relay.url, 5, cheats);
    const checked = await check(spec);
    for (const honest of [0, 1])
      expect(new Set(resultsBy(checked, honest))).toEqual(new Set(['same']));
    expect(resultsBy(checked, 1).length).toBeGreaterThan(0);
    for (const cheat of [2, 3, 4]) expect(resultsBy(checked, cheat)[0]).toBe('fault');
  });
});

describe('T-21: workers that cheat', { timeout: 120_000 }, () => {
  let spec: RunSpec;
  beforeAll(async () => {
    spec = specOf(5, 5);
    await playRerun(spec, relay.url, 5, { 3: elsewhere(spec), 4: noisy });
  }, 120_000);

  it('are detected bit for bit on an identical machine, and no one else is', async () => {
    const checked = await check(spec);
    for (const honest of [0, 1, 2])
      expect(new Set(resultsBy(checked, honest))).toEqual(new Set(['same']));
    expect(new Set(resultsBy(checked, 3))).toEqual(new Set(['fault']));
    const [first, second, ...later] = resultsBy(checked, 4);
    expect([first, second]).toEqual(['same', 'same']);
    expect(new Set(later)).toEqual(new Set(['fault']));
    const reasons = checked.flatMap(({ finding: { reason = [] } }) => reason);
    expect(new Set(reasons)).toEqual(new Set(['other-bits']));
  });

  it('are detected by the band on another machine, and honest ones pass', async () => {
    const other = { build: 'arithmetic-2', change: inexact(1e-6) };
    const checked = await check(spec, ({ drawn, round }) => drawn && round > 1, other);
    for (const honest of [0, 1, 2])
      expect(new Set(resultsBy(checked, honest))).toEqual(new Set(['near']));
    for (const cheat of [3, 4])
      expect(new Set(resultsBy(checked, cheat))).toEqual(new Set(['fault']));
    const far = checked.filter(({ finding }) => finding.reason === 'other-steps');
    expect(far.every(({ finding }) => finding.apartPpm! > spec.rerun.bandPpm)).toBe(true);
  });

  it('cannot send other values or counts than those they committed to', async () => {
    const { start, gathered, fetch } = await readRerun(spec, relay.url);
    const rows = listedContributions(start, gathered).filter(({ worker }) => worker === keyOf(0));
    const [, { contribution } = never()] = [...checkable(start, gathered, rows)];
    const [, { contribution: others } = never()] = [
      ...checkable(
        start,
        gathered,
        listedContributions(start, gathered).filter(({ worker }) => worker === keyOf(1)),
      ),
    ];
    if (typeof contribution === 'string' || typeof others === 'string')
      throw new Error('not checkable');
    const tools = {
      trainer: trainerOn(spec, contribution.manifest.features!.rerun!.shard),
      ...{ evidence: gathered, fetch, sha256: nativeSha256, signal: new AbortController().signal },
    };
    expect(await checkContribution(contribution, tools)).toEqual({ result: 'same' });
    const swapped = { ...contribution.manifest, hash: others.manifest.hash };
    expect(await checkContribution({ ...contribution, manifest: swapped }, tools)).toEqual({
      ...{ result: 'fault', reason: 'other-payload' },
    });
    const generous = { ...contribution.manifest, examples: 10 * contribution.manifest.examples };
    expect(await checkContribution({ ...contribution, manifest: generous }, tools)).toEqual({
      ...{ result: 'fault', reason: 'other-count' },
    });
    // its residual follows from its earlier commitment
    const smuggled = {
      ...contribution.last!,
      manifest: { ...contribution.last!.manifest, features: others.last!.manifest.features! },
    };
    expect(await checkContribution({ ...contribution, last: smuggled }, tools)).toMatchObject({
      ...{ result: 'fault', reason: 'other-bits' },
    });
    const bomb = { rerun: { ...contribution.last!.manifest.features!.rerun!, bytes: 2 ** 31 } };
    const huge = {
      ...contribution.last!,
      manifest: { ...contribution.last!.manifest, features: bomb },
    };
    expect(await checkContribution({ ...contribution, last: huge }, tools)).toEqual({
      ...{ result: 'fault', reason: 'not-a-state' },
    });
    const silent = { ...tools, fetch: async () => undefined };
    expect(await checkContribution(contribution, silent)).toEqual({
      result: 'unanswered',
      reason: 'not-shown',
    });
  });
});

describe('T-21: a worker that was not drawn', { timeout: 120_000 }, () => {
  it('discloses nothing, and is not at fault', async () => {
    const spec = specOf(4, 2, { permille: 1 });
    await playRerun(spec, relay.url, 2);
    const drawn = new Set<string>();
    const rows = await check(spec, (contribution) => {
      if (contribution.drawn) drawn.add(contribution.worker);
      return !contribution.drawn;
    });
    // with a chance of one in a hundred one is drawn, and discloses the previous state too
    const checked = rows.filter(({ worker }) => !drawn.has(worker));
    for (const { isFirst, finding } of checked)
      expect(finding.result).toBe(isFirst ? 'same' : 'unanswered');
  });
});

describe('what a spec may require', () => {
  const relays = ['wss://relay.example'];
  it.each([
    ['no relay for it', { rerun: { permille: 100 } }, /rerun.relays/],
    ['a relay and no draw', { rerun: { permille: 0, relays } }, /rerun.relays/],
    ['late contributions', { late: 'defer', rerun: { permille: 100, relays } }, /late/],
    [
      'a relay with a password',
      { rerun: { permille: 1, relays: ['wss://a:b@relay.example'] } },
      /rerun.relays/,
    ],
  ])('not %s', (_, document, at) => {
    expect(() => certifiedSpec({ founders: [0], rounds: 2, document })).toThrow(at);
  });

  it('no reruns in a run whose workers each have their own text', () => {
    const rule = specRules.find(({ at }) => at === 'rerun.permille')!;
    const spec = specOf(2, 2);
    expect(rule.holds(spec)).toBe(true);
    expect(rule.holds({ ...spec, data: { kind: 'own' } })).toBe(false);
    expect(rule.says).toContain('other workers do not have the data');
  });

  it('without reruns, the spec does not name the feature and keeps its id', () => {
    expect(certifiedSpec({ founders: [0], rounds: 2 }).features).toEqual([]);
    expect(specOf(2, 2).features).toEqual(['rerun']);
  });
});

describe('the draw', () => {
  const of = (round: number) => ({
    ...{ run: 'a'.repeat(64), worker: 'b'.repeat(64) },
    round,
    entropy: 'c'.repeat(64),
  });
  it('selects the share in the spec, the same for every reader', () => {
    const drawn = Array.from({ length: 4000 }, (_, round) => isDrawn(of(round), 250));
    const count = drawn.filter(Boolean).length;
    expect(count).toBeGreaterThan(900);
    expect(count).toBeLessThan(1100);
    expect(isDrawn(of(1), 0)).toBe(false);
    expect(isDrawn(of(1), 1000)).toBe(true);
    expect(drawn.slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, r) => isDrawn(of(r), 250)));
  });
});

describe('untrusted private states', () => {
  const state = {
    delta: Float64Array.of(1, -2, 3),
    moments: [Float32Array.of(4, 5, 6), Float32Array.of(7)],
  };
  const bytes = encodePrivate(state);
  const changed = (at: number, value: number) => bytes.with(at, value);

  it('survive a round trip', () => {
    expect(readPrivate(bytes, 3)).toEqual(state);
    expect(readPrivate(encodePrivate({ ...state, moments: [] }), 3)).toEqual({
      ...state,
      moments: [],
    });
  });

  it('are refused if they are truncated, longer, of another model, or not finite', () => {
    for (let length = 0; length < bytes.length; length++) {
      expect(readPrivate(bytes.slice(0, length), 3)).toBeUndefined();
    }
    expect(readPrivate(Uint8Array.from([...bytes, 0]), 3)).toBeUndefined();
    expect(readPrivate(bytes, 4)).toBeUndefined();
    for (let at = 0; at < 12; at++) expect(readPrivate(changed(at, 255), 3)).toBeUndefined();
    const wild = encodePrivate({ ...state, delta: Float64Array.of(1, Number.NaN, 3) });
    expect(readPrivate(wild, 3)).toBeUndefined();
    expect(bytes.length).toBeLessThan(mostPrivateBytes(3));
  });
});
