/**
 * Publishes and pulls payloads that are too large for one event: the chunk events go first, and the event that names
 * them follows once the relays together store enough chunks.
 */
import { anySignal, anyTrue, unlessAborted, within } from '../../base/async.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { cutParts, planChunks } from '../chunks/payload.ts';
import type { ErasureCode } from '../chunks/reed-solomon.ts';
import type { SignedEvent } from '../event.ts';
import {
  answerOf,
  type Delivery,
  deliveryOf,
  isTaken,
  type Progress,
  type Sending,
  watchOutcomes,
} from '../transport/delivery.ts';
import type { PublishOutcome } from '../transport/publish-outcome.ts';
import {
  type ChunkSending,
  distributeChunks,
  type Errand,
  errandsOf,
  type Keepers,
  type PublishOptions,
  sendChunks,
} from './publish.ts';
import { type PayloadRequest, type Pull, PullJob } from './pull.ts';
import { type RelayAccess, RelayChunks } from './relay-chunks.ts';

/** A payload that an event names and that travels as chunks. */
export interface Attachment {
  readonly payload: Uint8Array;
  /** Its erasure code, one shard per relay; without it each relay gets all of it. */
  readonly erasure?: ErasureCode | undefined;
}

/** A keeper's share on its way; true if some relay took each chunk. */
export interface ShareSending {
  /** The first copy of each chunk: the whole payload is stored once every keeper has sent these. */
  readonly first: Promise<boolean>;
  /** Also the second copies, in case a keeper or a relay disappears. */
  readonly all: Promise<boolean>;
}

/** Limits after which a pull ends without its payload. */
export interface PullLimits {
  readonly signal?: AbortSignal | undefined;
  /** Time without a new chunk. */
  readonly idleMs?: number | undefined;
}

/** Attachments up to this size go to all relays; larger ones only to the relays in `readRelays`. */
const EVERYWHERE_BYTES = 256 << 10;

/** The attachments of one relay set. All pulls share the request windows of its relays. */
export class Attachments {
  readonly access: RelayAccess;
  readonly #relays: readonly RelayChunks[];
  readonly #closed = new AbortController();

  constructor(access: RelayAccess) {
    this.access = access;
    this.#relays = access.relays.relays.map((relay) => new RelayChunks(relay, access));
  }

  /**
   * Starts sending the chunks of all attachments and then the event, which is not sent unless the relays hold enough
   * of each. Without attachments the event is sent at once.
   */
  publish(
    event: SignedEvent,
    attachments: readonly Attachment[],
    options: PublishOptions,
  ): Sending {
    const { relays } = this.access;
    const { signal, isPatient } = options;
    const how = { signal, isPatient };
    if (attachments.length === 0) return watchOutcomes(relays.send(event, how), relays);
    const bytes = attachments.reduce((sum, { payload }) => sum + payload.length, 0);
    const homes = bytes <= EVERYWHERE_BYTES ? relays.relays : relays.readRelays;
    const uploads = attachments.map(({ payload, erasure }) =>
      sendChunks(
        cutParts(payload, erasure),
        erasure?.data ?? 1,
        { ...this.access, ...options },
        homes,
      ),
    );
    const stored = Promise.all(uploads.map(({ enough }) => enough));
    const outcomes = stored.then((each) => (each.every(Boolean) ? relays.send(event, how) : []));
    return {
      taken: outcomes.then((each) => anyTrue(each.map(async (one) => isTaken(await one)))),
      settled: this.#settle(homes, uploads, outcomes),
      progress: () => addUp(uploads.map(({ progress }) => progress())),
    };
  }

  /** Waits until each relay accepted everything it was given, or refused. */
  async #settle(
    homes: readonly string[],
    uploads: readonly ChunkSending[],
    outcomes: Promise<readonly Promise<PublishOutcome>[]>,
  ): Promise<Delivery> {
    const { relays } = this.access;
    const events = await outcomes;
    const answers = await Promise.all(
      homes.map(async (relay, i) => {
        const chunks = await Promise.all(uploads.map(({ deliveries }) => deliveries[i]!));
        const { have, of } = addUp(chunks.map(({ taken, of }) => ({ have: taken, of })));
        const outcome = await events[relays.relays.indexOf(relay)]?.catch(() => undefined);
        if (have === of) return answerOf(outcome, relay, relays);
        const refused = chunks.find(({ message }) => message !== '');
        const message = `${have} of ${of} chunks taken: ${refused?.message ?? ''}`;
        return { relay, isAccepted: false, message, isTemporary: refused?.isTemporary ?? false };
      }),
    );
    return deliveryOf(answers);
  }

  /** Starts sending this keeper's share of a payload. */
  publishShare(payload: Uint8Array, keepers: Keepers, options: PublishOptions): ShareSending {
    const { relays, sha256 } = this.access;
    const plan = planChunks(payload, options.lifetime, sha256);
    const [first = [], second = []] = errandsOf(payload, plan.root, keepers, relays.readRelays);
    const eventOf = (index: number) => options.sign(plan.draft(index));
    const events = { eventOf, onTaken: () => undefined };
    const send = (errands: readonly Errand[]) =>
      distributeChunks(errands, 1, { ...options, relays }, events).then(
        ({ nowhere }) => nowhere === 0,
        () => false,
      );
    const begun = send(first);
    const all = begun.then(async (isStored) => (await send(second)) && isStored);
    return { first: begun, all };
  }

  /** Starts pulling a payload, until it is complete, a limit ends it, or `close` is called. */
  pull(wanted: PayloadRequest, { signal, idleMs }: PullLimits = {}): Pull {
    const both = anySignal(this.#closed.signal, signal);
    const job = new PullJob(wanted, this.#relays, this.access);
    void job.run(both.signal, idleMs).then(both.release);
    return job;
  }

  /** Pulls one payload; refuses with its progress if it stays incomplete. Rejects only with `signal.reason`. */
  async pullOnce(
    wanted: PayloadRequest,
    limits: {
      /** Time limit for the whole payload. */
      readonly timeoutMs?: number | undefined;
      readonly idleMs?: number | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<Result<Uint8Array>> {
    const { timeoutMs, idleMs, signal } = limits;
    const job = this.pull(wanted, { idleMs });
    try {
      const pulled = await (timeoutMs === undefined
        ? unlessAborted(job.done, signal)
        : within(job.done, timeoutMs, this.access.clock, signal));
      if (pulled) return ok(pulled.payload);
      const { have, of } = job.progress();
      return refuse('payload-missing', 'root', `${have} of its ${of} chunks arrived`);
    } finally {
      job.stop();
    }
  }

  /** Ends all pulls. */
  close(): void {
    this.#closed.abort();
  }
}

const addUp = (all: readonly Progress[]): Progress => ({
  have: all.reduce((sum, { have }) => sum + have, 0),
  of: all.reduce((sum, { of }) => sum + of, 0),
});
