/**
 * Follows a certified run over relays without a key, or opens an archive, and turns its events into a `RunPicture`.
 * Only events of members are stored, within the limits of an archive, so that strangers cannot fill the memory.
 */
import type { Clock } from '../base/async.ts';
import { ConfigError, safeLine } from '../base/errors.ts';
import { type Chain, openingOf } from '../certified/decisions/chain.ts';
import type { Gathered, Hashing } from '../certified/decisions/evidence.ts';
import { withoutModel } from '../certified/decisions/replay.ts';
import { archiveLimits, collectSpec, KeptHistory } from '../certified/history/from-relays.ts';
import { type BeaconRecord, beaconsOf, gather } from '../certified/history/gather.ts';
import { fetchHistory } from '../certified/history/history.ts';
import {
  type Archive,
  archiveRun,
  type Opened,
  openHistory,
} from '../certified/records/archive.ts';
import type { Explanation } from '../certified/records/explain.ts';
import { onlookerFilters, type ProtocolMessage } from '../certified/wire/certified-events.ts';
import type { SignedEvent } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { toPresence } from '../network/wire/native-profile.ts';
import type { BeaconSource } from '../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import { featureSet } from '../run/spec/features.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import type { RelayPicture, RunPicture } from './run-picture.ts';
import { RunView } from './run-view.ts';

export interface FollowOptions extends Hashing {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The spec, if relays may not have it. */
  readonly spec?: RunSpec | undefined;
  beacon?(spec: RunSpec): BeaconSource | undefined;
  /** Called with the number of events read so far, while stored events are read. */
  onProgress?(have: number): void;
  onPicture(picture: RunPicture): void;
  onFailed(error: unknown): void;
}

export interface OpenRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  readonly picture: RunPicture;
  /** State after the last decided round, without the model, and the evidence for it. */
  readonly tip: Chain;
  readonly gathered: Gathered;
  /** Explains why a contribution counted or not, as far as known without the model; undefined for unknown rounds. */
  explain(worker: WorkerId, round: number): Explanation | undefined;
  /** Returns everything needed to replay the run; downloads payloads from relays. */
  archive(onProgress?: (have: number) => void): Promise<Opened>;
  /** Takes an event that this machine published; the next picture has it. */
  take(event: SignedEvent): void;
  /** Stops following the run. */
  close(): void;
}

/** Minimum pause between two pictures, in milliseconds. */
const LEAST_MS = 250;
/** The pause is also at least this many times as long as the last picture took. */
const PAUSE_FACTOR = 4;
/** Milliseconds between queries for events that are not live: bodies in chunks, newcomers, events that a relay lost. */
const QUERY_MS = 5000;
/** Milliseconds between queries for all events. */
const QUERY_ALL_MS = 60_000;
/** Maximum milliseconds between pictures, so that silent workers are shown as away. */
const REDRAW_MS = 10_000;
/** Live events are subscribed to from this many seconds before now. */
const OVERLAP_SECONDS = 120;

export async function openArchive(
  archive: Opened,
  options: Hashing & { readonly nowSeconds: number; readonly run?: Digest | undefined },
): Promise<OpenRun> {
  const { run, spec, events, gathered } = await openHistory(archive, options);
  const start = withoutModel(openingOf(spec, options));
  const view = new RunView(spec, run, start);
  view.addEvents(events);
  const picture = view.draw(gathered, options.nowSeconds, [], true);
  return {
    run,
    spec,
    picture,
    tip: view.tip,
    gathered,
    explain: (worker, round) => view.explain(worker, round),
    archive: async () => archive,
    take: () => undefined,
    close: () => undefined,
  };
}

/** Follows a run; resolves once its spec is known. Throws a ConfigError (`run/not-found`) if no relay has the spec. */
export async function followRun(run: Digest, options: FollowOptions): Promise<OpenRun> {
  const { relays, signal, sha256 } = options;
  const spec = options.spec ?? (await collectSpec(run, { relays, signal, sha256 })).spec;
  if (spec === undefined) {
    throw new ConfigError('run/not-found', `no relay here has the spec of run ${run}`, {
      hint: 'name the relays of the run; its creator knows them',
    });
  }
  return new Follower(run, spec, options);
}

