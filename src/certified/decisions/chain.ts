/**
 * The certified state of a run between two rounds, with or without the model parameters, and the electorate of the next
 * round.
 */
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
  keysOf,
  liveOf,
  type MembershipRules,
  nextLedger,
  type RosterChange,
  type RosterJoin,
} from '../../consensus/round/membership.ts';
import { type Departure, nextDepartures } from '../../consensus/round/roster-change.ts';
import type { Certificate } from '../../consensus/round/round-state.ts';
import { entitled, seatable, withFounderQuorum } from '../../consensus/round/seats.ts';
import { layoutOfRun, modelOfRun } from '../../model/from-settings.ts';
import { initialParameters, modelLayout } from '../../model/parameters.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { seatNames } from '../../run/founder-seats.ts';
import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import { type Ledger, ledgerRoot, type Member, snapshotOf } from '../../run/ledger.ts';
import type { ListedJoin, ListedVotes } from '../../run/listed.ts';
import { type Outcome, outcomeDigest } from '../../run/outcome.ts';
import { principalOf } from '../../run/spec/feature-fields.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import type { Params } from '../../tensor/params.ts';
import { type Evidence, lacking, type Ruling, valid } from './evidence.ts';
import { declaredRoots, firstRoots, type Roots, tierOf } from './slices.ts';

/** A finished round, with what the next round needs to judge its votes and late contributions. */
export interface FinishedRound {
  readonly round: number;
  readonly parent: Digest;
  /** Model root that the round started from. */
  readonly base: Digest;
  /** Root of each slice; only in runs with tiers. */
  readonly sliceRoots?: readonly Digest[] | undefined;
  /** Ledger of that round, with its entropy. */
  readonly ledger: Ledger;
}

/** What is certified, without the model itself: enough to check who decided what. */
export interface Chain extends Roots {
  readonly spec: RunSpec;
  readonly run: Digest;
  /** Index of the next round. */
  readonly round: number;
  /** Digest of the previous outcome; the run id in round 0. */
  readonly parent: Digest;
  /** Time of the previous outcome in Unix seconds; 0 in round 0. */
  readonly time: number;
  /** Ledger of the next round; its entropy is null until the beacon value is known. */
  readonly ledger: Ledger;
  readonly ledgerRoot: Digest;
  /** The previous round; null in round 0. */
  readonly before: FinishedRound | null;
  /** The run id and the digests of recent outcomes, newest last. A join must name one of them. */
  readonly recent: readonly Digest[];
  /** Certified leaves, kept while an older join of the same key could still name a recent outcome. */
  readonly departed: readonly Departure[];
}

/** What the aggregation rule took from the listed contributions of a round. */
export type Taken = Aggregate;

/** The state of a certified run after a round, with model and momentum. */
export interface Certified extends Chain, ModelState {
  /**
   * Aggregation result of the previous round if this worker computed it: authors keep what was not taken in their
   * residual.
   */
  readonly taken?: Taken | undefined;
}

/** An outcome without its roots, which are computed from the rest. */
export type Draft = Omit<Outcome, 'rowSize' | 'modelRoot' | 'ledgerRoot'>;

/** Certified state without model and spec, with the votes that certified it; saved in the worker's state file. */
export interface ChainHead extends Omit<Chain, 'spec'> {
  /** Quorum of commits for the previous outcome; null in round 0. */
  readonly votes: ListedVotes | null;
  /** Outcomes on branches that this worker left. It never votes after them, since it may have signed there already. */
  readonly left: readonly Digest[];
}

/**
 * Returns the round of a recent outcome, -1 for the run id; undefined if the digest is not recent, so a join may not
 * name it.
 */
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
  ...features?.experts,
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

/** Returns the part of the state that is kept without the model, with the votes that led to it. */
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

/** A chain whose ledger has its entropy, as far as elections need it. */
export type Situation = Pick<Chain, 'spec' | 'run' | 'round' | 'parent' | 'ledger'>;

/** The election of a round, with roster and live workers. */
export interface Electorate extends Election {
  readonly roster: readonly WorkerId[];
  /** live(r): members seen in recent rounds. */
  readonly live: readonly WorkerId[];
  /** Keys whose contributions a member waits for: live(r) and newcomers in their first rounds, if they have weight. */
  readonly awaited: readonly WorkerId[];
  /** Keys whose contributions have weight. */
  readonly senders: readonly WorkerId[];
}

/** A round whose entropy and stakes are known, so it can be opened. */
export interface ReadyRound {
  readonly state: Certified;
  readonly electorate: Electorate;
}

/** A decided round: its outcome, its certificate and the state after it. */
export interface Decision {
  readonly outcome: Outcome;
  readonly certificate: Certificate;
  readonly next: Certified;
}

/** Returns the membership rules of a run. */
export const membershipOf = (spec: RunSpec, run: Digest): MembershipRules => ({ ...spec, run });

export type StakeEvidence = Pick<Evidence, 'stakes'>;

/** Returns the stakes that apply to this ledger; null in a run without stakes. */
export function stakesOf(ledger: Ledger, evidence: StakeEvidence): Ruling<Stakes> {
  const snapshot = snapshotOf(ledger);
  if (snapshot === null) return valid(null);
  const stakes = evidence.stakes(snapshot);
  return stakes === undefined
    ? lacking({ what: 'snapshot', id: snapshot })
    : valid(bySession(ledger, stakes));
}

const lent = new WeakMap<Ledger, { readonly of: Stakes; readonly stakes: Stakes }>();

/** Returns the stakes with each session key credited with the stake of its principal. */
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

