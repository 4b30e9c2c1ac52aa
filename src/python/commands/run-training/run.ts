/** `run-training STATE DATASET`: the Python reference's command, with its settings, files and quiet output. */
import { join } from 'node:path';
import { type Scope, systemClock, withScope } from '../../../base/async.ts';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { readModel } from '../../../formats/regression-state.ts';
import { mostPayloadBytes } from '../../../network/codec/codecs.ts';
import { createSigner } from '../../../network/event.ts';
import { createRelaySet } from '../../../network/transport/relay-set.ts';
import { parseRelayUrls, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { readDataset } from '../../../node/data/sources.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { loadKey } from '../../../node/files/keys.ts';
import { openRunFolder } from '../../../node/files/run-folder.ts';
import { agreeOnSettings } from '../../../node/files/stored-settings.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { openSocket } from '../../../node/net/relays.ts';
import { roundName } from '../../../run/ids.ts';
import {
  localStepSettings,
  type PartialSettings,
  ruleSettings,
  type SettingName,
  type Settings,
  spell,
  writeSettings,
} from '../../../run/settings.ts';
import { combineSettings, referenceDefaults } from '../../../run/spec/presets.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { Interrupted } from '../../../terminal/interrupt.ts';
import { writeNote, writeResult } from '../../../terminal/output.ts';
import { createReporter } from '../../../terminal/reporter.ts';
import { assertWritable, writeState } from '../../../terminal/state-flags.ts';
import type { WorkerFlags } from '../../../terminal/worker-flags.ts';
import type { WorkerEvent } from '../../../worker/events.ts';
import type { Store } from '../../../worker/ports.ts';
import { noMembers } from '../../../worker/state-file.ts';
import { assertCompatible, playSession, workerName } from '../../node/run-training-session.ts';
import { openZstd } from '../../node/zstd.ts';
import { flipped } from '../../wire/messages.ts';
import type { PythonState } from '../../worker/session.ts';
import { jsonText, type SessionFacts, sessionSummary, writeArtifacts } from './artifacts.ts';
import type { ReferenceFlags } from './flags.ts';
import { assertStartable, startOf } from './start.ts';

type SessionFlags = WorkerFlags & ReferenceFlags;

interface ReferenceCommand {
  /** Path of the state file. */
  readonly state: string;
  readonly dataset: string;
  readonly settings: PartialSettings;
}

/** Runs the session and writes the files that flags name; without `-o` prints the final state, and only that. */
export async function runReference(
  command: ReferenceCommand,
  flags: SessionFlags,
  signal: AbortSignal,
): Promise<void> {
  assertWritable(flags);
  const settings = settingsOf(command.settings, flags);
  const reporter = reporterOf(settings.run, flags);
  const report = (event: WorkerEvent) => reporter.event(event);
  try {
    const keys = join(dataHome(), 'keys');
    const { secretKey, notices } = await loadKey({ ...flags, dir: flags.dir ?? keys });
    for (const message of notices) report({ type: 'notice', message });
    const { state, facts } = await play(command, flags, { settings, secretKey, report, signal });
    reporter.close();
    await writeFiles(state, facts, flags);
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    reporter.close();
    const how = flags.dir === undefined ? ' with --resume-latest-checkpoint' : '';
    writeNote(`stopped; run the same command${how} to resume`);
    process.exitCode = error.exitCode;
  } finally {
    reporter.close();
  }
}

interface Playing {
  readonly settings: Settings;
  readonly secretKey: Uint8Array;
  readonly report: (event: WorkerEvent) => void;
  readonly signal: AbortSignal;
}

/** Reads dataset and initial state, opens the folder, and runs the worker until its last round. */
const play = (
  files: ReferenceCommand,
  flags: SessionFlags,
  { settings, secretKey, report, signal }: Playing,
): Promise<{ readonly state: PythonState; readonly facts: SessionFacts }> =>
  withScope(async (scope) => {
    assertStartable(flags);
    const connection = connectionOf(flags);
    const dataset = await readDataset(files.dataset);
    const { publicKey: key } = createSigner(secretKey, nativeCrypto);
    const worker = workerName(flags, key);
    const relays = parseRelayUrls(settings.relay);
    const zstd = await openZstd();
    const open = (relay: string) =>
      createRelaySet([relay], {
        openSocket,
        clock: systemClock,
        crypto: nativeCrypto,
        ...connection,
      });
    const { maxAttempts } = connection.retry;
    const first = await startOf({
      flags,
      dataset,
      relays,
      key,
      stateFile: files.state,
      run: settings.run,
      me: worker,
      idleMs: settings.roundTimeout * 1000,
      ports: { open, clock: systemClock, maxAttempts, signal, zstd },
      onNotice: (message) => report({ type: 'notice', message }),
    });
    const { runtime } = readModel(first.params);
    const { store, state } = await storeOf(flags, settings, first, scope);
    const { backend, artifactRetentionRounds } = flags;
    const { run, checkpointHistory } = settings;
    const facts: SessionFacts = {
      run,
      worker,
      relays: relays.map(withoutSecrets),
      runtime,
      backend,
      startRound: first.round,
      checkpointHistory,
      artifactRetentionRounds,
    };
    const artifacts = {
      run,
      checkpointHistory,
      dir: flags.artifactDir,
      retention: artifactRetentionRounds,
      checkpointOut: flags.checkpointOut,
      limits: {
        maxContainerBytes: mostPayloadBytes(first.params.layout),
        maxValues: 2 ** 24,
        zstd,
      },
      training: {
        task: runtime,
        runtime,
        backend,
        steps: BigInt(settings.innerSteps),
        learning_rate: settings.localLearningRate,
        batch_size: BigInt(settings.batchSize),
        example_count: BigInt(dataset.size),
        feature_count: BigInt(dataset.features),
      },
    };
    const played = await playSession(
      {
        ...flags,
        settings,
        connection,
        dataset,
        secretKey,
        start: state,
        startRound: first.round,
        advertisedRelays: flags.advertiseRelay,
        lateGradientTimeoutMs: 1000 * (flags.lateGradientTimeout ?? 0.2),
      },
      { store, signal, onEvent: report, keep: (trace) => writeArtifacts(trace, artifacts) },
    );
    return { state: played.workerState, facts };
  });

/** Opens the folder, if any, and returns its stored state, else the initial state. */
async function storeOf(
  flags: SessionFlags,
  settings: Settings,
  first: PythonState,
  scope: Scope,
): Promise<{ readonly store?: Store; readonly state: PythonState }> {
  const { dir } = flags;
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

/** Settings that have no effect with STATE and DATASET: those of other models, wire profiles and optimizers. */
const MEANINGLESS: readonly SettingName[] = [
  'model',
  'width',
  'layers',
  'heads',
  'context',
  'ffn',
  'hidden',
  'tokens',
  'shard',
  'optimizer',
  'warmupSteps',
  'finalShare',
  'weightDecay',
  'clipNorm',
  'packing',
  'eventBudget',
  'owners',
  'fragments',
  'normalize',
  'stripe',
  ...ruleSettings,
  ...localStepSettings,
];

function settingsOf(requested: PartialSettings, flags: SessionFlags): Settings {
  const odd = MEANINGLESS.find((name) => requested[name] !== undefined);
  if (odd !== undefined) {
    throw new ConfigError('flag/reference', `${spell(odd)} has no effect with STATE and DATASET`, {
      hint:
        'omit it: such runs train like the Python reference; ' +
        'use --model NAME for all other settings',
    });
  }
  if (requested.profile === 'nostrain/1') {
    throw new ConfigError('flag/profile', 'STATE and DATASET require --set profile=nostrain/0', {
      hint: 'omit profile, or train with --model linear or mlp',
    });
  }
  const { profile: _, ...rest } = requested;
  const settings = combineSettings(referenceDefaults, { model: 'linear', ...rest });
  assertCompatible(settings, flags);
  if (flags.dir !== undefined && (flags.resumeFrom ?? flags.resumeLatestCheckpoint)) {
    throw new ConfigError('flag/dir', '--dir stores the state, so there is nothing to resume', {
      hint: 'omit --dir or the checkpoint',
    });
  }
  return settings;
}

/** Creates a live view on a terminal, else notices on stderr as in the Python reference; or the requested report. */
function reporterOf(run: string, flags: SessionFlags) {
  const { report, output } = flags;
  const stream = report === undefined || output === undefined ? process.stderr : process.stdout;
  if (report === undefined && !stream.isTTY) {
    return {
      event(event: WorkerEvent) {
        if (event.type === 'notice') writeNote(safeLine(event.message));
        if (event.type === 'divergence') writeNote(wordDivergence(event));
      },
      close: () => undefined,
    };
  }
  const reporter = createReporter(report, { title: `run ${run}`, workers: ['me'], stream });
  return {
    event: (event: WorkerEvent) => reporter.event('me', event),
    close: () => reporter.close(),
  };
}

function wordDivergence(event: Extract<WorkerEvent, { type: 'divergence' }>): string {
  const [peer, theirs, ours] = [event.peer, event.theirs, event.ours].map((word) =>
    safeLine(word.slice(0, 16)),
  );
  return `${roundName(event.round)}: ${peer} has state ${theirs}, this worker ${ours}`;
}

async function writeFiles(
  state: PythonState,
  facts: SessionFacts,
  flags: SessionFlags,
): Promise<void> {
  const { runtime } = facts;
  await writeState({ ...state.params, runtime }, flags);
  if (flags.momentumOut !== undefined) {
    const momentum = { layout: state.params.layout, values: flipped(state.momentum), runtime };
    await writeState(momentum, { ...flags, output: flags.momentumOut });
  }
  if (flags.summaryOut === undefined) return;
  await writeResult(jsonText(sessionSummary(state, facts)), flags.summaryOut);
}
