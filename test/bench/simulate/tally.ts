/** Counts what the workers of a simulation send, by kind and each own event once, and how their rounds end. */
import { Recent } from 'nostrain/base';
import type { Tap } from './line.ts';
import type { RoundFigures } from './play.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** Bytes of frames per worker and round. */
export interface Sent {
  /** Each own event once. */
  readonly own: number;
  /** The same events to further relays, or again. */
  readonly copies: number;
  /** Questions, and what closes them. */
  readonly other: number;
  readonly ownEvents: number;
  /** Bytes of own events by their kind, each once. */
  readonly byKind: Readonly<Record<number, number>>;
}

interface TallyOptions {
  readonly workers: number;
  readonly clock: VirtualClock;
  readonly onRound?: ((round: RoundFigures) => void) | undefined;
}

interface Round {
  /** When each contribution was first sent, and each prepare and commit. */
  readonly contributed: number[];
  readonly prepared: number[];
  readonly committed: number[];
  readonly ended: number[];
  /** When each view had its proposal. */
  readonly proposed: Record<string, number>;
  /** Members that saw a view end without a certificate. */
  readonly stalled: Record<string, number>;
  accepted: number;
}

/**
 * When things of a round came to pass, in seconds from the beginning of the run: the first, the median and the last of
 * so many.
 */
type TimeRange = readonly [first: number, median: number, last: number, count: number];

/** How far a round has come. */
export interface Phases {
  readonly contributed: TimeRange;
  readonly prepared: TimeRange;
  readonly committed: TimeRange;
  readonly ended: TimeRange;
  /** By recovery epoch and view. */
  readonly proposed: Readonly<Record<string, number>>;
  readonly stalled: Readonly<Record<string, number>>;
}

const [MANIFEST, VOTE, PROPOSAL] = [7810, 7813, 7814] as const;
/** An event goes to further relays, or out again, within so long. */
const COPIED_MS = 300_000;
const START = '["EVENT",';
/** A relay writes the id and the key before the kind. */
const [KIND, KIND_FROM] = ['"kind":', 150] as const;

/** Of a value that is sorted. */
const at = (values: readonly number[], share: number): number =>
  values[Math.min(values.length - 1, Math.floor(share * values.length))] ?? Number.NaN;

const ascending = (values: readonly number[]): readonly number[] =>
  [...values].sort((a, b) => a - b);

export class Tally {
  /** Called when the first worker finishes a round. */
  onFirstOf: ((round: number) => void) | undefined;
  readonly rounds: RoundFigures[] = [];
  readonly #options: TallyOptions;
  readonly #seen: Recent<true>;
  readonly #byKind = new Map<number, number>();
  readonly #received = new Map<string, number>();
  readonly #open = new Map<number, Round>();
  /** Which round each worker plays. */
  readonly #rounds = new Map<number, number>();
  readonly #startedMs: number;
  /** Bytes that all got since the last round ended. */
  #down = 0;
  #own = 0;
  #ownEvents = 0;
  #copies = 0;
  #other = 0;
  #cpu = process.cpuUsage();
  readonly #cpuStart = this.#cpu;

  constructor(options: TallyOptions) {
    this.#options = options;
    this.#seen = new Recent(Number.POSITIVE_INFINITY, { clock: options.clock, ms: COPIED_MS });
    this.#startedMs = options.clock.now();
  }

