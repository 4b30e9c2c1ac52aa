/** The bounds of screening, the order and the end of its measurements, and what its feature adds to votes. */
import { Judgment, rowsFor } from 'nostrain/certified/parts';
import type { WorkerId } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { Screen, type ScreenOptions, screening } from '../../src/certified/features/screening.ts';
import { dense } from '../support/vectors.ts';

const manifestOf = (worker: number): string => `m${worker}`;
const asWorker = (id: string): WorkerId => id;

describe('the bounds of a judgment', () => {
  const of = (...findings: readonly (readonly [gain: number, error: number])[]) =>
    new Judgment(new Map(findings.map(([gain, error], i) => [manifestOf(i), { gain, error }])));

  it('accept anything if only one contribution was measured, or none has a finite loss', () => {
    const broken = Number.NEGATIVE_INFINITY;
    expect(of([broken, 0]).mayPropose(manifestOf(0))).toBe(true);
    expect(of([broken, 0], [broken, 0]).mayPropose(manifestOf(0))).toBe(true);
    expect(of([-9, 0]).gainAndBound(manifestOf(0))).toEqual({ gain: -9, bound: 0 });
    expect(of([-9, 0]).gainAndBound('another')).toEqual({ gain: 0, bound: 0 });
    expect(of([1, 0], [broken, 0]).mayPropose(manifestOf(1))).toBe(false);
  });

  it('follow from the middle error of the measurements, whatever their order', () => {
    const errors = [5, 0.1, 0.2];
    const { bound } = of(...errors.map((error) => [0, error] as const)).gainAndBound(manifestOf(1));
    // three deviations of the middle error
    expect(bound).toBeCloseTo(-0.6, 12);
    const exact = of([0, 0], [0, 0]).gainAndBound(manifestOf(0)).bound;
    expect(exact).toBeLessThan(0);
    expect(exact).toBeGreaterThan(-1e-300);
    // its own uncertainty widens the bound of one contribution
    expect(of([0, 1], [0, 1], [0, 4]).gainAndBound(manifestOf(2)).bound).toBe(-12);
  });

  it('call good what does no harm at all, and accept what is at the bound', () => {
    const judgment = of([0.5, 0.01], [0, 0.01], [-0.001, 0.01], [0.4, 0.01]);
    expect([0, 1, 2].map((i) => judgment.isGood(manifestOf(i)))).toEqual([true, true, false]);
    expect(judgment.mayPropose(manifestOf(2))).toBe(true);
    const { bound } = of([1, 1], [1, 1], [-3, 1]).gainAndBound(manifestOf(2));
    expect(bound).toBe(-3);
    expect(of([1, 1], [1, 1], [-3, 1]).mayPropose(manifestOf(2))).toBe(true);
  });
});

it.each([
  [1, 32],
  [16, 32],
  [17, 16],
  [24, 16],
  [25, 8],
])('a contribution of %i workers is measured on %i rows', (workers, rows) => {
  expect(rowsFor(workers)).toBe(rows);
});

