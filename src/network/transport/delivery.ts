/** From the outcomes at each relay to what a worker wants to know: did anybody take it, and what did the others say. */
import type { SignedEvent } from '../event.ts';
import { diagnoseOutcome, wordsOfUnreachable } from './diagnose.ts';
import type { PublishOutcome } from './publishing.ts';
import type { RelaySet } from './relay-set.ts';

/** Which relays took an event, and what the others said. */
export interface Delivery {
  readonly accepted: readonly string[];
  readonly failed: readonly Failure[];
}

/** A relay that did not take an event. */
export interface Failure {
  readonly relay: string;
  readonly message: string;
  /** It could not be reached, or did not answer: it may take the event later. */
  readonly isAway?: boolean;
}

/** How far a payload is: chunks that are through, of those that must be. */
export interface Progress {
  readonly have: number;
  readonly of: number;
}

/** An event of this worker, and what the relays that have answered said of it. */
export interface Tracked {
  readonly event: SignedEvent;
  /** In the order of the relays; those that still owe an answer are missing. */
  readonly outcomes: readonly PublishOutcome[];
}

/** An event on its way: a slow or dead relay delays `settled`, never `taken`. */
export interface Sending {
  /** How far its chunks are; undefined when it has none. */
  progress?(): Progress;
  /** True as soon as one relay took it, false when none did. */
  readonly taken: Promise<boolean>;
  readonly settled: Promise<Delivery>;
  /** Where it stands; undefined while the event is not signed yet, or where nobody keeps account. */
  tracked?(): Tracked | undefined;
}

/** It is there, as far as anybody can tell: a relay that loses what it accepts has not taken it. */
export const isTaken = ({ status, kept }: PublishOutcome): boolean =>
  status === 'accepted' && kept !== false;

/** One event on its way to all relays. */
export function watchOutcomes(
  outcomes: readonly Promise<PublishOutcome>[],
  relays: RelaySet,
): Sending {
  const given = outcomes.map((outcome) => outcome.catch(() => undefined));
  const taken = anyTrue(given.map(async (outcome) => isTakenAtAll(await outcome)));
  const settled = Promise.all(given).then((all): Delivery => {
    const told = all.map((outcome, i) => {
      const relay = relays.relays[i]!;
      const message = wordsOf(outcome, relay, relays);
      return {
        relay,
        isHere: isTakenAtAll(outcome),
        message,
        isAway: isAway(outcome, relay, relays),
      };
    });
    return deliveryOf(told);
  });
  return { taken, settled };
}

/** The same of an event whose fate at each relay is to be known at any time. */
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

interface Told {
  readonly relay: string;
  readonly isHere: boolean;
  /** Read where it is not here. */
  readonly message: string;
  readonly isAway: boolean;
}

export const deliveryOf = (told: readonly Told[]): Delivery => ({
  accepted: told.filter(({ isHere }) => isHere).map(({ relay }) => relay),
  failed: told.flatMap(({ isHere, relay, message, isAway }) =>
    isHere ? [] : [{ relay, message, ...(isAway && { isAway }) }],
  ),
});

/** Whether trying again later can help because the relay was not there, or said nothing; one that refused was. */
export function isAway(
  outcome: PublishOutcome | undefined,
  relay: string,
  relays: Pick<RelaySet, 'status'>,
): boolean {
  if (outcome) return outcome.status === 'unreachable' || outcome.status === 'no-verdict';
  return relays.status().find((each) => each.relay === relay)?.state !== 'open';
}

const isTakenAtAll = (outcome: PublishOutcome | undefined): boolean =>
  outcome !== undefined && isTaken(outcome);

/** What became of it, the relay's own words, and what to do next; without an outcome it was given up while under way. */
export function wordsOf(
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

/** The same of an event that is not signed yet; one that never is was not taken. */
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

/** True as soon as one of them is, false when none is; one that fails is none. */
export async function anyTrue(answers: readonly Promise<boolean>[]): Promise<boolean> {
  const yes = answers.map(async (answer) => {
    if (!(await answer)) throw new Error('no');
  });
  return Promise.any(yes).then(
    () => true,
    () => false,
  );
}
