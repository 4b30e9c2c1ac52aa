/**
 * Stake refresh: which next stake table an outcome may name. Read from the chain where this worker reaches it, else
 * checked for its form. It is an opinion for first votes; validity is in consensus/round/roster-change.ts.
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

/** How a worker gets tables of stakes and hands them on. */
export interface RefreshPort {
  /** The table of an epoch as the chain states it for this roster; absent if this worker reaches no chain. */
  derive?(epoch: number, roster: readonly WorkerId[]): Promise<StakeSnapshot>;
  find(id: Digest): Promise<StakeSnapshot>;
  /** So that workers without a chain can follow. */
  publish(snapshot: StakeSnapshot): Promise<void>;
}

/** What a chain is asked to say again: balances of these keys at the block of an epoch. */
export interface Rederived {
  readonly keys: readonly WorkerId[] | undefined;
  readonly schedule: SnapshotSchedule;
  readonly epoch: number;
}

/** Returns `derive` for a port: reads the successor of the first table; undefined if the table never changes. */
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

/** What to think of a table that an outcome names; `wait` while it is being read. */
export type StakeOpinion = 'good' | 'bad' | 'wait';

/** A table with what is asked of it again and again: it may have a hundred thousand rows. */
interface Table {
  readonly id: Digest;
  readonly snapshot: StakeSnapshot;
  readonly stakes: ReadonlyMap<WorkerId, bigint>;
}

/** Tables kept: those of the chain for each branch, and the documents that outcomes name. */
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
  /** Chain tables by the outcome before the round that may name them; `failed` if the chain could not be read. */
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

  /** Gets the table with this id, from whoever has it. Rejects when nobody does. */
  async obtain(id: Digest): Promise<void> {
    this.#evidence.addStakes(id, stakeOf(await this.#port.find(id)));
  }

  /** Starts reading what a round may name. */
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

  /** The table that an outcome of this worker's own names: the next one where it is here, else the one that holds. */
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

  /** The document of a table that counts; undefined, and said, where nobody has it. */
  async document(round: number, id: Digest): Promise<StakeSnapshot | undefined> {
    return this.#port.find(id).catch(() => {
      this.#reporter.unpublished(round, id);
      return undefined;
    });
  }

  /** Publishes a table once more, so that it does not go with whoever published it first. */
  async publish(round: number, table: StakeSnapshot): Promise<void> {
    const sent = this.#port.publish(table);
    await sent.catch(() => this.#reporter.unpublished(round, snapshotId(table)));
  }

  /** Whether an outcome may name this table, as far as this worker can tell. */
  judge(chain: Chain, id: Digest | ''): StakeOpinion {
    if (id === (nextSnapshotOf(chain.ledger) ?? '')) return 'good';
    const next = this.#derivedFor(chain);
    if (next === 'reading') return 'wait';
    if (next === 'failed') return 'bad';
    if (next !== undefined) return next.id === id && hasSeats(chain, next) ? 'good' : 'bad';
    return id === '' ? 'bad' : this.#judgeForm(chain, id);
  }

  /** Without a chain: the document must be one of the same source, of the block that follows from the schedule. */
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
        // it is asked for again
        () => this.#documents.delete(id),
      );
    }
    return undefined;
  }

  #derivedFor({ round, parent }: Chain): Table | 'reading' | 'failed' | undefined {
    return this.#epochOf(round) === undefined ? undefined : this.#derived.get(parent);
  }

  /** Which table a round may name; undefined for none. */
  #epochOf(round: number): number | undefined {
    const { stake } = this.#spec;
    if (stake.source !== 'evm' || stake.every === 0 || round === 0) return undefined;
    return round % stake.every === 0 ? round / stake.every : undefined;
  }
}

const keysOf = ({ members }: Ledger): readonly WorkerId[] => members.map(principalOf);

/** A table by which nobody of the roster may sit would end the run. */
function hasSeats({ spec, ledger }: Chain, { stakes }: Table): boolean {
  const least = BigInt(spec.committee.minStake);
  return keysOf(ledger).some((key) => (stakes.get(key) ?? -1n) >= least);
}
