/** Workers of a certified run whose steps can be run again, in one process over a relay, with a trainer that is arithmetic and says so. */
import { deriveKey, philox, systemClock, unit } from 'nostrain/base';
import {
  archiveRun,
  type Entry,
  type Journal,
  joinCertifiedRun,
  type RunEvent,
} from 'nostrain/certified';
import {
  type Certified,
  type CertifiedState,
  type Gathered,
  genesisOf,
  shardSettings,
  startOf,
} from 'nostrain/certified/parts';
import { layoutOfRun } from 'nostrain/model';
import { createRelaySet, heapChunks, type PayloadRoot } from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { type RunSpec, runIdOf } from 'nostrain/run';
import type { Store, Trainer } from 'nostrain/worker';
import { openHistory } from '../../src/certified/records/archive.ts';
import { formatShard } from '../../src/run/field.ts';
import type { Keeping } from '../../src/worker/ports.ts';
import { keyOf, secretOf } from './swarm.ts';

/** Draws from its shard, its key and its parameters; momentum is carried across rounds. */
export function trainerOn(spec: RunSpec, shard: string, build = 'arithmetic-1'): Trainer {
  const layout = layoutOfRun(spec);
  const { batchSize } = spec.training;
  return {
    device: { device: 'none', threads: 1 },
    layout,
    origin: { shard, build },
    async train({ params, moments, round, steps, batchKey, keeping }) {
      const rows = deriveKey('rows', shard, ...batchKey);
      const from = keeping?.from;
      const values = from?.vectors[0]?.slice() ?? Float32Array.from(params);
      const momentum =
        from?.vectors[1]?.slice() ?? moments[0]?.slice() ?? new Float32Array(layout.size);
      for (let step = from?.done ?? 0; step < Math.min(steps, 2); step++) {
        const vectors = [values.slice(), momentum.slice()];
        if (step === 1 && keeping?.isDue()) {
          await keeping.keep({ done: 1, vectors, losses: Float32Array.of(1), seconds: 0 });
        }
        for (let i = 0; i < values.length; i++) {
          const pull = unit(philox(rows, round, step, i, 0)[0]) - 0.5 - 0.1 * values[i]!;
          momentum[i] = 0.5 * momentum[i]! + pull;
          values[i] = values[i]! + 0.05 * momentum[i]!;
        }
      }
      const seen = Float32Array.of((moments[1]?.[0] ?? 0) + steps);
      const losses = new Float32Array(steps).fill(1);
      const examples = steps * batchSize;
      return { params: values, moments: [momentum, seen], losses, examples, seconds: 0 };
    },
    evaluate: async () => 1,
    sample: async () => new Uint8Array(),
    close: async () => undefined,
  };
}

/** What a worker does instead of what it should. */
export type Cheat = (honest: Trainer) => Trainer;

/** Honest steps, but on other rows than it says. */
export const elsewhere =
  (spec: RunSpec): Cheat =>
  (honest) => ({ ...honest, train: trainerOn(spec, '1/7').train });

/** From its third round on it sends what it has not learned. */
export const noisy: Cheat = (honest) => ({
  ...honest,
  async train(task, onProgress, signal) {
    const ended = await honest.train(task, onProgress, signal);
    const wild = Float32Array.from(ended.params, (value, i) => value + Math.sin(i + task.round));
    return task.round < 2 ? ended : { ...ended, params: wild };
  },
});

class Killed extends Error {}

/** Killed in the middle of its second phase, once half of it is on disk. It comes back. */
export const killed: Cheat = (honest) => ({
  ...honest,
  async train(task, onProgress, signal) {
    if (task.round !== 1 || task.keeping?.from) return honest.train(task, onProgress, signal);
    const keep: Keeping['keep'] = async (half) => {
      await task.keeping?.keep(half);
      throw new Killed();
    };
    const keeping = { from: undefined, isDue: () => true, keep };
    return honest.train({ ...task, keeping }, onProgress, signal);
  },
});

