/** A worker of the reference's profile from flags to done: dataset, start, relays, wire, loop, files. */
import { systemClock } from '../../base/clock.ts';
import { ConfigError } from '../../base/errors.ts';
import { type Scope, withScope } from '../../base/scope.ts';
import type { RegressionDataset } from '../../model/data/regression.ts';
import { readModel } from '../../model/regression/layout.ts';
import { createSigner } from '../../network/event.ts';
import { createRelaySet, type RelaySet } from '../../network/transport/relay-set.ts';
import { parseRelayUrls } from '../../network/transport/relay-urls.ts';
import { createWire } from '../../network/wire/create-wire.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import { createNativeSha256, nativeSha256 } from '../../node/native-sha256.ts';
import { mine } from '../../node/proof-of-work.ts';
import { agreeOnSettings, openRunFolder } from '../../node/run-folder.ts';
import { openSocket } from '../../node/sockets.ts';
import { trainOnBackend } from '../../node/train-on-backend.ts';
import { openZstd } from '../../node/zstd.ts';
import { type Settings, writeSettings } from '../../run/settings.ts';
import type { WorkerEvent } from '../../worker/events.ts';
import { runWorker } from '../../worker/loop.ts';
import type { Plan } from '../../worker/plan.ts';
import type { Store } from '../../worker/ports.ts';
import type { Reference } from '../../worker/reference/session.ts';
import { createRegressionTrainer } from '../../worker/regression-trainer.ts';
import type { WorkerState } from '../../worker/state.ts';
import type { Connection } from '../connection.ts';
import { readDataset } from '../dataset-file.ts';
import { hello, planOf, summary } from '../play-parts.ts';
import { mostPayloadBytes } from '../prepare.ts';
import { connectRelays } from '../relays.ts';
import { writeArtifacts } from './artifacts.ts';
import type { ReferenceFlags } from './flags.ts';
import { assertStartable, startOf } from './start.ts';
import type { SessionFacts } from './summary.ts';

export interface ReferencePlayOptions {
  readonly flags: ReferenceFlags;
  readonly stateFile: string;
  readonly datasetFile: string;
  readonly settings: Settings;
  /** Keeps everything there, so that the same command goes on; without it nothing is kept but what flags name. */
  readonly dir: string | undefined;
  readonly secretKey: Uint8Array;
  readonly connection: Connection;
  readonly report: (event: WorkerEvent) => void;
  readonly signal: AbortSignal;
}

export interface Played {
  readonly state: WorkerState;
  readonly facts: SessionFacts;
}

/** Plays the worker to its end. */
export const playReference = (options: ReferencePlayOptions): Promise<Played> =>
  withScope(async (scope) => {
    const { flags, settings, report, signal } = options;
    assertStartable(flags);
    const dataset = await readDataset(options.datasetFile);
    const signer = createSigner(options.secretKey, nativeCrypto);
    const worker = nameOf(flags, signer.publicKey);
    const relays = parseRelayUrls(settings.relay);
    const zstd = await openZstd();
    const first = await startOf({
      ...options,
      ...{ dataset, relays, run: settings.run, me: worker, key: signer.publicKey },
      idleMs: settings.roundTimeout * 1000,
      ports: async () => readingPorts(options, zstd),
      onNotice: (message) => report({ type: 'notice', message }),
    });
    const { layout } = first.params;
    const { runtime } = readModel(first.params);
    const trainer = createRegressionTrainer({
      ...{ layout, dataset, runtime: flags.runtime, now: () => systemClock.now() },
      run: (params, regression) => trainOnBackend(flags.backend, params, dataset, regression),
      learningRate: settings.localLearningRate,
      batchSize: settings.batchSize,
    });
    const { store, state } = await storeOf(options, first, scope);
    const set = await connectRelays(relays, options.connection, signer, signal);
    scope.defer(() => set.close());
    const isCompatible = flags.referenceCompatible ?? false;
    const maxContainerBytes = mostPayloadBytes(layout);
    const wire = createWire({
      ...{ profile: settings.profile, run: settings.run, layout, relays: set, signer, mine, zstd },
      ...{ clock: systemClock, sha256: nativeSha256, codec: settings.codec, maxContainerBytes },
      ratio: settings.topk,
      reference: { worker: flags.worker, isCompatible, runtime, advertised: flags.advertiseRelay },
    });
    scope.defer(() => wire.close());
    const plan = planOf(settings, {
      ...{ task: runtime, runtime, rounds: first.round + settings.rounds },
      ...(isCompatible ? { weightCap: Number.MAX_SAFE_INTEGER } : {}),
    });
    const facts: SessionFacts = {
      ...{ run: settings.run, worker, relays, runtime, backend: flags.backend },
      startRound: first.round,
      checkpointHistory: settings.checkpointHistory,
      artifactRetentionRounds: flags.artifactRetentionRounds,
    };
    report(hello(plan, trainer, wire.me, state));
    const reference: Reference = {
      ...{ isCompatible, examples: dataset.size, notes: {}, limits: { maxContainerBytes, zstd } },
      late: lateRule(flags, plan, isCompatible),
      publishMs: options.connection.openTimeoutMs,
      lateWaitMs: 1000 * (flags.lateGradientTimeout ?? 0.2),
      keep: (trace) =>
        writeArtifacts(trace, {
          ...{ run: settings.run, dir: flags.artifactDir, maxContainerBytes, zstd },
          retention: flags.artifactRetentionRounds,
          checkpointOut: flags.checkpointOut,
          checkpointHistory: settings.checkpointHistory,
          training: trainingMembers(settings, facts, dataset),
        }),
    };
    const clock = systemClock;
    const ports = { clock, trainer, wire, store, report, createSha256: createNativeSha256 };
    const final = await runWorker(state, { plan, ports, reference, signal });
    report(await summary(final, trainer, wire.traffic()));
    return { state: final, facts };
  });

