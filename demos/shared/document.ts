/** The log of worker events, from which each demo computes its JSON document, and the document of averaging demos. */
import type { RunEvent } from 'nostrain/certified';
import type { TunedPart } from '../finetune/tuning.ts';
import type { LinearResult } from '../linear/reference.ts';

type EventOf<T extends RunEvent['type']> = Extract<RunEvent, { type: T }>;
export type RoundEvent = EventOf<'round'>;

/** Events of the workers, by worker name. */
export class EventLog {
  readonly hellos = new Map<string, EventOf<'hello'>>();
  readonly dones = new Map<string, EventOf<'done'>>();
  /** Round events by round index and worker name. */
  readonly rounds = new Map<number, Map<string, RoundEvent>>();
  readonly faults: EventOf<'fault'>[] = [];

  take(name: string, event: RunEvent): void {
    if (event.type === 'hello') this.hellos.set(name, event);
    else if (event.type === 'done') this.dones.set(name, event);
    else if (event.type === 'fault') this.faults.push(event);
    else if (event.type === 'round') {
      const reported = this.rounds.get(event.index) ?? new Map<string, RoundEvent>();
      this.rounds.set(event.index, reported.set(name, event));
    }
  }

  inOrder(): readonly (readonly [index: number, reported: ReadonlyMap<string, RoundEvent>])[] {
    return [...this.rounds].sort(([a], [b]) => a - b);
  }
}

export interface DemoWorker {
  readonly name: string;
  readonly pubkey: string;
  /** Loss on the worker's shard with its initial parameters. */
  readonly lossBefore: number | null;
  /** Loss on the worker's shard with the final shared parameters. */
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
  /** Share of right answers, for models that classify. */
  readonly accuracy?: number;
  readonly accepted: number;
  readonly refused: number;
  /** Largest raw payload of any worker. */
  readonly payloadBytes: number;
  /** Bytes of the events that carry it. */
  readonly eventBytes: number;
  readonly seconds: number;
  readonly sample: string | null;
}

/** The demo of fine-tuning adds a `TunedPart`. */
export interface DemoDocument extends Partial<TunedPart> {
  readonly task: string;
  readonly parameters: number;
  readonly corpus: { readonly name: string; readonly sha256: string; readonly bytes: number };
  readonly device: string;
  readonly workers: readonly DemoWorker[];
  readonly rounds: readonly DemoRound[];
  /** Every worker finished every round with the same digest. */
  readonly agreed: boolean;
  readonly tokens: number;
  readonly tokensPerSecond: number;
  readonly wallSeconds: number;
  /** The model of `demo linear --reference`. */
  readonly found?: LinearResult;
}

interface Played {
  readonly names: readonly string[];
  /** Number of planned rounds. */
  readonly rounds: number;
  readonly corpus: DemoDocument['corpus'];
  readonly wallSeconds: number;
}

/** Returns the document of a run; workers without events count as failed. */
export function documentOf(
  log: EventLog,
  { names, rounds: planned, corpus: { name, sha256, bytes }, wallSeconds }: Played,
): DemoDocument {
  const { hellos, dones } = log;
  const [first] = hellos.values();
  const rounds = log.inOrder();
  const agreed =
    rounds.length === planned &&
    dones.size === names.length &&
    rounds.every(([, reported]) => {
      const digests = new Set([...reported.values()].map(({ digest }) => digest));
      return reported.size === names.length && digests.size === 1;
    });
  const tokens = [...dones.values()].reduce((sum, done) => sum + done.tokens, 0);
  const { device, threads = 0 } = first ?? {};
  return {
    task: first?.task ?? '',
    parameters: first?.parameters ?? 0,
    corpus: { name, sha256, bytes },
    device: first ? `${device}, ${threads} thread${threads === 1 ? '' : 's'} per worker` : '',
    workers: names.map((worker) => workerRow(worker, log)),
    rounds: rounds.map(([index, reported]) => roundRow(index, [...reported.values()])),
    agreed,
    tokens,
    tokensPerSecond: tokens / wallSeconds,
    wallSeconds,
  };
}

function workerRow(name: string, { hellos, dones }: EventLog): DemoWorker {
  const hello = hellos.get(name);
  const done = dones.get(name);
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

function roundRow(index: number, reported: readonly RoundEvent[]): DemoRound {
  const most = (pick: (round: RoundEvent) => number) => Math.max(...reported.map(pick));
  const first = <K extends keyof RoundEvent>(key: K) =>
    reported.find((round) => round[key] !== undefined)?.[key];
  const accuracy = first('accuracy');
  return {
    index,
    validationLoss: first('validationLoss') ?? null,
    ...(accuracy !== undefined && { accuracy }),
    accepted: Math.min(...reported.map(({ accepted }) => accepted.length)),
    refused: most(({ refused }) => refused.length),
    payloadBytes: most(({ payloadBytes }) => payloadBytes),
    eventBytes: most(({ eventBytes }) => eventBytes),
    seconds: most(({ seconds }) => seconds),
    sample: first('sample') ?? null,
  };
}
