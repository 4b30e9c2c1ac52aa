/** The JSON document of `nostrain demo certified`, computed from the events of its workers and relays. */

import type { SignedEvent } from 'nostrain';
import { proposal } from '../../kinds/proposal.ts';
import { vote } from '../../kinds/vote.ts';
import { weightVector } from '../../src/consensus/scores.ts';
import type { WorkerId } from '../../src/run/ids.ts';
import type { EventLog, RoundEvent } from '../shared/document.ts';

export interface CertifiedDocument {
  /** All honest workers had the same root after every round. */
  readonly agreed: boolean;
  readonly rounds: readonly {
    readonly index: number;
    readonly outcome: 'final' | 'void';
    readonly root: string;
    readonly accepted: number;
    readonly rejected: readonly { readonly worker: string; readonly reason: string }[];
    readonly signers: number;
    readonly seconds: number;
  }[];
  readonly faults: readonly FaultRow[];
  /** Weights by the certified scores after the last round, best first; they sum to 1, and zero weights are left out. */
  readonly weights: readonly { readonly worker: string; readonly weight: number }[];
  readonly replay: { readonly ok: boolean; readonly rounds: number };
  readonly workers: readonly {
    readonly name: string;
    readonly pubkey: string;
    readonly hostile: boolean;
    readonly root: string;
  }[];
  readonly eventsFile: string;
  readonly wallSeconds: number;
}

interface FaultRow {
  readonly kind: 'equivocation' | 'bad-score' | 'silent';
  readonly worker: string;
  readonly round: number;
}

export interface Cast {
  readonly name: string;
  readonly pubkey: WorkerId;
  readonly hostile: boolean;
}

/** A worker counts as silent after this many rounds in a row without a vote; after one it may just be slow. */
const SILENT_ROUNDS = 2;

export function certifiedDocumentOf(
  log: EventLog,
  cast: readonly Cast[],
  events: readonly SignedEvent[],
  rest: Pick<CertifiedDocument, 'replay' | 'eventsFile' | 'wallSeconds'>,
): CertifiedDocument {
  const nameOf = (key: WorkerId) => cast.find(({ pubkey }) => pubkey === key)?.name ?? key;
  const honest = cast.filter(({ hostile }) => !hostile).map(({ name }) => name);
  const rounds = log.inOrder();
  const last = rounds.at(-1)?.[1];
  const endOf = (name: string) => {
    const done = log.dones.get(name);
    return done ? (last?.get(name)?.certified?.root ?? done.digest) : '';
  };
  const roots = rounds.map(
    ([, by]) => new Set(honest.flatMap((name) => by.get(name)?.certified?.root ?? [])),
  );
  const ends = new Set(honest.map(endOf));
  const equivocations = new Map<WorkerId, number>();
  for (const { worker, round } of log.faults) {
    equivocations.set(worker, Math.min(equivocations.get(worker) ?? round, round));
  }
  const proven = [...equivocations].map(
    ([key, round]): FaultRow => ({ kind: 'equivocation', worker: nameOf(key), round }),
  );
  const scores = rounds.map(([index, by]) => ({
    index,
    scores: by.get(honest[0]!)?.certified?.scores ?? [],
  }));
  const bad = badScores(scores, nameOf);
  const silent = silences(events, cast, rounds.length, (pubkey) =>
    Math.min(
      equivocations.get(pubkey) ?? rounds.length,
      ...bad.flatMap(({ worker, round }) => (worker === nameOf(pubkey) ? [round + 1] : [])),
    ),
  );
  return {
    agreed: ends.size === 1 && !ends.has('') && roots.every(({ size }) => size === 1),
    rounds: rounds.map(([index, by]) => roundRow(index, by.get(honest[0]!), nameOf)),
    faults: [...proven, ...silent, ...bad].sort((a, b) => a.round - b.round),
    weights: weightsOf(scores.at(-1)?.scores ?? [], nameOf),
    workers: cast.map((each) => ({ ...each, root: endOf(each.name) })),
    ...rest,
  };
}

type Scores = NonNullable<NonNullable<RoundEvent['certified']>['scores']>;

/** Returns the workers whose certified scores fell below the floor, each with the round. */
function badScores(
  rounds: readonly { readonly index: number; readonly scores: Scores }[],
  nameOf: (key: WorkerId) => string,
): readonly FaultRow[] {
  const first = new Map<WorkerId, number>();
  for (const { index, scores } of rounds) {
    for (const { worker, isLow } of scores) {
      if (isLow && !first.has(worker)) first.set(worker, index);
    }
  }
  return [...first].map(([key, round]) => ({ kind: 'bad-score', worker: nameOf(key), round }));
}

function weightsOf(
  scores: Scores,
  nameOf: (key: WorkerId) => string,
): CertifiedDocument['weights'] {
  const rated = scores.map(({ worker, rolling }) => ({ key: worker, history: [rolling] }));
  return weightVector(rated).map(({ key, weight }) => ({ worker: nameOf(key), weight }));
}

function roundRow(
  index: number,
  report: RoundEvent | undefined,
  nameOf: (key: WorkerId) => string,
): CertifiedDocument['rounds'][number] {
  const certified = report?.certified;
  return {
    index,
    outcome: certified?.result ?? 'void',
    root: certified?.root ?? '',
    accepted: report?.accepted.length ?? 0,
    rejected: (certified?.rejected ?? []).map(({ worker, reason }) => ({
      worker: nameOf(worker),
      reason,
    })),
    signers: certified?.signers.length ?? 0,
    seconds: report?.seconds ?? 0,
  };
}

/** Returns rounds in which a worker with a seat cast no vote, if there are several in a row. */
function silences(
  events: readonly SignedEvent[],
  cast: readonly Cast[],
  rounds: number,
  seatedUntil: (pubkey: WorkerId) => number,
): readonly FaultRow[] {
  const voted = new Set(
    events
      .filter(({ kind }) => kind === vote.kind || kind === proposal.kind)
      .map(({ pubkey, content }) => `${pubkey}/${JSON.parse(content).round}`),
  );
  return cast.flatMap(({ name, pubkey }) => {
    const quiet = Array.from(
      { length: Math.min(rounds, seatedUntil(pubkey)) },
      (_, round) => !voted.has(`${pubkey}/${round}`),
    );
    const run = (round: number, step: 1 | -1): number =>
      quiet[round] ? 1 + run(round + step, step) : 0;
    return quiet.flatMap((isQuiet, round): readonly FaultRow[] =>
      isQuiet && run(round, 1) + run(round, -1) - 1 >= SILENT_ROUNDS
        ? [{ kind: 'silent', worker: name, round }]
        : [],
    );
  });
}
