/**
 * What members publish after a round, unasked, so that the run outlives its events: copies of what decided it, the spec and the stakes under
 * keys of others than their authors, and now and then the whole state. Three keep each round, and two
 * founders: its proposer may be one of them, and others may delete everything they ever sent.
 */
import { stateBytes } from '../consensus/state-root.ts';
import type { Control } from '../network/wire/control.ts';
import type { EventId, WorkerId } from '../run/ids.ts';
import { ledgerBytes, snapshotOf } from '../run/ledger.ts';
import type { Decision, DriverOptions, OpenRound } from './driven-round.ts';
import type { ProtocolMessage } from './evidence.ts';
import type { EvidenceStore } from './evidence-store.ts';
import type { Refresh } from './refresh.ts';
import type { Reporter } from './reporter.ts';
import type { ReadyRound } from './round-inputs.ts';

interface Ports {
  readonly control: Pick<Control<ProtocolMessage>, 'checkpoint' | 'copy' | 'publishSpec'>;
  readonly evidence: EvidenceStore;
  readonly refresh: Pick<Refresh, 'keep'>;
  readonly reporter: Reporter;
}

/** How many publish a checkpoint: one may be gone before it is out. */
const CHECKPOINTERS = 2;
const KEEPERS = 3;
/** Founders that do besides: who came uninvited may go with everything it sent. */
const FOUNDERS = 2;

/** Publishes what outlives this round, as far as it is this worker's turn; resolves when relays have answered. Never rejects. */
export async function keepRound(
  ready: ReadyRound,
  decision: Decision,
  ports: Ports,
  me: WorkerId,
): Promise<void> {
  const isDue = isCheckpointDue(decision);
  const checkpoint = isDue && publishCheckpoint(ready, decision, ports, me);
  const isKeeper = keepersOf(ready, decision, ports.evidence).includes(me);
  await Promise.all([checkpoint, isKeeper && publishCopies(ready, decision, ports, isDue)]);
}

async function publishCopies(
  { state: { round, spec, ledger } }: ReadyRound,
  decision: Decision,
  { control, evidence, refresh }: Ports,
  isDue: boolean,
): Promise<void> {
  const stakes = snapshotOf(decision.next.ledger);
  const isNew = stakes !== null && (round === 0 || stakes !== snapshotOf(ledger));
  await Promise.all([
    control.copy(round, standsOn(decision, evidence)),
    (round === 0 || isDue) && control.publishSpec(spec),
    isNew && refresh.keep(round, stakes),
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
  const signers = new Set(commits.map((id) => evidence.noun(id)?.key));
  const ranked = electorate.proposers(attempt).filter((key) => signers.has(key));
  return someOf(ranked, KEEPERS, spec.founders);
}

/** The events without which nobody could check later that this round was decided so. Joins, leaves and earlier votes are in the outcome. */
function standsOn({ outcome, certificate }: Decision, evidence: EvidenceStore): readonly EventId[] {
  const { proposal, commits } = certificate;
  const said = evidence.noun(proposal);
  const ballots = said?.type === 'proposal' ? said.ballots : [];
  return [...new Set([proposal, ...commits, ...ballots, ...outcome.ballots, ...outcome.faults])];
}

/** Publishes the state for newcomers; the first of the committee do, in the order of its draw. */
async function publishCheckpoint(
  { electorate }: ReadyRound,
  { next }: Decision,
  { control, reporter }: Ports,
  me: WorkerId,
): Promise<void> {
  const { members } = electorate.committee;
  if (!someOf(members, CHECKPOINTERS, next.spec.founders).includes(me)) return;
  const state = {
    ...{ round: next.round - 1, outcome: next.parent, ledgerRoot: next.ledgerRoot },
    ...{ model: stateBytes(next), ledger: ledgerBytes(next.ledger) },
  };
  const isKept = await control.checkpoint(state).catch(() => false);
  if (!isKept) reporter.unkept(next.round - 1);
}

/** Asks for what members copied of a round and the one before, since its authors may have deleted it; not again and again. */
export interface CopiesSearch {
  readonly isAsking: boolean;
  ask(): void;
}

/** Between two askings. */
const AGAIN_MS = 10_000;

export function createCopiesSearch(
  { context: { round, roster }, ports: { clock, control } }: DriverOptions,
  hearing: OpenRound,
  onAnswered: () => void,
): CopiesSearch {
  const rounds = round > 0 ? [round - 1, round] : [round];
  let isAsking = false;
  let askedMs = Number.NEGATIVE_INFINITY;
  return {
    get isAsking() {
      return isAsking;
    },
    ask() {
      const nowMs = clock.now();
      if (isAsking || nowMs - askedMs < AGAIN_MS) return;
      askedMs = nowMs;
      isAsking = true;
      const asking = rounds.map((each) => control.fetchCopies(each, roster, hearing));
      void Promise.all(asking).finally(() => {
        isAsking = false;
        onAnswered();
      });
    },
  };
}
