/**
 * Delivery of an event per relay: whether any relay accepted it, and for each failure one line with what happened and
 * what to do next.
 */
import { anyTrue } from '../../base/async.ts';
import type { SignedEvent } from '../event.ts';
import { MAX_WORK_BITS, MAX_WORK_BYTES } from '../proof-of-work.ts';
import { judgeAnswer, type PublishStatus } from './answers.ts';
import type { PublishOutcome, SendOptions } from './publish-outcome.ts';
import type { RelaySet, RelayStatus } from './relay-set.ts';

/** Relays that accepted an event, and messages of the others. */
export interface Delivery {
  readonly accepted: readonly string[];
  readonly failed: readonly Failure[];
}

/** A relay that did not accept an event. */
export interface Failure {
  readonly relay: string;
  readonly message: string;
  /** The relay may accept the event later: it was unreachable, silent, busy or failing, or required proof of work. */
  readonly isTemporary?: boolean;
}

/** Upload progress of a payload: chunks done, of those needed. */
export interface Progress {
  readonly have: number;
  readonly of: number;
}

/** An event of this worker, with the outcomes of the relays that have answered. */
export interface Tracked {
  readonly event: SignedEvent;
  readonly outcomes: readonly PublishOutcome[];
}

/** An event being sent. A slow or dead relay delays `settled`, never `taken`. */
export interface Sending {
  progress?(): Progress;
  /** True as soon as one relay accepts the event; false if all refuse. */
  readonly taken: Promise<boolean>;
  readonly settled: Promise<Delivery>;
  /** Returns the state so far; undefined until the event is signed, or if outcomes are not tracked. */
  tracked?(): Tracked | undefined;
}

/** Reports whether a relay accepted the event and did not lose it. */
export const isTaken = ({ status, kept }: PublishOutcome): boolean =>
  status === 'accepted' && kept !== false;

/** Watches one event on its way to all relays. */
export function watchOutcomes(
  outcomes: readonly Promise<PublishOutcome>[],
  relays: RelaySet,
): Sending {
  const given = outcomes.map((outcome) => outcome.catch(() => undefined));
  const taken = anyTrue(given.map(async (outcome) => isTakenAtAll(await outcome)));
  const settled = Promise.all(given).then((all): Delivery => {
    return deliveryOf(all.map((outcome, i) => answerOf(outcome, relays.relays[i]!, relays)));
  });
  return { taken, settled };
}

/** Like `watchOutcomes`, but also reports the outcomes so far at any time. */
export function trackOutcomes(
  event: SignedEvent,
  outcomes: readonly Promise<PublishOutcome>[],
  relays: RelaySet,
): Sending {
  const heard: (PublishOutcome | undefined)[] = outcomes.map(() => undefined);
  outcomes.forEach((sent, i) => {
    sent.then(
      (outcome) => {
        heard[i] = outcome;
      },
      () => undefined,
    );
  });
  const tracked = (): Tracked => ({
    event,
    outcomes: heard.filter((outcome) => outcome !== undefined),
  });
  return { ...watchOutcomes(outcomes, relays), tracked };
}

interface RelayAnswer extends Required<Failure> {
  readonly isAccepted: boolean;
}

/** Describes the answer of one relay; without an outcome, sending was aborted. */
export const answerOf = (
  outcome: PublishOutcome | undefined,
  relay: string,
  relays: Pick<RelaySet, 'status'>,
): RelayAnswer => ({
  relay,
  isAccepted: isTakenAtAll(outcome),
  message: wordsOf(outcome, relay, relays),
  isTemporary: isTemporary(outcome, relay, relays),
});

export const deliveryOf = (answers: readonly RelayAnswer[]): Delivery => ({
  accepted: answers.filter(({ isAccepted }) => isAccepted).map(({ relay }) => relay),
  failed: answers.flatMap(({ isAccepted, relay, message, isTemporary }) =>
    isAccepted ? [] : [{ relay, message, ...(isTemporary && { isTemporary }) }],
  ),
});

const passing: readonly PublishStatus[] = ['unreachable', 'no-verdict', 'throttled', 'pow-needed'];

/** Reports whether sending again later may help: the relay did not refuse the event for good. */
function isTemporary(
  outcome: PublishOutcome | undefined,
  relay: string,
  relays: Pick<RelaySet, 'status'>,
): boolean {
  if (outcome?.status === 'refused') return judgeAnswer(false, outcome.message).transient ?? false;
  if (outcome?.kept === false) return true;
  if (outcome) return passing.includes(outcome.status);
  return relays.status().find((each) => each.relay === relay)?.state !== 'open';
}

const isTakenAtAll = (outcome: PublishOutcome | undefined): boolean =>
  outcome !== undefined && isTaken(outcome);

/**
 * Describes the outcome in words: the relay's message and what to do next. Without an outcome, sending was aborted.
 */
function wordsOf(
  outcome: PublishOutcome | undefined,
  relay: string,
  relays: Pick<RelaySet, 'status'>,
): string {
  const statuses = relays.status();
  if (outcome) return diagnoseOutcome(outcome, statuses);
  const status = statuses.find((each) => each.relay === relay);
  if (status?.state === 'open') return 'was too slow: the run went on without it';
  return wordsOfUnreachable(relay, statuses);
}

/** Watches an event that is not signed yet; if signing fails, it counts as not accepted. */
export function watchLater(sending: Promise<Sending>): Sending {
  const nothing: Sending = {
    taken: Promise.resolve(false),
    settled: Promise.resolve({ accepted: [], failed: [] }),
  };
  const safe = sending.catch(() => nothing);
  let signed: Sending | undefined;
  void safe.then((known) => {
    signed = known;
  });
  return {
    taken: safe.then(({ taken }) => taken),
    settled: safe.then(({ settled }) => settled),
    tracked: () => signed?.tracked?.(),
  };
}

