/**
 * Generates the signed events of a certified run without a network: keys from seeds, synthetic deltas, and all members
 * on the committee.
 */

import { sha256, utf8 } from 'nostrain/base';
import {
  assignmentOf,
  buildFault,
  buildMessage,
  buildRun,
  type Certified,
  type Electorate,
  electorateOf,
  gather,
  genesisOf,
  listVotes,
  roundParametersOf,
  stakesOf,
  startOf,
  toProtocolMessage,
  withEntropy,
} from 'nostrain/certified/parts';
import { createRevealChain, revealOf, tipOf } from 'nostrain/consensus';
import {
  apartIn,
  buildManifest,
  createPacker,
  createSigner,
  planChunks,
  type SignedEvent,
  type Signer,
} from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import {
  type Commit,
  type Committee,
  type Digest,
  type EventId,
  type Join,
  type Leave,
  type Message,
  nextSnapshotOf,
  outcomeDigest,
  type RunSpec,
  runIdOf,
  type WorkerId,
} from 'nostrain/run';
import { CHUNK_BYTES } from '../../kinds/chunk.ts';
import type { Draft } from '../../src/certified/decisions/chain.ts';
import type { Ruling } from '../../src/certified/decisions/evidence.ts';
import { completeOutcome } from '../../src/certified/decisions/outcomes.ts';
import { bodyOfMessage } from '../../src/certified/wire/certified-events.ts';
import type { Lifetime } from '../../src/network/chunks/payload.ts';
import { type ListedVotes, MOST_UNLISTED } from '../../src/run/listed.ts';
import type { IndexedScore } from '../../src/run/spec/feature-fields.ts';
import { commitOf, listedJoin, listedLeave } from './certified-messages.ts';
import { shownIn } from './delegated.ts';
import { sampleSpec } from './run-spec.ts';

/** Events of one round. Numbers are those of `signerOf`; all other members of the roster follow the rules. */
export interface Round {
  readonly result?: 'final' | 'void';
  /** Workers that send no manifest in time. */
  readonly absent?: readonly number[];
  /** Workers whose manifest of the previous round is sent only now and listed as late. */
  readonly late?: readonly number[];
  /** Workers whose manifest starts from other parameters; the outcome rejects it with the reason. */
  readonly elsewhere?: readonly number[];
  /** Workers whose manifest arrives in time, but the outcome does not list it; all votes report that. */
  readonly ignored?: readonly number[];
  /** Workers whose payload contains only zeros. */
  readonly empty?: readonly number[];
  /** Workers whose payload is the opposite of what worker 1 sends, a million times as large. */
  readonly hostile?: readonly number[];
  readonly silent?: readonly number[];
  readonly joins?: readonly number[];
  /** Workers whose very first join is listed again. */
  readonly oldJoins?: readonly number[];
  readonly leaves?: readonly number[];
  /**
   * Votes report the maximum number of unlisted manifests. The next outcome lists these votes; with 12 founders it does
   * not fit into one event.
   */
  readonly wordy?: boolean;
  /** Worker that commits to two outcomes; the next round lists the proof. */
  readonly equivocator?: number;
  /**
   * A fault proof that ejects `culprit` for its contribution to round `checked`, with verdicts signed by `by`; the
   * verdicts of `forged` have an invalid signature.
   */
  readonly convicted?: {
    readonly culprit: number;
    readonly checked: number;
    readonly by: readonly number[];
    readonly forged?: readonly number[];
  };
  /** Scores that all votes report, by worker; in a run with scores. */
  readonly scores?: Readonly<Record<number, number>>;
  /** Scores that the votes of single members report instead, by voter. */
  readonly scoresOf?: Readonly<Record<number, Round['scores']>>;
  /** View that succeeds. */
  readonly view?: number;
  /** Recovery epoch that succeeds, after view-change votes of `balloting`; by default of all members. */
  readonly attempt?: number;
  readonly balloting?: readonly number[];
  /** The whole quorum certifies a model root that nobody computed. */
  readonly forgeModelRoot?: boolean;
}

