/** Tests one relay with sample events, the most important first. The events are deleted at the end, or expire. */
import { chunk } from '../../kinds/chunk.ts';
import { gradient } from '../../kinds/gradient.ts';
import { heartbeat } from '../../kinds/heartbeat.ts';
import { INSIDE_BYTES, manifest } from '../../kinds/manifest.ts';
import { presence } from '../../kinds/presence.ts';
import { toBase64, toHex } from '../base/bytes.ts';
import { sha256 } from '../base/hash.ts';
import { chunkTree } from '../network/chunks/payload.ts';
import { type EventDraft, type SignedEvent, signedEventBytes } from '../network/event.ts';
import { buildManifest } from '../network/wire/native-profile.ts';
import { isSame } from './conversation.ts';
import type { FilterVerdict, KindReport, KindVerdict, RelayReport, SizeReport } from './report.ts';
import type { How, ProbeOptions, ProbeOutcome, ProbeSender, ProbeSent } from './sender.ts';

const KIB = 1024;
/** Sizes tried in descending order if a full manifest is too large, and in ascending order if it is not. */
const SMALLER = [48 * KIB, 32 * KIB, 16 * KIB, KIB] as const;
const LARGER = [64 * KIB, 100 * KIB, 256 * KIB] as const;
/** Number of accepted events after which the relay's rate limit is considered high enough. */
const BURST_EVENTS = 20;
/** Bytes of an event of the burst; each is one byte longer than the last, so that all differ. */
const SMALL_BYTES = 700;
/** Upper bound for the bytes of a message around its event. */
const FRAME_BYTES = 64;
/** Time between the deletion and the query that checks it. */
const DELETION_MS = 300;

const MANIFEST = manifest.kind;
const CHUNK = chunk.kind;
const PRESENCE = presence.kind;
const HEARTBEAT = heartbeat.kind;
const GRADIENT = gradient.kind;
const EPHEMERAL = 27_811;

/** Kinds with which sizes are measured, in order of preference; the first is the manifest. */
const CARRIERS = [MANIFEST, CHUNK, GRADIENT, PRESENCE, HEARTBEAT] as const;

const VERDICTS: Partial<Record<ProbeOutcome, KindVerdict>> = {
  kept: 'yes',
  lost: 'lost',
  refused: 'refused',
};

/** An event that the relay returned by id, and when. */
interface KeptEvent {
  readonly event: SignedEvent;
  readonly keptMs: number;
}

/** The sequence of tests of one relay. */
export class Trial {
  readonly #sender: ProbeSender;
  readonly #samples: Samples;
  readonly #options: ProbeOptions;
  readonly #statedBytes: number;
  readonly #kinds: Record<number, KindReport> = {};
  readonly #kept: KeptEvent[] = [];
  #size: SizeReport = { keptBytes: 0 };
  /** Age of the youngest event that the relay returned by id and later did not, in seconds. */
  #forgottenSeconds = Number.POSITIVE_INFINITY;

  constructor(
    sender: ProbeSender,
    samples: Samples,
    options: ProbeOptions,
    statedBytes = Number.POSITIVE_INFINITY,
  ) {
    this.#sender = sender;
    this.#samples = samples;
    this.#options = options;
    this.#statedBytes = statedBytes;
  }

