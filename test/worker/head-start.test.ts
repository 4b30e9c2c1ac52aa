/** Inner steps ahead of an outcome: what they moved is in the next gradient once, they end where they cannot count, and nobody waits for them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { deriveKey } from '../../src/base/rng.ts';
import { initialParameters } from '../../src/model/parameters.ts';
import { createTrainer } from '../../src/node/engine/trainer.ts';
import type { Vector } from '../../src/tensor/params.ts';
import type { Trainer as OrtTrainer } from '../../src/trainer/trainer.ts';
import { createAveraging } from '../../src/worker/averaging.ts';
import { phaseAfter } from '../../src/worker/head-start.ts';
import { runWorker } from '../../src/worker/loop.ts';
import type { Plan } from '../../src/worker/plan.ts';
import type { Trainer, TrainTask } from '../../src/worker/ports.ts';
import { genesis, type WorkerState } from '../../src/worker/state.ts';
import type { OpenRound, RoundStrategy } from '../../src/worker/strategy.ts';
import { contribution } from '../support/contributions.ts';
import { fakePorts, layout, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { adamwSpec, chainCorpus, smallGpt } from '../support/ort-models.ts';

const B = 'b'.repeat(64);
const STEPS = 10;
const STEP_MS = 1000;
const start = () => genesis({ layout, values: new Float32Array(2) }, 9);

interface Phase {
  readonly round: number;
  /** Steps that it began with. */
  readonly from: number;
  done: number;
}

/** Each step moves every value by a share of one of a thousand: those of another round and step are others. */
const moveOf = (round: number, step: number): number => (1 + round + step / 16) / 1024;

/** Takes one step after the other, each a second; fails in phases that are named so. */
function steppingTrainer(clock: Clock, fails: (phase: Phase) => boolean = () => false) {
  const phases: Phase[] = [];
  const under = new Set<Phase>();
  const trainer: Trainer = {
    device: { device: 'cpu', threads: 1 },
    layout,
    inParts: true,
    async train({ params, round, steps, room, keeping }, _, signal) {
      const from = keeping?.from;
      let values: Vector = from?.vectors[0] ?? params;
      const phase = { round, from: from?.done ?? 0, done: from?.done ?? 0 };
      phases.push(phase);
      under.add(phase);
      try {
        while (phase.done < steps && (phase.done === 0 || room?.(phase.done) !== 0)) {
          await clock.sleep(STEP_MS, signal);
          if (fails(phase)) throw new Error('no such step');
          values = values.map((value) => value - moveOf(round, phase.done));
          phase.done++;
          const losses = new Float32Array(phase.done).fill(1);
          const half = { done: phase.done, vectors: [Float32Array.from(values)], losses };
          if (keeping?.isDue()) await keeping.keep({ ...half, seconds: phase.done });
        }
      } finally {
        under.delete(phase);
      }
      const { done } = phase;
      const losses = Float32Array.from({ length: done }, () => 1);
      return { params: values, moments: [], losses, steps: done, examples: done, seconds: done };
    },
    evaluate: async () => 1,
    sample: async () => new Uint8Array(),
    close: async () => undefined,
  };
  return { trainer, phases, under };
}

interface Options {
  readonly state?: WorkerState;
  readonly fails?: (phase: Phase) => boolean;
  readonly disk?: { phase: Uint8Array | undefined };
  readonly more?: Partial<Plan>;
  strategy?(usual: RoundStrategy, phases: readonly Phase[]): RoundStrategy;
}

/** One of two workers; the other's gradients come when the test says so. */
function play({ state = start(), fails, disk, more, strategy }: Options = {}) {
  const clock = createManualClock();
  const fake = fakePorts(clock);
  const { trainer, phases, under } = steppingTrainer(clock, fails);
  const said: {
    readonly delta: readonly number[];
    readonly steps: number;
    readonly examples: number;
  }[] = [];
  const { seal } = fake.wire;
  const wire = {
    ...fake.wire,
    seal: (own: Parameters<typeof seal>[0]) => {
      said.push({ delta: [...own.delta], steps: own.steps, examples: own.examples });
      return seal(own);
    },
  };
  const phase = disk && {
    load: async () => disk.phase,
    save: async (bytes: Uint8Array) => {
      disk.phase = bytes;
    },
  };
  const ports = { ...fake, wire, trainer, store: { ...fake.store, ...(phase && { phase }) } };
  const abort = new AbortController();
  const chosen = plan({
    ...{ overlap: true, rounds: 3, innerSteps: STEPS, roundTimeoutMs: 1e6 },
    sync: { strategy: 'strict', workers: 2 },
    ...more,
  });
  const session = { plan: chosen, ports, signal: abort.signal };
  const usual = createAveraging(session);
  const run = runWorker(state, session, strategy?.(usual, phases) ?? usual);
  const outcome = run.then(
    (value) => ({ value, error: undefined }),
    (error: Error) => ({ value: undefined, error }),
  );
  const other = () => fake.arrive(contribution(B, [0, 0]));
  return { clock, fake, phases, under, said, abort, outcome, other };
}

