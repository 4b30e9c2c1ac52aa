/**
 * The programs that machines of a world run: a worker of a certified run, one that averages plainly, or one in the
 * profile of the Python reference.
 */
import { applyOutcome, draftDelegation } from 'nostrain/certified/parts';
import { createWire, type EventCrypto, type RelaySet, type Signer } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { createPythonWire } from 'nostrain/python/parts';
import { runIdOf } from 'nostrain/run';
import { type Params, stateDigest } from 'nostrain/tensor';
import { genesis, type Ports, runWorker, type Trainer } from 'nostrain/worker';
import type { FeatureMachine } from '../../src/certified/features/feature.ts';
import { statesOn } from '../../src/certified/features/rerun.ts';
import { noHistory } from '../../src/python/worker/session.ts';
import { runPythonWorker } from '../../src/python/worker/strategy.ts';
import { withFeatures } from '../../src/run/spec/features.ts';
import { keyOf, startCertified } from '../support/certified-swarm.ts';
import { plan } from '../support/fake-ports.ts';
import { signerOf } from '../support/swarm.ts';
import type { SimulatedChain } from './chain.ts';
import type { Chronicle } from './chronicle.ts';
import type { Mounted } from './disk.ts';
import { holdersOf } from './holders.ts';
import { keyedSignerOf } from './keyed-crypto.ts';
import type { MachineClock } from './machine-clock.ts';
import { machineIn } from './machines.ts';
import { GRACE_MAX_MS } from './spec.ts';
import { lossOf } from './trainer.ts';
import type { RunKind } from './world.ts';

/** Time to wait for a first relay: longer than relays are away. */
const PATIENCE_MS = 600_000;

/** Number of the first key that does not take part itself. */
const OWNERS = 1000;
/** When they delegated, in unix seconds. */
const DELEGATED = 1_790_000_000;
/** A wish for seats lasts so long. */
const WISH_MS = 45_000;

/** What a machine gives to a program that it starts. */
export interface Launch {
  readonly index: number;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly crypto: EventCrypto;
  readonly clock: MachineClock;
  readonly disk: Mounted;
  readonly trainer: Trainer;
  /** Returns a trainer that runs the steps of another worker again. */
  recomputing(shard: string): Trainer;
  readonly first: Params;
  /** The run began earlier. */
  readonly isLater: boolean;
  readonly chronicle: Chronicle;
  readonly chain: SimulatedChain;
  /** Returns the disks of running machines. */
  reachable(): readonly Mounted[];
}

export interface Running {
  readonly finished: Promise<unknown>;
  stop(): void;
}

/** What a machine needs to disclose its own steps, and to run those of others again. */
function machineOf(launch: Launch, signal: AbortSignal): Partial<FeatureMachine> {
  const { relays, signer, clock, disk, trainer, recomputing } = launch;
  const { origin } = trainer;
  return {
    disclosure: {
      relays,
      origin: origin!,
      store: disk.states,
      sign: (draft) => signer.sign(draft),
    },
    recomputation: {
      steps: {
        like: async ({ features }) => recomputing(features?.rerun?.shard ?? ''),
        close: async () => undefined,
      },
      fetch: statesOn({ relays, clock, sha256: nativeSha256, signal }),
    },
  };
}

/** Returns what the join of a worker shows: founders nothing, newcomers the delegation of a key of their own. */
function shownBy(worker: number, { spec, world }: Chronicle) {
  const of = { run: runIdOf(spec), session: keyOf(worker) };
  const until = spec.training.rounds - 1;
  const owner = (world.isReal ? signerOf : keyedSignerOf)(OWNERS + worker);
  const {
    pubkey: key,
    created_at: createdAt,
    sig,
  } = owner.sign(draftDelegation(of, until, DELEGATED));
  const by = spec.founders.includes(of.session) ? null : { key, until, createdAt, sig };
  return { sessions: { by } };
}

/** Returns the chunks of checkpoints that members hold for each other. */
const chunksOf = ({ signer, disk, reachable }: Launch) =>
  holdersOf({
    me: signer.publicKey,
    load: () => disk.held,
    save: (held) => {
      disk.held = held;
    },
    others: () => reachable().map(({ held }) => held),
  });

