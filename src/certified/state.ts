/**
 * State of a worker in a certified run: its format on disk (ledgers as canonical bytes, checked by their roots), and
 * the residual after a round or a change of branch.
 */
import { utf8 } from '../base/bytes.ts';
import type { Json } from '../base/canonical-json.ts';
import {
  isCount,
  isHash,
  isObject,
  isText,
  listOf,
  optional,
  shape,
  type Untyped,
} from '../base/shape.ts';
import type { Wire } from '../network/wire/wire.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import { type Ledger, ledgerBytes, ledgerRoot, parseLedger } from '../run/ledger.ts';
import { readVotes, votesJson } from '../run/listed.ts';
import type { Outcome } from '../run/outcome.ts';
import type { ResidualRule } from '../run/settings.ts';
import { anyFeatures } from '../run/spec/features.ts';
import { residualAfter, restoreSent, withdrawSent } from '../worker/residual.ts';
import { idOf, type Sent, type WorkerState } from '../worker/state.ts';
import {
  type AddedMembers,
  formatSent,
  parseSent,
  type WorkerRecord,
} from '../worker/state-file.ts';
import {
  type Certified,
  type ChainHead,
  chainHeadOf,
  type FinishedRound,
  finishedRound,
  type StakeEvidence,
  stakesOf,
  type Taken,
} from './decisions/chain.ts';
import {
  assignmentOf,
  previousRoundParametersOf,
  roundParametersOf,
  unwrapRuling,
} from './decisions/contributions.ts';
import type { Path } from './decisions/replay.ts';
import type { Better } from './history/branches.ts';
import type { CertifiedSummary } from './rounds/events.ts';

type Members = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

/**
 * Writes and reads the members that `CertifiedState` adds. A state without a chain head is not that of a certified run.
 */
export const certifiedMembers: AddedMembers<Members> = {
  format(record: WorkerRecord & Partial<CertifiedState>) {
    const { head, pending, contributed } = record;
    return {
      head: head && formatChainHead(head),
      pending: pending && formatSent(pending),
      contributed: contributed?.map(({ sent, finished, isOut }) => ({
        sent: formatSent(sent),
        past: formatFinishedRound(finished),
        isOut,
      })),
    };
  },
  parse({ head: json, pending: waiting, contributed: list = [] }) {
    const head = parseChainHead(json);
    const pending = waiting === undefined ? undefined : parseSent(waiting);
    if (head === undefined || (waiting !== undefined && pending === undefined)) return undefined;
    if (!Array.isArray(list)) return undefined;
    const contributed = list.map(parseContributed).filter((each) => each !== undefined);
    return contributed.length === list.length ? { head, pending, contributed } : undefined;
  },
};

function parseContributed(json: unknown): Contributed | undefined {
  if (!isObject(json) || typeof json.isOut !== 'boolean') return undefined;
  const sent = parseSent(json.sent);
  const finished = parseFinishedRound(json.past);
  return sent && finished && { sent, finished, isOut: json.isOut };
}

function formatChainHead({ ledger, before, votes, sliceRoots, ...rest }: ChainHead): Untyped {
  return {
    ...rest,
    ...(sliceRoots && { rings: sliceRoots }),
    votes: votesJson(votes),
    ledger: formatLedger(ledger),
    before: before && formatFinishedRound(before),
  };
}

/** Formats a ledger; the entropy is not part of its canonical bytes. */
const formatLedger = (ledger: Ledger): Untyped => ({
  text: new TextDecoder().decode(ledgerBytes(ledger)),
  root: ledgerRoot(ledger),
  entropy: ledger.entropy,
});

const areHashes = listOf(isHash);
/** Members with a parser of their own. */
const isAny = (_value: unknown): _value is unknown => true;

const isHead = shape({
  run: isHash,
  round: isCount,
  parent: isHash,
  time: isCount,
  modelRoot: isHash,
  ledgerRoot: isHash,
  rings: optional(areHashes),
  recent: areHashes,
  departed: optional(listOf(shape({ key: isHash, round: isCount }))),
  left: optional(areHashes),
  votes: isAny,
  ledger: isAny,
  before: isAny,
});

function parseChainHead(json: unknown): ChainHead | undefined {
  if (!isHead(json)) return undefined;
  const { rings: sliceRoots, left = [], departed = [], votes: listed, ...head } = json;
  const votes = readVotes(listed as Json | undefined, anyFeatures);
  const ledger = parseKept(head.ledger);
  const before = head.before === null ? null : parseFinishedRound(head.before);
  if (votes === undefined || before === undefined || ledger?.round !== head.round) return undefined;
  return { ...head, ledger, before, departed, votes, left, ...(sliceRoots && { sliceRoots }) };
}

const formatFinishedRound = ({ ledger, sliceRoots, ...rest }: FinishedRound): Untyped => ({
  ...rest,
  ...(sliceRoots && { rings: sliceRoots }),
  ledger: formatLedger(ledger),
});

const isFinished = shape({
  round: isCount,
  parent: isHash,
  base: isHash,
  ledger: isAny,
  rings: optional(areHashes),
});