/** A name that is not the key means something only where nobody checks. */
function nameOf({ worker, referenceCompatible }: ReferenceFlags, key: string): string {
  if (worker === undefined || worker === key || referenceCompatible) return worker ?? key;
  throw new ConfigError('worker/name', `--worker ${worker} is not this worker's key`, {
    hint: `peers refuse names that are not keys: leave it out (this key is ${key}), or give --reference-compatible to every worker`,
  });
}

const readingPorts = (
  { connection, signal }: ReferencePlayOptions,
  zstd: Awaited<ReturnType<typeof openZstd>>,
) => ({
  open: (relay: string): RelaySet =>
    createRelaySet([relay], {
      ...{ openSocket, clock: systemClock, crypto: nativeCrypto },
      ...connection,
    }),
  clock: systemClock,
  maxAttempts: connection.retry.maxAttempts,
  signal,
  zstd,
});

/** The state to start with: the one in the folder, where there is a folder that has one. */
async function storeOf(
  { dir, settings, flags }: ReferencePlayOptions,
  first: WorkerState,
  scope: Scope,
): Promise<{ readonly store: Store; readonly state: WorkerState }> {
  if (dir === undefined) {
    return { store: { load: async () => undefined, save: async () => undefined }, state: first };
  }
  const folder = await openRunFolder(dir);
  scope.defer(() => folder.close());
  const { lateGradientStrategy, lateGradientLearningRate, lateGradientMomentum } = flags;
  const { referenceCompatible, worker, startRound } = flags;
  await agreeOnSettings(dir, {
    ...writeSettings(settings),
    ...{ lateGradientStrategy, lateGradientLearningRate, lateGradientMomentum },
    ...{ referenceCompatible, worker, startRound },
  });
  const saved = await folder.store.load(first.params.layout);
  return { store: folder.store, state: saved ?? first };
}

const lateRule = (
  flags: ReferenceFlags,
  { outer, weightCap }: Plan,
  isCompatible: boolean,
): Reference['late'] => ({
  strategy: flags.lateGradientStrategy ?? 'deferred',
  learningRate: flags.lateGradientLearningRate ?? outer.learningRate,
  momentum: flags.lateGradientMomentum ?? outer.momentum,
  advancesMomentum: isCompatible,
  weightCap,
});

const trainingMembers = (
  { innerSteps, localLearningRate, batchSize }: Settings,
  { runtime, backend }: SessionFacts,
  { features, size }: RegressionDataset,
) => ({
  task: runtime,
  runtime,
  backend,
  steps: BigInt(innerSteps),
  learning_rate: localLearningRate,
  batch_size: BigInt(batchSize),
  example_count: BigInt(size),
  feature_count: BigInt(features),
});
