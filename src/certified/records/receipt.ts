/**
 * Receipts: who contributed what to a certified run and what it was worth, computed from its events, so that anyone can
 * check a signed receipt. The run root proves single rounds.
 */

import { proveRound, type RoundProof, runRoot } from '../../consensus/roots.ts';
import { liveOf } from '../../consensus/round/membership.ts';
import { groupOfMember, unseated } from '../../consensus/round/seats.ts';
import { rollingScore, weightVector } from '../../consensus/scores.ts';
import { groupsOf } from '../../run/groups.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { type Chain, membershipOf, openingOf } from '../decisions/chain.ts';
import { pathOf, type Stop } from '../decisions/replay.ts';
import { type HistoryOptions, type Opened, openHistory } from './archive.ts';

/** What one key did; rounds are indices. */
export interface ReceiptRow {
  readonly worker: WorkerId;
  /** Rounds whose outcome lists its contribution on time. */
  readonly counted: readonly number[];
  /** Rounds whose outcome lists its late contribution to the previous round. */
  readonly late: readonly number[];
  /** Rounds that it voted in, according to the next outcome; unknown for the last round. */
  readonly voted: readonly number[];
  /** Rounds in which it had no seat because its scores were too low; its contributions still counted. */
  readonly unseated: readonly number[];
  /** Mean of its last scores, in millionths of a loss; null in runs without scores and for keys that left. */
  readonly score: number | null;
  /** Its share of the weight vector; 0 in runs without scores. */
  readonly weight: number;
  /** Name of the group whose experts it trains; only in runs with groups, and null for keys that left. */
  readonly group?: string | null;
}

/** Accounting of a run: what each key contributed. */
export interface Receipt {
  readonly run: Digest;
  /** True if all rounds of the spec are decided. */
  readonly complete: boolean;
  /** Number of decided rounds. */
  readonly rounds: number;
  /** Merkle root over the digests of their outcomes. */
  readonly runRoot: Digest;
  /** Sorted by key. */
  readonly rows: readonly ReceiptRow[];
}

/** A receipt, and proofs of its rounds. */
export interface Receipted {
  readonly receipt: Receipt;
  /** Proves that the outcome of a decided round belongs to the run. */
  prove(round: number): RoundProof;
}

/**
 * Computes the receipt of a run from its events; undefined if no round is decided.
 *
 * @example
 * ```ts
 * import { type Opened, receiptOf } from 'nostrain/certified';
 *
 * const tell = async (archive: Opened) => {
 *   const { receipt, prove } = (await receiptOf(archive, {}))!;
 *   const [first] = receipt.rows;
 *   return { counted: first?.counted.length, proof: prove(0) };
 * };
 * typeof tell; // => 'function'
 * ```
 */
export async function receiptOf(
  archive: Opened,
  options: HistoryOptions,
): Promise<Receipted | undefined> {
  const { spec, gathered } = await openHistory(archive, options);
  const { stops } = pathOf(openingOf(spec, options), gathered);
  return receiptFrom(spec, [...stops.values()]);
}

/** Computes the receipt from the states of a replay, oldest first. */
function receiptFrom(spec: RunSpec, stops: readonly Stop[]): Receipted | undefined {
  const digests = stops.flatMap(({ chain, outcome }) => (outcome ? [chain.parent] : []));
  const last = stops.at(-1);
  if (last === undefined || digests.length === 0) return undefined;
  const rules = membershipOf(spec, last.chain.run);
  const totals = new Map<WorkerId, Done>();
  const of = (worker: WorkerId): Done => {
    const total = totals.get(worker) ?? { counted: [], late: [], voted: [], unseated: [] };
    totals.set(worker, total);
    return total;
  };
  stops.forEach(({ outcome }, i) => {
    const before = stops[i - 1]?.chain;
    if (outcome === undefined || before === undefined) return;
    const { members } = before.ledger;
    for (const key of unseated(before.ledger, liveOf(rules, before.ledger))) {
      of(key).unseated.push(outcome.round);
    }
    for (const { index, late } of outcome.accepted) {
      of(members[index]!.key)[late ? 'late' : 'counted'].push(outcome.round);
    }
    const voters = before.before?.ledger.members ?? [];
    for (const { index } of outcome.votes?.rows ?? []) {
      of(voters[index]!.key).voted.push(outcome.round - 1);
    }
  });
  const rounds = digests.length;
  return {
    receipt: {
      run: runIdOf(spec),
      complete: rounds >= spec.training.rounds,
      rounds,
      runRoot: runRoot(digests),
      rows: rowsOf(last.chain, totals),
    },
    prove: (round) => proveRound(digests, round),
  };
}

interface Done {
  readonly counted: number[];
  readonly late: number[];
  readonly voted: number[];
  readonly unseated: number[];
}

/** Certified scores of a member. */
export interface Standing {
  readonly worker: WorkerId;
  readonly score: number;
  readonly weight: number;
  readonly isLow: boolean;
}

/** Returns the members that have scores, sorted by key. */
export function standingsOf({ ledger }: Pick<Chain, 'ledger'>): readonly Standing[] {
  const scored = ledger.members.flatMap(({ key, features }) =>
    features?.scores && features.scores.history.length > 0 ? [{ key, ...features.scores }] : [],
  );
  const weights = new Map(weightVector(scored).map(({ key, weight }) => [key, weight]));
  return scored.map(({ key, history, low }) => ({
    worker: key,
    score: rollingScore(history),
    isLow: low === 1,
    weight: weights.get(key) ?? 0,
  }));
}

function rowsOf(chain: Chain, totals: ReadonlyMap<WorkerId, Done>): readonly ReceiptRow[] {
  const standings = new Map(standingsOf(chain).map((each) => [each.worker, each]));
  const groups = groupsOf(chain.spec.mixture);
  const groupOf = new Map(chain.ledger.members.map((each) => [each.key, groupOfMember(each)]));
  const keys = [...new Set([...totals.keys(), ...chain.ledger.members.map(({ key }) => key)])];
  return keys.sort().map((worker) => ({
    worker,
    ...(totals.get(worker) ?? { counted: [], late: [], voted: [], unseated: [] }),
    score: standings.get(worker)?.score ?? null,
    weight: standings.get(worker)?.weight ?? 0,
    ...(groups.length > 0 && { group: groups[groupOf.get(worker) ?? -1]?.name ?? null }),
  }));
}
