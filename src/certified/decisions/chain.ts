/** The certified state of a run between two rounds, with and without the model, and who votes in the round to come. */
import { ConfigError } from '../../base/errors.ts';
import type { Aggregate } from '../../consensus/aggregate/rules.ts';
import {
  type CommitteeRules,
  createElection,
  drawCommittee,
  type Election,
  rankOf,
  type Stakes,
  weigh,
} from '../../consensus/committee/committee.ts';
import { drawnOf } from '../../consensus/committee/draw.ts';
import type { ModelState } from '../../consensus/roots.ts';
import {
  completeLedger,
  firstLedger,
  liveOf,
  type MembershipRules,
  nextLedger,
  type RosterChange,
  type RosterJoin,
} from '../../consensus/round/membership.ts';
import { type Departure, nextDepartures } from '../../consensus/round/roster-change.ts';
import type { Certificate } from '../../consensus/round/round-state.ts';
import { entitled, seatable } from '../../consensus/round/seats.ts';
import { modelOfRun } from '../../model/from-settings.ts';
import { initialParameters, modelLayout } from '../../model/parameters.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import { type Ledger, ledgerRoot, type Member, snapshotOf } from '../../run/ledger.ts';
import type { ListedJoin, ListedVotes } from '../../run/listed.ts';
import { type Outcome, outcomeDigest } from '../../run/outcome.ts';
import { principalOf } from '../../run/spec/feature-fields.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import type { Params } from '../../tensor/params.ts';
import { type Evidence, lacking, type Ruling, valid } from './evidence.ts';
import { declaredRoots, firstRoots, type Roots, tierOf } from './slices.ts';

/** A round that is over, as far as its votes and its late work are judged in the next one. */
export interface FinishedRound {
  readonly round: number;
  readonly parent: Digest;
  /** Model root it started from. */
  readonly base: Digest;
  /** Of each slice, in a run with tiers. */
  readonly sliceRoots?: readonly Digest[] | undefined;
  /** Of that round, with its entropy. */
  readonly ledger: Ledger;
}

/** What is certified, without the model itself: enough to check who decided what. */
export interface Chain extends Situation, Roots {
  readonly spec: RunSpec;
  readonly run: Digest;
  /** The round to come. */
  readonly round: number;
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
  /** Unix seconds of the outcome before; 0 in round 0. */
  readonly time: number;
  /** Of the round to come; its entropy is null while the beacon is not known. */
  readonly ledger: Ledger;
  readonly ledgerRoot: Digest;
  /** The round before; null in round 0. */
  readonly before: FinishedRound | null;
  /** The run id and the digests of the last outcomes, the newest last: what a join may name as recent. */
  readonly recent: readonly Digest[];
  /** Leaves that outcomes listed, as long as an older join could still name a recent outcome. */
  readonly departed: readonly Departure[];
}

/** What a round took of the rows that it listed. */
export type Taken = Aggregate;

export interface Certified extends Chain, ModelState {
  /** Of the round before, where this worker applied its outcome itself: what was not taken goes back to its authors. */
  readonly taken?: Taken | undefined;
}

/** An outcome without the roots, which follow from the rest. */
export type Draft = Omit<Outcome, 'rowSize' | 'modelRoot' | 'ledgerRoot'>;

/** What is certified without model and spec, and why it is. */
export interface ChainHead extends Omit<Chain, 'spec'> {
  /** A quorum of commits for the outcome before; none in round 0. */
  readonly votes: ListedVotes | null;
  /** Outcomes of branches that this worker left. It does not vote after them: it may have signed there. */
  readonly left: readonly Digest[];
}

/** The round of the outcome with this digest, -1 for the run id; undefined where a join may not name it. */
export function roundAfter({ round, recent }: Chain, digest: Digest): number | undefined {
  const index = recent.indexOf(digest);
  return index < 0 ? undefined : round - recent.length + index;
}

export const rosterJoin = (
  chain: Chain,
  { key, after, tip, features }: Pick<ListedJoin, 'key' | 'after' | 'tip' | 'features'>,
): RosterJoin => ({
  key,
  tip,
  ...features?.widths,
  ...(features?.seats && {
    seats: { wants: features.seats.wants, asked: roundAfter(chain, after) ?? -1 },
  }),
  ...(features?.sessions && {
    session: {
      principal: features.sessions.by?.key ?? '',
      until: features.sessions.by?.until ?? -1,
    },
  }),
});

export function chainHeadOf(
  state: Certified,
  votes: ListedVotes | null,
  left: readonly Digest[] = [],
): ChainHead {
  const { spec: _, params: __, momentum: ___, taken: ____, ...chain } = state;
  return { ...chain, votes, left };
}

