/**
 * What members store and publish so that a run outlives its events on relays: archived votes, spec, stake tables,
 * checkpoints, and a backfill of finished rounds from each worker's own records.
 */
import type { Clock } from '../../base/async.ts';
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { stateBytes } from '../../consensus/roots.ts';
import { parseEvent } from '../../network/event.ts';
import { actingFor } from '../../run/founder-seats.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import { ledgerBytes, snapshotOf } from '../../run/ledger.ts';
import { formatStakeJson, parseStakeJson } from '../../run/stake/stake-snapshot.ts';
import { fullSize } from '../../tensor/params.ts';
import type { Certified, Decision, ReadyRound } from '../decisions/chain.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import { sliceStates } from '../decisions/slices.ts';
import type { FeatureHost } from '../features/feature.ts';
import type { Refresh } from '../features/stakes.ts';
import type { Bundle } from '../wire/archived-votes.ts';
import type { Control } from '../wire/control.ts';
import type { RunReporter } from './events.ts';
import { type BackfillStore, KEPT_BYTES } from './journal.ts';

interface KeepPorts extends Pick<FeatureHost, 'reporter' | 'control' | 'evidence'> {
  readonly refresh: Refresh;
  readonly backfill: Backfill;
  readonly hold?: ((state: Certified) => Promise<void>) | undefined;
}

/** The keeping worker; `isOver` if the round was decided before it saw it. */
interface Keeping {
  readonly me: WorkerId;
  readonly isOver: boolean;
}

/** Members that publish a checkpoint: one may disappear before its upload ends. */
const CHECKPOINTERS = 2;
const KEEPERS = 3;
/** Founders that also publish, since members that joined uninvited may leave and delete everything. */
const FOUNDERS = 2;

/** Stores this round and publishes this worker's share; resolves when relays have answered. Never rejects. */
export async function keepRound(
  ready: ReadyRound,
  decision: Decision,
  { control, evidence, refresh, reporter, backfill, hold }: KeepPorts,
  { me, isOver }: Keeping,
): Promise<void> {
  const { round, spec, ledger } = ready.state;
  // undefined after a restart if relays lost votes that this worker knows from its journal
  const proving = standsOn(decision, evidence);
  const bundle =
    control.bundle([...new Set([...proving, ...seatsVotersOf(ready, decision, evidence)])]) ??
    control.bundle(proving);
  const record = bundle && { round, by: ready.electorate.roster, ...bundle };
  const { every, keep } = spec.checkpoint;
  const needed = round - every * (keep + 1);
  if (isOver) return record && backfill.note(record, needed);
  const isDue = isCheckpointDue(decision);
  const isKeeper = keepersOf(ready, decision, evidence).includes(me);
  const stakes = snapshotOf(decision.next.ledger);
  const isNew = stakes !== null && (round === 0 || stakes !== snapshotOf(ledger));
  const keepStakes = async () => {
    const table = isNew ? await refresh.document(round, stakes) : undefined;
    if (table && isKeeper) await refresh.publish(round, table);
    if (record === undefined) return;
    await backfill.note({ ...record, ...(table && { stakes: formatStakeJson(table) }) }, needed);
  };
  await Promise.all([
    keepStakes(),
    isDue && hold?.(decision.next),
    isDue && publishCheckpoint(ready, decision, { control, reporter }, me),
    isKeeper && bundle && control.archiveVotes(round, bundle),
    isKeeper && (round === 0 || isDue) && control.publishSpec(spec),
    isKeeper && backfill.republishMissing(decision.next, me),
  ]);
}

/** Reports whether a checkpoint is due: every `checkpoint.every` rounds and after the last one. */
const isCheckpointDue = ({ next: { round, spec } }: Decision): boolean =>
  round % spec.checkpoint.every === 0 || round === spec.training.rounds;

/** Returns the first `count` keys, and the first that act for founders among all of them. */
function someOf(
  keys: readonly WorkerId[],
  count: number,
  { spec, ledger }: Certified,
): readonly WorkerId[] {
  const founders = actingFor(new Set(spec.founders), ledger.members);
  const founding = keys.filter((key) => founders.has(key));
  return [...keys.slice(0, count), ...founding.slice(0, FOUNDERS)];
}

/** Returns the members that archive the round: the first by rank among those that committed, since they are online. */
function keepersOf(
  { electorate, state }: ReadyRound,
  { certificate: { attempt, commits } }: Decision,
  evidence: EvidenceStore,
): readonly WorkerId[] {
  const signers = new Set(commits.map((id) => evidence.message(id)?.key));
  const ranked = electorate.proposers(attempt).filter((key) => signers.has(key));
  return someOf(ranked, KEEPERS, state);
}