export interface Played {
  readonly digest: Digest;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  readonly proposer: WorkerId;
}

export interface GeneratedRun {
  readonly spec: RunSpec;
  readonly run: Digest;
  readonly events: readonly SignedEvent[];
  readonly rounds: readonly Played[];
  readonly state: Certified;
}

const START = 1_790_000_000;
/** Lifetime of the events; relays drop expired ones. */
const KEPT_SECONDS = 20 * 365 * 86_400;

const NUMBERS = Array.from({ length: 12 }, (_, i) => i + 1);
const signers: readonly Signer[] = NUMBERS.map((number) =>
  createSigner(new Uint8Array(32).fill(number), nativeCrypto),
);

export const signerOf = (number: number): Signer => signers[number - 1]!;

export const foundersOf = (count: number): readonly WorkerId[] =>
  NUMBERS.slice(0, count)
    .map((number) => signerOf(number).publicKey)
    .sort();

/** Returns a spec with founders 1 to 4. */
export const certifiedSpec = (change: Record<string, unknown> = {}): RunSpec =>
  sampleSpec({
    author: signerOf(1).publicKey,
    founders: foundersOf(4),
    name: 'made up',
    ...change,
    training: { rounds: 8, momentum: 0.5, outerLearningRate: 0.7, ...Object(change.training) },
  });

/** Rounds with one of each: a late worker, a void round, a newcomer, an equivocator and the proof against it, a leaver, two failed views. */
export const eventful: readonly Round[] = [
  {},
  { absent: [4], joins: [5] },
  { late: [4], silent: [2] },
  { result: 'void', view: 4 },
  { equivocator: 3, elsewhere: [5] },
  { view: 2, ignored: [2] },
  { leaves: [4] },
];

export function generateRun(
  rounds: readonly Round[] = eventful,
  spec = certifiedSpec({ late: 'defer' }),
  extra: readonly SignedEvent[] = [],
  /** Returns the beacon value that follows an outcome of this time. */
  beaconAfter?: (time: number) => Digest,
  /** Number of past rounds that each new round is made from; a limit keeps the time per round constant in long runs. */
  historyRounds = Number.POSITIVE_INFINITY,
  /** Parameters of round 0, of a fork. */
  first?: Float32Array,
): GeneratedRun {
  const author = signerOf(1);
  const events: SignedEvent[] = [author.sign(buildRun(spec, life(0))), ...extra];
  const past: SignedEvent[] = [];
  const ends: number[] = [];
  const played: Played[] = [];
  let generating: Generating = {
    ...{ spec, run: runIdOf(spec), events, votes: null, faults: [], delays: new Map() },
    beacons: new Map(),
    state: genesisOf(spec, startOf(spec, first)),
    before: null,
  };
  for (const round of rounds) {
    const { state, beacons } = generating;
    if (beaconAfter && state.time > 0) beacons.set(state.time, beaconAfter(state.time));
    const ready = value(withEntropy(state, gather(events, generating, generating)));
    generating = playRound({ ...generating, state: ready }, round, played);
    ends.push(past.length + events.length);
    if (ends.length > historyRounds)
      past.push(...events.splice(0, ends.at(-historyRounds)! - past.length));
  }
  const { run, state } = generating;
  return { spec, run, events: [...past, ...events], rounds: played, state };
}

interface Generating {
  readonly spec: RunSpec;
  readonly run: Digest;
  readonly events: SignedEvent[];
  readonly state: Certified;
  readonly before: Certified | null;
  /** Commits of the previous round. */
  readonly votes: ListedVotes | null;
  readonly faults: readonly EventId[];
  readonly delays: ReadonlyMap<number, SignedEvent>;
  readonly beacons: Map<number, Digest>;
}

const life = (round: number) => ({
  createdAt: START + 60 * round,
  expiresAt: START + 60 * round + KEPT_SECONDS,
});

const numberOf = (key: WorkerId): number =>
  NUMBERS.find((number) => signerOf(number).publicKey === key)!;