export function certifiedOf(
  spec: RunSpec,
  { votes: _, left: __, ...chain }: ChainHead,
  { params, momentum }: ModelState,
): Certified {
  return { ...chain, spec, params, momentum };
}

export interface Situation {
  readonly spec: RunSpec;
  readonly run: Digest;
  readonly round: number;
  readonly parent: Digest;
  /** Of the round, with its entropy. */
  readonly ledger: Ledger;
}

export interface Electorate extends Election {
  readonly roster: readonly WorkerId[];
  /** live(r): who was seen lately. */
  readonly live: readonly WorkerId[];
  /** Whose contributions a member waits for: live(r) and newcomers in their first rounds, as far as they weigh. */
  readonly awaited: readonly WorkerId[];
}

/** A round that can be opened: its entropy and stakes are here. */
export interface ReadyRound {
  readonly state: Certified;
  readonly electorate: Electorate;
}

/** A round that a quorum decided, and the state it leads to. */
export interface Decision {
  readonly outcome: Outcome;
  readonly certificate: Certificate;
  readonly next: Certified;
}

export const membershipOf = (spec: RunSpec, run: Digest): MembershipRules => ({ ...spec, run });

export type StakeEvidence = Pick<Evidence, 'stakes'>;

/** The stakes that count with this ledger; null in a run without. */
export function stakesOf(ledger: Ledger, evidence: StakeEvidence): Ruling<Stakes> {
  const snapshot = snapshotOf(ledger);
  if (snapshot === null) return valid(null);
  const stakes = evidence.stakes(snapshot);
  return stakes === undefined
    ? lacking({ what: 'snapshot', id: snapshot })
    : valid(bySession(ledger, stakes));
}

const lent = new WeakMap<Ledger, { readonly of: Stakes; readonly stakes: Stakes }>();

/** The stakes with those of principals under the session keys that take part in their names. */
function bySession(ledger: Ledger, stakes: ReadonlyMap<WorkerId, bigint>): Stakes {
  const cached = lent.get(ledger);
  if (cached?.of === stakes) return cached.stakes;
  const sessions = ledger.members.filter((member) => principalOf(member) !== member.key);
  if (sessions.length === 0) return stakes;
  const all = new Map(stakes);
  for (const member of sessions) all.set(member.key, stakes.get(principalOf(member)) ?? 0n);
  lent.set(ledger, { of: stakes, stakes: all });
  return all;
}

/** Rounds in which a newcomer is waited for, so that one as fast as the others is seen. */
const NEWCOMER_ROUNDS = 3;

/** Ascending. */
function awaitedIn(
  { ledger, spec, run, round }: Situation,
  live: readonly WorkerId[],
  stakes: Stakes,
): readonly WorkerId[] {
  const isLive = new Set(live);
  // a key without stake sends nothing: it is new from the table on that has it
  const isNew = ({ joined, lastSeen, seenBefore, seatFrom }: Member) => {
    if (joined === 0) return false;
    // whoever was first seen in the round before is live from the next one on
    if (lastSeen >= 0 && seenBefore < 0) return true;
    return stakes === null ? lastSeen < 0 && round - joined < NEWCOMER_ROUNDS : seatFrom < 0;
  };
  const drawn = drawnOf(membershipOf(spec, run), ledger);
  const isAwaited = (member: Member) =>
    (isLive.has(member.key) || isNew(member)) && drawn?.has(member.key) !== false;
  const eligible = ledger.members.filter(isAwaited).map(({ key }) => key);
  return weigh({ eligible, stakes, rules: spec.committee }).map(({ key }) => key);
}

/** A draw hashes each key, and each outcome of a round that is judged asks for it. */
const electorates = new WeakMap<
  Ledger,
  { readonly parent: Digest; readonly stakes: Stakes; readonly electorate: Electorate }
>();

/** The committees of a round. Throws without the entropy of its ledger. */
export function electorateOf(situation: Situation, stakes: Stakes): Electorate {
  const { parent, ledger } = situation;
  const cached = electorates.get(ledger);
  if (cached?.parent === parent && cached.stakes === stakes) return cached.electorate;
  const electorate = draw(situation, stakes);
  electorates.set(ledger, { parent, stakes, electorate });
  return electorate;
}

