/**
 * Replays a run from its events: checks who decided each round and, given the payloads, recomputes all parameters and
 * both roots. Needs no key, clock or network. A path is one branch of the run without its model.
 */
import type { Issue } from '../../base/errors.ts';
import { quorumOf } from '../../consensus/committee/quorum.ts';
import { type Branch, isBetter } from '../../consensus/round/fork-choice.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { seatNames } from '../../run/founder-seats.ts';
import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import type { ListedVotes } from '../../run/listed.ts';
import type { Outcome } from '../../run/outcome.ts';
import { removedPackings } from '../../run/removed.ts';
import type { Layout } from '../../tensor/params.ts';
import { certifiedAfter, type Decided, listVotes } from './certificate.ts';
import type { Certified, Chain } from './chain.ts';
import { type Gathered, type Missing, type Ruling, valid } from './evidence.ts';
import { seatFounders } from './founders.ts';
import { applyOutcome, applyToChain } from './outcomes.ts';
import { payloadsOf, readSlices } from './slices.ts';

/** How much of a round was checked. `chain`: signatures, committees, entropy and rosters. `full`: the model as well. */
export type Checked = 'full' | 'chain' | 'nothing';

/** One round of a replay, with the states before and after it. */
export interface ReplayedRound {
  readonly round: number;
  readonly checked: Checked;
  readonly before: Chain | Certified;
  /** Undefined if the events have no quorum for the round. */
  readonly decided: Decided | undefined;
  /** Other outcomes of the round with a quorum of their own: a fork. */
  readonly forks: readonly Digest[];
  readonly invalid?: Issue;
  readonly missing?: readonly Missing[];
}

export interface ReplayEnd {
  readonly state: Chain | Certified;
  readonly digests: readonly Digest[];
}

/** Reports whether a state has the model, and not only the decisions. */
export const hasModel = (state: Chain | Certified): state is Certified => 'params' in state;

/**
 * Yields each round once it is checked; without the model if this version cannot decode the payloads. Ends with the
 * run, at the first invalid outcome, or when evidence is missing. At a fork it follows the branch that contains
 * `through`, else the one that the fork rule prefers.
 */
export function* replay(
  start: Chain | Certified,
  events: Gathered,
  through?: Digest,
  hash?: Sha256,
): Generator<ReplayedRound, ReplayEnd, undefined> {
  const isRemoved = removedPackings.has(start.spec.training.packing);
  let state: Chain | Certified = isRemoved ? withoutModel(start) : start;
  const layout = hasModel(state) ? state.params.layout : undefined;
  const digests: Digest[] = [];
  const following: Following = { events, through, decided: new Map(), chains: new Map() };
  for (;;) {
    const after = decidedAfter(state, following);
    if (!after.ok) {
      const nothing = { round: state.round, before: state, decided: undefined, forks: [] };
      yield { ...nothing, checked: 'nothing', ...reasonsOf(after) };
      return { state, digests };
    }
    const [decided, ...others] = after.value;
    if (decided === undefined) {
      if (goesOn(state, following)) yield undecided(state);
      return { state, digests };
    }
    const forks = others.map(({ certificate }) => certificate.digest);
    const before = seatFounders(state, decided.outcome.joins, events);
    const { next, ...rest } = stepOver(before, decided, events, hash);
    yield { round: state.round, before, decided, forks, ...rest };
    if (next === undefined) return { state, digests };
    digests.push(certificateDigest(decided));
    state = layout ? withModel(next, events, layout) : next;
  }
}

const certificateDigest = ({ certificate }: Decided): Digest => certificate.digest;

function reasonsOf(
  verdict: Exclude<Ruling<never>, { readonly ok: true }>,
): Pick<ReplayedRound, 'invalid' | 'missing'> {
  return 'invalid' in verdict ? { invalid: verdict.invalid } : { missing: verdict.missing };
}

