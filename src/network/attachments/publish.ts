/**
 * Publishes events with their attachments, payloads too large to be inside them: the chunks go first, the event that names them follows as soon as the
 * relays together hold enough. Every relay gets the whole payload, or its shard of a striped one; slow ones are still served after that.
 */
import { anySignal, deferred } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import { type ChunkPlan, cutParts, type Lifetime, planChunks } from '../chunks/payload.ts';
import type { Stripe } from '../chunks/reed-solomon.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import {
  anyTrue,
  type Delivery,
  deliveryOf,
  isAway,
  isTaken,
  type Progress,
  type Sending,
  watchOutcomes,
  wordsOf,
} from '../transport/delivery.ts';
import type { PublishOutcome } from '../transport/publishing.ts';
import type { RelaySet } from '../transport/relay-set.ts';

export interface ChunkDelivery {
  readonly relay: string;
  readonly taken: number;
  readonly of: number;
  /** The words of the first refusal; empty when there was none. */
  readonly message: string;
  /** The relay was not there when it was refused, or said nothing. */
  readonly isAway: boolean;
}

export interface ChunkSending {
  /** Chunks that some relay holds, of those that are enough. */
  progress(): Progress;
  /** True as soon as the relays together hold enough to restore the payload, false when they will not. */
  readonly enough: Promise<boolean>;
  /** One per relay, in order. */
  readonly deliveries: readonly Promise<ChunkDelivery>[];
}

/** Relays that chunks go to. */
export type ChunkRelays = Pick<RelaySet, 'relays' | 'publish' | 'status'>;

export interface PublishOptions {
  readonly relays: RelaySet;
  readonly sign: (draft: EventDraft) => SignedEvent;
  readonly sha256: Sha256;
  readonly lifetime: Lifetime;
  readonly signal: AbortSignal;
  /** Nobody waits for it: it gives way to what a round needs. */
  readonly isPatient?: boolean | undefined;
}

/** The same for chunks alone. */
type ChunkOptions = Omit<PublishOptions, 'relays'> & { readonly relays: ChunkRelays };

/** Chunk events under way at one relay; of what can wait fewer, so that a slow line is free for the rest. */
const WINDOW = 16;
const PATIENT_WINDOW = 2;
/** Signed chunk events kept for the slower relays. */
const REMEMBERED = 64;

/** Chunks of so much go to all relays, those of more to the ones that their author reads, where these are fewer. */
const EVERYWHERE_BYTES = 256 << 10;

/** What an event names and travels beside it. */
export interface Attachment {
  readonly payload: Uint8Array;
  /** Over how many relays it is striped; without it each relay gets all of it. */
  readonly stripe?: Stripe | undefined;
}

/**
 * Starts sending the chunks of all attachments and then the event, which is not sent when no relays hold enough of each. Without
 * attachments the event is sent at once.
 */
export function publishWithAttachments(
  event: SignedEvent,
  attachments: readonly Attachment[],
  options: PublishOptions,
): Sending {
  const { relays, signal, isPatient } = options;
  const how = { signal, isPatient };
  if (attachments.length === 0) return watchOutcomes(relays.send(event, how), relays);
  const bytes = attachments.reduce((sum, { payload }) => sum + payload.length, 0);
  // the smaller of them are wanted everywhere at once; large ones are looked for by who needs them
  const homes = bytes <= EVERYWHERE_BYTES ? relays.relays : relays.own;
  const uploads = attachments.map(({ payload, stripe }) =>
    sendChunks(cutParts(payload, stripe), stripe?.data ?? 1, options, homes),
  );
  const held = Promise.all(uploads.map(({ enough }) => enough));
  const outcomes = held.then((each) => (each.every(Boolean) ? relays.send(event, how) : []));
  return {
    taken: outcomes.then((each) => anyTrue(each.map(async (one) => isTaken(await one)))),
    settled: settle(relays, homes, uploads, outcomes),
    progress: () => addUp(uploads.map(({ progress }) => progress())),
  };
}

const addUp = (all: readonly Progress[]): Progress =>
  all.reduce((sum, { have, of }) => ({ have: sum.have + have, of: sum.of + of }), {
    have: 0,
    of: 0,
  });