function parseFinishedRound(json: unknown): FinishedRound | undefined {
  if (!isFinished(json)) return undefined;
  const { rings: sliceRoots, ...round } = json;
  const ledger = parseKept(round.ledger);
  return ledger && { ...round, ledger, ...(sliceRoots && { sliceRoots }) };
}

const isKept = shape({
  text: isText,
  root: isHash,
  entropy: (value): value is Digest | null => value === null || isHash(value),
});

function parseKept(json: unknown): Ledger | undefined {
  if (!isKept(json)) return undefined;
  const ledger = parseLedger(utf8(json.text), json.root, anyFeatures);
  return ledger.ok ? { ...ledger.value, entropy: json.entropy } : undefined;
}

interface Means<K extends keyof Wire> {
  readonly wire: Pick<Wire, K>;
  /** Has the stake tables of all affected rounds. */
  readonly evidence: StakeEvidence;
  readonly rule: ResidualRule;
}

type Carried = Pick<CertifiedState, 'sent' | 'unpacked' | 'residual' | 'pending' | 'contributed'>;

/**
 * Returns the residual and open contributions after an outcome. Under `discard` an unlisted contribution returns to the
 * residual at once; under `defer` it waits for one more outcome, which lists it late or returns it. Rejected
 * contributions are dropped.
 */
export function carryOver(
  { sent, unpacked, residual, pending, contributed = [] }: Carried,
  state: Certified,
  outcome: Outcome,
  { wire, evidence, rule }: Means<'me' | 'open'>,
  taken?: Taken,
): Pick<CertifiedState, 'residual' | 'pending' | 'contributed'> {
  const counted = outcome.accepted.map(({ manifest }) => manifest);
  const isSettled = sent !== undefined && isSettledBy(sent, outcome);
  const waits = sent !== undefined && !isSettled && state.spec.late === 'defer';
  const isGone = sent !== undefined && !waits && !isSettled && dropsUnlisted(state, outcome);
  // what the rule left out returns to the residual, minus what the step moved instead
  const isOut = isGone || waits || (isSettled && !taken?.unused.has(idOf(sent)));
  const learned = { id: sent && idOf(sent), worker: wire.me, unpacked, residual, waits };
  const left = residualLeft(learned, state, outcome, evidence, taken);
  const isLost = pending !== undefined && !counted.includes(idOf(pending));
  const lost = isLost && !dropsUnlisted(state, outcome) ? pending : undefined;
  return {
    residual: lost ? returned(lost) : left,
    pending: waits ? sent : undefined,
    contributed: contributedAfter(contributed, state, sent && { sent, isOut }, lost),
  };

  function returned(gradient: NonNullable<typeof pending>): Float64Array {
    const previous = unwrapRuling(previousRoundParametersOf(state, evidence))!;
    const context = { round: previous.round, assignment: assignmentOf(previous) };
    return restoreSent(left, wire.open(gradient, context), rule);
  }
}

/** What a worker has learned but not sent, after a round. */
export interface LearnedDelta {
  /** Its contribution to the round; undefined if it sent none. */
  readonly id: EventId | undefined;
  readonly worker: WorkerId;
  /** Full delta when the payload was packed; undefined if it did not train. */
  readonly unpacked: Float64Array | undefined;
  /** Remainder of the delta after packing. */
  readonly residual: Float64Array;
  /** The next outcome may still list the contribution. */
  readonly waits: boolean;
}

/** Computes the residual of a worker after an outcome; anyone who knows its full delta gets the same result. */
export function residualLeft(
  { id, worker, unpacked, residual, waits }: LearnedDelta,
  state: Certified,
  outcome: Outcome,
  evidence: StakeEvidence,
  taken?: Taken,
): Float64Array {
  if (unpacked === undefined) return residual;
  const assignment = assignmentOf(unwrapRuling(roundParametersOf(state, evidence)));
  const rows = outcome.accepted.filter(({ late }) => !late);
  const others = new Set<WorkerId>(rows.map(({ index }) => state.ledger.members[index]!.key));
  const taking = new Set(taken?.moved);
  const isUnused = id !== undefined && taken?.unused.has(id) === true;
  return residualAfter(unpacked, residual, {
    still: new Set(taken && assignment.moving.filter((chunk) => !taking.has(chunk))),
    instead: isUnused ? taken?.mean : undefined,
    sent: assignment.chunksOf(worker),
    isSettled:
      waits ||
      (id !== undefined && (dropsUnlisted(state, outcome) || settledIn(outcome).includes(id))),
    moved: new Set([...others].flatMap((each) => [...assignment.chunksOf(each)])),
  });
}

/**
 * With screening, a final outcome drops unlisted contributions: re-sent harm would grow each time. The outcome does not
 * tell screened from late contributions.
 */
const dropsUnlisted = ({ spec }: Pick<Certified, 'spec'>, { result }: Outcome): boolean =>
  spec.screening && result === 'final';

