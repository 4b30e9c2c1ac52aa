/**
 * Screening by loss: which contributions a member does not list, which it refuses, and that disagreeing members lose no
 * view.
 */

import { philox, unit } from 'nostrain/base';
import {
  type Certified,
  gainOf,
  Judgment,
  type MeasuredGain,
  opinionOf,
  rowsFor,
} from 'nostrain/certified/parts';
import type { Effect } from 'nostrain/consensus';
import type { Outcome, WorkerId } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { Screen } from '../../src/certified/features/screening.ts';
import { keysOf, outcomeBy } from '../consensus/round/model-check/setup.ts';
import { friends, Player } from '../consensus/round/test-network.ts';
import { dense } from '../support/vectors.ts';

/** Normal values from a counter. */
function normals(seed: number): () => number {
  let at = 0;
  return () => {
    const [a, b] = philox([seed, 7], at++, 0, 0, 0);
    return Math.sqrt(-2 * Math.log(unit(a))) * Math.cos(2 * Math.PI * unit(b));
  };
}

const WORKERS = 8;
const setUp = (workers: number) => {
  const setup = friends(workers);
  return { setup, keys: keysOf(setup), rows: rowsFor(workers) };
};
const eight = setUp(WORKERS);

/** A member's measurement of a true gain, with its own data rows and its engine's rounding. */
function measured(gain: number, by: Measure): MeasuredGain {
  const { rows, deviation, normal, engine } = by;
  const noisy = Array.from({ length: rows }, () => gain + deviation * normal() + engine * normal());
  const mean = noisy.reduce((sum, each) => sum + each, 0) / rows;
  const squares = noisy.reduce((sum, each) => sum + (each - mean) ** 2, 0);
  return { gain: mean, error: Math.sqrt(squares / (rows - 1) / rows) };
}

interface Measure {
  readonly rows: number;
  readonly deviation: number;
  /** Rounding error of the engine. */
  readonly engine: number;
  readonly normal: () => number;
}

const manifestOf = (worker: number): string => `m${worker}`;

/** One round: each member has its own measurements, and messages reach all members at once. */
function playRound(
  trueGains: readonly number[],
  deviation: number,
  seed: number,
  { setup, keys, rows } = eight,
) {
  const normal = normals(seed);
  const judgments = keys.map((_, member) => {
    // every second member computes with another engine's single precision
    const engine = member % 2 === 0 ? 1e-7 : 1e-5;
    const findings = trueGains.map(
      (gain, worker) =>
        [manifestOf(worker), measured(gain, { rows, deviation, normal, engine })] as const,
    );
    return new Judgment(new Map(findings));
  });
  const players = keys.map((key) => new Player(setup, key));
  const held = trueGains.map((_, i) => ({ worker: keys[i]!, manifest: manifestOf(i), delay: 0 }));
  const chain = {
    spec: { minAcceptPermille: 666, timing: { skewMs: 1e9 } },
    ledger: { members: keys.map((key) => ({ key })) },
  } as unknown as Certified;
  const outcomes = new Map<string, Outcome>();
  const opinion = (member: number, outcome: Outcome, view: number) =>
    opinionOf(chain, outcome, {
      ...{ available: held, owed: [], hasStakes: true, nowMs: 0 },
      judgment: judgments[member],
      view,
    });
  const perform = (member: number, effect: Effect): void => {
    const player = players[member]!;
    const { view } = player.state;
    if (effect.type === 'send') {
      const id = `${keys[member]} ${JSON.stringify(effect.message)}`;
      const message = { ...effect.message, id, key: keys[member]! };
      players.forEach((each, i) => {
        for (const next of each.take({ type: 'message', message }, 0)) perform(i, next);
      });
    }
    if (effect.type === 'compose') {
      const accepted = held
        .filter(({ manifest }) => judgments[member]!.mayPropose(manifest))
        .map(({ worker, manifest }) => ({ index: keys.indexOf(worker), late: false, manifest }));
      const outcome = { ...outcomeBy(keys[member]!, effect.result), accepted };
      const digest = `${keys[member]} ${effect.view}`;
      outcomes.set(digest, outcome);
      const check = { digest, valid: true, ...opinion(member, outcome, view) };
      const composed = { attempt: effect.attempt, view: effect.view, outcome, digest };
      for (const next of player.take({ type: 'composed', composed, check }, 0)) {
        perform(member, next);
      }
    }
    if (effect.type === 'check') {
      const { digest, outcome } = effect;
      const check = { digest, valid: true, ...opinion(member, outcome, view) };
      for (const next of player.take({ type: 'checked', check }, 0)) perform(member, next);
    }
  };
  players.forEach((player, member) => {
    for (const { worker, manifest } of held) {
      const effects = player.take({ type: 'held', worker, manifest }, 0);
      for (const effect of effects) perform(member, effect);
    }
  });
  const [decided] = players.map(({ state }) => state.decided);
  return { decided, outcome: outcomes.get(decided?.digest ?? ''), judgments };
}

