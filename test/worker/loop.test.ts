import { usualAggregation } from 'nostrain/run';
import { stateDigest } from 'nostrain/tensor';
import { genesis } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { runWorker } from '../../src/worker/loop.ts';
import { contribution } from '../support/contributions.ts';
import { type FakeOptions, fakePorts, layout, ME, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const B = 'b'.repeat(64);
const start = () => genesis({ layout, values: new Float32Array(2) }, 9);

function play(more: Parameters<typeof plan>[0], options: FakeOptions = {}, state = start()) {
  const clock = createManualClock();
  const ports = fakePorts(clock, options);
  const abort = new AbortController();
  const run = runWorker(state, { plan: plan(more), ports, signal: abort.signal });
  const outcome = run.then(
    (value) => ({ value, error: undefined }),
    (error) => ({ value: undefined, error }),
  );
  return { clock, ports, abort, outcome };
}

describe('runWorker', () => {
  it('trains, publishes, collects and steps every round', async () => {
    const { clock, ports, outcome } = play({ sync: { strategy: 'strict', workers: 1 } });
    await clock.advance(20_000);
    const { value } = await outcome;
    expect(value?.round).toBe(2);
    expect([...value!.params.values]).toEqual([-1, -1]);
    expect(
      value?.rounds.map(({ completionReason, accepted }) => [completionReason, accepted]),
    ).toEqual([
      ['strict', [ME]],
      ['strict', [ME]],
    ]);
    expect(ports.events.map(({ type }) => type).filter((type) => type === 'round')).toHaveLength(2);
    // before a gradient is sent, and after the round
    expect(ports.saved.map(({ round, sent }) => [round, sent !== undefined])).toEqual([[0, true], [1, false], [1, true], [2, false]]); // biome-ignore format: one line
  });

  it('takes all inner steps, and counts the seconds of training and of waiting', async () => {
    const { clock, ports, outcome } = play({ rounds: 2 }, { trainMs: 3000 });
    const tasks: object[] = [];
    const { train } = ports.trainer;
    Object.assign(ports.trainer, {
      train: (...given: Parameters<typeof train>) => {
        tasks.push(given[0]);
        return train(...given);
      },
    });
    await clock.advance(60_000);
    const { rounds, seconds } = (await outcome).value!;
    expect(rounds).toMatchObject([0, 1].map(() => ({ secondsWaiting: 10, seconds: 13 })));
    expect(seconds).toEqual({ training: 6, waiting: 20 });
    expect(tasks).toMatchObject([{ steps: 3 }, { steps: 3 }]);
    expect(tasks.some((task) => 'remainingSteps' in task)).toBe(false);
  });

  it('lists only recent rounds, and totals of all: a state is as large after a hundred rounds as after forty', async () => {
    const alone = { sync: { strategy: 'strict', workers: 1 }, rounds: 100 } as const;
    const { clock, ports, outcome } = play(alone);
    await clock.advance(1e6);
    const { value } = await outcome;
    expect(value?.round).toBe(100);
    expect(value!.rounds.map(({ index }) => index)).toEqual(
      Array.from({ length: 32 }, (_, i) => 68 + i),
    );
    const told = ports.events.filter((event) => event.type === 'round');
    expect(told).toHaveLength(100);
    expect(value!.seconds.training).toBeCloseTo(
      told.reduce((sum, { secondsTraining }) => sum + secondsTraining, 0),
    );
    const bytes = ports.saved.map(({ rounds }) => JSON.stringify(rounds).length);
    expect(bytes.at(-1)! / bytes[80]!).toBeLessThan(1.05);
  });

  it('saves the signed gradient before it is sent, and sends the same bytes after a restart', async () => {
    const first = play({ sync: { strategy: 'strict', workers: 2 } });
    await first.clock.advance(1);
    const saved = first.ports.saved.at(-1)!;
    expect(saved.sent?.event).toBe(first.ports.sent[0]);
    first.abort.abort(new Error('killed'));
    await first.clock.advance(1);

    const again = play({ sync: { strategy: 'strict', workers: 2 } }, { trainMs: 1e9 }, saved);
    await again.clock.advance(1);
    expect(again.ports.sent).toEqual([saved.sent?.event]);
    again.abort.abort(new Error('end'));
    await again.clock.advance(1);
  });

  it('N-20: heartbeats every interval while the inner steps run, and says goodbye when stopped', async () => {
    const { clock, ports, abort, outcome } = play({ heartbeatSeconds: 10 }, { trainMs: 1e6 });
    await clock.advance(35_000);
    const ats = ports.heartbeatsSent.map(({ atMs }) => atMs - ports.heartbeatsSent[0]!.atMs);
    expect(ats).toEqual([0, 10_000, 20_000, 30_000]);
    abort.abort(new Error('Ctrl-C'));
    await clock.advance(1);
    expect((await outcome).error.message).toBe('Ctrl-C');
    expect(ports.heartbeatsSent.at(-1)?.leaving).toBe(true);
    await clock.advance(60_000);
    expect(ports.heartbeatsSent).toHaveLength(5);
  });

  it('sends heartbeats only after an interval without a gradient if relays limit rates', async () => {
    const alone = { sync: { strategy: 'strict', workers: 1 }, heartbeatSeconds: 60 } as const;
    const atsOf = async (isRateLimited: boolean, trainMs: number) => {
      const { clock, ports, outcome } = play({ ...alone, rounds: 4 }, { trainMs, isRateLimited });
      const startMs = clock.now();
      await clock.advance(1e6);
      expect((await outcome).value?.round).toBe(4);
      return ports.heartbeatsSent.map(({ atMs, leaving }) => [(atMs - startMs) / 1000, leaving]);
    };
    // the first, the final state, the goodbye
    expect(await atsOf(true, 50_000)).toEqual([[0, false], [200, false], [200, true]]); // biome-ignore format: one run
    expect(await atsOf(true, 100_000)).toEqual(
      [0, 60, 160, 260, 360, 400, 400].map((at, i) => [at, i === 6]),
    );
    // without a rate limit, every change is sent
    expect(await atsOf(false, 50_000)).toEqual(
      [0, 50, 100, 150, 200, 200].map((at, i) => [at, i === 5]),
    );
  });

  it('waits for its peers before the first round, and reports if none comes', async () => {
    const { clock, ports, outcome } = play({ waitFor: 2 });
    await clock.advance(4_000);
    expect(ports.events).toContainEqual({
      type: 'waiting',
      what: 'workers',
      round: 0,
      have: 1,
      want: 2,
      missing: [],
    });
    await clock.advance(2_000);
    const { error } = await outcome;
    expect(error).toMatchObject({ code: 'round/no-peers' });
    expect(error.message).toContain('only 1 of 2 workers');
    expect(error.hint).toContain('--run');
  });

  it('names the settings of a worker that has left, if no other comes', async () => {
    const fingerprint = { settings: 'a', nonDefault: ['model=linear'], shard: '1/1' };
    const { clock, ports, outcome } = play({ waitFor: 2, fingerprint });
    const theirs = { settings: 'b', nonDefault: ['model=mlp'], shard: '1/1' };
    ports.hear({ worker: B, leaving: true, fingerprint: theirs });
    await clock.advance(6_000);
    const { error } = await outcome;
    expect(error.message).toContain('started with another model (mlp, yours is linear)');
  });

  it.each([1e30, 1e300, Number.MAX_VALUE])(
    'attack: a contribution with values of %d stops no worker, and no non-finite value is saved',
    async (huge) => {
      const state = genesis({ layout, values: Float32Array.of(1, 1) }, 9);
      const plan = { rounds: 1, sync: { strategy: 'strict', workers: 2 } } as const;
      const { clock, ports, outcome } = play(plan, {}, state);
      await clock.advance(10);
      ports.arrive(contribution(B, [huge, -huge]));
      await clock.advance(20_000);
      const { value, error } = await outcome;
      expect(error).toBeUndefined();
      expect(value?.rounds[0]?.accepted).toEqual([ME, B].sort());
      // one of two contributions is bounded by the size of the parameters in the first round
      const moved = [...value!.params.values].map((each) => each - 1);
      expect(Math.hypot(...moved)).toBeLessThanOrEqual(Math.hypot(1, 1));
      const saved = ports.saved.flatMap(({ params }) => [...params.values]);
      expect(saved.every(Number.isFinite)).toBe(true);
    },
  );

  it.each([
    ['equal', [0.5, 0.5], [-0.5, -0.5]],
    ['orthogonal', [0.5, -0.5], [-0.125, 0]],
  ])(
    'T-22: contributions that are %s scale the outer step by their agreement',
    async (_, theirs, moved) => {
      const aggregation = { ...usualAggregation, leastRatePermille: 250 };
      const { clock, ports, outcome } = play({
        ...{ rounds: 1, aggregation, sync: { strategy: 'strict', workers: 2 } },
      });
      await clock.advance(10);
      ports.arrive(contribution(B, theirs));
      await clock.advance(20_000);
      expect([...(await outcome).value!.params.values]).toEqual(moved);
    },
  );

  it('weighs by examples up to the cap, and carries momentum and norms into the next round', async () => {
    const weighed = { weights: 'examples', weightCap: 4, normBound: 0, rounds: 1 } as const;
    const two = { sync: { strategy: 'strict', workers: 2 } } as const;
    const one = play({ ...weighed, ...two });
    await one.clock.advance(10);
    one.ports.arrive(contribution(B, [1, 1], { examples: 100 }));
    await one.clock.advance(20_000);
    // this worker has no stated number of examples, so it weighs 1
    expect((await one.outcome).value!.params.values[0]).toBeCloseTo(-(0.5 + 4) / 5, 6);

    const outer = { learningRate: 0.5, momentum: 0.5 };
    const alone = play({ rounds: 2, outer, sync: { strategy: 'strict', workers: 1 } });
    await alone.clock.advance(20_000);
    const { value } = await alone.outcome;
    expect([...value!.params.values]).toEqual([-0.8125, -0.8125]);
    expect([...value!.momentum]).toEqual([0.75, 0.75]);
    expect(value!.norms).toEqual([0.5, 0.5]);
  });

  it('without a norm bound, a step that is not finite ends the run before it is saved', async () => {
    const plan = { normBound: 0, rounds: 1, sync: { strategy: 'strict', workers: 2 } } as const;
    const { clock, ports, outcome } = play(plan);
    await clock.advance(10);
    ports.arrive(contribution(B, [1e300, 0]));
    await clock.advance(20_000);
    expect((await outcome).error).toMatchObject({ code: 'round/not-finite' });
    expect(ports.saved.flatMap(({ params }) => [...params.values]).every(Number.isFinite)).toBe(true); // biome-ignore format: one line
    expect(ports.openRounds()).toBe(0);
  });

  it('a gradient that did not count returns to the residual, and that is reported; not under async', async () => {
    for (const strategy of ['strict', 'async'] as const) {
      const sync = strategy === 'strict' ? { strategy, workers: 1 } : { strategy };
      const { clock, ports, outcome } = play({ rounds: 1, sync }, { counts: false });
      await clock.advance(10);
      ports.arrive(contribution(B, [0, 0]));
      ports.catchUp();
      await clock.advance(20_000);
      const { value } = await outcome;
      expect([...value!.residual]).toEqual(strategy === 'strict' ? [0.5, 0.5] : [0, 0]);
      expect(value!.rounds[0]!.residualShare).toBe(1);
      const notices = ports.events.flatMap((event) =>
        event.type === 'notice' ? event.message : [],
      );
      expect(notices.map((message) => message.slice(0, 53))).toEqual(
        strategy === 'strict' ? ['round 1 closed on 1 contributions without this worker'] : [],
      );
      expect(ports.openRounds()).toBe(0);
    }
  });

  it('evaluates some batches each round, and all after the last', async () => {
    const { clock, ports } = play({ sync: { strategy: 'strict', workers: 1 }, evaluate: true, evaluateBatches: 3 }); // biome-ignore format: one line
    const limits: unknown[] = [];
    Object.assign(ports.trainer, {
      evaluate: async (_: unknown, on: string, limit?: { batches?: number }) =>
        limits.push([on, limit?.batches]),
    });
    await clock.advance(20_000);
    expect(limits).toEqual([
      ['validation', 3],
      ['validation', undefined],
    ]);
  });

  it('measures bits per byte, accuracy and a sample if the model has them, and nothing unasked', async () => {
    const alone = { rounds: 1, sync: { strategy: 'strict', workers: 1 } } as const;
    const measured = async (more: Parameters<typeof plan>[0], accuracy?: object) => {
      const { clock, ports, outcome } = play({ ...alone, ...more });
      Object.assign(ports.trainer, { evaluate: async () => 6 * Math.LN2, ...accuracy });
      await clock.advance(20_000);
      const { validationLoss, bitsPerByte, ...rest } = (await outcome).value!.rounds[0]!;
      return [validationLoss, bitsPerByte, rest.accuracy, rest.sample];
    };
    const none = [undefined, undefined, undefined, undefined];
    expect(await measured({})).toEqual(none);
    expect(await measured({ evaluate: true })).toEqual([6 * Math.LN2, ...none.slice(1)]);
    const writeSample = async (params: Float32Array, round: number) => `${params} ${round}`;
    const all = { evaluate: true, bytesPerToken: 3, writeSample };
    expect(await measured(all, { accuracy: async () => 0.5 })).toEqual([
      ...[6 * Math.LN2, 2, 0.5, '-0.5,-0.5 0'],
    ]);
  });

  it.each([
    [false, 10],
    [true, 40],
  ])(
    'waits for the final states of its peers (rate limited: %s) for %d s',
    async (isRateLimited, seconds) => {
      const plan = {
        rounds: 1,
        heartbeatSeconds: 30,
        sync: { strategy: 'strict', workers: 2 },
      } as const;
      const endOf = async (heardMs: number, round = 1) => {
        const { clock, ports, outcome } = play(plan, { isRateLimited });
        let endMs = 0;
        void outcome.then(() => {
          endMs = clock.now();
        });
        await clock.advance(1);
        ports.arrive(contribution(B, [0, 0]));
        const startMs = clock.now();
        await clock.advance(heardMs);
        ports.hear({ worker: B, round });
        await clock.advance(100_000);
        return endMs - startMs;
      };
      expect(await endOf(5000)).toBe(5000);
      expect(await endOf(5000, 0)).toBe(1000 * seconds);
    },
  );

  it('a finished run ends at once, without waiting for its peers or a heartbeat', async () => {
    const finished = { ...start(), round: 2, cohort: [ME, B] };
    const { ports, outcome, clock } = play({}, {}, finished);
    await clock.advance(1);
    expect((await outcome).value).toBe(finished);
    expect(ports.heartbeatsSent).toEqual([]);
  });

  it('answers each worker that comes before the first round, unless relays limit rates', async () => {
    for (const isRateLimited of [false, true]) {
      const { clock, ports } = play({ waitFor: 3, joinTimeoutMs: 60_000 }, { isRateLimited });
      const sentBy = async () => {
        await clock.advance(100);
        return ports.heartbeatsSent.length;
      };
      const counts = [await sentBy()];
      ports.hear({ worker: B });
      counts.push(await sentBy());
      ports.noise();
      counts.push(await sentBy());
      expect(counts).toEqual(isRateLimited ? [1, 1, 1] : [1, 2, 2]);
    }
  });

  it('N-07: names the first member that explains why a peer has other bits', async () => {
    const { clock, ports } = play({ rounds: 1, sync: { strategy: 'strict', workers: 2 } });
    await clock.advance(10);
    ports.arrive(contribution(B, [0, 0]));
    await clock.advance(10);
    ports.hear({ worker: B, round: 1, digest: 'f'.repeat(64), cohort: [ME] });
    await clock.advance(10);
    const found = ports.events.find(({ type }) => type === 'divergence');
    expect(found).toMatchObject({ round: 1, peer: B, firstDiffering: B, theirs: 'f'.repeat(64) });
  });

  it('keeps exactly what was not sent, and drops it without error feedback', async () => {
    for (const residual of ['feedback', 'none'] as const) {
      // half of the delta is sent
      const { clock, ports, outcome } = play({ rounds: 1, residual }, { sends: 0.5 });
      ports.arrive(contribution(B, [0, 0]));
      await clock.advance(20_000);
      const { value } = await outcome;
      expect([...value!.residual]).toEqual(residual === 'feedback' ? [0.25, 0.25] : [0, 0]);
      expect(value?.rounds[0]?.residualShare).toBe(0.25);
      expect(value?.rounds[0]?.digest).toBe(stateDigest(value!.params));
    }
  });
});