describe('the measurements of a screen', () => {
  const params = Float32Array.of(1, 2, 3);
  const deltas = dense(Float64Array.of(0.5, 1, 1.5));
  const settle = async () => {
    for (let i = 0; i < 200; i++) await Promise.resolve();
  };

  function stage(options: Partial<ScreenOptions> = {}, isBroken = () => false) {
    const measured: number[] = [];
    const failures: unknown[] = [];
    let [nowMs, woken] = [0, 0];
    const gates: (() => void)[] = [];
    const screen = new Screen(
      {
        ...{ params, round: 0, workers: 2, viewMs: 8000, signal: new AbortController().signal },
        clock: { now: () => nowMs, sleep: () => new Promise(() => undefined) },
        find: (id) => (id === 'gone' ? undefined : { worker: asWorker(id), delta: deltas }),
        wake: () => woken++,
        onFailure: (error) => failures.push(error),
        ...options,
      },
      async (values) => {
        await new Promise<void>((resolve) => gates.push(resolve));
        nowMs += 500;
        if (isBroken()) throw new Error('no engine');
        measured.push(values.length);
        return new Float32Array(4);
      },
      // the order is that of the names, backwards
      (worker) => [-worker.charCodeAt(0), 0],
    );
    const step = async () => {
      gates.shift()?.();
      await settle();
      return gates.length;
    };
    return { screen, measured, failures, step, woken: () => woken };
  }

  it('are made one at a time, in the random order of the member, and once for each', async () => {
    const order: string[] = [];
    const { screen, measured, step, woken } = stage({
      find: (id) => {
        order.push(id);
        return { worker: asWorker(id), delta: deltas };
      },
    });
    for (const id of ['a', 'b', 'c', 'b']) screen.want(id);
    expect(await step()).toBe(1);
    order.length = 0;
    for (let i = 0; i < 6; i++) expect(await step()).toBeLessThanOrEqual(1);
    expect(order).toEqual(['b', 'a']);
    expect(measured).toHaveLength(4);
    expect(woken()).toBe(4);
    screen.want('b');
    expect(await step()).toBe(0);
    expect(screen.isReady(['a', 'b', 'c'], { attempt: 0, view: 0 })).toBe(true);
    // later ones need no second measurement of the losses before
    screen.want('d');
    await settle();
    for (let i = 0; i < 3; i++) await step();
    expect(measured).toHaveLength(5);
  });

  it('skip what is gone, and a vote does not wait for it', async () => {
    const { screen, step, measured } = stage();
    screen.want('gone');
    expect(await step()).toBe(0);
    expect(screen.isReady(['gone'], { attempt: 0, view: 0 })).toBe(true);
    let isThere = true;
    const fading = stage({
      find: (id) => (isThere ? { worker: asWorker(id), delta: deltas } : undefined),
    });
    fading.screen.want('a');
    isThere = false;
    for (let i = 0; i < 3; i++) await fading.step();
    expect([measured, fading.measured]).toEqual([[], [3]]);
    expect(fading.failures).toEqual([]);
    expect(fading.screen.isReady(['a'], { attempt: 0, view: 0 })).toBe(true);
  });

  it('end after 32 contributions, or when the round closes', async () => {
    const many = stage();
    const ids = Array.from({ length: 40 }, (_, i) => String.fromCharCode(65 + i));
    for (const id of ids) many.screen.want(id);
    for (let i = 0; i < 50; i++) await many.step();
    expect(many.measured).toHaveLength(33);
    const closing = new AbortController();
    const closed = stage({ signal: closing.signal });
    for (const id of ids) closed.screen.want(id);
    await closed.step();
    await closed.step();
    closing.abort();
    for (let i = 0; i < 5; i++) await closed.step();
    expect(closed.measured).toHaveLength(3);
  });

  it('stop after a failure, which is reported once; votes go on without them', async () => {
    const { screen, failures, step, woken } = stage({}, () => true);
    for (const id of ['a', 'b']) screen.want(id);
    expect(screen.isReady(['a'], { attempt: 0, view: 0 })).toBe(false);
    await step();
    expect(failures).toHaveLength(1);
    expect(woken()).toBe(1);
    expect(screen.isReady(['a', 'c'], { attempt: 0, view: 0 })).toBe(true);
    expect(await step()).toBe(0);
    expect(screen.judgment.mayPropose('a')).toBe(true);
    const closing = new AbortController();
    const closed = stage({ signal: closing.signal }, () => true);
    closed.screen.want('a');
    closing.abort();
    await closed.step();
    expect(closed.failures).toEqual([]);
  });

  it('delay votes about contributions that wait for theirs, and no others', async () => {
    const { screen, step } = stage();
    const view = (number: number) => ({ attempt: 0, view: number });
    screen.want('a');
    expect(screen.isReady(['a', 'gone'], view(0))).toBe(false);
    expect(screen.isReady(['gone'], view(1))).toBe(true);
    expect(screen.isReady([], view(2))).toBe(true);
    for (let i = 0; i < 3; i++) await step();
    expect(screen.isReady(['a'], view(3))).toBe(true);
  });
});