/** Rounds during which members wait for a newcomer's first contribution. */
const NEWCOMER_ROUNDS = 3;

/** Returns the keys whose contributions have weight, and those of them that members wait for, ascending. */
function sendersIn(
  { ledger, spec, run, round }: Situation,
  live: readonly WorkerId[],
  stakes: Stakes,
): Pick<Electorate, 'senders' | 'awaited'> {
  // a key without stake sends nothing; it counts as new from the first table that lists it
  const isNew = ({ joined, lastSeen, seenBefore, seatFrom }: Member) => {
    if (joined === 0) return false;
    // first seen in the previous round: live from the next round on
    if (lastSeen >= 0 && seenBefore < 0) return true;
    return stakes === null ? lastSeen < 0 && round - joined < NEWCOMER_ROUNDS : seatFrom < 0;
  };
  const drawn = drawnOf(membershipOf(spec, run), ledger);
  const eligible = keysOf(ledger.members, ({ key }) => drawn?.has(key) !== false);
  const senders = weigh({ eligible, stakes, rules: spec.committee }).map(({ key }) => key);
  const expected = new Set([...live, ...keysOf(ledger.members, isNew)]);
  return { senders, awaited: senders.filter((key) => expected.has(key)) };
}

/** Electorates by ledger: a draw hashes every key, and each judged outcome of a round asks for it. */
const electorates = new WeakMap<
  Ledger,
  { readonly parent: Digest; readonly stakes: Stakes; readonly electorate: Electorate }
>();

/** Returns the electorate of a round. Throws if the ledger has no entropy. */
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
  const membership = membershipOf(spec, run);
  const live = liveOf(membership, ledger);
  const rules: CommitteeRules = spec.committee;
  const about = { run, round, entropy, stakes, rules, names: seatNames(ledger) };
  const willing = weigh({ eligible: seatable(ledger, live), stakes, rules });
  // if no key with weight wants a seat, all of them sit: the run needs a committee
  const able =
    willing.length > 0 ? willing : weigh({ eligible: entitled(ledger, live), stakes, rules });
  const election = createElection({
    weighed: withFounderQuorum(membership, ledger, able),
    size: rules.size,
    floorPermille: spec.timing.recoveryFloorPermille,
    rank: (attempt, eligible) => rankOf({ ...about, attempt, eligible }),
    drawFrom: (attempt, eligible, leastQuorum) =>
      drawCommittee({ ...about, attempt, parent, eligible, leastQuorum }),
  });
  const roster = ledger.members.map(({ key }) => key);
  return { ...election, roster, live, ...sendersIn(situation, live, stakes) };
}

/** Returns the state with the entropy of its round filled in; lacking while the beacon value is unknown. */
export function withEntropy<T extends Chain>(chain: T, evidence: Evidence): Ruling<T> {
  if (chain.ledger.entropy !== null) return valid(chain);
  const { spec, run, time } = chain;
  const beacon = evidence.beacon(time);
  if (beacon === undefined) return lacking({ what: 'beacon', id: String(time) });
  const ledger = completeLedger(membershipOf(spec, run), chain.ledger, beacon);
  return valid({ ...chain, ledger });
}

/** Returns the state before round 0, with zero momentum. */
export function genesisOf(spec: RunSpec, params: Params, hash?: Sha256): Certified {
  const momentum = params.values.slice().fill(0);
  const roots = firstRoots(spec, params, hash);
  const { modelRoot: root } = roots;
  const specRoot = declaredRoots(spec)?.modelRoot ?? root;
  if (specRoot !== root) {
    throw new ConfigError(
      'base/other',
      `the base gives model root ${root}, the spec has ${specRoot}`,
      {
        hint: 'pass the files that the run was created with: --base',
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
 * Returns the first parameters: from the seed, or `first` if the run is a fork or trains all of a published model; of
 * one tier in a tiered run. Throws a ConfigError (`base/needed`, `fork/needed`) if `first` is needed and missing or has
 * another length.
 */
export function startOf(spec: RunSpec, first?: Float32Array, tier = 0): Params {
  const { training, start, parent } = spec;
  const model = modelOfRun(spec, tier);
  const layout = modelLayout(model);
  if (parent === null && (start === null || start.root === null)) {
    return { layout, values: initialParameters(model, training.seed) };
  }
  if (first?.length === layout.size) return { layout, values: Float32Array.from(first) };
  if (parent !== null) {
    throw new ConfigError('fork/needed', `this run goes on from run ${parent.run}`, {
      hint: 'name relays that have the events of that run: --relay URL',
    });
  }
  throw new ConfigError('base/needed', 'this run trains all parameters of a published model', {
    hint: 'pass the files of the base model, which have the first parameters: --base',
  });
}

/**
 * Returns the state that a run starts from; without the model if its first parameters come from files that are not
 * given.
 */
export function openingOf(
  spec: RunSpec,
  { first, sha256 }: { first?: Float32Array | undefined; sha256?: Sha256 | undefined },
): Chain | Certified {
  const specRoots = declaredRoots(spec);
  if (specRoots !== undefined && first === undefined) return firstChain(spec, specRoots);
  const tier = first && tierOf(spec, { ...layoutOfRun(spec), size: first.length });
  return genesisOf(spec, startOf(spec, first, tier), sha256);
}

/** Returns the finished-round record of a state whose round is decided. */
export function finishedRound(chain: Chain): FinishedRound {
  const { round, parent, modelRoot: base, ledger, sliceRoots } = chain;
  return { round, parent, base, ledger, ...(sliceRoots && { sliceRoots }) };
}

/** Number of recent outcomes that a join may name. */
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
