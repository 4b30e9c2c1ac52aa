/** What a demo was: one JSON document, folded from the events of its workers. */

import type { RunEvent } from '../../src/certified/rounds/events.ts';
import type { FoundModel } from '../../src/python/commands/demo-linear.ts';
import type { TunedPart } from '../finetune/tuning.ts';

export interface DemoWorker {
  readonly name: string;
  readonly pubkey: string;
  /** On the worker's own shard, with the parameters it started with. */
  readonly lossBefore: number | null;
  /** On the worker's own shard, with the shared parameters it ended with. */
  readonly lossAfter: number | null;
  readonly stateDigest: string;
  readonly bytesSent: number;
  readonly bytesReceived: number;
  readonly secondsTraining: number;
  readonly secondsWaiting: number;
}

export interface DemoRound {
  readonly index: number;
  readonly validationLoss: number | null;
  /** The share that is right, of models that tell classes. */
  readonly accuracy?: number;
  readonly accepted: number;
  readonly refused: number;
  /** The largest raw payload any worker sent. */
  readonly payloadBytes: number;
  /** All event JSON that carries it. */
  readonly eventBytes: number;
  readonly seconds: number;
  readonly sample: string | null;
}

/** That of fine-tuning has more. */
export interface DemoDocument extends Partial<TunedPart> {
  readonly task: string;
  readonly parameters: number;
  readonly corpus: {
    readonly name: string;
    readonly sha256: string;
    readonly bytes: number;
  };
  readonly device: string;
  readonly workers: readonly DemoWorker[];
  readonly rounds: readonly DemoRound[];
  /** Every worker finished every round, and after each all held the same digest. */
  readonly agreed: boolean;
  readonly tokens: number;
  readonly tokensPerSecond: number;
  readonly wallSeconds: number;
  /** What the reference's demo found, where that was played. */
  readonly found?: FoundModel;
}

type RoundEvent = Extract<RunEvent, { type: 'round' }>;

export interface DemoRecorder {
  take(name: string, event: RunEvent): void;
  document(end: {
    readonly wallSeconds: number;
    readonly corpus: DemoDocument['corpus'];
    readonly rounds: number;
  }): DemoDocument;
}

/** Collects what workers say; names that never spoke count as failed. */
export function createRecorder(names: readonly string[]): DemoRecorder {
  const hellos = new Map<string, Extract<RunEvent, { type: 'hello' }>>();
  const dones = new Map<string, Extract<RunEvent, { type: 'done' }>>();
  const rounds = new Map<number, Map<string, RoundEvent>>();
  return {
    take(name, event) {
      if (event.type === 'hello') hellos.set(name, event);
      else if (event.type === 'done') dones.set(name, event);
      else if (event.type === 'round') {
        const said = rounds.get(event.index) ?? new Map<string, RoundEvent>();
        rounds.set(event.index, said.set(name, event));
      }
    },
    document({ wallSeconds, corpus, rounds: planned }) {
      const first = hellos.values().next().value;
      const digests = [...rounds.values()].map(
        (said) => new Set([...said.values()].map(({ digest }) => digest)),
      );
      const complete = [...rounds.values()].every((said) => said.size === names.length);
      const agreed =
        rounds.size === planned &&
        complete &&
        dones.size === names.length &&
        digests.every(({ size }) => size === 1);
      const tokens = [...dones.values()].reduce((sum, done) => sum + done.tokens, 0);
      return {
        task: first?.task ?? '',
        parameters: first?.parameters ?? 0,
        corpus,
        device: first
          ? `${first.device}, ${first.threads} thread${first.threads === 1 ? '' : 's'} per worker`
          : '',
        workers: names.map((name) => workerRow(name, hellos.get(name), dones.get(name))),
        rounds: [...rounds]
          .sort(([a], [b]) => a - b)
          .map(([index, said]) => roundRow(index, [...said.values()])),
        agreed,
        tokens,
        tokensPerSecond: tokens / wallSeconds,
        wallSeconds,
      };
    },
  };
}

function workerRow(
  name: string,
  hello: Extract<RunEvent, { type: 'hello' }> | undefined,
  done: Extract<RunEvent, { type: 'done' }> | undefined,
): DemoWorker {
  return {
    name,
    pubkey: hello?.worker ?? '',
    lossBefore: hello?.lossBefore ?? null,
    lossAfter: done?.lossAfter ?? null,
    stateDigest: done?.digest ?? '',
    bytesSent: done?.bytesSent ?? 0,
    bytesReceived: done?.bytesReceived ?? 0,
    secondsTraining: done?.secondsTraining ?? 0,
    secondsWaiting: done?.secondsWaiting ?? 0,
  };
}

function roundRow(index: number, said: readonly RoundEvent[]): DemoRound {
  const most = (pick: (round: RoundEvent) => number) => Math.max(...said.map(pick));
  const accuracy = said.find((round) => round.accuracy !== undefined)?.accuracy;
  return {
    index,
    validationLoss:
      said.find(({ validationLoss }) => validationLoss !== undefined)?.validationLoss ?? null,
    ...(accuracy !== undefined && { accuracy }),
    accepted: Math.min(...said.map(({ accepted }) => accepted.length)),
    refused: most(({ refused }) => refused.length),
    payloadBytes: most(({ payloadBytes }) => payloadBytes),
    eventBytes: most(({ eventBytes }) => eventBytes),
    seconds: most(({ seconds }) => seconds),
    sample: said.find(({ sample }) => sample !== undefined)?.sample ?? null,
  };
}
