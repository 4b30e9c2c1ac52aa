/** Workers of a certified run in one process over real relays, with a trainer that is arithmetic. */
import { systemClock } from '../../src/base/clock.ts';
import { fromCheckpoint } from '../../src/cli/catch-up.ts';
import { type Misdeeds, misbehave } from '../../src/cli/demo/misdeeds.ts';
import { createChain, revealOf, tipOf } from '../../src/consensus/committee/reveal.ts';
import { createSigner, type Signer } from '../../src/network/event.ts';
import { createRelaySet } from '../../src/network/transport/relay-set.ts';
import type { OpenSocket } from '../../src/network/transport/socket.ts';
import { createControl } from '../../src/network/wire/control.ts';
import { createWire } from '../../src/network/wire/create-wire.ts';
import { nativeCrypto } from '../../src/node/native-crypto.ts';
import { nativeSha256 } from '../../src/node/native-sha256.ts';
import { openSocket } from '../../src/node/sockets.ts';
import { completeDocument } from '../../src/run/complete-spec.ts';
import { presets } from '../../src/run/presets.ts';
import { readSpec, type Untyped } from '../../src/run/read-spec.ts';
import { type RunSpec, runIdOf } from '../../src/run/run-spec.ts';
import { completeSettings, sharedNames, writeSettings } from '../../src/run/settings.ts';
import { stakeOf } from '../../src/run/stake-snapshot.ts';
import type { Layout } from '../../src/tensor/params.ts';
import type { Noun } from '../../src/worker/certified/evidence.ts';
import { genesisOf } from '../../src/worker/certified/history.ts';
import type { Entry, Journal } from '../../src/worker/certified/journal.ts';
import { Member } from '../../src/worker/certified/member.ts';
import { toNoun } from '../../src/worker/certified/nouns.ts';
import type { RefreshPort } from '../../src/worker/certified/refresh.ts';
import { standingOf } from '../../src/worker/certified/standing.ts';
import type { WorkerEvent } from '../../src/worker/events.ts';
import { runWorker } from '../../src/worker/loop.ts';
import type { Plan } from '../../src/worker/plan.ts';
import type { Ports, Trainer } from '../../src/worker/ports.ts';
import { genesis, type WorkerState } from '../../src/worker/state.ts';
import { plan } from './fake-ports.ts';
import { arithmeticTrainer, secretOf, smallLayout } from './swarm.ts';

const signerOf = (index: number): Signer => createSigner(secretOf(index), nativeCrypto);
export const keyOf = (index: number): string => signerOf(index).publicKey;

export interface SpecOptions {
  readonly founders: readonly number[];
  readonly rounds: number;
  readonly training?: Untyped;
  /** Over the usual ones. */
  readonly document?: Untyped;
  readonly timing?: Untyped;
}

/** A spec with short times; workers wait for each other all the same. */
export function certifiedSpec(options: SpecOptions): RunSpec {
  const { founders, rounds, training = {}, document = {}, timing = {} } = options;
  const settings = completeSettings(presets.linear, {
    model: 'linear',
    relay: [],
    run: 'run',
    rounds,
  });
  const shared = Object.fromEntries(
    Object.entries(writeSettings(settings)).filter(([name]) => sharedNames.some((n) => n === name)),
  );
  const keys = founders.map(keyOf).sort();
  const cap = settings.innerSteps * settings.batchSize;
  return readSpec(
    completeDocument(
      {
        name: 'test',
        author: keys[0],
        founders: keys,
        training: { ...shared, ...training },
        ...document,
        timing: {
          ...{ graceMinMs: 1500, graceMaxMs: 8000, viewMs: 2000, recoveryMs: 0, ...timing },
        },
      },
      {
        data: { kind: 'made', shards: founders.length },
        limits: { payloadBytes: 1_000_000, weightCap: cap },
      },
    ),
  );
}

/** What a worker leaves behind when its process is killed. */
export interface Disk {
  state: WorkerState | undefined;
  entry: Entry | undefined;
}

export interface CertifiedMember {
  readonly id: string;
  readonly events: WorkerEvent[];
  readonly disk: Disk;
  readonly finished: Promise<WorkerState>;
  /** As a kill: nothing is said any more, what is on disk stays. */
  stop(): void;
}

export interface CertifiedOptions {
  readonly index: number;
  readonly relays: readonly string[];
  readonly spec: RunSpec;
  readonly layout?: Layout;
  readonly trainMs?: number;
  readonly trainer?: Trainer;
  readonly disk?: Disk;
  /** Sees every state that is saved. */
  readonly onSave?: (state: WorkerState) => void;
  readonly plan?: Partial<Plan>;
  readonly openSocket?: OpenSocket;
  /** How a hostile worker is made. */
  readonly misdeeds?: Misdeeds;
  readonly stakes?: ReadonlyMap<string, bigint>;
  /** Documents of stakes: read from a chain, found, published. */
  readonly refresh?: RefreshPort;
  /** The beacon's value after an outcome of this time. */
  readonly beacon?: (time: number) => Promise<string>;
  /** Looks for a certified checkpoint before it starts from round 0. */
  readonly looksForCheckpoint?: boolean;
}

