/**
 * Replays a run into a report with one line per round, and makes records: a summary of a replay, stored next to events
 * and states. A record is never trusted, only compared with a replay.
 */

import { canonicalJson, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { isCount, isHash, listOf, optional, shape } from '../../base/shape.ts';
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
import {
  type BadLine,
  type HistoryOptions,
  type Opened,
  openHistory,
  type RunHistory,
} from './archive.ts';

/** Report of one round. */
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
  /** Missing evidence, the first few items. */
  readonly missing?: readonly string[];
}

/** Result of a replay. */
export interface ReplayReport extends Pick<RunHistory, 'run' | 'bad' | 'believed'> {
  /**
   * Every round is certified, nothing is invalid, the trusted outcome is included, and the final model was recomputed.
   */
  readonly ok: boolean;
  /** Whether the trusted outcome is among the rounds; true if none was named. */
  readonly isTrusted: boolean;
  readonly rounds: number;
  readonly firstBad: number | null;
  /** Merkle root over the outcomes, one leaf per round; null before the first. */
  readonly runRoot: Digest | null;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  readonly lines: readonly RoundReport[];
}

/** Options of `replayRun`. */
export interface ReplayOptions extends HistoryOptions {
  /** Outcome on the branch to follow, if the run forks; default the branch that the fork rule prefers. */
  readonly through?: Digest | undefined;
  /** Outcome known from a trusted source: its branch is followed, and a run without it fails. */
  readonly trust?: Digest | undefined;
  /**
   * Returns the parameters of round 0 if the run trains all of a published model; without them the model is not
   * recomputed.
   */
  first?(spec: RunSpec): Promise<Float32Array | undefined>;
  /** Called with the parameters after the last round, if they were recomputed. */
  onModel?(spec: RunSpec, params: Params): void;
  /** Called for each round once it is checked. */
  onRound?(round: RoundReport): void;
  /** Called with each state that has its model: the first one, and those recomputed or taken from a checkpoint. */
  onState?(state: Certified): void;
}

const MOST_MISSING = 5;

/**
 * Replays a run from its events: checks who decided each round and recomputes all parameters and both roots. Needs no
 * key and trusts only signatures. See the example of `joinCertifiedRun`.
 */
export async function replayRun(
  archive: Opened,
  options: ReplayOptions = {},
): Promise<ReplayReport> {
  const { run, spec, events, gathered, bad, believed } = await openHistory(archive, options);
  const first = await options.first?.(spec);
  const start = openingOf(spec, { first, sha256: options.sha256 });
  const playing = replay(start, gathered, options.trust ?? options.through, options.sha256);
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
  // if lines are broken, they are what is missing
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

/** Adds the round to a broken chunk: that of the manifest or proposal that names its root. */
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

/** A stored state file with canonical bytes of parameters and momentum. */
export interface RecordedState {
  /** Number of rounds that led to it. */
  readonly rounds: number;
  /** Index of the slice, in a run with tiers. */
  readonly ring?: number;
  /** Certified root of its bytes: the model root, or the slice's root. */
  readonly modelRoot: Digest;
  readonly bytes: number;
}

/** Summary of a replay. */
export interface RunRecord
  extends Pick<ReplayReport, 'run' | 'rounds' | 'modelRoot' | 'ledgerRoot'> {
  /** Run root; zeros before the first round. */
  readonly runRoot: Digest;
  /** SHA-256 of the events file. */
  readonly eventsSha256: Digest;
  readonly states: readonly RecordedState[];
}

const FORMAT = 'nostrain/record/1';
const NONE = '0'.repeat(64);
const MOST_TEXT = 1 << 20;
const MOST_STATES = 4096;

/** A record before its events file is hashed, with the replay's report. */
export interface Recording {
  readonly report: ReplayReport;
  readonly record: Omit<RunRecord, 'eventsSha256'>;
}

/**
 * Replays an archive to make its record. Calls `keep` with the state after every `every` rounds (0: never) and after
 * the last one.
 */
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
    const { round: rounds, sliceRoots } = certified;
    for (const [slice, part] of sliceStates(certified).entries()) {
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
      last = state;
      if (isDue(state.round, every)) save(state);
    },
  });
  if (last && last.round === report.rounds && !isDue(last.round, every)) save(last);
  await Promise.all(kept);
  const { run, rounds, runRoot, modelRoot, ledgerRoot } = report;
  return {
    report,
    record: { run, rounds, runRoot: runRoot ?? NONE, modelRoot, ledgerRoot, states },
  };
}

const isDue = (round: number, every: number): boolean =>
  every > 0 && round > 0 && round % every === 0;

/** Formats a record as canonical JSON. */
export const recordText = ({ states, ...rest }: RunRecord): string =>
  `${canonicalJson({ format: FORMAT, ...rest, states: states.map((each) => ({ ...each })) })}\n`;

/** Parses a record from untrusted text. */
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
    states: reader.guarded('states', areStates, []) as readonly RecordedState[],
  };
  const at = reader.problem;
  return at === undefined ? ok(record) : refuse('bad-record', at, `\`${at}\` is malformed`);
}

const areStates = listOf(
  shape({ rounds: isCount, ring: optional(isCount), modelRoot: isHash, bytes: isCount }),
  MOST_STATES,
);

/** Returns the first difference between a record and a replay; undefined if they agree. */
export function recordDifference(record: RunRecord, report: ReplayReport): string | undefined {
  const computed = { ...report, runRoot: report.runRoot ?? NONE };
  for (const name of ['run', 'rounds', 'runRoot', 'modelRoot', 'ledgerRoot'] as const) {
    if (record[name] !== computed[name])
      return `${name} is ${record[name]} in the record, but its events give ${computed[name]}`;
  }
  return undefined;
}