  async run(): Promise<Pick<RelayReport, 'size' | 'kinds' | 'filters' | 'deletes' | 'forgets'>> {
    this.#options.onStep('reading');
    const me = this.#options.signer.publicKey;
    await this.#sender.ask({ authors: [me], kinds: [MANIFEST], limit: 1 });
    const first = await this.#tryManifest();
    let filters: RelayReport['filters'] = { s: 'unknown', c: 'unknown' };
    if (first !== 'auth' && first !== 'clock') {
      await this.#tryKinds();
      filters = await this.#tryFilters();
      await this.#trySizes();
      await this.#tryBurst();
    }
    await this.#areForgotten(this.#kept);
    const forgets = Number.isFinite(this.#forgottenSeconds);
    const isDeleted = await this.#clean();
    const deletes = forgets ? undefined : isDeleted;
    return {
      size: this.#size,
      kinds: this.#kinds,
      filters,
      ...(forgets ? { forgets: { afterSeconds: this.#forgottenSeconds } } : {}),
      ...(deletes === undefined ? {} : { deletes }),
    };
  }

  /** Sends a manifest of the maximum size, then smaller ones. */
  async #tryManifest(): Promise<ProbeOutcome> {
    const { manifest } = this.#samples;
    const ofBytes = (bytes: number) => manifest(Math.floor(((bytes - 1000) * 3) / 4));
    const full = await this.#try('a manifest of 44 KiB', manifest());
    if (full.outcome === 'refused') {
      // the message gave no reason: if a small manifest is accepted, it was the size
      const small = await this.#try('a small manifest', ofBytes(2 * KIB));
      if (small.outcome !== 'kept') return small.outcome;
      this.#refuseSize(full);
    } else if (!isTooMuch(full)) return full.outcome;
    return this.#trySmaller(ofBytes);
  }

  async #trySmaller(draft: (bytes: number) => EventDraft): Promise<ProbeOutcome> {
    let outcome: ProbeOutcome = 'too-large';
    for (const bytes of SMALLER) {
      const sent = await this.#try(`${bytes / KIB} KiB`, draft(bytes));
      outcome = sent.outcome;
      if (!isTooMuch(sent)) break;
    }
    return outcome;
  }

  async #tryKinds(): Promise<void> {
    const { chunk, presence, heartbeat, gradient, ephemeral } = this.#samples;
    const me = this.#options.signer.publicKey;
    await this.#try('a chunk', chunk());
    await this.#try('presence', presence());
    await this.#try('a heartbeat', heartbeat());
    await this.#try('a gradient', gradient());
    const arrived = this.#sender.listen({ kinds: [EPHEMERAL], authors: [me] });
    await this.#try('an ephemeral event', ephemeral(), { seen: arrived });
  }

  /** Queries each tag filter with a value that only some of the stored events have. */
  async #tryFilters(): Promise<RelayReport['filters']> {
    this.#options.onStep('filters');
    const keyOf = (event: SignedEvent) => event.tags.find(([name]) => name === 'c')?.[1];
    const key = this.#kept.map(({ event }) => keyOf(event)).find((text) => text !== undefined);
    return {
      s: await this.#tryFilter('s', this.#samples.scope),
      c: key === undefined ? 'unknown' : await this.#tryFilter('c', key),
    };
  }

