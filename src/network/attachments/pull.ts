/**
 * Pulls payloads and bodies chunk by chunk: by explicit keys, from several relays at once, what one has not got from another. Every
 * chunk proves itself, so nobody who serves one is trusted; first those its author signed are asked for. Relays are shared by turns
 * among authors, so one who names many payloads that never come holds up nobody else's.
 */

import { chunk } from '../../../kinds/chunk.ts';
import { type Clock, deferred, onAbort, unlessAborted, within } from '../../base/async.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import {
  type Assembly,
  type AssemblyOptions,
  chunkKey,
  createAssembly,
  isPayload,
  joinParts,
  type PayloadRoot,
  partsOf,
  type Striped,
  toChunk,
} from '../chunks/payload.ts';
import type { SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { ConnectionState } from '../transport/connection.ts';
import type { Progress } from '../transport/delivery.ts';
import type { Filter } from '../transport/frames.ts';
import type { RelaySet, Subscription } from '../transport/relay-set.ts';
import { type Place, PullPlan } from './pull-plan.ts';

export interface PullerOptions {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

/** What to pull, and whose chunks to ask for first. */
export interface Wanted extends Striped {
  readonly worker: WorkerId;
  /** Others who name the same root, and so may have signed chunks of it. */
  others?(): readonly WorkerId[];
}

export interface Pull {
  /** The payload and the bytes of the chunk events that brought it; undefined when its author signed what does not fit together, or when the puller was closed first. */
  readonly done: Promise<{ readonly payload: Uint8Array; readonly eventBytes: number } | undefined>;
  progress(): Progress;
  /** Gives it up: `done` gets undefined. */
  stop(): void;
}

/** When a pull ends without its payload. */
export interface PullLimits {
  readonly signal?: AbortSignal | undefined;
  /** No new chunk came for so long. */
  readonly idleMs?: number | undefined;
}

export interface Puller {
  /** Starts pulling. */
  pull(wanted: Wanted, limits?: PullLimits): Pull;
  close(): void;
}

/** Two requests of 64 chunks are 8 MiB under way at each relay. */
const REQUESTS_PER_RELAY = 2;
const TICK_MS = 250;
/** A relay that has not said it is through with a request after this is taken to have nothing more. */
const REQUEST_MS = 20_000;

interface Job {
  readonly wanted: Wanted;
  readonly plan: PullPlan;
  readonly roots: readonly PayloadRoot[];
  readonly assemblies: Map<number, Assembly>;
  readonly idleMs: number;
  newestMs: number;
  eventBytes: number;
  settle(result: Awaited<Pull['done']>): void;
}

interface Asking {
  readonly job: Job;
  readonly relay: string;
  readonly places: readonly Place[];
  readonly untilMs: number;
  subscription: Subscription | undefined;
}

export const createPuller = (options: PullerOptions): Puller => new Pulls(options);

/** How long one payload may take; as long as its chunks come where only `idleMs` says. */
export interface PullOnce extends PullerOptions {
  readonly timeoutMs?: number | undefined;
  /** The longest without a new chunk. */
  readonly idleMs?: number | undefined;
  readonly signal: AbortSignal;
}

/** One payload, or how far it came; rejects only with `signal.reason`. */
export async function pullOnce(wanted: Wanted, options: PullOnce): Promise<Result<Uint8Array>> {
  const { clock, timeoutMs, idleMs, signal } = options;
  const puller = createPuller(options);
  try {
    const { done, progress } = puller.pull(wanted, { idleMs });
    const found = await (timeoutMs === undefined
      ? unlessAborted(done, signal)
      : within(done, timeoutMs, clock, signal));
    if (found) return ok(found.payload);
    const { have, of } = progress();
    return refuse('payload-missing', 'root', `${have} of its ${of} chunks came`);
  } finally {
    puller.close();
  }
}

class Pulls implements Puller {
  readonly #options: PullerOptions;
  readonly #asking = new Set<Asking>();
  readonly #stop = new AbortController();
  /** The first one that a relay has something for is served next. */
  #jobs: Job[] = [];
  #ticking = false;

  constructor(options: PullerOptions) {
    this.#options = options;
  }

  pull(wanted: Wanted, { signal, idleMs = Number.POSITIVE_INFINITY }: PullLimits = {}): Pull {
    const parts = partsOf(wanted);
    const newestMs = this.#options.clock.now();
    const plan = new PullPlan(parts, newestMs);
    const { promise: done, settle } = deferred<Awaited<Pull['done']>>();
    const assemblies = new Map<number, Assembly>();
    const { roots } = parts;
    const job: Job = {
      wanted,
      plan,
      roots,
      assemblies,
      idleMs,
      newestMs,
      eventBytes: 0,
      settle,
    };
    const stop = () => this.#giveUp(job);
    const isOver = this.#stop.signal.aborted || signal?.aborted;
    if (isOver) settle(undefined);
    else this.#jobs.push(job);
    if (signal && !isOver) void done.then(onAbort(signal, stop));
    this.#pump();
    void this.#tick();
    return { done, progress: () => plan.progress, stop };
  }

  close(): void {
    this.#stop.abort();
    for (const asking of this.#asking) asking.subscription?.close();
    this.#asking.clear();
    for (const { settle } of this.#jobs.splice(0)) settle(undefined);
  }

  #giveUp(job: Job): void {
    this.#forget(job);
    job.settle(undefined);
  }

  #forget(job: Job): void {
    this.#jobs = this.#jobs.filter((other) => other !== job);
    for (const asking of [...this.#asking]) if (asking.job === job) this.#end(asking);
  }

  /** Looks after requests nobody answers and chunks that may have arrived at a relay meanwhile. */
  async #tick(): Promise<void> {
    if (this.#ticking) return;
    this.#ticking = true;
    const { clock } = this.#options;
    while (this.#jobs.length > 0 && !this.#stop.signal.aborted) {
      await clock.sleep(TICK_MS, this.#stop.signal).catch(() => undefined);
      const nowMs = clock.now();
      for (const asking of [...this.#asking]) if (asking.untilMs <= nowMs) this.#end(asking);
      for (const job of this.#jobs) if (nowMs - job.newestMs >= job.idleMs) this.#giveUp(job);
      this.#pump();
    }
    this.#ticking = false;
  }

  /** Gives every relay that has room something to do. */
  #pump(): void {
    if (this.#stop.signal.aborted || this.#jobs.length === 0) return;
    const status = this.#options.relays.status();
    const inState = (wanted: ConnectionState) =>
      status.flatMap(({ relay, state }) => (state === wanted ? relay : []));
    const open = inState('open');
    for (const relay of open) this.#serve(relay, open, false);
    for (const relay of inState('idle')) this.#serve(relay, open, true);
  }

  /** Asks a relay for what it may have; one that is not connected for what none of the `open` ones has. */
  #serve(relay: string, open: readonly string[], isLast: boolean): void {
    while (this.#askedOf(relay) < REQUESTS_PER_RELAY) {
      const found = this.#nextFor(relay, open, isLast);
      if (!found) break;
      this.#ask(relay, found.job, found.places, found.tries);
    }
  }

  #askedOf(relay: string): number {
    let count = 0;
    for (const asking of this.#asking) if (asking.relay === relay) count++;
    return count;
  }

  /** The next job with something this relay may have; all jobs of its author go to the end of the line, it behind the others. */
  #nextFor(relay: string, open: readonly string[], isLast: boolean) {
    const nowMs = this.#options.clock.now();
    for (const job of this.#jobs) {
      const { places, tries } = job.plan.take(relay, open, nowMs, isLast);
      if (places.length === 0) continue;
      const { worker } = job.wanted;
      const isTheirs = (other: Job) => other.wanted.worker === worker;
      const others = this.#jobs.filter((other) => !isTheirs(other));
      const theirs = this.#jobs.filter((other) => isTheirs(other) && other !== job);
      this.#jobs = [...others, ...theirs, job];
      return { job, places, tries };
    }
    return undefined;
  }

  #ask(relay: string, job: Job, places: readonly Place[], tries: number): void {
    const { relays, clock } = this.#options;
    const untilMs = clock.now() + REQUEST_MS;
    const asking: Asking = { job, relay, places, untilMs, subscription: undefined };
    this.#asking.add(asking);
    const keys = places.map(({ part, index }) => chunkKey(job.roots[part]!.root, index));
    const window = windowOf(job.wanted, tries);
    const filter = { kinds: [chunk.kind], '#c': keys, limit: 2 * keys.length, ...window };
    const end = () => this.#end(asking);
    asking.subscription = relays.subscribe(
      [filter],
      { onEvent: (event) => this.#take(asking, event), onCaughtUp: end, onLost: end },
      { only: [relay], recheck: false },
    );
  }

  #end(asking: Asking): void {
    if (!this.#asking.delete(asking)) return;
    asking.subscription?.close();
    asking.job.plan.answered(asking.relay, asking.places, this.#options.clock.now());
    this.#pump();
  }

  #take({ job, places }: Asking, event: SignedEvent): void {
    if (!this.#jobs.includes(job)) return;
    const { roots, plan, assemblies, wanted } = job;
    const judged = toChunk(event, { maxPayloadBytes: wanted.bytes }, this.#options.sha256);
    if (!judged.ok) return;
    const { root, index } = judged.value;
    if (!places.some((place) => place.index === index && roots[place.part]!.root === root)) return;
    let isNew = false;
    roots.forEach((each, part) => {
      if (each.root !== root) return; // equal shards have one root
      const how = { sha256: this.#options.sha256 };
      const assembly = assemblies.get(part) ?? openAssembly(each, how);
      assemblies.set(part, assembly);
      const added = assembly.add(judged.value);
      if (added.ok && added.value) isNew = true;
      for (let i = 0; i < assembly.count; i++) if (assembly.has(i)) plan.hold({ part, index: i });
    });
    if (!isNew) return;
    job.newestMs = this.#options.clock.now();
    job.eventBytes += JSON.stringify(event).length;
    if (plan.complete) this.#finish(job);
  }

  #finish(job: Job): void {
    this.#forget(job);
    const { wanted, roots, assemblies, plan, eventBytes, settle } = job;
    const parts = roots.map((_, part) => {
      const result = plan.whole.includes(part) ? assemblies.get(part)?.result() : undefined;
      return result?.ok ? result.bytes : undefined;
    });
    const payload = joinParts(parts, wanted);
    const isSound = payload !== undefined && isPayload(payload, wanted, this.#options.sha256);
    settle(isSound ? { payload, eventBytes } : undefined);
  }
}

/** What anybody signed under the same keys is looked at every other time: it may be any number of forgeries. */
function windowOf({ worker, others }: Wanted, tries: number): Pick<Filter, 'authors'> {
  if (tries % 2 === 1) return {};
  const authors = [worker, ...(others?.() ?? [])];
  return { authors: [authors[(tries / 2) % authors.length]!] };
}

function openAssembly(root: PayloadRoot, how: Omit<AssemblyOptions, 'maxBytes'>): Assembly {
  const made = createAssembly(root, { maxBytes: root.bytes, ...how });
  if (!made.ok) throw new TypeError(made.issue.message);
  return made.value;
}