  get cpuSeconds(): number {
    return secondsOf(process.cpuUsage(this.#cpuStart));
  }

  readonly tap: Tap = {
    sent: (_, text, bytes) => this.#sent(text, bytes),
    got: (_, text, bytes) => this.#got(text, bytes),
  };

  /** Bytes of events that came, by kind, per worker and round; every copy counts. */
  received(rounds: number): Readonly<Record<string, number>> {
    const all = this.#options.workers * rounds;
    return Object.fromEntries([...this.#received].map(([kind, bytes]) => [kind, bytes / all]));
  }

  #got(text: string, bytes: number): void {
    const at = text.startsWith(START) ? text.indexOf(KIND, KIND_FROM) : -1;
    const kind =
      at < 0
        ? 'other'
        : String(Number.parseInt(text.slice(at + KIND.length, at + KIND.length + 5), 10));
    this.#down += bytes;
    this.#received.set(kind, (this.#received.get(kind) ?? 0) + bytes);
  }

  #sent(text: string, bytes: number): void {
    if (!text.startsWith(START)) {
      this.#other += bytes;
      return;
    }
    const event = JSON.parse(text)[1] as { id: string; kind: number; content: string };
    if (this.#seen.get(event.id)) {
      this.#copies += bytes;
      return;
    }
    this.#seen.set(event.id, true);
    this.#own += bytes;
    this.#ownEvents++;
    this.#byKind.set(event.kind, (this.#byKind.get(event.kind) ?? 0) + bytes);
    if (event.kind === MANIFEST || event.kind === VOTE || event.kind === PROPOSAL)
      this.#note(event);
  }

  #note({ kind, content }: { readonly kind: number; readonly content: string }): void {
    const said = JSON.parse(content) as {
      readonly round: number;
      readonly step?: string;
      readonly attempt?: number;
      readonly view?: number;
    };
    const round = this.#roundOf(said.round);
    const now = this.#options.clock.now();
    if (kind === MANIFEST) round.contributed.push(now);
    else if (kind === PROPOSAL) round.proposed[`${said.attempt}/${said.view}`] ??= now;
    else round[said.step === 'commit' ? 'committed' : 'prepared'].push(now);
  }

  /** A member saw a view end without a certificate. */
  stalled(of: { readonly round: number; readonly attempt: number; readonly view: number }): void {
    const { stalled } = this.#roundOf(of.round);
    const view = `${of.attempt}/${of.view}`;
    stalled[view] = (stalled[view] ?? 0) + 1;
  }

  /** Of each round that some worker has not finished. */
  get open(): Readonly<Record<number, Phases>> {
    const { workers } = this.#options;
    const open = [...this.#open].filter(([, { ended }]) => ended.length < workers);
    return Object.fromEntries(open.map(([index, round]) => [index, this.#phasesOf(round)]));
  }

  #phasesOf({ proposed, stalled, ...times }: Round): Phases {
    const since = (ms: number) => (ms - this.#startedMs) / 1000;
    const timeRange = (all: readonly number[]): TimeRange => {
      const sorted = ascending(all);
      return [since(at(sorted, 0)), since(at(sorted, 0.5)), since(at(sorted, 1)), all.length];
    };
    return {
      contributed: timeRange(times.contributed),
      prepared: timeRange(times.prepared),
      committed: timeRange(times.committed),
      ended: timeRange(times.ended),
      proposed: Object.fromEntries(Object.entries(proposed).map(([view, ms]) => [view, since(ms)])),
      stalled: { ...stalled },
    };
  }

  /** The certificate of the round before this one is with a worker, and so many contributions that it counts. */
  reached(worker: number, next: number, accepted: number): void {
    const { clock, workers } = this.#options;
    const before = this.#rounds.get(worker) ?? 0;
    if (next <= before) return;
    this.#rounds.set(worker, next);
    for (let index = before; index < next; index++) {
      const round = this.#roundOf(index);
      round.accepted = accepted;
      if (round.ended.length === 0) this.onFirstOf?.(index);
      if (round.ended.push(clock.now()) === workers) this.#close(index, round);
    }
  }

  sent(rounds: number): Sent {
    const per = (bytes: number) => bytes / this.#options.workers / rounds;
    const byKind = [...this.#byKind].map(([kind, bytes]) => [kind, per(bytes)] as const);
    return {
      own: per(this.#own),
      copies: per(this.#copies),
      other: per(this.#other),
      ownEvents: per(this.#ownEvents),
      byKind: Object.fromEntries(byKind),
    };
  }

  #roundOf(index: number): Round {
    const known = this.#open.get(index);
    if (known) return known;
    const times = { contributed: [], prepared: [], committed: [], ended: [] };
    const round: Round = { ...times, proposed: {}, stalled: {}, accepted: 0 };
    this.#open.set(index, round);
    return round;
  }

  #close(index: number, round: Round): void {
    const { contributed, ended, accepted } = round;
    const ends = ascending(ended);
    // what came after the round had ended did not hold it up
    const counted = ascending(contributed.filter((ms) => ms <= ends[0]!));
    const last = counted.at(-1) ?? Number.NaN;
    const cpu = process.cpuUsage();
    const used = { user: cpu.user - this.#cpu.user, system: cpu.system - this.#cpu.system };
    this.#cpu = cpu;
    // where node was started with --expose-gc
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    const figures: RoundFigures = {
      ...{ round: index, finished: ends.length, accepted },
      secondsToCertificate: [(at(ends, 0.5) - last) / 1000, (at(ends, 1) - last) / 1000],
      bytesDown: this.#down / this.#options.workers,
      seconds: (ends.at(-1)! - this.#startedMs) / 1000,
      medianSeconds: (at(ends, 0.5) - this.#startedMs) / 1000,
      cpuSeconds: secondsOf(used),
      ...{ rssBytes: rss, heapBytes: heapUsed },
      phases: this.#phasesOf(round),
    };
    this.#down = 0;
    this.rounds.push(figures);
    this.#options.onRound?.(figures);
  }
}

const secondsOf = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1e6;