describe('members that measure on their own data rows', () => {
  it('lose no view over contributions around the bounds in 1,000 rounds, native and wasm together', {
    timeout: 120_000,
  }, () => {
    const normal = normals(1);
    let listed = 0;
    for (let round = 0; round < 1000; round++) {
      const deviation = 0.01;
      const honest = Array.from({ length: WORKERS - 2 }, () => 0.05 + deviation * normal());
      // from harmless to twice the refusal bound
      const near = [0, 1].map(() => -0.3 * unit(philox([round, 2], listed, 0, 0, 0)[0]));
      const { decided, outcome } = playRound([...honest, ...near], 0.03, round);
      expect(decided?.view, `round ${round}`).toBe(0);
      listed += outcome!.accepted.length - honest.length;
    }
    // some were listed, some were not
    expect(listed).toBeGreaterThan(100);
    expect(listed).toBeLessThan(1900);
  });

  it('lose none if 32 members measure on eight rows each', () => {
    const many = setUp(32);
    expect(many.rows).toBe(8);
    const normal = normals(5);
    for (let round = 0; round < 25; round++) {
      const gains = many.keys.map((_, i) =>
        i < 24 ? 0.05 + 0.01 * normal() : -0.3 * unit(philox([round, 2], i, 0, 0, 0)[0]),
      );
      const { decided } = playRound(gains, 0.03, round, many);
      expect(decided?.view, `round ${round}`).toBe(0);
    }
  }, 60_000);

  it.each([WORKERS, 32])(
    'refuse fewer than 0.5 %% of honest contributions of %d workers, even late in training when gains drown in noise',
    (workers) => {
      const normal = normals(3);
      const by = { rows: rowsFor(workers), deviation: 0.03, normal, engine: 1e-6 };
      let refused = 0;
      let seen = 0;
      for (let round = 0; round < 400; round++) {
        const size = round % 2 === 0 ? 0.05 : 0.0005;
        const gains = Array.from({ length: workers }, () => size * (1 + 0.3 * normal()));
        const rows = gains.map((gain, i) => [manifestOf(i), measured(gain, by)] as const);
        const judgment = new Judgment(new Map(rows));
        for (const [id] of rows) {
          seen++;
          if (!judgment.mayPropose(id)) refused++;
        }
      }
      expect(refused / seen).toBeLessThan(0.005);
    },
  );

  it('propose no contribution of two sign-flipping workers, and reject proposals that list one', () => {
    const gains = [0.05, 0.06, 0.04, 0.05, 0.055, 0.045, -0.6, -0.9];
    for (let seed = 0; seed < 50; seed++) {
      const { decided, outcome, judgments } = playRound(gains, 0.03, seed);
      expect(decided?.view).toBe(0);
      expect(outcome!.accepted.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
      for (const judgment of judgments) {
        expect([6, 7].map((i) => judgment.mayAccept(manifestOf(i), 0))).toEqual([false, false]);
      }
    }
  });
});

describe('a judgment', () => {
  const judgmentOf = (gains: readonly number[]) =>
    new Judgment(new Map(gains.map((gain, i) => [manifestOf(i), { gain, error: 0.001 }])));

  it('accepts unmeasured contributions, and a single one', () => {
    expect(judgmentOf([1, 1]).mayPropose('another')).toBe(true);
    expect(judgmentOf([-5]).mayPropose(manifestOf(0))).toBe(true);
  });

  it('finds the worse of two, although half of them is hostile', () => {
    const judgment = judgmentOf([0.05, -0.5]);
    expect([0, 1].map((i) => judgment.mayPropose(manifestOf(i)))).toEqual([true, false]);
  });

  it('finds harm although some contributions gain a hundred times as much as others', () => {
    // measured in the demo: two workers owned the decisive chunk
    const judgment = judgmentOf([0.271, 0.261, 0.0044, 0.0043, 0.0042, 0.0041, -0.09]);
    const proposed = [0, 1, 2, 3, 4, 5, 6].filter((i) => judgment.mayPropose(manifestOf(i)));
    expect(proposed).toEqual([0, 1, 2, 3, 4, 5]);
    expect(judgment.mayAccept(manifestOf(6), 0)).toBe(false);
  });

  it('rejects a contribution with a non-finite loss in every view', () => {
    const judgment = judgmentOf([0.05, 0.05, Number.NEGATIVE_INFINITY]);
    expect(judgment.mayPropose(manifestOf(2))).toBe(false);
    expect(judgment.mayAccept(manifestOf(2), 50)).toBe(false);
    expect(judgment.gainAndBound(manifestOf(2)).gain).toBeNull();
  });

  it('refuses with a bound at least twice as loose as for proposing, and looser with each view', () => {
    for (let gain = 0; gain > -2; gain -= 0.01) {
      const judgment = judgmentOf([0.05, 0.06, 0.04, gain]);
      const { bound } = judgment.gainAndBound(manifestOf(3));
      if (gain > 2 * bound) expect(judgment.mayAccept(manifestOf(3), 0)).toBe(true);
      if (judgment.mayAccept(manifestOf(3), 0)) {
        expect(judgment.mayAccept(manifestOf(3), 1)).toBe(true);
      }
    }
    const judgment = judgmentOf([0.05, 0.06, 0.04, -0.3]);
    expect([0, 1, 2].map((view) => judgment.mayAccept(manifestOf(3), view))).toEqual([
      false,
      true,
      true,
    ]);
  });
});

describe('a screen', () => {
  const params = Float32Array.of(1, 2, 3);
  /** Squared distance to zero, the same for every data row. */
  const losses = async (values: ArrayLike<number>) =>
    new Float32Array(4).fill(Array.from(values).reduce((sum, each) => sum + each * each, 0));
  const half = dense(Float64Array.of(0.5, 1, 1.5));
  const flipped = dense(Float64Array.of(-5, -10, -15));

  it('applies a contribution to the model and measures the change of the loss', async () => {
    const before = await losses(params);
    const good = await gainOf(params, { delta: half }, before, losses);
    expect(good).toEqual({ gain: 10.5, error: 0 });
    expect((await gainOf(params, { delta: flipped }, before, losses)).gain).toBe(-490);
    const poison = dense(Float64Array.of(Number.MAX_VALUE, 0, 0));
    const { gain } = await gainOf(params, { delta: poison }, before, losses);
    expect(gain).toBe(Number.NEGATIVE_INFINITY);
  });

  it('delays a vote until its contributions are measured, at most a quarter of a view', async () => {
    let nowMs = 0;
    let woken = 0;
    const sleeps: (() => void)[] = [];
    const gate: { open?: () => void } = {};
    const screen = new Screen(
      {
        ...{ params, round: 0, workers: 2, viewMs: 8000, signal: new AbortController().signal },
        clock: {
          now: () => nowMs,
          sleep: () => new Promise((resolve) => sleeps.push(resolve)),
        },
        find: (id) => ({ worker: id as string as WorkerId, delta: id === 'a' ? half : flipped }),
        wake: () => woken++,
        onFailure: (error) => {
          throw error;
        },
      },
      async (values) => {
        await new Promise<void>((resolve) => {
          gate.open = resolve;
        });
        return losses(values);
      },
      () => [0, 0],
    );
    const view = { attempt: 0, view: 0 };
    expect(screen.isReady(['a', 'b'], view)).toBe(false);
    nowMs = 1999;
    expect(screen.isReady(['a', 'b'], view)).toBe(false);
    nowMs = 2000;
    expect(screen.isReady(['a', 'b'], view)).toBe(true);
    expect(sleeps).toHaveLength(1);
    for (let i = 0; i < 3; i++) {
      gate.open!();
      await new Promise((resolve) => setTimeout(resolve));
    }
    expect(screen.isReady(['a', 'b'], { attempt: 0, view: 1 })).toBe(true);
    expect(woken).toBeGreaterThan(0);
    expect(screen.judgment.mayPropose('b')).toBe(false);
  });
});