  async #tryFilter(name: 's' | 'c', value: string): Promise<FilterVerdict> {
    const fits = ({ event: { tags } }: KeptEvent) =>
      tags.some((tag) => tag[0] === name && tag[1] === value);
    const expected = this.#kept.filter(fits);
    if (expected.length === 0 || expected.length === this.#kept.length) return 'unknown';
    const authors = [this.#options.signer.publicKey];
    const kinds = [...new Set(this.#kept.map(({ event }) => event.kind))];
    const tag = name === 's' ? { '#s': [value] } : { '#c': [value] };
    const reply = await this.#sender.ask({ authors, kinds, ...tag });
    if (reply.end === 'closed') return 'refused';
    if (reply.end !== 'eose') return 'unknown';
    const ids = new Set(reply.events.map((event) => (event as { id?: unknown } | null)?.id));
    const missing = expected.filter(({ event }) => !ids.has(event.id));
    if (missing.length > 0)
      return (await this.#areForgotten(missing)) ? 'unknown' : 'finds nothing';
    return ids.size > expected.length ? 'brings too much' : 'works';
  }

  /** Asks for events by id again; returns whether the relay has lost all of them, and notes when. */
  async #areForgotten(kept: readonly KeptEvent[]): Promise<boolean> {
    if (kept.length === 0 || this.#sender.isMute) return false;
    const reply = await this.#sender.ask({ ids: kept.map(({ event }) => event.id) });
    if (reply.end !== 'eose') return false;
    const nowMs = this.#options.clock.now();
    const lost = kept.filter(
      ({ event }) => !reply.events.some((returned) => isSame(returned, event)),
    );
    for (const { keptMs } of lost)
      this.#forgottenSeconds = Math.min(this.#forgottenSeconds, (nowMs - keptMs) / 1000);
    return lost.length === kept.length;
  }

  /** Sends ever larger events; if manifests are refused, first one of another kind with the size of a full manifest. */
  async #trySizes(): Promise<void> {
    const kind = this.#carrier;
    if (kind === undefined) return;
    const padded = (bytes: number) => this.#samples.padded(kind, bytes);
    if (kind !== MANIFEST) {
      const full = await this.#try('60 KiB', padded(60 * KIB));
      if (isTooMuch(full)) await this.#trySmaller(padded);
    }
    for (const bytes of LARGER) {
      if (this.#size.refusedBytes !== undefined) return;
      if (bytes + FRAME_BYTES > this.#statedBytes) {
        this.#size = {
          ...this.#size,
          words: `not tried above the relay's stated message limit of ${this.#statedBytes} bytes`,
        };
        return;
      }
      const sent = await this.#try(`${bytes / KIB} KiB`, padded(bytes));
      if (sent.outcome === 'refused') this.#refuseSize(sent);
      if (sent.outcome !== 'kept') return;
    }
  }

  /** Sends small events in sequence until the relay limits the rate or BURST_EVENTS were accepted. */
  async #tryBurst(): Promise<void> {
    const kind = this.#carrier;
    const sender = this.#sender;
    if (kind === undefined) return;
    while (sender.rate.accepted < BURST_EVENTS && sender.rate.throttled === undefined) {
      const draft =
        kind === CHUNK || this.#kinds[CHUNK]?.verdict === 'yes'
          ? this.#samples.chunk()
          : this.#samples.padded(kind, SMALL_BYTES + sender.rate.accepted);
      const sent = await this.#try('a burst of small events', draft, {
        seen: 'not',
        patient: false,
      });
      if (sent.outcome !== 'kept') return;
    }
  }

  /** Asks the relay to delete the sample events; returns whether it did, undefined if that is unknown. */
  async #clean(): Promise<boolean | undefined> {
    const { accepted } = this.#sender;
    if (accepted.length === 0) return undefined;
    const deletion = this.#samples.deletion(accepted);
    const sent = await this.#try('deleting the sample events', deletion, {
      seen: 'not',
      last: true,
    });
    const [kept] = this.#kept;
    if (sent.outcome !== 'kept' || kept === undefined) return undefined;
    await this.#options.clock.sleep(DELETION_MS, this.#options.signal);
    return !(await this.#sender.has(kept.event));
  }

  get #carrier(): number | undefined {
    return CARRIERS.find((kind) => this.#kinds[kind]?.verdict === 'yes');
  }

  /** Sends one event and records what its result means for kinds and sizes. */
  async #try(step: string, draft: EventDraft, how: How = {}): Promise<ProbeSent> {
    this.#options.onStep(step);
    const sent = await this.#sender.send(draft, how);
    const { outcome, words, bytes, event } = sent;
    const known = this.#kinds[draft.kind];
    if (known === undefined || (known.verdict !== 'yes' && outcome !== 'unsent')) {
      this.#kinds[draft.kind] = { verdict: VERDICTS[outcome] ?? 'unknown', words };
    }
    if (outcome === 'kept' && how.seen === undefined) {
      if (event) this.#kept.push({ event, keptMs: this.#options.clock.now() });
      this.#size = { ...this.#size, keptBytes: Math.max(this.#size.keptBytes, bytes) };
    }
    if (outcome === 'too-large') this.#refuseSize(sent);
    return sent;
  }

  #refuseSize({ bytes, words }: ProbeSent): void {
    const { refusedBytes = Number.POSITIVE_INFINITY } = this.#size;
    if (bytes < refusedBytes) this.#size = { ...this.#size, refusedBytes: bytes, words };
  }
}