/** What ten steps of a round move, wherever they begin. */
const whole = (round: number): number =>
  Array.from({ length: STEPS }, (_, step) => moveOf(round, step)).reduce((a, b) => a + b, 0);

/** A gradient of all steps of its round, each of them once. */
function expectWhole({ said }: Pick<ReturnType<typeof play>, 'said'>, rounds: readonly number[]) {
  expect(said.map(({ steps, examples }) => [steps, examples])).toEqual(
    rounds.map(() => [STEPS, STEPS]),
  );
  rounds.forEach((round, i) => {
    for (const value of said[i]!.delta) expect(value).toBeCloseTo(whole(round), 6);
  });
}

describe('a head start', () => {
  it('takes the first steps of a round while the outcome of the one before is on its way', async () => {
    const { clock, phases, said, outcome, other } = play();
    await clock.advance(STEPS * STEP_MS);
    expect(said).toHaveLength(1);
    await clock.advance(3.5 * STEP_MS);
    other();
    // the step under way is taken, and six are left
    await clock.advance(6.5 * STEP_MS);
    expect(said).toHaveLength(2);
    expect(phases).toEqual([
      { round: 0, from: 0, done: STEPS },
      { round: 1, from: 0, done: 4 },
      { round: 1, from: 4, done: STEPS },
      { round: 2, from: 0, done: 0 },
    ]);
    other();
    await clock.advance(STEPS * STEP_MS);
    other();
    await clock.advance(STEPS * STEP_MS);
    expect((await outcome).value?.round).toBe(3);
    expectWhole({ said }, [0, 1, 2]);
  });

  it('takes all steps of a round where the outcome takes longer, and none is taken twice', async () => {
    const { clock, phases, said, outcome, other } = play({ more: { rounds: 2 } });
    await clock.advance(5 * STEPS * STEP_MS);
    expect(phases.at(-1)).toEqual({ round: 1, from: 0, done: STEPS });
    other();
    await clock.advance(1);
    expect(phases.at(-1)).toEqual({ round: 1, from: STEPS, done: STEPS });
    other();
    await clock.advance(20 * STEP_MS);
    expect((await outcome).value?.tokens).toBe(2 * STEPS);
    expectWhole({ said }, [0, 1]);
  });

  it('keeps to the seconds of the run', async () => {
    const pace = { innerSeconds: 6, leastSteps: 1 };
    const { clock, said, other } = play({ more: { pace, weights: 'examples', weightCap: 100 } });
    await clock.advance(9 * STEP_MS);
    other();
    await clock.advance(3 * STEP_MS);
    expect(said.map(({ steps }) => steps)).toEqual([6, 6]);
  });

  it('is not begun where rounds do not overlap, or the engine cannot end a phase', async () => {
    const calm = play({ more: { overlap: false } });
    await calm.clock.advance(3 * STEPS * STEP_MS);
    expect(calm.phases).toHaveLength(1);
    calm.abort.abort(new Error('end'));
    await calm.clock.advance(1);
  });

  it('comes to nothing where it fails: the phase begins without it', async () => {
    let isFirst = true;
    const fails = ({ round, done }: Phase) => {
      const isNow = isFirst && round === 1 && done === 2;
      if (isNow) isFirst = false;
      return isNow;
    };
    const { clock, phases, said, other } = play({ fails });
    await clock.advance((STEPS + 5) * STEP_MS);
    other();
    await clock.advance(STEPS * STEP_MS);
    expect(phases.slice(1, 3)).toEqual([
      { round: 1, from: 0, done: 2 },
      { round: 1, from: 0, done: STEPS },
    ]);
    expectWhole({ said }, [0, 1]);
  });

  it('ends where the worker does not train in the round', async () => {
    const strategy = (usual: RoundStrategy): RoundStrategy => ({
      ...usual,
      async open(state): Promise<OpenRound> {
        if (state.round !== 1) return usual.open(state);
        const next = { ...state, round: 2 };
        return {
          start: undefined,
          publish: async () => undefined,
          finish: async () => ({ state: next, completed: async () => next }),
          close: () => undefined,
        };
      },
    });
    const { clock, phases, said, outcome, other } = play({ strategy });
    await clock.advance((STEPS + 3) * STEP_MS);
    other();
    await clock.advance((STEPS + 2) * STEP_MS);
    other();
    await clock.advance(20 * STEP_MS);
    await outcome;
    expect(phases.map(({ round, from }) => [round, from])).toEqual([
      [0, 0],
      [1, 0],
      [2, 0],
    ]);
    expectWhole({ said }, [0, 2]);
  });

  it('is dropped where the state was replaced', async () => {
    const strategy = (usual: RoundStrategy): RoundStrategy => ({
      ...usual,
      async open(state) {
        const open = await usual.open(state);
        if (state.round !== 0) return open;
        return {
          ...open,
          async finish(played) {
            const { state: after } = await open.finish(played);
            const replaced = { ...after, lastSent: undefined };
            return { state: replaced, completed: async () => replaced };
          },
        };
      },
    });
    const { clock, phases, said, other } = play({ strategy });
    await clock.advance((STEPS + 3) * STEP_MS);
    other();
    await clock.advance((STEPS + 1) * STEP_MS);
    expect(phases[2]).toEqual({ round: 1, from: 0, done: STEPS });
    expectWhole({ said }, [0, 1]);
  });

  it('is over before the worker is: stopped, and where a round fails', async () => {
    const stopped = play();
    await stopped.clock.advance((STEPS + 3) * STEP_MS);
    expect(stopped.under.size).toBe(1);
    stopped.abort.abort(new Error('Ctrl-C'));
    await stopped.clock.advance(1);
    expect((await stopped.outcome).error?.message).toBe('Ctrl-C');
    expect(stopped.under.size).toBe(0);

    const strategy = (usual: RoundStrategy): RoundStrategy => ({
      ...usual,
      open: async (state) => ({
        ...(await usual.open(state)),
        finish: () => Promise.reject(new Error('no outcome')),
      }),
    });
    const failed = play({ strategy });
    let isOver = false;
    void failed.outcome.then(() => {
      isOver = true;
      expect(failed.under.size).toBe(0);
    });
    await failed.clock.advance((STEPS + 2) * STEP_MS);
    expect(isOver).toBe(true);
    expect((await failed.outcome).error?.message).toBe('no outcome');
  });
});

