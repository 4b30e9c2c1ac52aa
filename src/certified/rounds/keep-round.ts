/**
 * What members publish unasked so that a run outlives its events: copies of what decided a round, the spec and the stakes under keys of others
 * than their authors, and now and then the whole state, of which members hold chunks too where the run has a placement. Three keep each round, and two founders: its proposer may be one of them, and others may
 * delete everything they ever sent. Each worker also has what decided the rounds it was in on its disk, and publishes it again where relays
 * have forgotten it.
 */

import type { EventId, WorkerId } from '../../run/ids.ts';
import { snapshotOf } from '../../run/ledger.ts';
import { formatStakeJson } from '../../run/stake/stake-json.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import type { Decision, Member, ReadyRound } from '../member.ts';
import { publishState } from './past.ts';

type Ports = Pick<Member, 'control' | 'evidence' | 'refresh' | 'reporter' | 'past' | 'hold'>;

/** Who keeps it; `isOver` where it was over before this worker looked. */
interface Keeping {
  readonly me: WorkerId;
  readonly isOver: boolean;
}

/** How many publish a checkpoint: one may be gone before it is out. */
const CHECKPOINTERS = 2;
const KEEPERS = 3;
/** Founders that do besides: who came uninvited may go with everything it sent. */
const FOUNDERS = 2;

/** Keeps this round, and publishes what outlives it as far as it is this worker's turn; resolves when relays have answered. Never rejects. */
export async function keepRound(
  ready: ReadyRound,
  decision: Decision,
  { control, evidence, refresh, reporter, past, hold }: Ports,
  { me, isOver }: Keeping,
): Promise<void> {
  const { round, spec, ledger } = ready.state;
  const bundle = control.bundle(standsOn(decision, evidence));
  const record = { round, by: ready.electorate.roster, ...bundle };
  if (isOver) return past.note(record);
  const isDue = isCheckpointDue(decision);
  const isKeeper = keepersOf(ready, decision, evidence).includes(me);
  const stakes = snapshotOf(decision.next.ledger);
  const isNew = stakes !== null && (round === 0 || stakes !== snapshotOf(ledger));
  const keepStakes = async () => {
    const table = isNew ? await refresh.document(round, stakes) : undefined;
    if (table && isKeeper) await refresh.publish(round, table);
    await past.note({ ...record, ...(table && { stakes: formatStakeJson(table) }) });
  };
  await Promise.all([
    keepStakes(),
    isDue && hold?.(decision.next),
    isDue && publishCheckpoint(ready, decision, { control, reporter }, me),
    isKeeper && control.copy(round, bundle),
    isKeeper && (round === 0 || isDue) && control.publishSpec(spec),
    isKeeper && past.look(decision.next, me),
  ]);
}

/** Every so many rounds, and after the last one: the result of the run. */
const isCheckpointDue = ({ next: { round, spec } }: Decision): boolean =>
  round % spec.checkpoint.every === 0 || round === spec.training.rounds;

/** So many of these keys in their order, and the first founders among them. */
function someOf(
  keys: readonly WorkerId[],
  count: number,
  founders: readonly WorkerId[],
): readonly WorkerId[] {
  const known = keys.filter((key) => founders.includes(key));
  return [...keys.slice(0, count), ...known.slice(0, FOUNDERS)];
}

/** The first by rank of those who decided: they are there. */
function keepersOf(
  { electorate, state: { spec } }: ReadyRound,
  { certificate: { attempt, commits } }: Decision,
  evidence: EvidenceStore,
): readonly WorkerId[] {
  const signers = new Set(commits.map((id) => evidence.message(id)?.key));
  const ranked = electorate.proposers(attempt).filter((key) => signers.has(key));
  return someOf(ranked, KEEPERS, spec.founders);
}

/** The events without which nobody could check later that this round was decided so. Joins, leaves and earlier votes are in the outcome. */
function standsOn({ outcome, certificate }: Decision, evidence: EvidenceStore): readonly EventId[] {
  const { proposal, commits } = certificate;
  const said = evidence.message(proposal);
  const ballots = said?.type === 'proposal' ? said.ballots : [];
  return [...new Set([proposal, ...commits, ...ballots, ...outcome.ballots, ...outcome.faults])];
}

/** Publishes the state for newcomers; the first of the committee do, in the order of its draw. */
async function publishCheckpoint(
  { electorate }: ReadyRound,
  { next }: Decision,
  ports: Pick<Ports, 'control' | 'reporter'>,
  me: WorkerId,
): Promise<void> {
  const { members } = electorate.committee;
  const keepers = [...new Set(someOf(members, CHECKPOINTERS, next.spec.founders))];
  if (keepers.includes(me)) await publishState(next, keepers, ports);
}