class Follower implements OpenRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  readonly #options: FollowOptions;
  readonly #view: RunView;
  readonly #kept: KeptHistory;
  readonly #read = new Map<EventId, ProtocolMessage>();
  readonly #stop = new AbortController();
  #beacons: readonly BeaconRecord[] = [];
  #picture: RunPicture;
  #isDirty = true;
  #isCaughtUp = false;
  #isBehind = true;
  /** The next picture replays all rounds from the first. */
  #isWhole = true;
  #drawnMs = Number.NEGATIVE_INFINITY;
  #queriedMs = Number.NEGATIVE_INFINITY;
  #queriedKeys = 0;

  constructor(run: Digest, spec: RunSpec, options: FollowOptions) {
    this.run = run;
    this.spec = spec;
    this.#options = options;
    const start = withoutModel(openingOf(spec, options));
    this.#view = new RunView(spec, run, start);
    this.#kept = new KeptHistory(
      run,
      spec.training.rounds,
      archiveLimits(spec.limits.payloadBytes),
    );
    this.#picture = this.#view.draw(this.#view.gathered, 0, [], false);
    options.signal.addEventListener('abort', () => this.close(), { once: true });
    void this.#live().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) options.onFailed(error);
    });
  }

  get picture(): RunPicture {
    return this.#picture;
  }

  get tip(): Chain {
    return this.#view.tip;
  }

  get gathered(): Gathered {
    return this.#view.gathered;
  }

  explain(worker: WorkerId, round: number): Explanation | undefined {
    return this.#view.explain(worker, round);
  }

  async archive(onProgress?: (have: number) => void): Promise<Opened> {
    const { relays, sha256, crypto, beacon } = this.#options;
    const known: Archive = { events: this.#kept.events(), beacons: this.#beacons };
    const { run, spec } = this;
    return archiveRun(run, {
      relays,
      sha256,
      crypto,
      spec,
      signal: this.#stop.signal,
      beacon,
      onProgress,
      known: known.events.length === 0 ? undefined : known,
    });
  }

  close(): void {
    this.#stop.abort(new Error('closed'));
  }

  /** Subscribes to live events, reads stored ones, and redraws when something changed. */
  async #live(): Promise<void> {
    const { clock, relays, onPicture } = this.#options;
    const { signal } = this.#stop;
    const since = Math.floor(clock.now() / 1000) - OVERLAP_SECONDS;
    const listening = relays.subscribe(onlookerFilters(this.run, since), {
      onEvent: (event) => this.take(event),
      onRefused: (reason, detail, relay) => {
        this.#view.refuse({ at: this.#now(), reason, detail: safeLine(detail), relay });
        this.#isDirty = true;
      },
      onLost: () => {
        this.#isBehind = true;
      },
    });
    try {
      while (!signal.aborted) {
        await this.#query();
        const startedMs = clock.now();
        if (this.#isDirty || startedMs - this.#drawnMs > REDRAW_MS) {
          this.#isDirty = false;
          this.#drawnMs = startedMs;
          await this.#draw();
          onPicture(this.#picture);
        }
        await clock.sleep(Math.max(LEAST_MS, PAUSE_FACTOR * (clock.now() - startedMs)), signal);
        if (clock.now() - this.#queriedMs > QUERY_ALL_MS) this.#isBehind = true;
      }
    } finally {
      listening.close();
    }
  }

  #now(): number {
    return Math.floor(this.#options.clock.now() / 1000);
  }

  take(event: SignedEvent): void {
    const context = { run: this.run, nowSeconds: this.#now() };
    const heartbeat = toPresence(event, context, featureSet(this.spec.features));
    if (heartbeat.ok) this.#view.hear(heartbeat.value);
    // an event of an unknown key may matter once a member names the key
    else if (!this.#view.knows(event.pubkey)) this.#isBehind = true;
    else if (this.#kept.keep(event)) this.#view.addEvents([event]);
    this.#isDirty = true;
  }

  /** Queries events that are not live, at limited rate: at first all of them, later new ones. */
  async #query(): Promise<void> {
    const { clock, relays, sha256, crypto, beacon, onProgress } = this.#options;
    const { signal } = this.#stop;
    const keys = this.#view.keys;
    const isNew = keys > this.#queriedKeys || this.#picture.open?.lacks !== undefined;
    if (!this.#isBehind && !isNew) return;
    if (clock.now() - this.#queriedMs < QUERY_MS) return;
    this.#queriedMs = clock.now();
    this.#queriedKeys = keys;
    this.#isBehind = false;
    const known = this.#kept.events();
    const latest = known.reduce((last, { created_at }) => Math.max(last, created_at), 0);
    const fresh = await fetchHistory(this.run, {
      relays,
      signal,
      sha256,
      crypto,
      spec: this.spec,
      known,
      leavesPayloads: true,
      since: this.#isCaughtUp ? Math.max(0, latest - OVERLAP_SECONDS) : undefined,
      beacon,
      onProgress: this.#isCaughtUp ? undefined : onProgress,
    });
    for (const event of fresh) if (this.#kept.keep(event)) this.#view.addEvents([event]);
    this.#isCaughtUp = true;
    this.#isWhole = true;
    this.#isDirty = true;
  }

  async #draw(): Promise<void> {
    const { beacon, sha256, crypto, relays } = this.#options;
    const { run, spec } = this;
    const events = this.#kept.events();
    const lines = this.#beacons.map((record, i) => ({ ...record, line: i + 1 }));
    const { records, values } = await beaconsOf({ run, spec }, events, lines, {
      source: beacon?.(spec),
      signal: this.#stop.signal,
      sha256,
      crypto,
      onNotice: (detail) => this.#view.refuse({ at: this.#now(), reason: 'no-beacon', detail }),
    });
    this.#beacons = records;
    const gathered = gather(events, { run, spec }, { beacons: values, crypto, read: this.#read });
    const states = relays.status().map(relayPicture);
    const isWhole = this.#isWhole;
    this.#isWhole = false;
    this.#picture = this.#view.draw(gathered, this.#now(), states, this.#isCaughtUp, isWhole);
  }
}

const relayPicture = (status: ReturnType<RelaySet['status']>[number]): RelayPicture => {
  const { relay, state, events, refused, bytesIn, bytesOut, lastError } = status;
  const error = state === 'open' ? '' : safeLine(lastError);
  return { relay, state, events, refused, bytesIn, bytesOut, error };
};