function playRound(at: Generating, round: Round, played: Played[]): Generating {
  const { spec, run, state, events } = at;
  const found = gather(events, at, at);
  const stakes = value(stakesOf(state.ledger, found));
  const electorate = electorateOf(state, stakes);
  const roster = electorate.roster.map(numberOf);
  const say = (number: number, message: Message | Join | Leave): SignedEvent =>
    keepMessage(at, number, message, life(state.round));
  const joining = [...(state.round === 0 ? roster : []), ...(round.joins ?? [])];
  const joins = joining.map((number) => say(number, joinOf(spec, run, state, number)));
  for (const number of round.oldJoins ?? []) joins.push(firstJoinOf(at, number));
  const leaves = (round.leaves ?? []).map((number) =>
    say(number, { type: 'leave', run, last: state.round }),
  );
  const result = round.result ?? 'final';
  const sent = submissions(at, round, roster);
  const seats = seatsOf(at, round, electorate, say);
  const { committee, ballots } = seats;
  const snapshot = nextSnapshotOf(state.ledger);
  const draft: Draft = {
    ...{ run, round: state.round, parent: state.parent, base: state.modelRoot, result },
    time: START + 60 * state.round + 30,
    proposer: seats.proposer,
    reveal: revealOf(chainOf(spec, run, numberOf(seats.proposer)), state.round),
    ballots,
    accepted: result === 'void' ? [] : sent.accepted,
    rejected: result === 'void' ? [] : sent.rejected,
    votes: at.votes,
    joins: joins.map((event) => listedJoin(event, run)).sort(byKey),
    leaves: leaves.map((event) => listedLeave(event, run)).sort(byKey),
    faults: [...at.faults, ...convictionOf(at, round)].sort(),
    features: snapshot === null ? {} : { stake: { snapshot } },
  };
  const { outcome: computed, next } = value(completeOutcome(state, draft, gather(events, at, at)));
  const outcome = round.forgeModelRoot ? { ...computed, modelRoot: 'd'.repeat(64) } : computed;
  const digest = outcomeDigest(outcome);
  const { attempt, ctx } = committee;
  const view = round.view ?? 0;
  const position = { run, round: state.round, attempt, parent: state.parent, ctx, view, digest };
  const proposal = { type: 'proposal', step: 'prepare', justify: -1, prepares: [] } as const;
  say(numberOf(seats.proposer), { ...proposal, ...position, outcome, ballots });
  const voters = committee.members.map(numberOf).filter((n) => !round.silent?.includes(n));
  const prepare = { type: 'vote', step: 'prepare', justify: -1 } as const;
  for (const number of voters) {
    if (number !== numberOf(seats.proposer)) say(number, { ...prepare, ...position });
  }
  const commitBy = (number: number): Commit => ({
    ...{ type: 'vote', step: 'commit', justify: -1, ...position },
    unlisted: round.wordy ? MANY_INDICES : sent.unlisted,
    ...(spec.scores && {
      features: { scores: { of: indexed(round.scoresOf?.[number] ?? round.scores, state) } },
    }),
  });
  const votes = voters.map((number) => say(number, commitBy(number)));
  const { equivocator } = round;
  const faults =
    equivocator === undefined
      ? []
      : [accuse(at, equivocator, votes[voters.indexOf(equivocator)]!, commitBy(equivocator))];
  const { modelRoot, ledgerRoot } = outcome;
  played.push({ digest, modelRoot, ledgerRoot, proposer: seats.proposer });
  return {
    ...at,
    state: next,
    before: state,
    votes: listVotes(state.ledger, position, votes.map(commitOf)),
    faults,
    delays: sent.delays,
  };
}

/** Returns scores by roster index, ascending. */
const indexed = (scores: Round['scores'] = {}, { ledger }: Certified) =>
  Object.entries(scores)
    .map(([number, score]): IndexedScore => {
      const key = signerOf(Number(number)).publicKey;
      return [ledger.members.findIndex((member) => member.key === key), score];
    })
    .sort(([a], [b]) => a - b);

