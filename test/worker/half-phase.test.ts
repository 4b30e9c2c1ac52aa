/** An inner phase survives a kill: the remaining steps lead to the same bytes, and saving costs little time. */
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from 'nostrain/base';
import { initialParameters } from 'nostrain/model';
import { createTrainer, openRunFolder } from 'nostrain/node';
import type { EngineTrainer } from 'nostrain/node/parts';
import { decodeSafetensors, encodeSafetensors } from 'nostrain/tensor';
import { genesis, noMembers, runWorker, type TrainTask, type WorkerState } from 'nostrain/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HalfPhase, PhaseStore } from '../../src/worker/ports.ts';
import { PhaseKeeper } from '../../src/worker/train.ts';
import { fakePorts, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { adamwSpec, chainCorpus, smallGpt } from '../support/ort-models.ts';

const corpus = chainCorpus(4000, smallGpt.vocabulary);
const STEPS = 40;
const folders: string[] = [];
let trainer: EngineTrainer;

beforeAll(async () => {
  const data = { kind: 'tokens', shard: corpus.subarray(0, 3000), validation: corpus } as const;
  trainer = await createTrainer({
    ...{ model: smallGpt, optimizer: adamwSpec, batch: 8, data, device: 'cpu', threads: 2 },
  });
});
afterAll(async () => {
  await trainer.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-phase-'));
  folders.push(folder);
  return folder;
}

interface Session {
  readonly sent: readonly { readonly content: string }[];
  /** Steps taken in the session. */
  readonly steps: number;
  readonly saved: readonly WorkerState[];
}

/**
 * Plays two rounds in a folder, on a clock that advances six seconds per slice of steps; killed after a number of
 * saves.
 */
async function play(folder: string, killAfter = Infinity): Promise<Session> {
  let nowMs = 1_800_000_000_000;
  const abort = new AbortController();
  const { store, close } = await openRunFolder(folder, noMembers);
  const clock = { now: () => nowMs, sleep: systemClock.sleep };
  const saved: WorkerState[] = [];
  let [steps, kept] = [0, 0];
  const ports = {
    ...fakePorts(clock),
    store: {
      ...store,
      save: async (state: WorkerState) => {
        saved.push(state);
        await store.save(state);
      },
      phase: {
        load: store.phase!.load,
        save: async (bytes: Uint8Array) => {
          await store.phase!.save(bytes);
          if (++kept >= killAfter) abort.abort(new Error('killed'));
        },
      },
    },
    trainer: {
      ...trainer,
      train: (task: TrainTask, _: unknown, signal: AbortSignal) => {
        let before = task.keeping?.from?.done ?? 0;
        const hears = ({ step }: { readonly step: number }) => {
          steps += step - before;
          before = step;
          nowMs += 6000;
        };
        return trainer.train(task, hears, signal);
      },
    },
  };
  const { layout } = trainer;
  const first = genesis({ layout, values: initialParameters(smallGpt, 1) }, 9);
  const chosen = plan({ rounds: 2, innerSteps: STEPS, sync: { strategy: 'strict', workers: 1 } });
  const state = (await store.load(layout)) ?? first;
  const run = runWorker(state, { plan: chosen, ports, signal: abort.signal });
  await run.catch((error: Error) => {
    if (error.message !== 'killed') throw error;
  });
  await close();
  return { sent: ports.sent, steps, saved };
}

describe('a worker that is killed in the middle of its inner phase', () => {
  it('sends the same bytes, and takes only the remaining steps', async () => {
    const calm = await play(newFolder());
    expect(calm.sent).toHaveLength(2);
    const folder = newFolder();
    const killed = await play(folder, 1);
    expect(killed.sent).toHaveLength(0);
    const again = await play(folder);
    expect(again.sent.map(({ content }) => content)).toEqual(
      calm.sent.map(({ content }) => content),
    );
    expect(killed.steps).toBeGreaterThan(0);
    expect(killed.steps + again.steps).toBe(2 * STEPS);
    const { sent, ...state } = again.saved.at(-1)!;
    const { sent: _, ...expected } = calm.saved.at(-1)!;
    const timed = ({ rounds, seconds, ...rest }: typeof state) => rest;
    expect(timed(state)).toEqual(timed(expected));
    const [round] = state.rounds;
    expect(round!.trainingLoss).toBe(expected.rounds[0]!.trainingLoss);
  });

  it('restarts the phase if the saved one is of another round, or incomplete', async () => {
    const folder = newFolder();
    await play(folder, 1);
    const file = join(folder, 'phase.safetensors');
    const bytes = await readFile(file);
    bytes[bytes.length - 5]! ^= 1;
    await writeFile(file, bytes);
    expect((await play(folder)).steps).toBe(2 * STEPS);
  });
});

describe('a saved inner phase', () => {
  const task: TrainTask = {
    ...{ params: new Float32Array(4), moments: [], round: 3, steps: 10, firstStep: 30 },
    batchKey: [1, 2],
  };
  const half: HalfPhase = {
    ...{ done: 2, vectors: [Float32Array.of(1, 2, 3, 4)], losses: Float32Array.of(5, 4) },
    seconds: 0.5,
  };
  const keeperOn = (phase: PhaseStore | undefined, more = {}) => {
    const clock = createManualClock();
    const ports = fakePorts(clock);
    const store = { ...ports.store, ...(phase && { phase }) };
    const session = { plan: plan(more), ports: { ...ports, store } };
    const keeper = new PhaseKeeper({ ...session, signal: new AbortController().signal });
    return { clock, keeper };
  };
  const memory = (bytes?: Uint8Array) => {
    const all = bytes ? [bytes] : [];
    const save = async (more: Uint8Array) => void all.push(more);
    return { all, load: async () => all.at(-1), save };
  };

  it('is used only by the same phase, and only as the first phase of a session', async () => {
    const store = memory();
    const first = await keeperOn(store).keeper.keepingOf(task);
    expect(first!.from).toBeUndefined();
    await first!.keep(half);
    const { keeper } = keeperOn(store);
    expect((await keeper.keepingOf(task))!.from).toEqual(half);
    expect((await keeper.keepingOf(task))!.from).toBeUndefined();
    const moved = { ...task, params: Float32Array.of(0, 0, 0, 1e-9) };
    for (const other of [moved, { ...task, round: 4 }, { ...task, steps: 11 }]) {
      expect((await keeperOn(store).keeper.keepingOf(other))!.from).toBeUndefined();
    }
    const longer = keeperOn(store, { rounds: 9 });
    expect((await longer.keeper.keepingOf(task))!.from).toBeUndefined();
  });

  it('is ignored if truncated at any byte', async () => {
    const store = memory();
    await (await keeperOn(store).keeper.keepingOf(task))!.keep(half);
    const [bytes] = store.all;
    for (let length = 0; length < bytes!.length; length++) {
      const cut = memory(bytes!.slice(0, length));
      expect((await keeperOn(cut).keeper.keepingOf(task))!.from).toBeUndefined();
    }
  });

  it('is ignored if it is of another format, or no step was taken', async () => {
    const kept = async (half: HalfPhase, change: object = {}) => {
      const store = memory();
      await (await keeperOn(store).keeper.keepingOf(task))!.keep(half);
      const read = decodeSafetensors(store.all[0]!);
      if (!read.ok) throw new Error(read.issue.message);
      const { tensors, metadata } = read.value;
      const file = encodeSafetensors({ tensors, metadata: { ...metadata, ...change } });
      return (await keeperOn(memory(file)).keeper.keepingOf(task))!.from;
    };
    expect(await kept(half)).toEqual(half);
    for (const change of [{ format: 'pt' }, { version: '2' }, { done: '1' }, { seconds: 'x' }]) {
      expect(await kept(half, change)).toBeUndefined();
    }
    expect(await kept({ ...half, done: 0, losses: new Float32Array(0) })).toBeUndefined();
  });

  it('is not kept by a store that has no place for it', async () => {
    const { keeper } = keeperOn(undefined);
    expect(await keeper.keepingOf(task)).toBeUndefined();
    expect(await keeper.isLeft(task)).toBe(false);
  });

  it('is written every five seconds, and takes at most a fiftieth of the time', async () => {
    let writeMs = 0;
    const store = memory();
    const slow = {
      load: store.load,
      save: async (bytes: Uint8Array) => {
        await clock.advance(writeMs);
        await store.save(bytes);
      },
    };
    const { clock, keeper } = keeperOn(slow);
    const keeping = (await keeper.keepingOf(task))!;
    const dueAfter = async () => {
      let seconds = 0;
      for (; !keeping.isDue(); seconds++) await clock.advance(1000);
      return seconds;
    };
    expect(await dueAfter()).toBe(5);
    writeMs = 400;
    await keeping.keep(half);
    expect(await dueAfter()).toBe(20);
    const next = (await keeper.keepingOf(task))!;
    await clock.advance(19_000);
    expect(next.isDue()).toBe(false);
    await clock.advance(1000);
    expect(next.isDue()).toBe(true);
  });
});
