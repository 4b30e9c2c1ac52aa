/**
 * Replays a whole run into a report with a line per round, and makes the record of a folder with its events and states.
 * A record is only compared with a replay, never trusted.
 */

import { canonicalJson, isJsonObject, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { runRoot, stateBytes } from '../../consensus/roots.ts';
import { apartIn } from '../../network/attachments/bodies.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { JsonReader } from '../../run/json-reader.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Params } from '../../tensor/params.ts';
import { type Certified, openingOf } from '../decisions/chain.ts';
import type { Gathered } from '../decisions/evidence.ts';
import { type Checked, hasModel, type ReplayedRound, replay } from '../decisions/replay.ts';
import { sliceStates } from '../decisions/slices.ts';
import { toProposed } from '../wire/messages.ts';
import { type BadLine, type HistoryOptions, type Opened, openHistory } from './archive.ts';

/** One round. */
export interface RoundReport {
  readonly round: number;
  readonly checked: Checked;
  readonly result?: 'final' | 'void';
  readonly outcome?: Digest;
  readonly attempt?: number;
  readonly view?: number;
  readonly accepted?: readonly { readonly worker: WorkerId; readonly late: boolean }[];
  readonly rejected?: readonly { readonly worker: WorkerId; readonly reason: string }[];
  readonly signers?: number;
  readonly seats?: number;
  readonly joined?: readonly WorkerId[];
  readonly left?: readonly WorkerId[];
  readonly faults?: readonly { readonly worker: WorkerId; readonly kind: string }[];
  /** Other outcomes of the round with a quorum of their own. */
  readonly forks?: readonly Digest[];
  readonly modelRoot?: Digest;
  readonly ledgerRoot?: Digest;
  readonly problem?: string;
  /** What is not here, a few of it. */
  readonly missing?: readonly string[];
}

/** What `replayRun` gives: whether a run is right, and each of its rounds. */
export interface ReplayReport {
  /** Every round is certified, nothing is wrong, the trusted outcome is included, and the final model is here. */
  readonly ok: boolean;
  /** Whether the outcome to trust is among the rounds; true where none was named. */
  readonly isTrusted: boolean;
  readonly run: Digest;
  readonly rounds: number;
  readonly firstBad: number | null;
  /** Lines of the file that are no genuine events. */
  readonly bad: readonly BadLine[];
  /** Block hashes of the beacon that are as the archive says: nobody was asked about them. */
  readonly believed: number;
  /** Of the outcomes, one leaf a round; null before the first one. */
  readonly runRoot: Digest | null;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  readonly lines: readonly RoundReport[];
}

/** What `replayRun` takes beside the archive. */
export interface ReplayOptions extends HistoryOptions {
  /** Where the run forks: an outcome of the branch to follow; default the one that the fork rule prefers. */
  readonly through?: Digest | undefined;
  /** An outcome that somebody vouched for: its branch is followed, and without it nothing is right. */
  readonly trust?: Digest | undefined;
  /** The parameters of round 0 if all of a published model is trained; without them the model is not recomputed. */
  first?(spec: RunSpec): Promise<Float32Array | undefined>;
  /** The parameters after the last round, where they are recomputed. */
  onModel?(spec: RunSpec, params: Params): void;
  /** Each round as soon as it is checked. */
  onRound?(round: RoundReport): void;
  /** Called with each state that has its model: the first, and those recomputed or taken from a checkpoint. */
  onState?(state: Certified): void;
}

const MOST_MISSING = 5;

/**
 * Replays a run from its events alone: who decided each round, every parameter, both roots. Needs no key and trusts
 * only signatures. See the example of `joinCertifiedRun`.
 */
export async function replayRun(
  archive: Opened,
  options: ReplayOptions = {},
): Promise<ReplayReport> {
  const { run, spec, events, gathered, bad, believed } = await openHistory(archive, options);
  const first = await options.first?.(spec);
  const start = openingOf(spec, { first, sha256: options.sha256 });
  const playing = replay(start, gathered, options.trust ?? options.through);
  const lines: RoundReport[] = [];
  let next = playing.next();
  for (; !next.done; next = playing.next()) {
    const line = lineOf(next.value, gathered);
    lines.push(line);
    options.onRound?.(line);
    if (hasModel(next.value.before)) options.onState?.(next.value.before);
  }
  const { state, digests } = next.value;
  if (hasModel(state)) options.onState?.(state);
  if (hasModel(state)) options.onModel?.(spec, state.params);
  const badLines = bad.map((each) => withRound(each, gathered, events));
  // where lines are broken, what is missing is what they said
  const isWrong = ({ problem, missing }: RoundReport): boolean =>
    problem !== undefined || (bad.length > 0 && missing !== undefined);
  const wrong = [
    ...lines.filter(isWrong).map(({ round }) => round),
    ...badLines.flatMap(({ round }) => (round === undefined ? [] : [round])),
  ];
  const { trust } = options;
  const isTrusted = trust === undefined || trust === run || digests.includes(trust);
  return {
    isTrusted,
    ok:
      isTrusted &&
      bad.length === 0 &&
      hasModel(state) &&
      lines.every(({ checked }) => checked !== 'nothing'),
    run,
    rounds: digests.length,
    firstBad: wrong.length > 0 ? Math.min(...wrong) : null,
    bad: badLines,
    believed,
    runRoot: digests.length > 0 ? runRoot(digests) : null,
    modelRoot: state.modelRoot,
    ledgerRoot: state.ledgerRoot,
    lines,
  };
}