/** Returns the proof of two commits by one voter; the second is to an outcome that does not exist. */
function accuse(at: Generating, number: number, first: SignedEvent, commit: Commit): EventId {
  const second = buildMessage({ ...commit, digest: 'f'.repeat(64) }, life(at.state.round));
  const draft = buildFault(
    at.run,
    [first, keep(at, signerOf(number).sign(second))],
    life(at.state.round),
  );
  return keep(at, signerOf(1).sign(draft)).id;
}

/** Returns the id of a fault proof that contains the verdicts. */
function convictionOf(at: Generating, { convicted }: Round): readonly EventId[] {
  if (convicted === undefined) return [];
  const { culprit, checked, by, forged = [] } = convicted;
  const lifetime = life(at.state.round);
  const verdicts = [...by, ...forged].map((number) => {
    const said = {
      ...({ type: 'verdict', run: at.run, checked, reason: 'other-steps' } as const),
      accused: signerOf(culprit).publicKey,
      manifest: 'c'.repeat(64),
    };
    const event = signerOf(number).sign(buildMessage(said, lifetime));
    return forged.includes(number) ? { ...event, sig: 'ab'.repeat(64) } : event;
  });
  return [keep(at, signerOf(1).sign(buildFault(at.run, verdicts, lifetime))).id];
}

interface Seats {
  readonly committee: Committee;
  readonly proposer: WorkerId;
  readonly ballots: readonly EventId[];
}

function seatsOf(
  { run, state }: Generating,
  { attempt = 0, view = 0, balloting }: Round,
  { roster, committee, draw, proposers }: Electorate,
  say: (number: number, message: Message) => SignedEvent,
): Seats {
  const { round, parent } = state;
  if (attempt === 0) {
    return { committee, proposer: committee.members[view % committee.size]!, ballots: [] };
  }
  const numbers = balloting ?? roster.map(numberOf);
  const ballots = numbers.map((number) =>
    say(number, { type: 'ballot', run, round, attempt, parent, prepared: null }),
  );
  const keys = numbers.map((number) => signerOf(number).publicKey);
  const ranked = proposers(attempt);
  return {
    committee: draw(attempt, keys),
    proposer: ranked[view % ranked.length]!,
    ballots: idsOf(ballots),
  };
}

/** Manifests of the round, and of the round before where they are late. */
function submissions(at: Generating, round: Round, roster: readonly number[]) {
  const { state, before } = at;
  const index = (number: number) =>
    state.ledger.members.findIndex(({ key }) => key === signerOf(number).publicKey);
  const delays = new Map<number, SignedEvent>();
  for (const number of round.absent ?? []) delays.set(number, manifestOf(at, state, number));
  const made = roster
    .filter((number) => !round.absent?.includes(number) && !round.elsewhere?.includes(number))
    .map((number) => ({ number, event: keep(at, manifestOf(at, state, number, round)) }));
  const late = (round.late ?? []).map((number) => ({
    number,
    event: keep(at, at.delays.get(number) ?? manifestOf(at, before!, number)),
  }));
  const rejected = (round.elsewhere ?? []).map((number) => {
    const event = keep(at, manifestOf(at, { ...state, modelRoot: 'e'.repeat(64) }, number));
    return { index: index(number), manifest: event.id, reason: 'base-mismatch' };
  });
  const accepted = [
    ...made
      .filter(({ number }) => !round.ignored?.includes(number))
      .map(({ number, event }) => ({ index: index(number), late: false, manifest: event.id })),
    ...late.map(({ number, event }) => ({ index: index(number), late: true, manifest: event.id })),
  ].sort((a, b) => a.index - b.index || Number(a.late) - Number(b.late));
  const unlisted = made.filter(({ number }) => round.ignored?.includes(number));
  return {
    accepted,
    rejected,
    delays,
    unlisted: unlisted.map(({ number }) => index(number)).sort((a, b) => a - b),
  };
}

