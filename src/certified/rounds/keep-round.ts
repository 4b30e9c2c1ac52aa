/**
 * What members keep and publish so that a run outlives its events: copies of what decided a round, spec, stakes,
 * checkpoints; and each worker's own record of past rounds, republished where relays have forgotten them.
 */
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { stateBytes } from '../../consensus/roots.ts';
import { parseEvent } from '../../network/event.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import { ledgerBytes, snapshotOf } from '../../run/ledger.ts';
import { formatStakeJson, parseStakeJson } from '../../run/stake/stake-snapshot.ts';
import type { Certified, Decision, ReadyRound } from '../decisions/chain.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import { isPart, sliceStates } from '../decisions/slices.ts';
import type { Refresh } from '../features/stakes.ts';
import type { Bundle } from '../wire/archived-votes.ts';
import type { Control } from '../wire/control.ts';
import type { RunReporter } from './events.ts';
import type { BackfillStore } from './journal.ts';

interface KeepPorts extends Pick<BackfillPorts, 'reporter'> {
  readonly control: Control;
  readonly evidence: EvidenceStore;
  readonly refresh: Refresh;
  readonly backfill: Backfill;
  readonly hold?: ((state: Certified) => Promise<void>) | undefined;
}

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

/** Keeps this round and publishes what is this worker's turn; resolves when relays have answered. Never rejects. */
export async function keepRound(
  ready: ReadyRound,
  decision: Decision,
  { control, evidence, refresh, reporter, backfill, hold }: KeepPorts,
  { me, isOver }: Keeping,
): Promise<void> {
  const { round, spec, ledger } = ready.state;
  const bundle = control.bundle(standsOn(decision, evidence));
  const record = { round, by: ready.electorate.roster, ...bundle };
  if (isOver) return backfill.note(record);
  const isDue = isCheckpointDue(decision);
  const isKeeper = keepersOf(ready, decision, evidence).includes(me);
  const stakes = snapshotOf(decision.next.ledger);
  const isNew = stakes !== null && (round === 0 || stakes !== snapshotOf(ledger));
  const keepStakes = async () => {
    const table = isNew ? await refresh.document(round, stakes) : undefined;
    if (table && isKeeper) await refresh.publish(round, table);
    await backfill.note({ ...record, ...(table && { stakes: formatStakeJson(table) }) });
  };
  await Promise.all([
    keepStakes(),
    isDue && hold?.(decision.next),
    isDue && publishCheckpoint(ready, decision, { control, reporter }, me),
    isKeeper && control.archiveVotes(round, bundle),
    isKeeper && (round === 0 || isDue) && control.publishSpec(spec),
    isKeeper && backfill.republishMissing(decision.next, me),
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
  const founding = keys.filter((key) => founders.includes(key));
  return [...keys.slice(0, count), ...founding.slice(0, FOUNDERS)];
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

/** The events that later prove how this round was decided. Joins, leaves and earlier votes are in the outcome. */
function standsOn({ outcome, certificate }: Decision, evidence: EvidenceStore): readonly EventId[] {
  const { proposal, commits } = certificate;
  const message = evidence.message(proposal);
  const ballots = message?.type === 'proposal' ? message.ballots : [];
  return [...new Set([proposal, ...commits, ...ballots, ...outcome.ballots, ...outcome.faults])];
}

/** Publishes the state for newcomers; the first of the committee do, in the order of its draw. */
async function publishCheckpoint(
  { electorate }: ReadyRound,
  { next }: Decision,
  ports: Pick<KeepPorts, 'control' | 'reporter'>,
  me: WorkerId,
): Promise<void> {
  const { members } = electorate.committee;
  const keepers = [...new Set(someOf(members, CHECKPOINTERS, next.spec.founders))];
  if (keepers.includes(me)) await publishState(next, keepers, ports);
}

/** A round that is over: what decided it, and who was in its roster. */
export interface KeptRound extends Bundle {
  readonly round: number;
  /** Readers ask for copies by those: nobody else is known to them before they could follow the round. */
  readonly by: readonly WorkerId[];
  /** The table of stakes that counts from then on, as JSON, where it is another one. */
  readonly stakes?: string;
}

type Written = Omit<KeptRound, 'bodies'> & { readonly bodies: readonly string[] };

/** A table of stakes may have 15 MB; what decided a round has 8 MiB at most. */
const MOST_TEXT = 32 << 20;

export const formatKeptRound = ({ bodies, ...round }: KeptRound): string =>
  JSON.stringify({ ...round, bodies: bodies.map((bytes) => toBase64(bytes)) });

/** A round again; undefined for what is none. The text is this worker's own; nobody else's is read. */
export function parseKeptRound(text: string): KeptRound | undefined {
  try {
    const { bodies, ...round } = JSON.parse(text) as Written;
    const opened = bodies.flatMap((each) => fromBase64(each) ?? []);
    const isOne = opened.length === bodies.length && round.by.length > 0;
    return isOne && round.events.every((each) => parseEvent(each).ok)
      ? { ...round, bodies: opened }
      : undefined;
  } catch {
    return undefined;
  }
}

/** So many others that keep a round are enough. */
const ENOUGH = 3;
/** What is published again in one round of the run: rounds that are looked at, and bytes. */
const MAX_CHECKED_ROUNDS = 64;
const MOST_BYTES = 8 << 20;

interface BackfillPorts {
  readonly control: Pick<Control, 'archiveVotes' | 'archivers' | 'publishSpec' | 'checkpoint'>;
  readonly refresh: Pick<Refresh, 'publish'>;
  readonly reporter: RunReporter;
  readonly store: BackfillStore | undefined;
}

export class Backfill {
  readonly #ports: BackfillPorts;
  /** The round that is looked at next: one after the other, from the first on. */
  #next = 0;

  constructor(ports: BackfillPorts) {
    this.#ports = ports;
  }

  /** Never rejects. */
  async note(record: KeptRound): Promise<void> {
    const { store, reporter } = this.#ports;
    const text = store && formatKeptRound(record);
    if (!text || text.length > MOST_TEXT) return;
    await store.save(record.round, text).catch((error: unknown) => {
      reporter.unsaved(record.round, error instanceof Error ? error.message : String(error));
    });
  }

  /**
   * Checks in turn whether relays still have what decided earlier rounds, and republishes what is gone, within limits.
   * Never rejects.
   */
  async republishMissing(state: Certified, me: WorkerId): Promise<void> {
    const { control, reporter } = this.#ports;
    let bytes = 0;
    let rounds = 0;
    for (let i = 0; i < Math.min(MAX_CHECKED_ROUNDS, state.round) && bytes < MOST_BYTES; i++) {
      const round = this.#next % state.round;
      this.#next = round + 1;
      const kept = await this.#load(round);
      if (!kept?.by.includes(me)) continue;
      const archivers = await control.archivers(round, kept.by);
      if (archivers === undefined) return;
      if (archivers.has(me) || archivers.size >= ENOUGH) {
        if (rounds === 0) return;
        continue;
      }
      await control.archiveVotes(round, kept);
      await this.#publishStakes(kept);
      bytes += formatKeptRound(kept).length;
      rounds += 1;
    }
    if (rounds === 0) return;
    await control.publishSpec(state.spec);
    // after the last round nobody else does
    const isWhole = !isPart(state.spec, state.params.layout);
    if (isWhole && state.round >= state.spec.training.rounds)
      await publishState(state, [me], this.#ports);
    reporter.republished(state.round - 1, rounds);
  }

  async #load(round: number): Promise<KeptRound | undefined> {
    // what cannot be read is not there
    const text = await this.#ports.store?.load(round).catch(() => undefined);
    return text === undefined ? undefined : parseKeptRound(text);
  }

  async #publishStakes({ round, stakes }: KeptRound): Promise<void> {
    const table = stakes === undefined ? undefined : parseStakeJson(stakes);
    if (table?.ok) await this.#ports.refresh.publish(round, table.value);
  }
}

/** Publishes a certified state together with the other keepers, so that who comes later need not compute it. */
async function publishState(
  state: Certified,
  keepers: readonly WorkerId[],
  {
    control,
    reporter,
  }: Pick<BackfillPorts, 'reporter'> & {
    readonly control: Pick<BackfillPorts['control'], 'checkpoint'>;
  },
): Promise<void> {
  const round = state.round - 1;
  const isKept = await control
    .checkpoint(
      {
        round,
        outcome: state.parent,
        modelRoot: state.modelRoot,
        ledgerRoot: state.ledgerRoot,
        model: sliceStates(state.spec, state).map(stateBytes),
        ledger: ledgerBytes(state.ledger),
      },
      keepers,
    )
    .catch(() => false);
  if (!isKept) reporter.unkept(round);
}
