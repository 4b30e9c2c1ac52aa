/** What a chaos run shows: whether all ended in one root, whether anything was lost or signed twice, what a replay says, and what it cost. */

import {
  fetchHistory,
  fromCheckpoint,
  hasModel,
  openAccepted,
  type ProtocolMessage,
} from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import { runIdOf, type WorkerId } from 'nostrain/run';
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { isMessage } from '../../../src/certified/wire/certified-events.ts';
import { judgeFault } from '../../../src/consensus/round/receive.ts';
import { keyOf } from '../certified-swarm.ts';
import { type Replayed, replayed, zeroStart } from '../replaying.ts';
import { smallLayout as layout } from '../swarm.ts';
import type { Played } from './play.ts';

/** How far a replay came, and with how much at hand. */
export interface ReplayFindings {
  readonly full: number;
  readonly chain: number;
  /** Root of the model after the last round that a quorum decided; of round 0 without one. */
  readonly root: string;
  /** Where it stopped before the end of the run, and why. */
  readonly stopped?: string;
}

export interface Findings {
  readonly rounds: number;
  readonly final: number;
  /** Final rounds of all. */
  readonly goodput: number;
  readonly medianSeconds: number;
  readonly p95Seconds: number;
  readonly meanAccepted: number;
  readonly meanView: number;
  readonly recovered: number;
  /** Roots that the workers ended in: one. */
  readonly roots: readonly string[];
  /** Rounds of which two workers reported different roots. */
  readonly differing: readonly number[];
  /** Of everything that anybody sent. */
  readonly replay: ReplayFindings;
  /** Of what the relays together hold when all is over. */
  readonly fromRelays: ReplayFindings;
  /** Where a newcomer without a disk begins that has only the relays to ask: rounds that are over, and the model's root. */
  readonly newcomer: { readonly round: number; readonly root: string } | undefined;
  /** Pairs of events of one key that prove a fault. */
  readonly doubleSigned: number;
  readonly banned: number;
  readonly branchesLeft: number;
  /** Largest difference of what a worker learned from what was counted of it and what it has left to send, and how much it learned at most. */
  readonly lost: number;
  readonly learned: number;
}

export async function judge(played: Played): Promise<Findings> {
  const { spec, rounds, workers, said } = played;
  const everything = replayed(spec, layout, said);
  const roots = [...new Set(workers.map(({ final }) => final.head.modelRoot))];
  const seconds = rounds.map((round) => round.seconds).sort((a, b) => a - b);
  const final = rounds.filter(({ result }) => result === 'final');
  const genesis = zeroStart(spec, layout);
  const held = await played.ask((relays) =>
    fetchHistory(runIdOf(spec), { ...asked(relays), spec, start: () => genesis }),
  );
  const caughtUp = await played.ask((relays, clock) =>
    fromCheckpoint(spec, { ...asked(relays), clock, genesis }),
  );
  return {
    rounds: rounds.length,
    final: final.length,
    goodput: final.length / rounds.length,
    medianSeconds: seconds[seconds.length >> 1] ?? 0,
    p95Seconds: seconds[Math.ceil(0.95 * seconds.length) - 1] ?? 0,
    meanAccepted: mean(final.map(({ accepted }) => accepted)),
    meanView: mean(rounds.map(({ view }) => view)),
    recovered: rounds.filter(({ attempt }) => attempt > 0).length,
    roots,
    differing: rounds
      .map(({ round }) => round)
      .filter((round) => new Set(workers.flatMap((each) => each.roots.get(round) ?? [])).size > 1),
    replay: summaryOf(everything),
    fromRelays: summaryOf(replayed(spec, layout, held)),
    newcomer: caughtUp && { round: caughtUp.state.round, root: caughtUp.state.modelRoot },
    doubleSigned: doubleSignedIn(everything, said),
    banned: Math.max(...workers.map((each) => each.final.head.ledger.faulted.length)),
    branchesLeft: workers.filter(({ events }) => events.some(({ type }) => type === 'switched'))
      .length,
    ...lossOf(played, everything),
  };
}

const asked = <T>(relays: T) => ({ relays, signal: new AbortController().signal });

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

function summaryOf({ rounds, end }: Replayed): ReplayFindings {
  const last = rounds.at(-1);
  const count = (kind: string) => rounds.filter(({ checked }) => checked === kind).length;
  const stopped = last?.invalid?.message ?? last?.missing?.[0]?.id;
  return {
    ...{ full: count('full'), chain: count('chain'), root: end.state.modelRoot },
    ...(last?.checked === 'nothing' && { stopped: `round ${last.round}: ${stopped}` }),
  };
}

type Statement = Parameters<typeof judgeFault>[0];

/** Looks at every pair of events that one key signed in one round. */
function doubleSignedIn({ gathered }: Replayed, said: readonly SignedEvent[]): number {
  const contents = new Map(said.map(({ id, content }) => [id, content]));
  const places = new Map<string, Statement[]>();
  for (const message of gathered.messages.values()) {
    const statement = statementOf(message, contents.get(message.id)!);
    if (!statement) continue;
    const place = `${statement.key} ${statement.round}`;
    places.set(place, [...(places.get(place) ?? []), statement]);
  }
  let count = 0;
  for (const statements of places.values()) {
    statements.forEach((a, i) => {
      for (const b of statements.slice(i + 1)) if (judgeFault(a, b)) count++;
    });
  }
  return count;
}

function statementOf(message: ProtocolMessage, content: string): Statement | undefined {
  if (isMessage(message)) return message;
  if (message.type !== 'manifest' || message.manifest.parent === undefined) return undefined;
  const { id, key, type } = message;
  const { run, round, parent } = message.manifest;
  return { id, key, type, run, round, parent, content };
}

/** What reached a worker's disk as learned is in the model, or still in its residual. */
function lossOf({ workers }: Played, everything: Replayed): Pick<Findings, 'lost' | 'learned'> {
  const counted = new Map<WorkerId, Float64Array>();
  for (const { before, decided } of everything.rounds) {
    if (!decided || !hasModel(before)) continue;
    const rows = openAccepted(before, decided.outcome, everything.gathered);
    if (!rows.ok) continue;
    for (const { contribution } of rows.value) {
      const sum = counted.get(contribution.worker) ?? new Float64Array(layout.size);
      counted.set(contribution.worker, sum);
      const { delta } = contribution;
      delta.chunks.forEach((chunk, i) => {
        delta.addChunk(i, 1, sum, chunk * CHUNK_LENGTH);
      });
    }
  }
  let [lost, learned] = [0, 0];
  for (const worker of workers) {
    const sum = counted.get(keyOf(worker.index));
    worker.learned.forEach((value, i) => {
      learned = Math.max(learned, Math.abs(value));
      const known = (sum?.[i] ?? 0) + worker.final.residual[i]!;
      lost = Math.max(lost, Math.abs(value - known));
    });
  }
  return { lost, learned };
}