/** A round that was decided, since events of later rounds exist, but whose votes are missing. */
const undecided = (state: Chain): ReplayedRound => ({
  round: state.round,
  checked: 'nothing',
  before: state,
  decided: undefined,
  forks: [],
  missing: [{ what: 'event', id: `a quorum of commits of ${roundName(state.round)}` }],
});

/** Reports whether more members than may be hostile sent votes or proposals for later rounds of this branch. */
function goesOn({ spec, round, ledger }: Chain, { events, chains }: Following): boolean {
  if (round >= spec.training.rounds) return false;
  const roster = new Set(ledger.members.map(({ key }) => key));
  const speakers = new Set<WorkerId>();
  for (const message of events.messages.values()) {
    if (message.type !== 'proposal' && message.type !== 'vote') continue;
    if (message.round <= round || chains.has(message.parent)) continue;
    if (roster.has(message.key)) speakers.add(message.key);
  }
  const seats = Math.min(spec.committee.size, roster.size);
  return speakers.size > seats - quorumOf(spec.committee.quorum, seats);
}

interface Stepped extends Pick<ReplayedRound, 'checked' | 'invalid' | 'missing'> {
  readonly next?: Chain | Certified;
}

function stepOver(
  state: Chain | Certified,
  { outcome }: Decided,
  events: Gathered,
  hash: Sha256 | undefined,
): Stepped {
  const whole = hasModel(state) ? applyOutcome(state, outcome, events, hash) : undefined;
  if (whole?.ok) return { checked: 'full', next: whole.value };
  if (whole !== undefined && 'invalid' in whole) {
    return { checked: 'nothing', invalid: whole.invalid };
  }
  const bare = applyToChain(withoutModel(state), outcome, events);
  if (!bare.ok) return { checked: 'nothing', ...reasonsOf(bare) };
  const missing = whole?.missing ?? [];
  return { checked: 'chain', next: bare.value, missing };
}

/**
 * Adds the model to a state that lacks it if checkpoint chunks are available; they are checked against the certified
 * root.
 */
function withModel(state: Chain | Certified, events: Gathered, layout: Layout): Chain | Certified {
  if (hasModel(state)) return state;
  const slices = payloadsOf(state, layout).map((slice) => events.bytesOf(slice));
  const cached = slices.filter((bytes) => bytes !== undefined);
  return cached.length === slices.length ? { ...state, ...readSlices(cached, layout) } : state;
}

/** Returns the state without parameters and momentum. */
export function withoutModel(state: Chain | Certified): Chain {
  if (!hasModel(state)) return state;
  const { params: _, momentum: __, ...chain } = state;
  return chain;
}

/** Results of a replay so far, by parent outcome, so that each outcome is judged once however many forks there are. */
interface Following {
  readonly events: Gathered;
  readonly through: Digest | undefined;
  readonly decided: Map<Digest, Ruling<readonly Decided[]>>;
  /** Chain after each applied outcome. */
  readonly chains: Map<Digest, Chain>;
}

/** Returns the outcomes certified after this state, the preferred one first. */
function decidedAfter(state: Chain, following: Following): Ruling<readonly Decided[]> {
  const cached = following.decided.get(state.parent);
  if (cached !== undefined) return cached;
  const after = inOrder(state, certifiedAfter(state, following.events), following);
  following.decided.set(state.parent, after);
  return after;
}

function inOrder(
  state: Chain,
  certified: Ruling<readonly Decided[]>,
  following: Following,
): Ruling<readonly Decided[]> {
  if (!certified.ok || certified.value.length < 2) return certified;
  const roster = state.ledger.members.map(({ key }) => key);
  const branches: { readonly decided: Decided; readonly branch: Followed }[] = [];
  for (const decided of certified.value) {
    const branch = branchFrom(state, decided, following);
    if (!branch.ok) return branch;
    branches.push({ decided, branch: branch.value });
  }
  branches.sort(({ branch: a }, { branch: b }) => {
    const isFirst = a.isNamed === b.isNamed ? isBetter(roster, a, b) : a.isNamed;
    return isFirst ? -1 : 1;
  });
  return { ok: true, value: branches.map(({ decided }) => decided) };
}