describe('a worker that is killed', () => {
  it('in its head start: begins the round from the outcome', async () => {
    const disk = { phase: undefined };
    const first = play({ disk });
    await first.clock.advance((STEPS + 4) * STEP_MS);
    first.abort.abort(new Error('killed'));
    await first.clock.advance(1);
    const again = play({ disk, state: first.fake.saved.at(-1)! });
    await again.clock.advance(1);
    again.other();
    await again.clock.advance(STEPS * STEP_MS);
    expect(again.phases[0]).toEqual({ round: 1, from: 0, done: STEPS });
    expectWhole(again, [1]);
  });

  it('in the rest of a phase: takes the steps that are left, those ahead not again', async () => {
    const disk: { phase: Uint8Array | undefined } = { phase: undefined };
    const first = play({ disk });
    await first.clock.advance((STEPS + 2.5) * STEP_MS);
    first.other();
    // kept every five seconds
    await first.clock.advance(6 * STEP_MS);
    first.abort.abort(new Error('killed'));
    await first.clock.advance(1);
    const again = play({ disk, state: first.fake.saved.at(-1)! });
    await again.clock.advance(STEPS * STEP_MS);
    const [rest] = again.phases;
    expect(rest!.from).toBeGreaterThan(3);
    expect(rest).toMatchObject({ round: 1, done: STEPS });
    expectWhole(again, [1]);
  });
});

describe('an engine', () => {
  let trainer: OrtTrainer;
  beforeAll(async () => {
    const corpus = chainCorpus(4000, smallGpt.vocabulary);
    const data = { kind: 'tokens', shard: corpus.subarray(0, 3000), validation: corpus } as const;
    const setup = { model: smallGpt, optimizer: adamwSpec, batch: 8, data } as const;
    trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1, precision: 'f16' });
  });
  afterAll(() => trainer.close());

  it('evaluates and writes between two slices of a phase: a round does not wait for the end of the next one', async () => {
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

  it('goes on after the steps that were taken ahead as if it had never stopped', async () => {
    const { signal } = new AbortController();
    const params = initialParameters(smallGpt, 1);
    const batchKey = deriveKey('test', 'worker');
    const task: TrainTask = { params, moments: [], round: 1, steps: 12, firstStep: 12, batchKey };
    const whole = await trainer.train(task, () => {}, signal);
    const room = (done: number) => 5 - done;
    const ahead = {
      from: params,
      trained: await trainer.train({ ...task, room }, () => {}, signal),
    };
    expect(ahead.trained.steps).toBe(5);
    const from = phaseAfter(params, ahead);
    const keeping = { from, isDue: () => false, keep: async () => undefined };
    const rest = await trainer.train({ ...task, keeping }, () => {}, signal);
    expect(rest.losses).toEqual(whole.losses);
    expect(rest.params).toEqual(whole.params);
    expect(rest.moments).toEqual(whole.moments);
    expect([rest.steps, rest.examples]).toEqual([12, 96]);
  });
});
