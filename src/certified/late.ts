/** Late policy `defer`: whose work of the round before an outcome must take up, so that no single proposer can drop it twice. */
import type { WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import { judgeVotes } from './certificate.ts';
import type { LateRow } from './compose.ts';
import type { Evidence } from './evidence.ts';
import type { Chain } from './history.ts';

/**
 * Of the late work that is here: what more than K - k of the votes that the outcome lists name as held in time and left out. So many
 * are never all hostile. Ids this member does not hold cannot force it to wait.
 */
export function owedIn(
  { spec, run, parent, before }: Chain,
  { votes }: Outcome,
  late: readonly LateRow[],
  evidence: Evidence,
): readonly WorkerId[] {
  if (before === null || late.length === 0) return [];
  const judged = judgeVotes({ spec, run, ...before }, parent, votes, evidence);
  if (!judged.ok) return [];
  const { commits, committee } = judged.value;
  const most = committee.size - committee.quorum;
  const roster = before.ledger.members.map(({ key }) => key);
  const isOwed = ({ worker }: LateRow): boolean =>
    commits.filter(({ unlisted }) => unlisted.includes(roster.indexOf(worker))).length > most;
  return late.filter(isOwed).map(({ worker }) => worker);
}