/** Returns the events that prove how this round was decided. Joins, leaves and earlier votes are inside the outcome. */
function standsOn({ outcome, certificate }: Decision, evidence: EvidenceStore): readonly EventId[] {
  const { proposal, commits } = certificate;
  const message = evidence.message(proposal);
  const ballots = message?.type === 'proposal' ? message.ballots : [];
  return [...new Set([proposal, ...commits, ...ballots, ...outcome.ballots, ...outcome.faults])];
}

/**
 * Returns a proposal of the round before, with its ballots, that proves the committee of a recovery epoch whose votes
 * this outcome lists: this worker may have decided that round by votes of another epoch.
 */
function seatsVotersOf(
  { state }: ReadyRound,
  { outcome: { votes } }: Decision,
  evidence: EvidenceStore,
): readonly EventId[] {
  if (votes === null || votes.attempt === 0) return [];
  const proposal = evidence
    .proposals(state.parent)
    .find(({ attempt, ctx }) => attempt === votes.attempt && ctx === votes.ctx);
  return proposal ? [proposal.id, ...proposal.ballots] : [];
}

/** Publishes the state for newcomers, if this worker is among the first of the committee. */
async function publishCheckpoint(
  { electorate, state }: ReadyRound,
  { next }: Decision,
  ports: Pick<KeepPorts, 'control' | 'reporter'>,
  me: WorkerId,
): Promise<void> {
  const { members } = electorate.committee;
  const keepers = [...new Set(someOf(members, CHECKPOINTERS, state))];
  if (keepers.includes(me)) await publishState(next, keepers, ports);
}

/** The record of a finished round: the events that decided it, and its roster. */
export interface KeptRound extends Bundle {
  readonly round: number;
  /** Roster of the round: readers query archives by these keys, which they know before they can follow the round. */
  readonly by: readonly WorkerId[];
  /** New stake table as JSON, if the outcome changed it. */
  readonly stakes?: string;
}

type Written = Omit<KeptRound, 'bodies'> & { readonly bodies: readonly string[] };

/** Maximum characters of a record: a stake table has up to 15 MB, the deciding events up to 8 MiB. */
const MOST_TEXT = 32 << 20;

export const formatKeptRound = ({ bodies, ...round }: KeptRound): string =>
  JSON.stringify({ ...round, bodies: bodies.map((bytes) => toBase64(bytes)) });

/** Parses a record that this worker wrote; undefined if it is invalid. Not for untrusted text. */
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

/** Number of archivers after which this worker does not republish a round. */
const ENOUGH = 3;
/** Limits of one backfill: rounds checked, and bytes published. */
const MAX_CHECKED_ROUNDS = 64;
const MOST_BYTES = 8 << 20;
/** Minimum time between two backfills of a stalled round. */
const STALLED_MS = 60_000;
/** Age of a round in seconds from which it counts as lost: before, its keepers may not have published it yet. */
const SETTLED_SECONDS = 10;

interface BackfillPorts {
  readonly control: Pick<Control, 'archiveVotes' | 'archivers' | 'publishSpec' | 'checkpoint'>;
  readonly refresh: Pick<Refresh, 'publish'>;
  readonly reporter: RunReporter;
  readonly store: BackfillStore | undefined;
  readonly clock: Clock;
}

/** Summary of the finished rounds in a store. */
interface Stored {
  /** Index of the first stored round; infinite in an empty store. */
  first: number;
  /** Bytes of all stored rounds. */
  bytes: number;
}

function storedOf(sizes: Iterable<readonly [number, number]>): Stored {
  const stored = { first: Number.POSITIVE_INFINITY, bytes: 0 };
  for (const [round, bytes] of sizes) {
    stored.first = Math.min(stored.first, round);
    stored.bytes += bytes;
  }
  return stored;
}

export class Backfill {
  readonly #ports: BackfillPorts;
  /** Next round to check; wraps around to the first stored one. */
  #next = 0;
  #stalledMs = Number.NEGATIVE_INFINITY;
  /** What the store holds, once it was asked. */
  #stored: Promise<Stored> | undefined;
  /** The last note. Notes follow one another: two at once would count wrongly what the store holds. */
  #noted: Promise<void> = Promise.resolve();

  constructor(ports: BackfillPorts) {
    this.#ports = ports;
  }

  /**
   * Stores the record of a round, and removes the oldest ones beyond the limit of the store, except rounds from
   * `needed` on. Never rejects.
   */
  note(record: KeptRound, needed: number): Promise<void> {
    this.#noted = this.#noted.then(() => this.#note(record, needed));
    return this.#noted;
  }