const isTooMuch = ({ outcome }: ProbeSent): boolean =>
  outcome === 'too-large' || outcome === 'silent' || outcome === 'work';

/** Lifetime of sample events, in case the relay ignores the deletion. */
const LIFETIME_SECONDS = 300;
const ZEROS = '0'.repeat(64);

export type Samples = ReturnType<typeof createSamples>;

/** Creates sample events, dated `nowSeconds()` when each is made; an `#s` filter with `scope` matches the manifest. */
export function createSamples(publicKey: string, nowSeconds: () => number) {
  const run = `relay-check-${toHex(randomBytes(4))}`;
  const scope = `${run}/0`;
  const expiration = () => nowSeconds() + LIFETIME_SECONDS;
  const mark = (): string[][] => [
    ['t', 'nostrain'],
    ['s', run],
    ['expiration', String(expiration())],
  ];
  const draft = (kind: number, tags: readonly string[][], content = ''): EventDraft => ({
    kind,
    created_at: nowSeconds(),
    tags: [...tags, ...mark()],
    content,
  });
  return {
    run,
    scope,
    /** A manifest with a payload of that many bytes; by default the maximum. */
    manifest(payloadBytes = INSIDE_BYTES): EventDraft {
      const fields = { run, round: 0, base: ZEROS, codec: 'relay-check', examples: 1, steps: 1 };
      const lifetime = { createdAt: nowSeconds(), expiresAt: expiration() };
      return buildManifest(fields, randomBytes(payloadBytes), lifetime, sha256).draft;
    },
    chunk() {
      const bytes = randomBytes(64);
      const { root } = chunkTree(bytes, sha256);
      const fields = { root, index: 0, count: 1, bytes: bytes.length, data: toBase64(bytes) };
      return chunk.build({ ...fields, expiration: expiration() }, nowSeconds());
    },
    presence() {
      const fields = { run, round: 0, interval: 60, slot: run, scope: [run] };
      return presence.build({ ...fields, expiration: expiration() }, nowSeconds());
    },
    heartbeat(): EventDraft {
      const fields = { run, worker: publicKey, round: 0, interval: 60, leaving: true as const };
      const built = heartbeat.build({ ...fields, scope: true }, nowSeconds());
      return { ...built, tags: [...built.tags, ['expiration', String(expiration())]] };
    },
    gradient: () => draft(gradient.kind, [['d', `run:${run}:worker:${publicKey}:round:0`]]),
    ephemeral: () => draft(27_811, []),
    /** An event of this kind whose JSON has that many bytes when signed. */
    padded(kind: number, bytes: number): EventDraft {
      const slot = kind >= 30_000 ? [['d', `${run}:${bytes}`]] : [];
      const empty = draft(kind, slot);
      const contentBytes = Math.max(0, bytes - signedEventBytes(empty));
      return { ...empty, content: toBase64(randomBytes(contentBytes)).slice(0, contentBytes) };
    },
    deletion(events: readonly SignedEvent[]): EventDraft {
      const kept = events.filter(({ kind }) => kind < 20_000 || kind >= 30_000);
      const kinds = [...new Set(kept.map(({ kind }) => kind))];
      return draft(5, [
        ...kept.map(({ id }) => ['e', id]),
        ...kinds.map((kind) => ['k', String(kind)]),
      ]);
    },
  };
}

/** Returns random bytes, so that a relay that compresses cannot make the event smaller. */
function randomBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const most = 65_536; // of one call
  for (let at = 0; at < length; at += most) {
    crypto.getRandomValues(bytes.subarray(at, Math.min(length, at + most)));
  }
  return bytes;
}
