/**
 * The record of a run that is over, or as far as it is: what a folder with its events and states says of itself. Nothing in it is believed: who replays
 * the events compares what comes out, and a state counts only by the certified root of its bytes.
 */
import { canonicalJson, isJsonObject, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { stateBytes } from '../../consensus/roots.ts';
import type { Digest } from '../../run/ids.ts';
import { JsonReader } from '../../run/json-reader.ts';
import type { Certified } from '../decisions/chain.ts';
import { ringStates } from '../decisions/widths.ts';
import type { Opened } from './archive.ts';
import { type ReplayOptions, type ReplayReport, replayRun } from './replay-run.ts';

/** A state in a file: parameters and momentum, canonical bytes. */
export interface RecordedState {
  /** Rounds that led to it. */
  readonly rounds: number;
  /** Which ring it is of, in a run with tiers of width. */
  readonly ring?: number;
  /** The certified root of its bytes: of the model, or of the ring. */
  readonly modelRoot: Digest;
  readonly bytes: number;
}

/** What a replay of the events finds. */
export interface RunRecord {
  readonly run: Digest;
  readonly rounds: number;
  /** Zeros before the first round. */
  readonly runRoot: Digest;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  /** Of the file of events. */
  readonly eventsSha256: Digest;
  readonly states: readonly RecordedState[];
}

const FORMAT = 'nostrain/record/1';
const NONE = '0'.repeat(64);
const MOST_TEXT = 1 << 20;
const MOST_STATES = 4096;

/** What is found when a record is made: all but the file of events. */
export interface Recording {
  readonly report: ReplayReport;
  readonly record: Omit<RunRecord, 'eventsSha256'>;
}

/** Replays an archive for its record; `keep` is given the state after every `every` rounds (0: none) and the last one. */
export async function recordRun(
  archive: Opened,
  options: ReplayOptions,
  {
    every,
    keep,
  }: { readonly every: number; keep(state: RecordedState, bytes: Uint8Array): Promise<void> },
): Promise<Recording> {
  const states: RecordedState[] = [];
  const kept: Promise<void>[] = [];
  const save = (certified: Certified): void => {
    const { spec, round: rounds, rings } = certified;
    for (const [ring, part] of ringStates(spec, certified).entries()) {
      const bytes = stateBytes(part);
      const modelRoot = rings?.[ring] ?? certified.modelRoot;
      const state = { rounds, ...(rings && { ring }), modelRoot, bytes: bytes.length };
      states.push(state);
      kept.push(keep(state, bytes));
    }
  };
  let last: Certified | undefined;
  const report = await replayRun(archive, {
    ...options,
    onState(state) {
      options.onState?.(state);
      if (last && isDue(last.round, every)) save(last);
      last = state;
    },
  });
  if (last && last.round === report.rounds) save(last);
  await Promise.all(kept);
  const { run, rounds, runRoot, modelRoot, ledgerRoot } = report;
  return {
    report,
    record: { run, rounds, runRoot: runRoot ?? NONE, modelRoot, ledgerRoot, states },
  };
}

const isDue = (round: number, every: number): boolean =>
  every > 0 && round > 0 && round % every === 0;

/** Canonical JSON. */
export const recordText = ({ states, ...rest }: RunRecord): string =>
  `${canonicalJson({ format: FORMAT, ...rest, states: states.map((each) => ({ ...each })) })}\n`;

/** The record in a text from anybody. */
export function parseRecord(text: string): Result<RunRecord> {
  if (text.length > MOST_TEXT) return refuse('too-large', 'record', `${text.length} characters`);
  const parsed = parseJson(text.trimEnd());
  if (!parsed.ok) return parsed;
  const reader = new JsonReader(parsed.value);
  reader.text('format', (format) => format === FORMAT);
  const record: RunRecord = {
    run: reader.hex32('run'),
    rounds: reader.integer('rounds', Number.MAX_SAFE_INTEGER),
    runRoot: reader.hex32('runRoot'),
    modelRoot: reader.hex32('modelRoot'),
    ledgerRoot: reader.hex32('ledgerRoot'),
    eventsSha256: reader.hex32('eventsSha256'),
    states: reader.take<readonly RecordedState[]>('states', readStates, []),
  };
  const at = reader.problem;
  return at === undefined ? ok(record) : refuse('bad-record', at, `\`${at}\` is not of its form`);
}

function readStates(value: Json | undefined): readonly RecordedState[] | undefined {
  if (!Array.isArray(value) || value.length > MOST_STATES) return undefined;
  const states = (value as readonly Json[]).map((each) => {
    const reader = new JsonReader(each);
    const isOfRing = isJsonObject(each) && 'ring' in each;
    const state = {
      rounds: reader.integer('rounds', Number.MAX_SAFE_INTEGER),
      ...(isOfRing && { ring: reader.integer('ring', Number.MAX_SAFE_INTEGER) }),
      modelRoot: reader.hex32('modelRoot'),
      bytes: reader.integer('bytes', Number.MAX_SAFE_INTEGER),
    };
    return reader.problem === undefined ? state : undefined;
  });
  const read = states.filter((each) => each !== undefined);
  return read.length === states.length ? read : undefined;
}

/** The first thing that a replay finds otherwise than the record says. */
export function recordDifference(record: RunRecord, report: ReplayReport): string | undefined {
  const found = { ...report, runRoot: report.runRoot ?? NONE };
  for (const name of ['run', 'rounds', 'runRoot', 'modelRoot', 'ledgerRoot'] as const) {
    if (record[name] !== found[name])
      return `${name} is ${record[name]} in the record, ${found[name]} by its events`;
  }
  return undefined;
}