/** One relay took everything it was given, or said why not. */
async function settle(
  relays: RelaySet,
  homes: readonly string[],
  uploads: readonly ChunkSending[],
  outcomes: Promise<readonly Promise<PublishOutcome>[]>,
): Promise<Delivery> {
  const events = await outcomes;
  const answers = await Promise.all(
    homes.map(async (relay, i) => {
      const chunks = await Promise.all(uploads.map(({ deliveries }) => deliveries[i]!));
      const { have, of } = addUp(chunks.map(({ taken, of }) => ({ have: taken, of })));
      const outcome = await events[relays.relays.indexOf(relay)]?.catch(() => undefined);
      const isHere = have === of && outcome !== undefined && isTaken(outcome);
      if (have === of) {
        const message = wordsOf(outcome, relay, relays);
        return { relay, isHere, message, isAway: isAway(outcome, relay, relays) };
      }
      const refused = chunks.find(({ message }) => message !== '');
      const message = `${have} of ${of} chunks taken: ${refused?.message ?? ''}`;
      return { relay, isHere, message, isAway: refused?.isAway ?? false };
    }),
  );
  return deliveryOf(answers);
}

/** Starts sending `parts`, of which any `need` are enough; relay i of `homes` gets part i modulo their number. */
export function sendChunks(
  parts: readonly Uint8Array[],
  need: number,
  options: ChunkOptions,
  homes: readonly string[] = options.relays.relays,
): ChunkSending {
  const { sha256, lifetime } = options;
  const plans = parts.map((part) => planChunks(part, lifetime, sha256));
  const held = plans.map(() => new Set<number>());
  const signed = new Recent<SignedEvent>(REMEMBERED);
  const eventOf = ({ root, draft }: ChunkPlan, index: number): SignedEvent => {
    const key = `${root}/${index}`;
    const event = signed.get(key) ?? options.sign(draft(index));
    signed.set(key, event);
    return event;
  };
  const { promise: enough, settle } = deferred<boolean>();
  const hold = (part: number, index: number) => {
    held[part]!.add(index);
    const whole = held.filter((indices, i) => indices.size === plans[i]!.count);
    if (whole.length >= need) settle(true);
  };
  const deliveries = homes.map((relay, i) => {
    const part = i % parts.length;
    const plan = plans[part]!;
    return sendTo(relay, plan, options, {
      eventOf: (index) => eventOf(plan, index),
      onTaken: (index) => hold(part, index),
    });
  });
  void Promise.all(deliveries).then(() => settle(false));
  const progress = () => {
    const counts = held.map(({ size }) => size).sort((a, b) => b - a);
    const have = counts.slice(0, need).reduce((sum, count) => sum + count, 0);
    return { have, of: need * (plans[0]?.count ?? 0) };
  };
  return { enough, deliveries, progress };
}

/** All chunks of one part to one relay, several at a time; stops where sending more is known to be useless. */
async function sendTo(
  relay: string,
  { count }: ChunkPlan,
  { relays, signal, isPatient }: ChunkOptions,
  { eventOf, onTaken }: { eventOf(index: number): SignedEvent; onTaken(index: number): void },
): Promise<ChunkDelivery> {
  const window = isPatient ? PATIENT_WINDOW : WINDOW;
  let next = 0;
  let taken = 0;
  let message = '';
  let away = false;
  let isUseless = false;
  const sendSome = async (): Promise<void> => {
    const { signal: own, release } = anySignal(signal); // few listeners each
    try {
      while (next < count && !isUseless && !own.aborted) {
        const index = next++;
        const [outcome] = await relays.publish(eventOf(index), {
          only: [relay],
          signal: own,
          isPatient,
        });
        if (outcome && isTaken(outcome)) {
          taken++;
          onTaken(index);
          continue;
        }
        if (message === '') away = isAway(outcome, relay, relays);
        message ||= wordsOf(outcome, relay, relays);
        isUseless ||= outcome === undefined || outcome.attempts === 0;
      }
    } finally {
      release();
    }
  };
  await Promise.all(Array.from({ length: Math.min(window, count) }, sendSome)).catch(() => {
    message ||= 'given up';
  });
  return { relay, taken, of: count, message, isAway: away };
}