const startCertifiedWorker = (options: Launch): Running => {
  const { chronicle, first, isLater, disk, chain, ...launch } = options;
  const { spec, world } = chronicle;
  const { layout, values } = first;
  const { index: worker } = launch;
  const abort = new AbortController();
  const isFounder = spec.founders.includes(keyOf(worker));
  const member = startCertified({
    admission: (now) => {
      const shown = machineIn(spec, worker)(now);
      const sessions = spec.sessions ? shownBy(worker, chronicle) : {};
      return { ...shown, ...withFeatures({ ...shown.features, ...sessions }) };
    },
    // wishes of newcomers change; founders keep their seats
    wantsSeats: () => isFounder || Math.floor(launch.clock.now() / WISH_MS + worker) % 2 === 0,
    ...(spec.jury > 0 && { machine: machineOf(options, abort.signal) }),
    ...{ ...launch, disk, layout, first: values, spec, journal: disk.journal },
    // a machine that lost its disk asks for what others certified
    fetchesCheckpoint: disk.state === undefined && isLater,
    // a relay may take as long as the round, as in the settings that a spec makes
    plan: { evaluate: false, roundTimeoutMs: spec.timing.graceMaxMs, localSteps: spec.pace },
    ...{ refresh: chain.stakesFor(worker), beacon: (time: number) => chain.beaconAfter(time) },
    ...(spec.placement && { chunks: chunksOf(options) }),
    ...(!world.isReal && { read: chronicle.read }),
    apply: (state, outcome, ...rest) => {
      const verdict = applyOutcome(state, outcome, ...rest);
      if (verdict.ok) chronicle.outcomes.set(verdict.value.parent, outcome);
      return verdict;
    },
    onEvent: (event) => chronicle.reported.push({ worker, event }),
    onSave({ sent, round, head, params }) {
      if (sent) return;
      const { parent: outcome, modelRoot: model, ledger } = head;
      const loss = lossOf(params.values);
      chronicle.saves({ worker, round, outcome, model, loss, ejected: ledger.faulted });
    },
  });
  const stop = () => {
    abort.abort(new Error('stopped'));
    member.stop();
  };
  return { finished: member.finished, stop };
};

/** What both programs of runs without a committee share; rounds wait for all workers, so that all average the same. */
function averagingOf({ chronicle, first, disk, ...launch }: Launch) {
  const { index: worker, relays, signer, clock, trainer } = launch;
  const { workers, rounds, run } = chronicle.world;
  const { layout } = first;
  const abort = new AbortController();
  const { signal } = abort;
  const store: Ports['store'] = {
    load: async () => disk.plain,
    save: async (state) => {
      disk.plain = state;
      const { sent, round, params } = state;
      if (sent || signal.aborted) return;
      const model = stateDigest(params);
      chronicle.saves({
        ...{ worker, round, outcome: model, model },
        loss: lossOf(params.values),
        ejected: [],
      });
    },
  };
  const maxContainerBytes = 10_000 + 6 * layout.size;
  return {
    maxContainerBytes,
    wire: {
      ...{ run, layout, relays, signer, clock, sha256: nativeSha256 },
      ...{ ratio: 0.5, maxContainerBytes },
    },
    plan: plan({
      ...{ run, rounds, sync: { strategy: 'strict', workers }, waitFor: workers },
      ...{ roundTimeoutMs: GRACE_MAX_MS, joinTimeoutMs: 2 * GRACE_MAX_MS, evaluate: false },
    }),
    ports: { clock, trainer, store, report: () => undefined },
    start: disk.plain ?? genesis(first, 1),
    signal,
    /** Plays once a relay is there. */
    running: (play: () => Promise<unknown>): Running => ({
      finished: relays
        .ready(signal, { waitMs: PATIENCE_MS })
        .then(play)
        .finally(() => relays.close()),
      stop: () => abort.abort(new Error('stopped')),
    }),
  };
}

const startPlainWorker = (launch: Launch): Running => {
  const { wire: options, plan, ports, start, signal, running } = averagingOf(launch);
  const wire = createWire({ ...options, packing: 'int8' });
  return running(() => runWorker(start, { plan, ports: { ...ports, wire }, signal }));
};

/** A fleet in the profile of the Python reference; every other worker behaves like one of the reference itself. */
const startPythonWorker = (launch: Launch): Running => {
  const {
    wire: options,
    maxContainerBytes,
    start,
    signal,
    running,
    ...given
  } = averagingOf(launch);
  const isCompatible = launch.index % 2 === 1;
  const runtime = 'world';
  const reference = { isCompatible, runtime };
  const { wire, events } = createPythonWire({
    ...options,
    ...(isCompatible && { reference }),
  });
  const plan = { ...given.plan, runtime, normBound: 0 };
  const session = { plan, ports: { ...given.ports, wire }, signal, events };
  const history = { history: noHistory, ...start };
  const recorded = {
    ...{ isCompatible, examples: 8, lateWaitMs: 2000, publishMs: GRACE_MAX_MS },
    limits: { maxContainerBytes },
    late: { strategy: 'discard', ...plan.outer, advancesMomentum: true, weightCap: plan.weightCap },
    keep: async () => undefined,
  } as const;
  return running(() =>
    isCompatible
      ? runPythonWorker(history, { ...session, reference: recorded })
      : runPythonWorker(start, session),
  );
};

export const programs: Readonly<Record<RunKind, (launch: Launch) => Running>> = {
  certified: startCertifiedWorker,
  plain: startPlainWorker,
  python: startPythonWorker,
};
