/**
 * The gradients of one round as they arrive: verified, judged, one per worker; refusals are kept with their reasons.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import type { Notifier } from '../../base/async.ts';
import type { Contribution, Rejection, RejectReason } from '../../run/contribution.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { SignedEvent } from '../event.ts';
import type { Progress } from '../transport/delivery.ts';
import type { RelaySet } from '../transport/relay-set.ts';
import { type Judged, newer, slotOf } from './judged.ts';
import type { GradientReading, Pending, RoundInbox, RoundReader, RoundRequest } from './wire.ts';

/** Maximum refusals kept per round; bounds the memory that a flood of bad events can take. */
const MAX_REJECTIONS = 1000;
/** Maximum payloads of one worker pulled per round: a second one is its own fault, a third is ignored. */
const MAX_PENDING_PER_WORKER = 2;
const MAX_PENDING = 1024;
/** Maximum workers of a run to track; bounds the memory that a flood of invented keys can take. */
export const MAX_WORKERS = 1024;
/** Maximum packed bytes of all updates from workers that --peers does not name. */
export const MAX_UNNAMED_BYTES = 1 << 30;

/** Reports whether a worker may be in the run: any worker if `peers` is empty. */
export const isPeer = (worker: WorkerId, peers: readonly WorkerId[] = []): boolean =>
  peers.length === 0 || peers.includes(worker);

export interface OpenInbox extends RoundInbox {
  take(event: SignedEvent): void;
}

interface InboxOptions {
  readonly peers: readonly WorkerId[] | undefined;
  readonly relays: RelaySet;
  readonly changed: Notifier;
  readonly reader: RoundReader;
  /** Called with each event whose author is in the run, whether or not the gradient counts. */
  readonly onHeard: (event: SignedEvent) => void;
  readonly onClose: () => void;
}

/** Subscribes to the gradients of a round, or of the whole run under `async`. */
export function openRoundInbox(
  request: RoundRequest,
  { relays, changed, reader, peers, onHeard, onClose }: InboxOptions,
): OpenInbox {
  const contributions = new Map<string, Contribution>();
  const events = new Map<string, SignedEvent>();
  const rejections: Rejection[] = [];
  const pending = new Set<Pending>();
  const budget = new ByteBudget(peers);
  let closed = false;

  const reject = (rejection: Rejection) => {
    if (rejections.length < MAX_REJECTIONS) rejections.push(rejection);
    changed.notify();
  };

  function keep(judged: Judged<Contribution>, event?: SignedEvent): void {
    if (!judged.ok) {
      reject(judged.rejection);
      return;
    }
    const slot = slotOf(judged.value);
    const existing = contributions.get(slot);
    if (!existing && contributions.size >= MAX_WORKERS) return;
    if (existing && !newer(judged.value, existing)) return;
    if (!budget.take(judged.value, existing)) {
      reject(overBudget(judged.value.worker));
      return;
    }
    contributions.set(slot, judged.value);
    if (event && reader.keepsEvents) events.set(slot, event);
    changed.notify();
  }

  async function settle(one: Pending): Promise<void> {
    pending.add(one);
    const judged = await one.done;
    // removed before: it was given up and already rejected
    if (pending.delete(one) && !closed) keep(judged);
  }

  function take(event: SignedEvent): void {
    if (reader.concerns?.(event) === false) return;
    const round = roundFor(event, request, reader);
    if (round === undefined || closed) return;
    const refusal = isPeer(event.pubkey, peers)
      ? budget.refusal(event.pubkey, pending)
      : notNamed(event.pubkey);
    if (refusal) {
      reject(refusal);
      return;
    }
    if (isFull(pending, event.pubkey)) return;
    const reading = reader.read(event, round);
    if (isOfTheRun(reading)) onHeard(event);
    if ('done' in reading) void settle(reading);
    else keep(reading, event);
  }

  const subscription = relays.subscribe([reader.filter], {
    onEvent: take,
    onRefused: (reason, detail) => reject({ reason, detail, worker: undefined }),
    onCaughtUp: () => changed.notify(),
  });
  return {
    contributions,
    events,
    rejections,
    get caughtUp() {
      return subscription.caughtUp;
    },
    take,
    pulling: () => (pending.size === 0 ? undefined : progressOf(pending)),
    giveUp: () => giveUp(pending, reject),
    close() {
      closed = true;
      subscription.close();
      reader.close();
      onClose();
    },
  };
}

function giveUp(pending: Set<Pending>, reject: (rejection: Rejection) => void): void {
  const given = [...pending];
  pending.clear();
  for (const { worker, progress, stop } of given) {
    const { have, of } = progress();
    stop();
    reject({ reason: 'payload-missing', worker, detail: `${have} of ${of} chunks arrived` });
  }
}

const notNamed = (worker: WorkerId): Rejection => ({
  reason: 'not-a-member',
  worker,
  detail: 'not among the workers that --peers names',
});

const overBudget = (worker: WorkerId): Rejection => ({
  reason: 'too-large',
  worker,
  detail: 'updates of workers whom --peers does not name used up the byte budget for them',
});

/** Byte budget of updates from workers that --peers does not name; named workers are not limited. */
class ByteBudget {
  readonly #isNamed: boolean;
  #bytes = 0;

  constructor(peers: readonly WorkerId[] = []) {
    this.#isNamed = peers.length > 0;
  }

  take({ payloadBytes }: Contribution, before: Contribution | undefined): boolean {
    const bytes = this.#bytes - (before?.payloadBytes ?? 0) + payloadBytes;
    if (!this.#isNamed && bytes > MAX_UNNAMED_BYTES) return false;
    this.#bytes = bytes;
    return true;
  }

  /** Returns why nothing more of this worker is pulled in addition to what is pending; undefined if it may be. */
  refusal(worker: WorkerId, pending: ReadonlySet<Pending>): Rejection | undefined {
    const bytes = this.#bytes + progressOf(pending).of * CHUNK_BYTES;
    return this.#isNamed || bytes <= MAX_UNNAMED_BYTES ? undefined : overBudget(worker);
  }
}

function progressOf(pending: ReadonlySet<Pending>): Progress {
  const all = [...pending].map(({ progress }) => progress());
  const sum = (pick: (one: Progress) => number) => all.reduce((total, one) => total + pick(one), 0);
  return { have: sum(({ have }) => have), of: sum(({ of }) => of) };
}

/** Reasons that do not show the signer to be a worker of the run. */
const FOREIGN: readonly RejectReason[] = [
  'malformed',
  'other-run',
  'worker-key-mismatch',
  'from-the-future',
];

const isOfTheRun = (reading: GradientReading): boolean =>
  'done' in reading || reading.ok || !FOREIGN.includes(reading.rejection.reason);

function isFull(pending: ReadonlySet<Pending>, worker: WorkerId): boolean {
  const ofWorker = [...pending].filter((one) => one.worker === worker);
  return ofWorker.length >= MAX_PENDING_PER_WORKER || pending.size >= MAX_PENDING;
}

/**
 * Returns the round an event is judged for: under `async` the one it names, unless that contribution was already
 * applied.
 */
function roundFor(
  event: SignedEvent,
  { round, anyBase }: RoundRequest,
  reader: RoundReader,
): number | undefined {
  if (!anyBase) return round;
  const named = reader.roundOf(event);
  if (named === undefined) return undefined;
  return named > (anyBase.folded[event.pubkey] ?? -1) ? named : undefined;
}