/** Copies through JSON where the disk would: nothing of a live object survives. */
const memoryJournal = (disk: Disk): Journal => ({
  load: async () => disk.entry,
  save: async (entry) => {
    disk.entry = structuredClone(entry);
  },
});

/** Starts one worker; it closes its connections when it ends. */
export function startCertified(options: CertifiedOptions): CertifiedMember {
  const { index, spec, trainMs = 0, layout = smallLayout } = options;
  const disk: Disk = options.disk ?? { state: undefined, entry: undefined };
  const signer = signerOf(index);
  const run = runIdOf(spec);
  const honest = createRelaySet(options.relays, {
    openSocket: options.openSocket ?? openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
  });
  const relays = options.misdeeds ? misbehave(honest, signer, options.misdeeds) : honest;
  const { packing, eventBudget, topk: ratio, rounds, innerSteps, seed } = spec.training;
  const wire = createWire({
    ...{ run, layout, relays, signer, clock: systemClock, sha256: nativeSha256 },
    ...{ packing, eventBudget, ratio, maxContainerBytes: spec.limits.payloadBytes },
  });
  const abort = new AbortController();
  const { signal } = abort;
  const control = createControl<Noun>({
    ...{ run, relays, signer, clock: systemClock, sha256: nativeSha256, signal },
    read: (event, bodyOf) => toNoun(event, run, nativeCrypto, bodyOf),
  });
  const events: WorkerEvent[] = [];
  const ports: Ports = {
    clock: systemClock,
    trainer: options.trainer ?? arithmeticTrainer(index, layout, { clock: systemClock, trainMs }),
    wire,
    store: {
      load: async () => disk.state,
      save: async (state) => {
        if (signal.aborted) return;
        disk.state = state;
        options.onSave?.(state);
      },
    },
    report: (event) => void events.push(event),
  };
  const chain = createChain(secretOf(index), run, rounds);
  const member = new Member({
    ...{ spec, run, control, journal: memoryJournal(disk), ports, signal },
    chain: { tip: tipOf(chain), reveal: (round) => revealOf(chain, round) },
    stakes: async (id) =>
      options.refresh ? stakeOf(await options.refresh.find(id)) : (options.stakes ?? new Map()),
    refresh: options.refresh ?? {
      find: () => Promise.reject(new Error('no stakes here')),
      publish: async () => undefined,
    },
    beacon: options.beacon ?? (() => Promise.reject(new Error('no beacon here'))),
  });
  const firstOf = async (): Promise<WorkerState> => {
    const state = disk.state ?? firstState(spec, layout);
    if (!options.looksForCheckpoint) return state;
    const start = genesisOf(spec, state.params, nativeSha256);
    const onNotice = (message: string) => void events.push({ type: 'notice', message });
    const later = await fromCheckpoint(spec, { relays, layout, genesis: start, signal, onNotice });
    return later ? { ...state, ...later, round: later.standing.round } : state;
  };
  const session = {
    plan: plan({
      run,
      rounds,
      innerSteps,
      seed,
      residual: spec.training.residual,
      ...options.plan,
    }),
    ...{ ports, member, signal },
  };
  const finished = relays
    .ready()
    .then(async () => runWorker(await firstOf(), session))
    .finally(() => {
      member.close();
      return relays.close();
    });
  finished.catch(() => undefined);
  return {
    ...{ id: signer.publicKey, events, disk, finished },
    stop: () => abort.abort(new Error('stopped')),
  };
}

function firstState(spec: RunSpec, layout: Layout): WorkerState {
  const state = genesis({ layout, values: new Float32Array(layout.size) }, 1);
  return { ...state, standing: standingOf(genesisOf(spec, state.params, nativeSha256), []) };
}

export const certifiedRounds = ({ events }: CertifiedMember) =>
  events.filter((event) => event.type === 'round');

/** Resolves once the worker has finished so many rounds. */
export const finishedRounds = (member: CertifiedMember, count: number): Promise<void> =>
  until(member, () => certifiedRounds(member).length >= count);

/** Resolves once it holds; rejects when the worker fails. */
export async function until(member: CertifiedMember, holds: () => boolean): Promise<void> {
  while (!holds()) {
    await Promise.race([member.finished, new Promise((resolve) => setTimeout(resolve, 20))]);
  }
}