/** What stays of a worker that is killed. */
interface Disk {
  readonly store: Store<CertifiedState>;
  readonly journal: Journal;
}

function memoryDisk(): Disk {
  const disk: { state?: CertifiedState; phase?: Uint8Array; entry?: Entry } = {};
  const store: Store<CertifiedState> = {
    load: async () => disk.state,
    save: async (state) => {
      disk.state = state as CertifiedState;
    },
    phase: {
      load: async () => disk.phase,
      save: async (bytes) => {
        disk.phase = bytes;
      },
    },
  };
  const journal: Journal = {
    load: async () => disk.entry,
    save: async (entry) => {
      disk.entry = structuredClone(entry);
    },
  };
  return { store, journal };
}

/** Rounds of which each lasts long enough for a check. */
const slowedBy = (trainer: Trainer, ms: number): Trainer => ({
  ...trainer,
  async train(task, onProgress, signal) {
    if (ms > 0) await systemClock.sleep(ms, signal);
    return trainer.train(task, onProgress, signal);
  },
});

export interface Ended {
  readonly state: CertifiedState;
  readonly events: readonly RunEvent[];
  /** Manifests whose steps it ran again, as often as it did. */
  readonly checked: readonly string[];
}

/** Plays the run to its end; worker i is founder i. */
export async function playRerun(
  spec: RunSpec,
  url: string,
  workers: number,
  cheats: Readonly<Record<number, Cheat>> = {},
  /** Members whose checks find what is not so, in runs with a jury; how long each check takes. */
  { lying = [], checkMs = 0 }: { lying?: readonly number[]; checkMs?: number } = {},
): Promise<readonly Ended[]> {
  const checked = Array.from({ length: workers }, (): string[] => []);
  const start = async (index: number, disk: Disk, events: RunEvent[]) => {
    const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
    await relays.ready();
    const honest = trainerOn(spec, formatShard(shardSettings(spec, keyOf(index), {}).shard));
    return joinCertifiedRun({
      ...{ spec, relays, secretKey: secretOf(index), sha256: nativeSha256, crypto: nativeCrypto },
      trainer: slowedBy(cheats[index]?.(honest) ?? honest, spec.jury > 0 ? 500 : 0),
      ...disk,
      recomputation: {
        async like({ eventId, features }) {
          checked[index]!.push(eventId);
          const said = slowedBy(trainerOn(spec, features?.rerun?.shard ?? '1/1'), checkMs);
          return lying.includes(index) ? { ...said, ...elsewhere(spec)(said) } : said;
        },
        close: async () => undefined,
      },
      report: (event: RunEvent) => void events.push(event),
    });
  };
  const play = async (index: number, disk = memoryDisk(), events: RunEvent[] = []) => {
    const worker = await start(index, disk, events);
    try {
      return { state: await worker.run(), events, checked: checked[index]! };
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
    } finally {
      await worker.close();
    }
    return play(index, disk, events);
  };
  return Promise.all(Array.from({ length: workers }, (_, index) => play(index)));
}

/** What relays have of the run, and the private states among it. */
export async function readRerun(
  spec: RunSpec,
  url: string,
): Promise<{
  readonly start: Certified;
  readonly gathered: Gathered;
  readonly archive: Awaited<ReturnType<typeof archiveRun>>;
  fetch(root: PayloadRoot): Promise<Uint8Array | undefined>;
}> {
  const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
  await relays.ready();
  try {
    const asked = { spec, crypto: nativeCrypto, sha256: nativeSha256 };
    const { signal } = new AbortController();
    const archive = await archiveRun(runIdOf(spec), { ...asked, relays, signal });
    const { gathered } = await openHistory(archive, asked);
    const { events } = await relays.query([{ kinds: [7811] }], { waitMs: 20_000, signal });
    const heap = heapChunks(events, 1 << 24);
    return {
      start: genesisOf(spec, startOf(spec)),
      ...{ gathered, archive },
      fetch: async (root) => heap(root),
    };
  } finally {
    await relays.close();
  }
}