interface Followed extends Branch {
  readonly isNamed: boolean;
}

/**
 * Follows a branch to its end without the model and scores it for the fork rule. Lacking if a beacon value on the way
 * is unknown.
 */
function branchFrom(state: Chain, decided: Decided, following: Following): Ruling<Followed> {
  const { events, through, chains } = following;
  const { digest, attempt, commits } = decided.certificate;
  // a branch is backed by founders, whichever keys they act through on it
  const { ledger } = seatFounders(state, decided.outcome.joins, events);
  const { nameOf } = seatNames(ledger);
  const committed = new Set(commits.map(({ key }) => nameOf(key)));
  let length = 0;
  let finals = 0;
  let isNamed = false;
  let chain: Chain = withoutModel(state);
  for (let at: Decided | undefined = decided; at !== undefined; ) {
    const cached = chains.get(at.certificate.digest);
    const next: Ruling<Chain> = cached ? valid(cached) : applyToChain(chain, at.outcome, events);
    if (!next.ok) break;
    chains.set(at.certificate.digest, next.value);
    length += 1;
    if (at.outcome.result === 'final') finals += 1;
    isNamed ||= at.certificate.digest === through;
    for (const { key } of at.certificate.commits) committed.add(nameOf(key));
    chain = next.value;
    const after: Ruling<readonly Decided[]> = decidedAfter(chain, following);
    if (lacksBeacon(after)) return after;
    at = after.ok ? after.value[0] : undefined;
  }
  return valid({ committed: [...committed], attempt, finals, length, digest, isNamed });
}

type Lacking = Extract<Ruling<never>, { readonly missing: unknown }>;

const lacksBeacon = (verdict: Ruling<unknown>): verdict is Lacking =>
  'missing' in verdict && verdict.missing.some(({ what }) => what === 'beacon');

/** Returns the time of the outcome whose beacon value a replay lacks; undefined if it lacks none. */
export const beaconLack = ({
  missing = [],
}: Pick<ReplayedRound, 'missing'>): number | undefined => {
  const lack = missing.find(({ what }) => what === 'beacon');
  return lack && Number(lack.id);
};

export interface Stop {
  readonly chain: Chain;
  /** The outcome that led to this state; undefined in round 0. */
  readonly outcome: Outcome | undefined;
  readonly votes: ListedVotes | null;
}

/** Two outcomes of one round, each with a quorum. */
export interface Fork {
  readonly round: number;
  readonly followed: Digest;
  readonly other: Digest;
}

export interface Path {
  /** States along the path by their parent outcome (the run id for round 0), oldest first. */
  readonly stops: ReadonlyMap<Digest, Stop>;
  readonly tip: Stop;
  readonly forks: readonly Fork[];
}

/** Returns the branch to follow: the one that contains `through`, else the one that the fork rule prefers. */
export function pathOf(start: Chain, events: Gathered, through?: Digest): Path {
  const stops = new Map<Digest, Stop>();
  const forks: Fork[] = [];
  const playing = replay(withoutModel(start), events, through);
  let before: { readonly decided: Decided; readonly chain: Chain } | undefined;
  let tip: Stop = { chain: withoutModel(start), outcome: undefined, votes: null };
  for (;;) {
    const { done, value } = playing.next();
    const chain = done ? value.state : value.before;
    // an invalid outcome leads to no state
    if (before?.decided.certificate.digest === chain.parent) {
      const { certificate, outcome } = before.decided;
      const votedView = { ...certificate, ctx: certificate.committee.ctx };
      const votes = listVotes(before.chain.ledger, votedView, certificate.commits);
      tip = { chain, outcome, votes };
    }
    stops.set(tip.chain.parent, tip);
    if (done) return { stops, tip, forks };
    const { decided } = value;
    before = decided && { decided, chain: value.before };
    const followed = decided?.certificate.digest;
    if (followed === undefined) continue;
    forks.push(...value.forks.map((other) => ({ round: value.round, followed, other })));
  }
}