function draw(situation: Situation, stakes: Stakes): Electorate {
  const { spec, run, round, parent, ledger } = situation;
  const { entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const live = liveOf(membershipOf(spec, run), ledger);
  const rules: CommitteeRules = spec.committee;
  const about = { run, round, entropy, stakes, rules };
  const willing = weigh({ eligible: seatable(ledger, live), stakes, rules });
  const election = createElection({
    // where nobody who weighs anything wants a seat, all sit: a run without a committee would end
    weighed:
      willing.length > 0 ? willing : weigh({ eligible: entitled(ledger, live), stakes, rules }),
    size: rules.size,
    floorPermille: spec.timing.recoveryFloorPermille,
    rank: (attempt, eligible) => rankOf({ ...about, attempt, eligible }),
    drawFrom: (attempt, eligible, leastQuorum) =>
      drawCommittee({ ...about, attempt, parent, eligible, leastQuorum }),
  });
  const roster = ledger.members.map(({ key }) => key);
  return { ...election, roster, live, awaited: awaitedIn(situation, live, stakes) };
}

/** The same state with the entropy of its round, when the beacon it may need is there. */
export function withEntropy<T extends Chain>(chain: T, evidence: Evidence): Ruling<T> {
  if (chain.ledger.entropy !== null) return valid(chain);
  const { spec, run, time } = chain;
  const beacon = evidence.beacon(time);
  if (beacon === undefined) return lacking({ what: 'beacon', id: String(time) });
  const ledger = completeLedger(membershipOf(spec, run), chain.ledger, beacon);
  return valid({ ...chain, ledger });
}

export function genesisOf(spec: RunSpec, params: Params, hash?: Sha256): Certified {
  const momentum = params.values.slice().fill(0);
  const roots = firstRoots(spec, params, hash);
  const { modelRoot: root } = roots;
  const specRoot = declaredRoots(spec)?.modelRoot ?? root;
  if (specRoot !== root) {
    throw new ConfigError(
      'base/other',
      `the base gives model root ${root}, the run says ${specRoot}`,
      {
        hint: 'name the files that the run was made with (--base)',
      },
    );
  }
  return { ...firstChain(spec, roots), params, momentum };
}

function firstChain(spec: RunSpec, roots: Roots): Chain {
  const run = runIdOf(spec);
  const ledger = firstLedger(membershipOf(spec, run));
  return {
    spec,
    run,
    round: 0,
    parent: run,
    time: 0,
    ledger,
    ledgerRoot: ledgerRoot(ledger),
    ...roots,
    before: null,
    recent: [run],
    departed: [],
  };
}

/**
 * The first parameters: from the seed, or `first` where all of a published model is trained; in a tiered run those of
 * one tier. Throws a ConfigError if they are needed and missing, or of another length.
 */
export function startOf(spec: RunSpec, first?: Float32Array, tier = 0): Params {
  const { training, start } = spec;
  const model = modelOfRun(spec, tier);
  const layout = modelLayout(model);
  if (start === null || start.root === null) {
    return { layout, values: initialParameters(model, training.seed) };
  }
  if (first?.length === layout.size) return { layout, values: Float32Array.from(first) };
  throw new ConfigError('base/needed', 'this run trains all parameters of a published model', {
    hint: 'its first ones are in the files of the base: name them with --base',
  });
}

/** The state a run starts from; without the model if its first parameters are in files that are not here. */
export function openingOf(
  spec: RunSpec,
  { first, sha256 }: { first?: Float32Array | undefined; sha256?: Sha256 | undefined },
): Chain | Certified {
  const specRoots = declaredRoots(spec);
  if (specRoots !== undefined && first === undefined) return firstChain(spec, specRoots);
  const tier = first && tierOf(spec, { size: first.length });
  return genesisOf(spec, startOf(spec, first, tier), sha256);
}

/** The round of a state, once it is over. */
export const finishedRound = ({
  round,
  parent,
  modelRoot: base,
  ledger,
  sliceRoots,
}: Chain): FinishedRound => ({
  round,
  parent,
  base,
  ledger,
  ...(sliceRoots && { sliceRoots }),
});

/** A join names one of so many last outcomes. */
const RECENT = 16;

export function follow(
  chain: Chain,
  draft: Draft,
  change: RosterChange,
  roots: Roots,
): { readonly outcome: Outcome; readonly next: Chain } {
  const { spec, run, round } = chain;
  const { modelRoot, sliceRoots } = roots;
  const ledger = nextLedger(membershipOf(spec, run), chain.ledger, change);
  const { rowSize, outerSizes: sizes = [] } = change;
  const features = {
    ...draft.features,
    ...(sliceRoots && { widths: { rings: sliceRoots, sizes } }),
  };
  const made = { rowSize, modelRoot, ledgerRoot: ledgerRoot(ledger) };
  const outcome: Outcome = { ...draft, features, ...made };
  const digest = outcomeDigest(outcome);
  const recent = [...chain.recent, digest].slice(-RECENT);
  const next: Chain = {
    spec,
    run,
    recent,
    round: round + 1,
    parent: digest,
    time: outcome.time,
    ledger,
    modelRoot,
    ledgerRoot: outcome.ledgerRoot,
    ...(sliceRoots && { sliceRoots }),
    before: finishedRound(chain),
    departed: nextDepartures(chain.departed, change.leaves, {
      round,
      oldest: round + 1 - recent.length,
    }),
  };
  return { outcome, next };
}