  async #note(record: KeptRound, needed: number): Promise<void> {
    const { store, reporter } = this.#ports;
    const text = store && formatKeptRound(record);
    if (!text || text.length > MOST_TEXT) return;
    try {
      const stored = await this.#storedIn(store);
      await store.save(record.round, text);
      stored.first = Math.min(stored.first, record.round);
      stored.bytes += text.length;
      if (stored.bytes > (store.maxBytes ?? KEPT_BYTES)) await this.#prune(store, stored, needed);
    } catch (error) {
      reporter.unsaved(record.round, error instanceof Error ? error.message : String(error));
    }
  }

  #storedIn(store: BackfillStore): Promise<Stored> {
    this.#stored ??= store.sizes().then(storedOf);
    return this.#stored;
  }

  async #prune(store: BackfillStore, stored: Stored, needed: number): Promise<void> {
    const { maxBytes = KEPT_BYTES, remove } = store;
    // counted anew: a round that was saved twice is counted twice so far
    const sizes = new Map(await store.sizes());
    Object.assign(stored, storedOf(sizes));
    for (const round of [...sizes.keys()].sort((a, b) => a - b)) {
      if (stored.bytes <= maxBytes || round >= needed) break;
      await remove(round);
      stored.bytes -= sizes.get(round)!;
      stored.first = round + 1;
    }
  }

  /**
   * Republishes what relays lost while a round is stalled, at most once a minute: members without a disk may need it
   * before the round can end. Never rejects.
   */
  async stalled(state: Certified, me: WorkerId): Promise<void> {
    const nowMs = this.#ports.clock.now();
    if (nowMs - this.#stalledMs < STALLED_MS) return;
    this.#stalledMs = nowMs;
    await this.republishMissing(state, me, true);
  }

  /**
   * Checks round by round whether relays still have the events of earlier rounds, and republishes lost ones within
   * limits; after the last round or in a stalled one with a checkpoint. Never rejects.
   */
  async republishMissing(state: Certified, me: WorkerId, isStalled = false): Promise<void> {
    const { control, reporter, clock } = this.#ports;
    const settledSeconds = clock.now() / 1000 - SETTLED_SECONDS;
    let bytes = 0;
    let rounds = 0;
    let lost = 0;
    const { store } = this.#ports;
    const stored = store && (await this.#storedIn(store).catch(() => undefined));
    if (!stored || stored.bytes === 0) return;
    for (let i = 0; i < Math.min(MAX_CHECKED_ROUNDS, state.round) && bytes < MOST_BYTES; i++) {
      const round = Math.max(stored.first, this.#next % state.round);
      this.#next = round + 1;
      const kept = await this.#load(round);
      if (!kept?.by.includes(me)) continue;
      // archives are large: most often its own is there, and no other needs to be sent
      const own = await control.archivers(round, [me]);
      const archivers = own?.size === 0 ? await control.archivers(round, kept.by) : own;
      if (archivers === undefined) return;
      if (archivers.has(me) || archivers.size >= ENOUGH) {
        if (rounds === 0) return;
        continue;
      }
      await control.archiveVotes(round, kept);
      await this.#publishStakes(kept);
      bytes += formatKeptRound(kept).length;
      rounds += 1;
      const isSettled = kept.events.every(({ created_at }) => created_at <= settledSeconds);
      // with fewer archives than wanted, this worker adds one: only a round without any is lost
      if (isSettled && archivers.size === 0) lost += 1;
    }
    if (rounds === 0) return;
    await control.publishSpec(state.spec);
    // no checkpoint follows
    const isLast = isStalled || state.round >= state.spec.training.rounds;
    const isFull = state.params.layout.size === fullSize(state.params.layout);
    if (isLast && isFull) await publishState(state, [me], this.#ports);
    if (lost > 0) reporter.republished(state.round - 1, lost);
  }

  async #load(round: number): Promise<KeptRound | undefined> {
    // an unreadable record counts as missing
    const text = await this.#ports.store?.load(round).catch(() => undefined);
    return text === undefined ? undefined : parseKeptRound(text);
  }

  async #publishStakes({ round, stakes }: KeptRound): Promise<void> {
    const table = stakes === undefined ? undefined : parseStakeJson(stakes);
    if (table?.ok) await this.#ports.refresh.publish(round, table.value);
  }
}

/** Publishes a certified state together with the other keepers, so that newcomers need not recompute it. */
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
        model: sliceStates(state).map(stateBytes),
        ledger: ledgerBytes(state.ledger),
      },
      keepers,
    )
    .catch(() => false);
  if (!isKept) reporter.unkept(round);
}