const MAX_WORDS = 160;

const CLOCK_NOTICE = 'your clock seems to be off: set it, best by NTP';

interface Case {
  readonly happened: string;
  readonly next: string;
}

/**
 * Returns a notice if two relays, or the only one, reject the date of our events; a single one of several may be wrong
 * itself.
 */
export function clockNotice(statuses: readonly RelayStatus[]): string | undefined {
  const complaints = statuses.filter(({ clockComplaint }) => clockComplaint !== '').length;
  return complaints >= Math.min(2, Math.max(1, statuses.length)) ? CLOCK_NOTICE : undefined;
}

export const diagnosePublish = (
  statuses: readonly RelayStatus[],
  outcomes: readonly PublishOutcome[],
): readonly string[] =>
  outcomes.map((outcome) => `${outcome.relay} ${diagnoseOutcome(outcome, statuses)}`);

/** Describes what happened at one relay, its message, and what to do next. */
function diagnoseOutcome(outcome: PublishOutcome, statuses: readonly RelayStatus[]): string {
  const status = statuses.find(({ relay }) => relay === outcome.relay);
  const { happened, next } = caseOf(outcome, status, clockNotice(statuses) !== undefined);
  const words = printable(outcome.message);
  const detail = words === '' ? '' : ` (${words})`;
  return `${happened}${detail}${next === '' ? '' : `; ${next}`}`;
}

/** Describes why a relay is not reachable now. */
export function wordsOfUnreachable(relay: string, statuses: readonly RelayStatus[]): string {
  const message = statuses.find((each) => each.relay === relay)?.lastError ?? '';
  const outcome = { relay, status: 'unreachable', message, attempts: 0, delaysMs: [] } as const;
  return diagnoseOutcome(outcome, statuses);
}

/** Makes a relay's message safe to print: no control characters or bidirectional marks, limited length. */
function printable(message: string): string {
  const text = message
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text;
}

const byStatus: Readonly<Record<Exclude<PublishStatus, 'refused' | 'pow-needed'>, Case>> = {
  accepted: { happened: 'accepted it', next: '' },
  malformed: {
    happened: 'calls the event invalid',
    next: 'its rules are stricter than ours: use another relay, and report this line',
  },
  throttled: {
    happened: 'asks us to slow down',
    next: 'send less often, or add relays',
  },
  'auth-needed': {
    happened: 'requires authentication',
    next: 'use a key that this relay admits, or another relay',
  },
  unreachable: {
    happened: 'could not be reached',
    next: 'check the address, and that a relay listens there',
  },
  'no-verdict': {
    happened: 'neither accepted nor refused it',
    next: 'try again later, or add another relay',
  },
};

const cutOff: Case = { happened: 'was cut off', next: 'it is tried again' };

function caseOf(
  { status, message, kept }: PublishOutcome,
  relay: RelayStatus | undefined,
  isClockOff: boolean,
): Case {
  if (kept === false) {
    return {
      happened: 'accepts events and loses them',
      next: 'do not rely on it: use another relay',
    };
  }
  if (status === 'refused') return refusalOf(message, isClockOff);
  if (status === 'pow-needed') return workOf(relay?.limits.workBits ?? 0);
  if (status === 'unreachable' && (relay?.opens ?? 0) > 0) return cutOff;
  return byStatus[status];
}

function refusalOf(message: string, isClockOff: boolean): Case {
  const { refuses, blamesClock, transient } = judgeAnswer(false, message);
  if (blamesClock) {
    const next = isClockOff ? CLOCK_NOTICE : 'no other relay says so: its clock may be off';
    return { happened: 'refuses the date of the event', next };
  }
  if (refuses === 'size' || /^too large: /.test(message)) {
    return {
      happened: 'does not accept an event of this size',
      next: 'send smaller events, or use a relay with a higher limit',
    };
  }
  if (refuses === 'kind') {
    return {
      happened: 'does not accept this kind of event',
      next: 'use another relay for such events',
    };
  }
  const next = transient ? 'try again later, or add another relay' : 'use another relay';
  return { happened: 'refused it', next };
}

function workOf(bits: number): Case {
  const happened = 'requires proof of work';
  if (bits > MAX_WORK_BITS) {
    return { happened, next: `we do at most ${MAX_WORK_BITS} bits: use another relay` };
  }
  return {
    happened,
    next: `only events up to ${MAX_WORK_BYTES} bytes get it: use another relay for larger ones`,
  };
}

/** How long to wait for a relay's answer about which events it has. */
const ASK_MS = 5000;

/**
 * Sends a relay the events that it lacks. Queries first, to save its rate; a relay that does not answer gets all of
 * them.
 */
export async function republishMissing(
  relays: Pick<RelaySet, 'query' | 'publish'>,
  relay: string,
  events: readonly SignedEvent[],
  options: Pick<SendOptions, 'signal' | 'isPatient'>,
  send: (event: SignedEvent) => unknown = (event) =>
    relays.publish(event, { ...options, only: [relay] }),
): Promise<void> {
  const ids = events.map(({ id }) => id);
  const queryOptions = { only: [relay], waitMs: ASK_MS, signal: options.signal };
  const storedIds = new Set(
    (await relays.query([{ ids }], queryOptions)).events.map(({ id }) => id),
  );
  await Promise.all(events.filter(({ id }) => !storedIds.has(id)).map(send));
}
