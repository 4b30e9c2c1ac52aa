/**
 * The state of a worker in a certified run: its format on disk (ledgers as canonical bytes, checked by their roots),
 * and what a worker keeps of its learning after a round or a change of branch.
 */
import { isHex32, utf8 } from '../base/bytes.ts';
import type { Json } from '../base/canonical-json.ts';
import type { Departure } from '../consensus/round/roster-change.ts';
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
  type Fields,
  formatSent,
  isObject,
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

/** Writes and reads what a `CertifiedState` adds. A state without a chain head is not one of a certified run. */
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

function formatChainHead({ ledger, before, votes, sliceRoots, ...rest }: ChainHead): Fields {
  return {
    ...rest,
    ...(sliceRoots && { rings: sliceRoots }),
    votes: votesJson(votes),
    ledger: formatLedger(ledger),
    before: before && formatFinishedRound(before),
  };
}

/** The entropy is not among the canonical bytes. */
const formatLedger = (ledger: Ledger): Fields => ({
  text: new TextDecoder().decode(ledgerBytes(ledger)),
  root: ledgerRoot(ledger),
  entropy: ledger.entropy,
});

function parseChainHead(json: unknown): ChainHead | undefined {
  if (!isObject(json)) return undefined;
  const { run, round, parent, time, modelRoot, ledgerRoot: root, recent } = json;
  const { left = [], departed = [], rings: sliceRoots } = json;
  const votes = readVotes(json.votes as Json | undefined, anyFeatures);
  const ledger = parseKept(json.ledger);
  const before = json.before === null ? null : parseFinishedRound(json.before);
  if (!isDigest(run) || !isDigest(parent) || !isDigest(modelRoot) || !isDigest(root))
    return undefined;
  if (!isCount(round) || !isCount(time) || ledger === undefined || before === undefined) {
    return undefined;
  }
  if (sliceRoots !== undefined && !areDigests(sliceRoots)) return undefined;
  if (!areDigests(recent) || votes === undefined || !areDigests(left) || ledger.round !== round)
    return undefined;
  if (!Array.isArray(departed) || !departed.every(isDeparture)) return undefined;
  const core = {
    run,
    round,
    parent,
    time,
    ledger,
    modelRoot,
    ledgerRoot: root,
    ...(sliceRoots && { sliceRoots }),
  };
  return { ...core, before, recent, departed, votes, left };
}

const formatFinishedRound = ({ ledger, sliceRoots, ...rest }: FinishedRound): Fields => ({
  ...rest,
  ...(sliceRoots && { rings: sliceRoots }),
  ledger: formatLedger(ledger),
});

function parseFinishedRound(json: unknown): FinishedRound | undefined {
  if (!isObject(json)) return undefined;
  const { round, parent, base, rings: sliceRoots } = json;
  const ledger = parseKept(json.ledger);
  if (!isCount(round) || !isDigest(parent) || !isDigest(base) || !ledger) return undefined;
  if (sliceRoots !== undefined && !areDigests(sliceRoots)) return undefined;
  return { round, parent, base, ledger, ...(sliceRoots && { sliceRoots }) };
}

function parseKept(json: unknown): Ledger | undefined {
  if (!isObject(json) || typeof json.text !== 'string' || !isDigest(json.root)) return undefined;
  const { entropy } = json;
  if (entropy !== null && !isDigest(entropy)) return undefined;
  const ledger = parseLedger(utf8(json.text), json.root, anyFeatures);
  return ledger.ok ? { ...ledger.value, entropy } : undefined;
}

const isDigest = (value: unknown): value is string => typeof value === 'string' && isHex32(value);
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;
const isDeparture = (value: unknown): value is Departure =>
  isObject(value) && isDigest(value.key) && isCount(value.round);
const areDigests = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every(isDigest);

interface Means<K extends keyof Wire> {
  readonly wire: Pick<Wire, K>;
  /** Has the tables of stakes of all rounds that are looked at. */
  readonly evidence: StakeEvidence;
  readonly rule: ResidualRule;
}

