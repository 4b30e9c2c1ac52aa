/** A worker of the Python reference's profile from flags to done: dataset, start, folder, session, files. */
import { type Scope, systemClock, withScope } from '../../../base/async.ts';
import { readModel } from '../../../formats/regression-state.ts';
import type { RegressionDataset } from '../../../model/data/regression.ts';
import { mostPayloadBytes } from '../../../network/codec/codecs.ts';
import { createSigner } from '../../../network/event.ts';
import { createRelaySet, type RelaySet } from '../../../network/transport/relay-set.ts';
import { parseRelayUrls, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { readDataset } from '../../../node/data/sources.ts';
import { openRunFolder } from '../../../node/files/run-folder.ts';
import { agreeOnSettings } from '../../../node/files/stored-settings.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { type Connection, openSocket } from '../../../node/net/relays.ts';
import { type Settings, writeSettings } from '../../../run/settings.ts';
import type { WorkerEvent } from '../../../worker/events.ts';
import type { Store } from '../../../worker/ports.ts';
import { noMembers } from '../../../worker/state-file.ts';
import {
  runTrainingSession,
  type TrainingWorkerConfig,
  workerName,
} from '../../node/run-training-session.ts';
import { openZstd } from '../../node/zstd.ts';
import type { PythonState } from '../../worker/session.ts';
import { type SessionFacts, writeArtifacts } from './artifacts.ts';
import type { ReferenceFlags } from './flags.ts';
import { assertStartable, startOf } from './start.ts';

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
  readonly state: PythonState;
  readonly facts: SessionFacts;
}

/** Plays the worker to its end. */
export const playReference = (options: ReferencePlayOptions): Promise<Played> =>
  withScope(async (scope) => {
    const { flags, settings, report, signal } = options;
    assertStartable(flags);
    const dataset = await readDataset(options.datasetFile);
    const signer = createSigner(options.secretKey, nativeCrypto);
    const worker = workerName(flags, signer.publicKey);
    const relays = parseRelayUrls(settings.relay);
    const zstd = await openZstd();
    const first = await startOf({
      ...options,
      dataset,
      relays,
      run: settings.run,
      me: worker,
      key: signer.publicKey,
      idleMs: settings.roundTimeout * 1000,
      ports: async () => readingPorts(options, zstd),
      onNotice: (message) => report({ type: 'notice', message }),
    });
    const { runtime } = readModel(first.params);
    const { store, state } = await storeOf(options, first, scope);
    const facts: SessionFacts = {
      run: settings.run,
      worker,
      relays: relays.map(withoutSecrets),
      runtime,
      backend: flags.backend,
      startRound: first.round,
      checkpointHistory: settings.checkpointHistory,
      artifactRetentionRounds: flags.artifactRetentionRounds,
    };
    const played = await runTrainingSession(configOf(options, first, dataset), {
      store,
      signal,
      onEvent: report,
      resume: state,
      keep: (trace) =>
        writeArtifacts(trace, {
          run: settings.run,
          dir: flags.artifactDir,
          zstd,
          maxContainerBytes: mostPayloadBytes(first.params.layout),
          retention: flags.artifactRetentionRounds,
          checkpointOut: flags.checkpointOut,
          checkpointHistory: settings.checkpointHistory,
          training: trainingMembers(settings, facts, dataset),
        }),
    });
    return { state: played.workerState, facts };
  });

/** What settings and flags say to the session, in its words. */
const configOf = (
  { settings, flags, secretKey, connection }: ReferencePlayOptions,
  { params, round }: PythonState,
  dataset: RegressionDataset,
): TrainingWorkerConfig => ({
  ...settings,
  ...connection,
  dataset,
  secretKey,
  relays: settings.relay,
  initialState: params,
  startRound: round,
  roundTimeoutMs: settings.roundTimeout * 1000,
  joinTimeoutMs: settings.joinTimeout * 1000,
  heartbeatSeconds: settings.heartbeatInterval,
  worker: flags.worker,
  runtime: flags.runtime,
  backend: flags.backend,
  advertisedRelays: flags.advertiseRelay,
  referenceCompatible: flags.referenceCompatible,
  lateGradientTimeoutMs: 1000 * (flags.lateGradientTimeout ?? 0.2),
  lateGradientStrategy: flags.lateGradientStrategy,
  lateGradientLearningRate: flags.lateGradientLearningRate,
  lateGradientMomentum: flags.lateGradientMomentum,
});

const readingPorts = (
  { connection, signal }: ReferencePlayOptions,
  zstd: Awaited<ReturnType<typeof openZstd>>,
) => ({
  open: (relay: string): RelaySet =>
    createRelaySet([relay], {
      openSocket,
      clock: systemClock,
      crypto: nativeCrypto,
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
  first: PythonState,
  scope: Scope,
): Promise<{ readonly store?: Store; readonly state: PythonState }> {
  if (dir === undefined) return { state: first };
  const folder = await openRunFolder(dir, noMembers);
  scope.defer(() => folder.close());
  const { lateGradientStrategy, lateGradientLearningRate, lateGradientMomentum } = flags;
  const { referenceCompatible, worker, startRound } = flags;
  await agreeOnSettings(dir, {
    ...writeSettings(settings),
    lateGradientStrategy,
    lateGradientLearningRate,
    lateGradientMomentum,
    referenceCompatible,
    worker,
    startRound,
  });
  const saved = await folder.store.load(first.params.layout);
  return { store: folder.store, state: saved ?? first };
}

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
