/**
 * Stake refresh: decides which new stake table an outcome may name. Compares it with the chain if this worker can read
 * the chain, otherwise checks its form. This is an opinion for first votes; validity is in
 * consensus/round/roster-change.ts.
 */
import { Recent } from '../../base/bounded.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type Ledger, nextSnapshotOf } from '../../run/ledger.ts';
import { principalOf } from '../../run/spec/feature-fields.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import {
  heightOf,
  isSuccessor,
  type SnapshotSchedule,
  type StakeSnapshot,
  snapshotId,
  stakeOf,
  successorOf,
} from '../../run/stake/stake-snapshot.ts';
import type { Chain } from '../decisions/chain.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import type { RunReporter } from '../rounds/events.ts';

/** Source and publisher of stake tables. */
export interface RefreshPort {
  /** Reads the table of an epoch for this roster from the chain; absent if this worker has no chain access. */
  derive?(epoch: number, roster: readonly WorkerId[]): Promise<StakeSnapshot>;
  find(id: Digest): Promise<StakeSnapshot>;
  /** Publishes a table, so that workers without chain access can follow. */
  publish(snapshot: StakeSnapshot): Promise<void>;
}

/** A request for the chain: balances of these keys at the block of an epoch. */
export interface Rederived {
  readonly keys: readonly WorkerId[] | undefined;
  readonly schedule: SnapshotSchedule;
  readonly epoch: number;
}

/** Returns `derive` for a port, which reads successors of the first table; undefined if the table never changes. */
export function deriveNext(
  { stake }: RunSpec,
  find: RefreshPort['find'],
  rederive: (document: StakeSnapshot, which: Rederived) => Promise<StakeSnapshot>,
): RefreshPort['derive'] {
  if (stake.source !== 'evm' || stake.every === 0) return undefined;
  const { snapshot, period } = stake;
  let first: StakeSnapshot | undefined;
  return async (epoch, roster) => {
    first ??= await find(snapshot);
    const schedule = { base: first.height, period };
    const { keys, params } = successorOf(first, heightOf(schedule, epoch), roster);
    return rederive({ ...first, params }, { keys, schedule, epoch });
  };
}

/** Opinion of a table that an outcome names; `wait` while it is being read. */
export type StakeOpinion = 'good' | 'bad' | 'wait';

/** A stake table with its id and lookup map, computed once: a table may have 100,000 rows. */
interface Table {
  readonly id: Digest;
  readonly snapshot: StakeSnapshot;
  readonly stakes: ReadonlyMap<WorkerId, bigint>;
}

/** Maximum cached tables: derived ones for each branch, and the documents that outcomes name. */
const MOST_KEPT = 16;

const tableOf = (snapshot: StakeSnapshot): Table => ({
  id: snapshotId(snapshot),
  snapshot,
  stakes: stakeOf(snapshot),
});

export class Refresh {
  readonly #spec: RunSpec;
  readonly #port: RefreshPort;
  readonly #evidence: EvidenceStore;
  readonly #reporter: RunReporter;
  /** Derived tables by parent outcome of the round that may name them; `failed` if the chain could not be read. */
  readonly #derived = new Recent<Table | 'reading' | 'failed'>(MOST_KEPT);
  readonly #documents = new Recent<Table | 'reading'>(MOST_KEPT);
  #published: Digest | undefined;

  constructor(
    spec: RunSpec,
    port: RefreshPort,
    { evidence, reporter }: { evidence: EvidenceStore; reporter: RunReporter },
  ) {
    this.#spec = spec;
    this.#port = port;
    this.#evidence = evidence;
    this.#reporter = reporter;
  }

  /** Finds the table with this id and adds it to the evidence. Rejects if no source has it. */
  async obtain(id: Digest): Promise<void> {
    this.#evidence.addStakes(id, stakeOf(await this.#port.find(id)));
  }

