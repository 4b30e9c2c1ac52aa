/** Loads the initial state of `run-training STATE DATASET`: STATE, a checkpoint file, or a checkpoint on relays. */
import { utf8 } from '../../../base/bytes.ts';
import { CheckpointError, ConfigError, type Result } from '../../../base/errors.ts';
import { sha256Hex } from '../../../base/hash.ts';
import type { RegressionDataset } from '../../../model/data/regression.ts';
import { readStateFile } from '../../../node/files/state-file.ts';
import { roundName, type WorkerId } from '../../../run/ids.ts';
import { discoverCheckpoints } from '../../collect/queries.ts';
import type { ReadingPorts } from '../../collect/read-relay.ts';
import { evaluateRegression } from '../../regression/train.ts';
import { readCheckpointBody, readCheckpointFile } from '../../wire/checkpoints.ts';
import type { PythonState } from '../../worker/session.ts';
import {
  type CollectedCheckpoint,
  chooseCheckpoint,
  resumeFrom,
  startingState,
} from '../../worker/start.ts';
import { readJsonText, readTextFile } from '../files.ts';
import type { ReferenceFlags } from './flags.ts';

export interface StartOptions {
  readonly flags: ReferenceFlags;
  /** Path of STATE, read unless the run resumes from a checkpoint. */
  readonly stateFile: string;
  readonly dataset: RegressionDataset;
  readonly run: string;
  /** Name of this worker, and the key that signs for it. */
  readonly me: WorkerId;
  readonly key: WorkerId;
  readonly relays: readonly string[];
  /** Default time to wait for checkpoints. */
  readonly idleMs: number;
  /** Ports for reading from relays. */
  readonly ports: ReadingPorts;
  readonly onNotice: (message: string) => void;
}

/** Throws a ConfigError if flags contradict each other, before any file is read. */
export function assertStartable(flags: ReferenceFlags): void {
  const isFile = flags.resumeFrom !== undefined;
  if (isFile && flags.resumeLatestCheckpoint) {
    throw new ConfigError(
      'resume/flags',
      '--resume-from and --resume-latest-checkpoint exclude each other',
      { hint: 'omit one of them' },
    );
  }
  if (flags.momentumState !== undefined && (isFile || flags.resumeLatestCheckpoint)) {
    throw new ConfigError('resume/flags', 'a checkpoint has its own momentum', {
      hint: 'omit --momentum-state',
    });
  }
}

/** Returns the initial state with its loss on the dataset. */
export async function startOf(options: StartOptions): Promise<PythonState> {
  const { flags } = options;
  if (flags.resumeFrom !== undefined) return fromFile(flags.resumeFrom, options);
  return flags.resumeLatestCheckpoint ? fromRelays(options) : fromState(options);
}

async function fromState({ flags, stateFile, dataset }: StartOptions): Promise<PythonState> {
  const initialState = await readStateFile(stateFile, flags.stateFormat);
  const { startRound, momentumState: file } = flags;
  if (file === undefined) return startingState({ initialState, dataset, startRound });
  const momentumState = await readStateFile(file, flags.stateFormat);
  return startingState({ initialState, dataset, startRound, momentumState, momentumName: file });
}

async function fromFile(path: string, options: StartOptions): Promise<PythonState> {
  const { run, me, dataset } = options;
  const words = 'a training checkpoint';
  const json = readJsonText(await readTextFile(path, words), path, words);
  const file = usable(readCheckpointFile(json), path);
  if (file.run !== run) {
    throw new CheckpointError('resume/run', `${path} belongs to run ${file.run}, not ${run}`, {
      hint: `give --run ${file.run}`,
    });
  }
  if (file.worker !== me) {
    throw new CheckpointError(
      'resume/worker',
      `${path} belongs to worker ${file.worker}, not ${me}`,
      {
        hint: 'use the key of that worker, or --resume-latest-checkpoint to resume from the relays',
      },
    );
  }
  if (json.current_model_hash !== undefined && json.current_model_hash !== file.model) {
    throw new CheckpointError(
      'resume/digest',
      `${path}: current_model_hash does not match its state`,
      {
        hint: 'the file was edited or damaged; resume from another one',
      },
    );
  }
  const body = usable(
    readCheckpointBody({ ...file, checkpoint: sha256Hex(utf8(file.body)) }),
    path,
  );
  const lossBefore = evaluateRegression(body.state, dataset);
  const { nextRound } = file;
  return usable(resumeFrom(body, { nextRound, lossBefore, keepsLate: true }), path);
}

async function fromRelays(options: StartOptions): Promise<PythonState> {
  const { flags, run, key, relays, dataset, onNotice } = options;
  const idleMs =
    flags.checkpointIdleTimeout === undefined ? options.idleMs : flags.checkpointIdleTimeout * 1000;
  const query = { run, since: flags.checkpointSince, idleMs, maxMs: 10 * idleMs };
  const anyKey = flags.referenceCompatible ?? false;
  const { events, failed } = await discoverCheckpoints(relays, { ...query, anyKey }, options.ports);
  const faults = flags.checkpointFaults ?? 1;
  const authors = flags.checkpointWorker ?? [];
  const { choice, refused } = chooseCheckpoint(events, { me: key, authors, faults });
  for (const { checkpoint, why } of refused)
    onNotice(`not trusted: ${wordsOf(checkpoint)}: ${why}`);
  if (!choice) {
    const failures = failed.map(({ relay, message }) => `${relay} ${message}`);
    throw nothingToResume(run, refused.length, failures);
  }
  const { read } = choice.checkpoint;
  if (!choice.isVouched) {
    const authors = `which at least ${faults + 1} authors publish`;
    onNotice(`resuming from ${wordsOf(choice.checkpoint)}, ${authors}`);
  }
  const { nextRound } = read.tags;
  const lossBefore = evaluateRegression(read.body.state, dataset);
  const resumed = resumeFrom(read.body, { nextRound, lossBefore, keepsLate: choice.isVouched });
  return usable(resumed, wordsOf(choice.checkpoint));
}

const wordsOf = ({ read: { tags } }: CollectedCheckpoint): string =>
  `the checkpoint of ${roundName(tags.round)} by ${tags.worker.slice(0, 16)}`;

function nothingToResume(run: string, refused: number, failures: readonly string[]) {
  if (refused > 0) {
    const message = `no trusted checkpoint of run ${run} on the relays (${refused} refused)`;
    const way = 'name an author you know with --checkpoint-worker KEY';
    const hint = `${way}; \`nostrain discover-checkpoints\` lists them`;
    return new CheckpointError('resume/nothing', message, { hint });
  }
  const why = failures.length > 0 ? ` (${failures.join('; ')})` : '';
  const message = `no checkpoint of run ${run} on the relays${why}`;
  const hint = 'check --run and --relay, or start from STATE without --resume-latest-checkpoint';
  return new CheckpointError('resume/nothing', message, { hint });
}

function usable<T>(result: Result<T>, what: string): T {
  if (result.ok) return result.value;
  const { at, message } = result.issue;
  throw new CheckpointError('resume/checkpoint', `${what} cannot be used: ${at} ${message}`, {
    hint: 'resume from another checkpoint',
  });
}
