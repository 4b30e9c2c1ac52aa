/** Judges which votes decide a round: a quorum of commits for one outcome, in one view of one committee. */
import { hasQuorum } from '../../consensus/committee/quorum.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Committee } from '../../run/committee.ts';
import { type Digest, type EventId, roundName, type WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { ListedVotes } from '../../run/listed.ts';
import type { Outcome } from '../../run/outcome.ts';
import { withFeatures } from '../../run/spec/features.ts';
import { type Commit, castOf, type Signed, type ViewChangeVote } from '../../run/vote.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import { rebuildEvent } from '../wire/messages.ts';
import {
  type Chain,
  type Electorate,
  electorateOf,
  type Situation,
  stakesOf,
  withEntropy,
} from './chain.ts';
import {
  type Evidence,
  type Gathered,
  invalid,
  lacking,
  type Missing,
  type Ruling,
  valid,
} from './evidence.ts';
import { keysBehind, roundWith } from './founders.ts';

export interface JudgedCertificate {
  readonly digest: Digest;
  readonly attempt: number;
  readonly view: number;
  readonly committee: Committee;
  /** Sorted by key, ascending. */
  readonly commits: readonly Signed<Commit>[];
}

/**
 * Returns the messages with these ids, all of one type. Lacking if some are absent, invalid (`other-event`) if one has
 * another type.
 */
export function listed<T extends ProtocolMessage>(
  ids: readonly EventId[],
  at: string,
  evidence: Evidence,
  is: (message: ProtocolMessage) => message is T,
): Ruling<readonly T[]> {
  const missing = ids.filter((id) => evidence.message(id) === undefined);
  if (missing.length > 0) return lacking(...missing.map((id) => ({ what: 'event', id }) as const));
  const messages = ids.map((id) => evidence.message(id)!);
  const items = messages.filter(is);
  const other = messages.find((message) => !is(message));
  if (other === undefined) return valid(items);
  return invalid('other-event', at, `${other.id} is of type ${other.type}`);
}

/** Judges the votes that an outcome lists for its parent: they must be a quorum of commits in this round. */
export function judgeVotes(
  situation: Situation,
  digest: Digest,
  votes: ListedVotes | null,
  evidence: Evidence,
): Ruling<JudgedCertificate> {
  const stakes = stakesOf(situation.ledger, evidence);
  if (!stakes.ok) return stakes;
  return judgeListed(situation, digest, votes, evidence, electorateOf(situation, stakes.value));
}

/** Judges listed votes with a known electorate. Counts seats before it checks any signature, which costs more. */
function judgeListed(
  situation: Situation,
  digest: Digest,
  votes: ListedVotes | null,
  evidence: Evidence,
  electorate: Electorate,
): Ruling<JudgedCertificate> {
  const events = votes && commitsOf(situation, digest, votes);
  if (events === null)
    return invalid('no-quorum', 'votes', 'a vote names an index outside the roster');
  const commits = events.map(({ commit }) => commit);
  const certificate = certify(situation, digest, commits, evidence, electorate);
  if (!certificate.ok) return certificate;
  const forged = events.find(({ event }) => !evidence.isSigned(event));
  if (forged === undefined) return certificate;
  const { key } = forged.commit;
  return invalid('bad-signature', 'votes', `the vote of ${key} has an invalid signature`);
}

interface RebuiltCommit {
  readonly commit: Signed<Commit>;
  readonly event: SignedEvent;
}

/** Rebuilds the event of each commit that an outcome lists; null if a vote's index is outside the roster. */
function commitsOf(
  situation: Situation,
  digest: Digest,
  votes: ListedVotes,
): readonly RebuiltCommit[] | null {
  const made: RebuiltCommit[] = [];
  for (const { index, unlisted, features, ...signature } of votes.rows) {
    const key = situation.ledger.members[index]?.key;
    if (key === undefined) return null;
    const commit: Commit = {
      type: 'vote',
      step: 'commit',
      justify: -1,
      ...castOf({ ...situation, ...votes, digest }),
      unlisted,
      ...withFeatures(features),
    };
    const event = rebuildEvent(commit, key, signature);
    made.push({ event, commit: { ...commit, id: event.id, key, signature } });
  }
  return made;
}

/**
 * Converts a quorum of commits to the form in which the next outcome lists them; `members` is the roster of the decided
 * round.
 */
export function listVotes(
  { members }: Ledger,
  { attempt, view, ctx }: Pick<ListedVotes, 'attempt' | 'view' | 'ctx'>,
  commits: readonly Signed<Commit>[],
): ListedVotes {
  const indices = new Map(members.map(({ key }, index) => [key, index]));
  const rows = commits.map(({ id, key, unlisted, features, signature }) => {
    const index = indices.get(key);
    if (index === undefined || signature === undefined)
      throw new TypeError(`vote ${id} cannot be listed`);
    return { index, unlisted, ...withFeatures(features), ...signature };
  });
  return { attempt, view, ctx, rows: rows.sort((a, b) => a.index - b.index) };
}

/**
 * Judges commits whose events are available. All of them must belong to the certificate; signatures are not checked
 * here.
 */
export function certify(
  situation: Situation,
  digest: Digest,
  commits: readonly Signed<Commit>[],
  evidence: Evidence,
  electorate: Electorate,
): Ruling<JudgedCertificate> {
  const { run, round, parent } = situation;
  const [first] = commits;
  const wrong = (message: string) => invalid('no-quorum', 'votes', message);
  if (first === undefined) return wrong(`no votes for ${roundName(round)}`);
  const { attempt, view, ctx } = first;
  for (const vote of commits) {
    const isOfRound = vote.run === run && vote.round === round && vote.parent === parent;
    if (!isOfRound) return wrong(`${vote.id} is not of ${roundName(round)} of this history`);
    if (vote.digest !== digest) return wrong(`${vote.id} is for another outcome`);
    if (vote.attempt !== attempt || vote.view !== view || vote.ctx !== ctx) {
      return wrong(`${vote.id} is of another view or committee than ${first.id}`);
    }
  }
  const seated = seatedIn(situation, first, evidence, electorate);
  if (!seated.ok) return seated;
  const committee = seated.value;
  const stranger = commits.find(({ key }) => !committee.members.includes(key));
  if (stranger !== undefined) return wrong(`${stranger.key} has no seat in ${roundName(round)}`);
  if (new Set(commits.map(({ key }) => key)).size < commits.length)
    return wrong('a key votes twice');
  if (
    !hasQuorum(
      committee,
      commits.map(({ key }) => key),
    )
  ) {
    return wrong(`${commits.length} of ${committee.size} seats are not a quorum`);
  }
  const sorted = [...commits].sort((a, b) => (a.key < b.key ? -1 : 1));
  return valid({ digest, attempt, view, committee, commits: sorted });
}

/**
 * Returns the committee that a vote names. With sampled seats it follows from the round's randomness; if everyone sits,
 * a recovery epoch draws it from the view-change votes that a proposal lists.
 */
function seatedIn(
  situation: Situation,
  { digest, attempt, ctx }: Pick<Commit, 'digest' | 'attempt' | 'ctx'>,
  evidence: Evidence,
  electorate: Electorate,
): Ruling<Committee> {
  if (attempt === 0 || electorate.isSampled) {
    const committee = electorate.draw(attempt, electorate.eligible);
    return committee.ctx === ctx
      ? valid(committee)
      : invalid('other-committee', 'votes', `the votes name the committee ${ctx}`);
  }
  // any proposal may claim a committee hash; the claim holds if its view-change votes produce that committee
  const missing: Missing[] = [];
  for (const proposal of evidence.proposals(digest)) {
    if (proposal.attempt !== attempt || proposal.ctx !== ctx) continue;
    const keys = judgeViewChanges(situation, proposal.ballots, attempt, evidence, electorate);
    if (!keys.ok) {
      if ('missing' in keys) missing.push(...keys.missing);
      continue;
    }
    const committee = electorate.draw(attempt, keys.value);
    if (committee.ctx === ctx) return valid(committee);
  }
  return lacking({ what: 'proposal', id: digest }, ...missing);
}

/** Returns the authors of these view-change votes if they suffice to start a recovery epoch. */
export function judgeViewChanges(
  { run, round, parent }: Situation,
  ids: readonly EventId[],
  attempt: number | undefined,
  evidence: Evidence,
  { isFloor }: Electorate,
): Ruling<readonly string[]> {
  const votes = listed(ids, 'ballots', evidence, isViewChange);
  if (!votes.ok) return votes;
  const of = attempt ?? votes.value[0]?.attempt;
  const wrong = (message: string) => invalid('wrong-ballots', 'ballots', message);
  for (const vote of votes.value) {
    const isOfRound = vote.run === run && vote.round === round && vote.parent === parent;
    if (!isOfRound || vote.attempt !== of || vote.attempt < 1) {
      return wrong(`${vote.id} is not for recovery epoch ${of} of ${roundName(round)}`);
    }
  }
  const keys = votes.value.map(({ key }) => key);
  if (new Set(keys).size < keys.length) return wrong('a key has two view-change votes');
  return isFloor(keys) ? valid(keys) : wrong(`${keys.length} view-change votes are not enough`);
}

const isViewChange = (message: ProtocolMessage): message is Signed<ViewChangeVote> =>
  message.type === 'ballot';

export interface Decided {
  readonly outcome: Outcome;
  readonly certificate: JudgedCertificate;
}

/** Returns every outcome that a quorum certified after this state; empty once the run is over. */
export function certifiedAfter(chain: Chain, events: Gathered): Ruling<readonly Decided[]> {
  if (chain.round >= chain.spec.training.rounds) return { ok: true, value: [] };
  const proposals = events
    .proposalsAfter(chain.parent)
    .filter(({ round }) => round === chain.round);
  const roster = new Set(keysBehind(chain, events));
  // only roster members count: a stranger's vote must not look like missing evidence
  const commits = events
    .commitsAfter(chain.parent)
    .filter(({ round, key }) => round === chain.round && roster.has(key));
  const isProposed = proposals.some(
    ({ key, digest }) => roster.has(key) || events.proposalsAfter(digest).length > 0,
  );
  if (!isProposed && commits.length === 0) return { ok: true, value: [] };
  const ready = withEntropy(chain, events);
  if (!ready.ok) return ready;
  const stakes = stakesOf(ready.value.ledger, events);
  if (!stakes.ok) return stakes;
  const outcomes = new Map(proposals.map(({ digest, outcome }) => [digest, outcome]));
  const roundOf = (digest: Digest) =>
    roundWith(ready.value, outcomes.get(digest)?.joins ?? [], events);
  const decided = new Map<Digest, Decided>();
  const lacks: Missing[] = [];
  for (const group of inGroups(commits)) {
    const { digest, attempt } = group[0]!;
    const { state, electorate } = roundOf(digest);
    const keys = group.map(({ key }) => key);
    // too few for any quorum of that epoch, so the events they name are not needed
    if (!hasQuorum(electorate.draw(attempt, keys), keys)) continue;
    const committee = seatedIn(state, group[0]!, events, electorate);
    const judged = committee.ok
      ? certify(state, digest, votesOf(committee.value, group), events, electorate)
      : committee;
    if (!judged.ok) {
      if ('missing' in judged) lacks.push(...judged.missing);
      continue;
    }
    const outcome = outcomes.get(digest);
    if (outcome === undefined) lacks.push({ what: 'proposal', id: digest });
    else decided.set(digest, { outcome, certificate: judged.value });
  }
  for (const [digest, outcome] of outcomes) {
    if (decided.has(digest)) continue;
    const { state, electorate } = roundOf(digest);
    const certificate = certifiedByNext(state, digest, events, electorate);
    if (certificate !== undefined) decided.set(digest, { outcome, certificate });
  }
  if (decided.size === 0 && lacks.length > 0) return { ok: false, missing: lacks };
  return { ok: true, value: [...decided.values()] };
}

/** Returns the certificate that a later outcome lists for this one; it holds even if authors deleted all commits. */
function certifiedByNext(
  state: Chain,
  digest: Digest,
  events: Gathered,
  electorate: Electorate,
): JudgedCertificate | undefined {
  for (const { round, outcome } of events.proposalsAfter(digest)) {
    if (round !== state.round + 1) continue;
    const judged = judgeListed(state, digest, outcome.votes, events, electorate);
    if (judged.ok) return judged.value;
  }
  return undefined;
}

/** Returns one commit per committee member; votes of other keys are ignored, so they cannot spoil a quorum. */
function votesOf(
  { members }: Committee,
  commits: readonly Signed<Commit>[],
): readonly Signed<Commit>[] {
  const byKey = new Map<WorkerId, Signed<Commit>>();
  for (const commit of commits) {
    if (members.includes(commit.key) && !byKey.has(commit.key)) byKey.set(commit.key, commit);
  }
  return [...byKey.values()];
}

/** Groups commits by outcome, epoch, view and committee: only commits of one group can form a quorum. */
function inGroups(commits: readonly Signed<Commit>[]): readonly (readonly Signed<Commit>[])[] {
  const groups = new Map<string, Signed<Commit>[]>();
  for (const commit of commits) {
    const { digest, attempt, view, ctx } = commit;
    const name = `${digest} ${attempt} ${view} ${ctx}`;
    groups.set(name, [...(groups.get(name) ?? []), commit]);
  }
  return [...groups.values()];
}
