/** The programs that machines of a world run: a worker of a certified run, or one that averages plainly. */
import { applyOutcome } from 'nostrain/certified/parts';
import { createWire, type EventCrypto, type RelaySet, type Signer } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { type Params, stateDigest } from 'nostrain/tensor';
import { genesis, runWorker, type Trainer } from 'nostrain/worker';
import type { FeatureMachine } from '../../src/certified/features/feature.ts';
import { statesOn } from '../../src/certified/features/rerun.ts';
import { startCertified } from '../support/certified-swarm.ts';
import { plan } from '../support/fake-ports.ts';
import type { Chronicle } from './chronicle.ts';
import type { Mounted } from './disk.ts';
import type { MachineClock } from './machine-clock.ts';
import { GRACE_MAX_MS } from './spec.ts';
import type { RunKind } from './world.ts';

/** Time to wait for a first relay: longer than relays are away. */
const PATIENCE_MS = 600_000;

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

const startCertifiedWorker = (options: Launch): Running => {
  const { chronicle, first, isLater, disk, ...launch } = options;
  const { spec, world } = chronicle;
  const { layout, values } = first;
  const { index: worker } = launch;
  const abort = new AbortController();
  const member = startCertified({
    ...(spec.jury > 0 && { machine: machineOf(options, abort.signal) }),
    ...{ ...launch, disk, layout, first: values, spec, journal: disk.journal },
    // a machine that lost its disk asks for what others certified
    fetchesCheckpoint: disk.state === undefined && isLater,
    // a relay may take as long as the round, as in the settings that a spec makes
    plan: { evaluate: false, roundTimeoutMs: spec.timing.graceMaxMs },
    ...(!world.isReal && { read: chronicle.read }),
    apply: (state, outcome, ...rest) => {
      const verdict = applyOutcome(state, outcome, ...rest);
      if (verdict.ok) chronicle.outcomes.set(verdict.value.parent, outcome);
      return verdict;
    },
    onEvent: (event) => chronicle.reported.push({ worker, event }),
    onSave({ sent, round, head }) {
      if (sent) return;
      const { parent: outcome, modelRoot: model, ledger } = head;
      chronicle.saves({ worker, round, outcome, model, ejected: ledger.faulted });
    },
  });
  const stop = () => {
    abort.abort(new Error('stopped'));
    member.stop();
  };
  return { finished: member.finished, stop };
};

/** Rounds wait for all workers, so that all average the same. */
const startPlainWorker = ({ chronicle, first, disk, ...launch }: Launch): Running => {
  const { index: worker, relays, signer, clock, trainer } = launch;
  const { workers, rounds } = chronicle.world;
  const { layout } = first;
  const run = 'plain';
  const wire = createWire({
    ...{ run, layout, relays, signer, clock, sha256: nativeSha256 },
    ...{ packing: 'int8', ratio: 0.5, maxContainerBytes: 10_000 + 6 * layout.size },
  });
  const abort = new AbortController();
  const session = {
    plan: plan({
      ...{ run, rounds, sync: { strategy: 'strict', workers }, waitFor: workers },
      ...{ roundTimeoutMs: GRACE_MAX_MS, joinTimeoutMs: 2 * GRACE_MAX_MS, evaluate: false },
    }),
    ports: {
      ...{ clock, trainer, wire },
      store: {
        load: async () => disk.plain,
        save: async (state: NonNullable<Mounted['plain']>) => {
          disk.plain = state;
          const { sent, round, params } = state;
          if (sent || abort.signal.aborted) return;
          const model = stateDigest(params);
          chronicle.saves({ worker, round, outcome: model, model, ejected: [] });
        },
      },
      report: () => undefined,
    },
    signal: abort.signal,
  };
  const finished = relays
    .ready(abort.signal, { waitMs: PATIENCE_MS })
    .then(() => runWorker(disk.plain ?? genesis(first, 1), session))
    .finally(() => relays.close());
  return { finished, stop: () => abort.abort(new Error('stopped')) };
};

export const programs: Readonly<Record<RunKind, (launch: Launch) => Running>> = {
  certified: startCertifiedWorker,
  plain: startPlainWorker,
};