type Carried = Pick<CertifiedState, 'sent' | 'unpacked' | 'residual' | 'pending' | 'contributed'>;

/**
 * Under `discard` unlisted work returns to the residual at once. Under `defer` it waits for one more outcome, which
 * lists it late or returns it. Rejected contributions are gone.
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
  // what a rule left out of the step comes back, less what the step moved instead
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

/** What a worker has learned and not sent, after a round. */
export interface LearnedDelta {
  /** Its contribution to the round; undefined where it sent none. */
  readonly id: EventId | undefined;
  readonly worker: WorkerId;
  /** All that it had learned when the payload was packed; undefined where it trained nothing. */
  readonly unpacked: Float64Array | undefined;
  /** What was left of that once it was packed. */
  readonly residual: Float64Array;
  /** The next outcome may still list the contribution. */
  readonly waits: boolean;
}

/** The residual of a worker after an outcome: anybody who knows what it had learned can say it. */
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
 * With screening, what a final outcome leaves out is gone: sent again, it would do more harm each time. The outcome
 * does not say what was screened and what was late.
 */
const dropsUnlisted = ({ spec }: Pick<Certified, 'spec'>, { result }: Outcome): boolean =>
  spec.screening && result === 'final';

/** Rounds that are remembered at most, however deep a run lets its workers go back: each is a payload on disk. */
const MOST_KEPT = 64;

/** Contributions that an outcome says anything of. */
const settledIn = ({ accepted, rejected }: Outcome): readonly EventId[] =>
  [...accepted, ...rejected].map(({ manifest }) => manifest);

const isSettledBy = (sent: Sent, outcome: Outcome): boolean =>
  settledIn(outcome).includes(idOf(sent));

/** The list after a round: `now` was sent in it, `lost` is what it gave back of the round before. */
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
  // a check of one needs the one before it
  const least = spec.rerun.permille > 0 ? 2 : 1;
  const kept = Math.min(Math.max(least, spec.timing.reorgDepth), MOST_KEPT);
  return [...before, ...(now ? [{ ...now, finished }] : [])].slice(-kept);
}

/** Rounds of branches it left that a worker remembers, so that it signs nothing there a second time. */
const MOST_LEFT = 256;

/** The state at the end of the better branch. The residual lacks exactly what that branch counts. */
export function switchTo(
  { path, state, votes, fork }: Better,
  before: CertifiedState,
  means: Means<'open'>,
): CertifiedState {
  const { sent: _, unpacked, pending: __, contributed = [], ...rest } = before;
  const outcomes = outcomesAfter(path);
  const { run, spec } = state;
  // what was sent in the round in progress is of a past that is gone
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

/** By the outcome they follow. */
const outcomesAfter = ({ stops }: Path): ReadonlyMap<Digest, Outcome> =>
  new Map(
    [...stops.values()].flatMap(({ outcome }) => (outcome ? [[outcome.parent, outcome]] : [])),
  );

/** What a branch makes of a contribution: it is listed, it may still be, or it belongs back into the residual. */
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

/** Rounds in which this worker may have signed something. */
const leftBy = ({ left, recent }: ChainHead): readonly Digest[] =>
  [...new Set([...left, ...recent])].slice(-MOST_LEFT);

export interface CertifiedState extends WorkerState {
  readonly rounds: readonly CertifiedSummary[];
  /** The last certified outcome it knows, and what follows from it. */
  readonly head: ChainHead;
  /** The contribution to the round before, if the outcome of `round` may still list it; else it comes back. */
  readonly pending?: Sent | undefined;
  /** What this worker sent in its last certified rounds, oldest first. */
  readonly contributed?: readonly Contributed[] | undefined;
}

/** What was sent for a certified round that is over. */
export interface Contributed {
  readonly sent: Sent;
  /** The round it was made for. */
  readonly finished: FinishedRound;
  /** Whether it left the residual: it counted, was refused for a reason, or may still be listed late. */
  readonly isOut: boolean;
}