/** A chunk belongs to the round of the manifest or proposal that names it. */
function withRound(bad: BadLine, { messages }: Gathered, events: readonly SignedEvent[]): BadLine {
  if (bad.round !== undefined || bad.root === undefined) return bad;
  for (const message of messages.values()) {
    if (message.type !== 'manifest') continue;
    const { root, shards = [], round } = message.manifest;
    if (root === bad.root || shards.includes(bad.root)) return { ...bad, round };
  }
  for (const event of events) {
    const proposed = apartIn(event)?.root === bad.root ? toProposed(event) : undefined;
    if (proposed?.ok) return { ...bad, round: proposed.value.round };
  }
  return bad;
}

function lineOf(replayed: ReplayedRound, events: Gathered): RoundReport {
  const { round, checked, before, decided, forks, invalid, missing = [] } = replayed;
  const trouble = {
    ...(invalid === undefined ? {} : { problem: `${invalid.code}: ${invalid.message}` }),
    ...(missing.length === 0
      ? {}
      : { missing: missing.slice(0, MOST_MISSING).map(({ what, id }) => `${what} ${id}`) }),
  };
  if (decided === undefined) return { round, checked, ...trouble };
  const { outcome, certificate } = decided;
  const keyOf = (index: number) => before.ledger.members[index]?.key ?? '';
  const keys = (listed: readonly { readonly key: WorkerId }[]) => listed.map(({ key }) => key);
  return {
    round,
    checked,
    result: outcome.result,
    outcome: certificate.digest,
    attempt: certificate.attempt,
    view: certificate.view,
    accepted: outcome.accepted.map(({ index, late }) => ({ worker: keyOf(index), late })),
    rejected: outcome.rejected.map(({ index, reason }) => ({ worker: keyOf(index), reason })),
    signers: certificate.commits.length,
    seats: certificate.committee.size,
    joined: keys(outcome.joins),
    left: keys(outcome.leaves),
    faults: outcome.faults.flatMap((id) => {
      const message = events.message(id);
      return message?.type === 'fault' ? [{ worker: message.culprit, kind: message.kind }] : [];
    }),
    forks,
    modelRoot: outcome.modelRoot,
    ledgerRoot: outcome.ledgerRoot,
    ...trouble,
  };
}

/** A state in a file: parameters and momentum, canonical bytes. */
export interface RecordedState {
  /** Rounds that led to it. */
  readonly rounds: number;
  /** Which slice it is of, in a run with tiers. */
  readonly ring?: number;
  /** The certified root of its bytes: of the model, or of the slice. */
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

/** Replays an archive for its record; `keep` gets the state after every `every` rounds (0: none) and the last. */
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
    const { spec, round: rounds, sliceRoots } = certified;
    for (const [slice, part] of sliceStates(spec, certified).entries()) {
      const bytes = stateBytes(part);
      const modelRoot = sliceRoots?.[slice] ?? certified.modelRoot;
      const state = { rounds, ...(sliceRoots && { ring: slice }), modelRoot, bytes: bytes.length };
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
    const hasSlice = isJsonObject(each) && 'ring' in each;
    const state = {
      rounds: reader.integer('rounds', Number.MAX_SAFE_INTEGER),
      ...(hasSlice && { ring: reader.integer('ring', Number.MAX_SAFE_INTEGER) }),
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
  const computed = { ...report, runRoot: report.runRoot ?? NONE };
  for (const name of ['run', 'rounds', 'runRoot', 'modelRoot', 'ledgerRoot'] as const) {
    if (record[name] !== computed[name])
      return `${name} is ${record[name]} in the record, ${computed[name]} by its events`;
  }
  return undefined;
}