/** Maximum rounds whose contribution is stored, whatever `reorgDepth` is: each is a payload on disk. */
const MOST_KEPT = 64;

/** Returns the contributions that an outcome accepts or rejects. */
const settledIn = ({ accepted, rejected }: Outcome): readonly EventId[] =>
  [...accepted, ...rejected].map(({ manifest }) => manifest);

const isSettledBy = (sent: Sent, outcome: Outcome): boolean =>
  settledIn(outcome).includes(idOf(sent));

/** Returns the list after a round: adds `now`, and marks `lost` as returned to the residual. */
function contributedAfter(
  known: readonly Contributed[],
  state: Certified,
  now: Pick<Contributed, 'sent' | 'isOut'> | undefined,
  lost: Sent | undefined,
): readonly Contributed[] {
  const id = lost && idOf(lost);
  const before = known.map((each) =>
    id !== undefined && idOf(each.sent) === id ? { ...each, isOut: false } : each,
  );
  const { spec } = state;
  const finished = finishedRound(state);
  // a check also needs the previous contribution
  const least = spec.rerun.permille > 0 ? 2 : 1;
  const kept = Math.min(Math.max(least, spec.timing.reorgDepth), MOST_KEPT);
  return [...before, ...(now ? [{ ...now, finished }] : [])].slice(-kept);
}

/** Maximum outcomes of left branches remembered, so that the worker signs nothing there again. */
const MOST_LEFT = 256;

/** Returns the state at the end of the better branch. The residual excludes exactly what that branch counts. */
export function switchTo(
  { path, state, votes, fork }: Better,
  before: CertifiedState,
  means: Means<'open'>,
): CertifiedState {
  const { sent: _, unpacked, pending: __, contributed = [], ...rest } = before;
  const outcomes = outcomesAfter(path);
  const { run, spec } = state;
  // the current round's contribution belongs to the abandoned branch
  let residual = unpacked ?? before.residual;
  let pending: CertifiedState['pending'];
  const kept: Contributed[] = [];
  for (const each of contributed) {
    const status = statusOf(each, outcomes, spec.late === 'defer');
    const isOut = status !== 'back';
    if (isOut !== each.isOut) {
      const { layout } = state.params;
      const stakes = unwrapRuling(stakesOf(each.finished.ledger, means.evidence));
      const assignment = assignmentOf({ spec, run, ...each.finished, layout, stakes });
      const opened = means.wire.open(each.sent, { round: each.finished.round, assignment });
      residual = (isOut ? withdrawSent : restoreSent)(residual, opened, means.rule);
    }
    if (status === 'pending') pending = each.sent;
    kept.push({ ...each, isOut });
  }
  return {
    ...rest,
    round: state.round,
    params: state.params,
    momentum: state.momentum,
    residual,
    pending,
    unpacked: undefined,
    sent: undefined,
    contributed: kept,
    rounds: rest.rounds.filter(({ index }) => index < fork),
    head: chainHeadOf(state, votes, leftBy(before.head)),
  };
}

/** Returns outcomes by their parent. */
const outcomesAfter = ({ stops }: Path): ReadonlyMap<Digest, Outcome> =>
  new Map(
    [...stops.values()].flatMap(({ outcome }) => (outcome ? [[outcome.parent, outcome]] : [])),
  );

/**
 * Returns the status of a contribution on a branch: listed, pending (it may still be listed), or back in the residual.
 */
function statusOf(
  { sent, finished }: Contributed,
  outcomes: ReadonlyMap<Digest, Outcome>,
  isDeferring: boolean,
): 'listed' | 'pending' | 'back' {
  const outcome = outcomes.get(finished.parent);
  if (outcome === undefined) return 'back';
  if (isSettledBy(sent, outcome)) return 'listed';
  if (!isDeferring) return 'back';
  const following = [...outcomes.values()].find(({ round }) => round === finished.round + 1);
  if (following === undefined) return 'pending';
  const isLate = following.accepted.some(({ manifest }) => manifest === idOf(sent));
  return isLate ? 'listed' : 'back';
}

/** Returns the outcomes after which this worker may have signed something. */
const leftBy = ({ left, recent }: ChainHead): readonly Digest[] =>
  [...new Set([...left, ...recent])].slice(-MOST_LEFT);

/** The state of a worker of a certified run. */
export interface CertifiedState extends WorkerState {
  readonly rounds: readonly CertifiedSummary[];
  /** Last certified outcome it knows, and the state that follows from it. */
  readonly head: ChainHead;
  /**
   * Contribution to the previous round, if the outcome of `round` may still list it; otherwise it returns to the
   * residual.
   */
  readonly pending?: Sent | undefined;
  /** Contributions to its last certified rounds, oldest first. */
  readonly contributed?: readonly Contributed[] | undefined;
}

/** A contribution to a finished certified round. */
export interface Contributed {
  readonly sent: Sent;
  /** Round that it was made for. */
  readonly finished: FinishedRound;
  /** Whether it is out of the residual: it counted, was rejected, or may still be listed late. */
  readonly isOut: boolean;
}