describe('the feature', () => {
  const [good, bad, unknown] = ['good', 'bad', 'unknown'];
  const keys = [good, bad, unknown].map((_, i) => `key ${i}`);
  const available = [good, bad, unknown].map((manifest, i) => ({ worker: keys[i]!, manifest }));
  const deltaOf = (id: string) => dense(Float64Array.of(id === good ? 0.5 : -50, 0, 0));
  const settle = () => new Promise((resolve) => setTimeout(resolve));

  function play(
    measure?: (values: ArrayLike<number>, on: string, draw: object) => Promise<Float32Array>,
  ) {
    const reports: unknown[] = [];
    const member = screening.create({
      ...(measure && { measuring: { measure, secret: 'secret' } }),
      clock: { now: () => 0, sleep: () => new Promise(() => undefined) },
      reporter: {
        screened: (round: number, of: object) => reports.push({ round, ...of }),
        unmeasured: (round: number) => reports.push({ round }),
      },
    } as never)!;
    const ledger = { members: [...keys].reverse().map((key) => ({ key })) };
    const feature = member.judge!({
      state: { params: { values: Float32Array.of(1, 2, 3) }, ledger },
      context: { round: 4, roster: keys, timing: { viewMs: 8000 } },
      signal: new AbortController().signal,
      find: (id: string) =>
        id === unknown ? undefined : { worker: keys[id === good ? 0 : 1]!, delta: deltaOf(id) },
      wake: () => undefined,
    } as never);
    return { feature, reports };
  }
  const lossOf = async (values: ArrayLike<number>) =>
    new Float32Array(4).fill(Array.from(values).reduce((sum, each) => sum + each * each, 0));

  it('names harmful contributions in reports and commits, measured on its own rows', async () => {
    const draws: object[] = [];
    const { feature, reports } = play((values, on, draw) => {
      draws.push({ on, ...draw });
      return lossOf(values);
    });
    feature.arrived!(good);
    feature.arrived!(bad);
    expect(feature.isReady!([good, bad], { attempt: 0, view: 0 })).toBe(false);
    await settle();
    expect(feature.isReady!([good, bad], { attempt: 0, view: 0 })).toBe(true);
    const judgment = feature.judgment!(available);
    expect(available.map(({ manifest }) => judgment.mayPropose(manifest))).toEqual([
      true,
      false,
      true,
    ]);
    expect(reports).toEqual([
      {
        round: 4,
        worker: keys[1],
        manifest: bad,
        gain: expect.any(Number),
        bound: expect.any(Number),
      },
    ]);
    expect(feature.commitFields!(available as never)).toEqual({ screening: { screened: [1] } });
    expect(draws[0]).toEqual({ on: 'shard', key: expect.anything(), rows: 32 });
    expect(new Set(draws.map((draw) => JSON.stringify(draw))).size).toBe(1);
  });

  it('has no opinion without an engine, or if the engine fails', async () => {
    const broken = play(() => Promise.reject(new Error('no engine')));
    broken.feature.arrived!(bad);
    await settle();
    expect(broken.reports).toEqual([{ round: 4 }]);
    const without = play();
    without.feature.arrived!(bad);
    for (const { feature, reports } of [broken, without]) {
      expect(feature.isReady!([good, bad], { attempt: 0, view: 0 })).toBe(true);
      const before = reports.length;
      expect(feature.judgment!(available).mayPropose(bad)).toBe(true);
      expect(reports).toHaveLength(before);
      expect(feature.commitFields!(available as never)).toEqual({ screening: { screened: [] } });
    }
  });

  it('reports which contributions more than half of the votes screen', () => {
    const votes = [[2, 0], [2, 0, 1], [2], undefined].map((screened) => ({
      ...(screened && { features: { screening: { screened } } }),
    }));
    const others = [...votes, { features: {} }].slice(1);
    const described = (commits: readonly object[]) =>
      screening.describe!({} as never, commits as never, keys);
    expect(described(votes)).toEqual({ screened: [keys[2]] });
    expect(described(votes.slice(0, 3))).toEqual({ screened: [keys[0], keys[2]] });
    expect(described(others)).toEqual({ screened: [] });
  });
});
