/** Which outcomes a quorum decided after a certified state, by the votes and proposals at hand. */
import { hasQuorum } from '../consensus/committee/quorum.ts';
import type { Committee } from '../run/committee.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { Commit, Signed } from '../run/vote.ts';
import { type Certificate, certify, judgeListed, seatedIn } from './certificate.ts';
import { type Electorate, electorateOf, stakesOf } from './electorate.ts';
import type { Missing, Verdict } from './evidence.ts';
import type { Gathered } from './gather.ts';
import { type Chain, withEntropy } from './history.ts';

/** A round that a quorum decided. */
export interface Decided {
  readonly outcome: Outcome;
  readonly certificate: Certificate;
}

/** All of them; none once the run is over. */
export function certifiedAfter(chain: Chain, events: Gathered): Verdict<readonly Decided[]> {
  if (chain.round >= chain.spec.training.rounds) return { ok: true, value: [] };
  const roster = new Set(chain.ledger.members.map(({ key }) => key));
  const proposals = events
    .proposalsAfter(chain.parent)
    .filter(({ round }) => round === chain.round);
  // what strangers sign has no consequence, nor may it look like something that is missing
  const commits = events
    .commitsAfter(chain.parent)
    .filter(({ round, key }) => round === chain.round && roster.has(key));
  const isSaid = proposals.some(
    ({ key, digest }) => roster.has(key) || events.proposalsAfter(digest).length > 0,
  );
  if (!isSaid && commits.length === 0) return { ok: true, value: [] };
  const ready = withEntropy(chain, events);
  if (!ready.ok) return ready;
  const state = ready.value;
  const stakes = stakesOf(state.ledger, events);
  if (!stakes.ok) return stakes;
  const electorate = electorateOf(state, stakes.value);
  const decided = new Map<Digest, Decided>();
  const lacks: Missing[] = [];
  for (const group of inGroups(commits)) {
    const { digest, attempt } = group[0]!;
    const keys = group.map(({ key }) => key);
    // fewer than any quorum of that epoch: whatever they name need not be here
    if (!hasQuorum(electorate.draw(attempt, keys), keys)) continue;
    const committee = seatedIn(state, group[0]!, events, electorate);
    const judged = committee.ok
      ? certify(state, digest, votesOf(committee.value, group), events, electorate)
      : committee;
    if (!judged.ok) {
      if ('missing' in judged) lacks.push(...judged.missing);
      continue;
    }
    const body = proposals.find((proposal) => proposal.digest === digest);
    if (body === undefined) lacks.push({ what: 'proposal', id: digest });
    else decided.set(digest, { outcome: body.outcome, certificate: judged.value });
  }
  for (const { digest, outcome } of proposals) {
    if (decided.has(digest)) continue;
    const certificate = certifiedByNext(state, digest, events, electorate);
    if (certificate !== undefined) decided.set(digest, { outcome, certificate });
  }
  if (decided.size === 0 && lacks.length > 0) return { ok: false, missing: lacks };
  return { ok: true, value: [...decided.values()] };
}

/** The certificate that an outcome after this one lists: it stands when every commit was deleted. */
function certifiedByNext(
  state: Chain,
  digest: Digest,
  events: Gathered,
  electorate: Electorate,
): Certificate | undefined {
  for (const { round, outcome } of events.proposalsAfter(digest)) {
    if (round !== state.round + 1) continue;
    const judged = judgeListed(state, digest, outcome.votes, events, electorate);
    if (judged.ok) return judged.value;
  }
  return undefined;
}

/** One commit of each member; what others say does not count, nor may it spoil a quorum. */
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

/** Commits that may add up: of one outcome, attempt, view and committee. */
function inGroups(commits: readonly Signed<Commit>[]): readonly (readonly Signed<Commit>[])[] {
  const groups = new Map<string, Signed<Commit>[]>();
  for (const commit of commits) {
    const { digest, attempt, view, ctx } = commit;
    const name = `${digest} ${attempt} ${view} ${ctx}`;
    groups.set(name, [...(groups.get(name) ?? []), commit]);
  }
  return [...groups.values()];
}
