/**
 * Receipts: who contributed what to a certified run and what it was worth, from its events alone, so that anybody can
 * check a signed one. Single rounds are proved with the run root.
 */

import { proveRound, type RoundProof, runRoot } from '../../consensus/roots.ts';
import { liveOf } from '../../consensus/round/membership.ts';
import { unseated } from '../../consensus/round/seats.ts';
import { rollingScore, weightVector } from '../../consensus/scores.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { type Chain, membershipOf, openingOf } from '../decisions/chain.ts';
import { pathOf, type Stop } from '../decisions/replay.ts';
import { type HistoryOptions, type Opened, openHistory } from './archive.ts';

/** What one key did, by index of rounds. */
export interface ReceiptRow {
  readonly worker: WorkerId;
  /** Rounds whose outcome lists a contribution of it on time. */
  readonly counted: readonly number[];
  /** Rounds whose outcome lists one it made for the round before. */
  readonly late: readonly number[];
  /** Rounds that it helped to decide, by the votes that the next outcome lists; of the last round none does. */
  readonly voted: readonly number[];
  /** Rounds in which it had no seat because its scores were too low; its contributions still counted. */
  readonly unseated: readonly number[];
  /** The mean of its last scores, in millionths of a loss; null in runs without scores, and for who left. */
  readonly score: number | null;
  /** Its share of the weight vector; 0 in runs without scores. */
  readonly weight: number;
}

/** What a run owes to whom. */
export interface Receipt {
  readonly run: Digest;
  /** All rounds of the spec are decided. */
  readonly complete: boolean;
  /** Rounds that are decided. */
  readonly rounds: number;
  /** Over the digests of their outcomes. */
  readonly runRoot: Digest;
  /** By key. */
  readonly rows: readonly ReceiptRow[];
}

/** What `receiptOf` gives. */
export interface Receipted {
  readonly receipt: Receipt;
  /** That the outcome of a decided round is in the run. */
  prove(round: number): RoundProof;
}

/**
 * The receipt of a run out of its events; undefined while nothing of it is decided.
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

/** The same of the stops of a replay, oldest first. */
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

/** What certified scores say of the members of a roster. */
export interface Standing {
  readonly worker: WorkerId;
  readonly score: number;
  readonly weight: number;
  readonly isLow: boolean;
}

/** The members that were scored, by key. */
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
  const keys = [...new Set([...totals.keys(), ...chain.ledger.members.map(({ key }) => key)])];
  return keys.sort().map((worker) => ({
    worker,
    ...(totals.get(worker) ?? { counted: [], late: [], voted: [], unseated: [] }),
    score: standings.get(worker)?.score ?? null,
    weight: standings.get(worker)?.weight ?? 0,
  }));
}