function manifestOf(
  at: Generating,
  state: Certified,
  number: number,
  { empty, hostile }: Round = {},
): SignedEvent {
  const { spec, run } = at;
  const signer = signerOf(number);
  const { round, parent, modelRoot: base, params, sliceRoots } = state;
  const roundParameters = value(roundParametersOf(state, gather(at.events, at, at)));
  const assignment = assignmentOf(roundParameters);
  const { packing, eventBudget } = spec.training;
  const packer = createPacker({
    ...{ run, layout: params.layout, packing, eventBudget, sha256 },
  });
  const { size } = params.layout;
  const factor = empty?.includes(number) ? 0 : hostile?.includes(number) ? -1e6 : 1;
  const delta = deltaOf(size, round, factor < 0 ? 1 : number).map((value) => factor * value);
  const { payload, codec } = packer.pack(delta, { round, worker: signer.publicKey, assignment });
  const said = { run, round, parent, base, codec, roster: assignment.digest };
  const rerun = { root: 'a'.repeat(64), bytes: 1, shard: '1/1', build: 'made up' };
  const widths = sliceRoots && { rings: sliceRoots };
  const features = { ...(spec.features.includes('rerun') && { rerun }), ...(widths && { widths }) };
  const own = { ...said, features, examples: 10 * number, steps: 5 };
  if (payload.length > CHUNK_BYTES) keepChunks(at, signer, payload, life(round));
  return signer.sign(buildManifest(own, payload, life(round)).draft);
}

/** Small numbers that look like nothing; worker 2 is loud, so that its norm is clipped. */
const deltaOf = (size: number, round: number, number: number): Float64Array =>
  Float64Array.from(
    { length: size },
    (_, i) =>
      ((number === 2 ? 40 : 1) * (((i + 1) * 37 + round * 101 + number * 53) % 200)) / 1000 - 0.1,
  );

const chainOf = (spec: RunSpec, run: Digest, number: number) =>
  createRevealChain(new Uint8Array(32).fill(100 + number), run, spec.training.rounds);

const joinOf = (spec: RunSpec, run: Digest, state: Certified, number: number): Join => ({
  ...{ type: 'join', run, after: state.parent, evidence: '' },
  tip: tipOf(chainOf(spec, run, number)),
  ...shownIn(spec, run, signerOf(number).publicKey),
});

const firstJoinOf = ({ events, run }: Generating, number: number): SignedEvent =>
  events
    .filter(({ pubkey }) => pubkey === signerOf(number).publicKey)
    .find((event) => toProtocolMessage(event, run)?.type === 'join')!;

/** The event of a message, and the chunks of a body that is not inside. */
function keepMessage(at: Generating, number: number, said: Message | Join | Leave, life: Lifetime) {
  const event = signerOf(number).sign(buildMessage(said, life));
  const body = apartIn(event) && bodyOfMessage(said);
  if (body !== undefined) keepChunks(at, signerOf(number), utf8(body), life);
  return keep(at, event);
}

function keepChunks(at: Generating, signer: Signer, bytes: Uint8Array, life: Lifetime): void {
  const plan = planChunks(bytes, life);
  for (let i = 0; i < plan.count; i++) keep(at, signer.sign(plan.draft(i)));
}

function keep({ events }: Generating, event: SignedEvent): SignedEvent {
  if (!events.some(({ id }) => id === event.id)) events.push(event);
  return event;
}

/** As many places as a vote may name. */
const MANY_INDICES = Array.from({ length: MOST_UNLISTED }, (_, i) => 64_000 + i);

const byKey = (a: { readonly key: string }, b: { readonly key: string }) =>
  a.key < b.key ? -1 : 1;

const idsOf = (events: readonly SignedEvent[]): readonly EventId[] =>
  events.map(({ id }) => id).sort();

/** The value of a verdict that a test relies on. */
function value<T>(verdict: Ruling<T>): T {
  if (verdict.ok) return verdict.value;
  throw new Error(JSON.stringify(verdict));
}