  /** Starts reading the table that a round may name. */
  begin({ round, parent, ledger }: Chain): void {
    const epoch = this.#epochOf(round);
    if (epoch === undefined || !this.#port.derive || this.#derived.get(parent)) return;
    this.#derived.set(parent, 'reading');
    const read = this.#port.derive(epoch, keysOf(ledger)).then((snapshot) => {
      const table = tableOf(snapshot);
      this.#evidence.addStakes(table.id, table.stakes);
      this.#derived.set(parent, table);
    });
    read.catch((error: unknown) => {
      this.#derived.set(parent, 'failed');
      this.#reporter.unread(round, error instanceof Error ? error.message : String(error));
    });
  }

  /** Returns the table id for this worker's own proposal: the new table if it is available, else the current one. */
  offer(chain: Chain): Digest | '' {
    const kept = nextSnapshotOf(chain.ledger) ?? '';
    const next = this.#derivedFor(chain);
    if (typeof next !== 'object' || !hasSeats(chain, next)) return kept;
    const { id, snapshot } = next;
    if (this.#published !== id) {
      this.#published = id;
      void this.#port.publish(snapshot).catch(() => this.#reporter.unpublished(chain.round, id));
    }
    return id;
  }

  /** Returns the document of the table; undefined, after a report, if no source has it. */
  async document(round: number, id: Digest): Promise<StakeSnapshot | undefined> {
    return this.#port.find(id).catch(() => {
      this.#reporter.unpublished(round, id);
      return undefined;
    });
  }

  /** Publishes a table again, so that it survives if its first publisher deletes it. */
  async publish(round: number, table: StakeSnapshot): Promise<void> {
    const sent = this.#port.publish(table);
    await sent.catch(() => this.#reporter.unpublished(round, snapshotId(table)));
  }

  /** Judges whether an outcome may name this table, as far as this worker can tell. */
  judge(chain: Chain, id: Digest | ''): StakeOpinion {
    if (id === (nextSnapshotOf(chain.ledger) ?? '')) return 'good';
    const next = this.#derivedFor(chain);
    if (next === 'reading') return 'wait';
    if (next === 'failed') return 'bad';
    if (next !== undefined) return next.id === id && hasSeats(chain, next) ? 'good' : 'bad';
    return id === '' ? 'bad' : this.#judgeForm(chain, id);
  }

  /** Judges a table without chain access: it must have the same source and the block that follows from the schedule. */
  #judgeForm(chain: Chain, id: Digest): StakeOpinion {
    const { stake } = this.#spec;
    const epoch = this.#epochOf(chain.round);
    if (stake.source !== 'evm' || epoch === undefined) return 'bad';
    const [first, next] = [this.#find(stake.snapshot), this.#find(id)];
    if (first === undefined || next === undefined) return 'wait';
    const height = heightOf({ base: first.snapshot.height, period: stake.period }, epoch);
    const expected = successorOf(first.snapshot, height, keysOf(chain.ledger));
    const isNext = isSuccessor(next.snapshot, expected);
    return isNext && hasSeats(chain, next) ? 'good' : 'bad';
  }

  #find(id: Digest): Table | undefined {
    const cached = this.#documents.get(id);
    if (typeof cached === 'object') return cached;
    if (cached === undefined) {
      this.#documents.set(id, 'reading');
      this.#port.find(id).then(
        (snapshot) => {
          const table = tableOf(snapshot);
          this.#documents.set(id, table);
          this.#evidence.addStakes(id, table.stakes);
        },
        // the next call tries again
        () => this.#documents.delete(id),
      );
    }
    return undefined;
  }

  #derivedFor({ round, parent }: Chain): Table | 'reading' | 'failed' | undefined {
    return this.#epochOf(round) === undefined ? undefined : this.#derived.get(parent);
  }

  /** Returns the epoch of the table that a round may name; undefined if it may name none. */
  #epochOf(round: number): number | undefined {
    const { stake } = this.#spec;
    if (stake.source !== 'evm' || stake.every === 0 || round === 0) return undefined;
    return round % stake.every === 0 ? round / stake.every : undefined;
  }
}

const keysOf = ({ members }: Ledger): readonly WorkerId[] => members.map(principalOf);

/** Reports whether a table leaves at least one member eligible for a seat; without any the run would end. */
function hasSeats({ spec, ledger }: Chain, { stakes }: Table): boolean {
  const least = BigInt(spec.committee.minStake);
  return keysOf(ledger).some((key) => (stakes.get(key) ?? -1n) >= least);
}
