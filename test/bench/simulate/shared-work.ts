/**
 * What workers that share a process do with the same events: signatures that they check, contents that they read and outcomes that they apply.
 * Each is counted, and either done each time, or once for all of them with the time it took charged to whoever asks again. What they hold is
 * one thing in memory then.
 */
import { type Clock, Recent } from 'nostrain/base';
import {
  applyOutcome,
  type Certified,
  type ProtocolMessage,
  toProtocolMessage,
} from 'nostrain/certified/parts';
import { apartIn, type EventCrypto, type RelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import type { Outcome } from 'nostrain/run';
import type { Evidence } from '../../../src/certified/decisions/evidence.ts';

export interface Checks {
  /** How often workers asked, and how often it was done in earnest. */
  asked: number;
  done: number;
  /** Seconds that the latter took. */
  seconds: number;
}

/** Seconds that all take, each done for itself. */
export const chargedSeconds = ({ asked, done, seconds }: Checks): number =>
  done === 0 ? 0 : (asked / done) * seconds;

/** Verdicts and events remembered: so many at most, and those of some rounds. */
const REMEMBERED = 16_384;
const REMEMBERED_MS = 120_000;

/** What the process keeps for all of its workers. */
class Shared<V> extends Recent<V> {
  static ofRounds<V>(clock: Clock): Shared<V> {
    return new Shared(REMEMBERED, { clock, ms: REMEMBERED_MS });
  }
}

/** Checks each signature for everybody who asks, or with `isShared` once; the verdict is that of the real check. */
export function countedCrypto(checks: Checks, clock: Clock, isShared: boolean): EventCrypto {
  const verdicts = Shared.ofRounds<{
    readonly of: Buffer;
    readonly by: Buffer;
    readonly isGood: boolean;
  }>(clock);
  const check: EventCrypto['schnorr']['verify'] = (signature, message, publicKey) => {
    const from = performance.now();
    const isGood = nativeCrypto.schnorr.verify(signature, message, publicKey);
    checks.done++;
    checks.seconds += (performance.now() - from) / 1000;
    return isGood;
  };
  return {
    sha256Text: nativeCrypto.sha256Text,
    schnorr: {
      verify(signature, message, publicKey) {
        checks.asked++;
        if (!isShared) return check(signature, message, publicKey);
        const key = Buffer.from(signature.buffer, signature.byteOffset, signature.length).toString(
          'latin1',
        );
        const known = verdicts.get(key);
        if (known?.of.equals(message) && known.by.equals(publicKey)) return known.isGood;
        const isGood = check(signature, message, publicKey);
        verdicts.set(key, { of: Buffer.from(message), by: Buffer.from(publicKey), isGood });
        return isGood;
      },
      sign: nativeCrypto.schnorr.sign,
    },
  };
}

/** Reads what each event says for everybody who asks, or with `isShared` once where nothing but the event says it. */
export function countedRead(
  reads: Checks,
  clock: Clock,
  isShared: boolean,
): typeof toProtocolMessage {
  const known = Shared.ofRounds<ProtocolMessage>(clock);
  return (event, ...rest) => {
    reads.asked++;
    const before = known.get(event.id);
    if (before) return before;
    const from = performance.now();
    const message = toProtocolMessage(event, ...rest);
    reads.done++;
    reads.seconds += (performance.now() - from) / 1000;
    if (!isShared || message === undefined || apartIn(event)) return message;
    known.set(event.id, message);
    return message;
  };
}

/** What an outcome names by id is here. */
const hasAll = ({ accepted, rejected, faults }: Outcome, evidence: Evidence): boolean =>
  [...rejected.map(({ manifest }) => manifest), ...faults].every((id) => evidence.message(id)) &&
  accepted.every(({ manifest: id }) => {
    const message = evidence.message(id);
    return message?.type === 'manifest' && evidence.payload(message.manifest) !== undefined;
  });

/** Outcomes whose states are remembered: those of some rounds; and those whose rows are. */
const MOST_APPLIED = 8;
const MOST_ROWS = 256;

/** A contribution that an outcome counts. */
export interface CountedRow {
  readonly worker: string;
  readonly late: boolean;
}

export interface Applying {
  readonly apply: typeof applyOutcome;
  /** What the outcome of this digest counts. */
  rowsOf(digest: string): readonly CountedRow[];
}

/** Applies each outcome for everybody who asks, or with `isShared` once for all who have what it names; they check as many signatures for it as the first. */
export function countedApply(applied: Checks, checks: Checks, isShared: boolean): Applying {
  const rows = new Shared<readonly CountedRow[]>(MOST_ROWS);
  const known = new Shared<{ readonly next: Certified; readonly asked: number }>(MOST_APPLIED);
  const apply: typeof applyOutcome = (state, outcome, evidence, hash) => {
    applied.asked++;
    const { parent, time, proposer, modelRoot, ledgerRoot } = outcome;
    const name = [parent, time, proposer, modelRoot, ledgerRoot].join();
    const before = known.get(name);
    if (before && hasAll(outcome, evidence)) {
      checks.asked += before.asked;
      return { ok: true, value: before.next };
    }
    const asked = checks.asked;
    const from = performance.now();
    const verdict = applyOutcome(state, outcome, evidence, hash);
    if (!verdict.ok) return verdict;
    applied.done++;
    applied.seconds += (performance.now() - from) / 1000;
    rows.set(
      verdict.value.parent,
      outcome.accepted.map(({ index, late }) => {
        return { worker: state.ledger.members[index]!.key, late };
      }),
    );
    if (!isShared) return verdict;
    known.set(name, { next: verdict.value, asked: checks.asked - asked });
    return verdict;
  };
  return { apply, rowsOf: (digest) => rows.get(digest) ?? [] };
}

/** Makes one object of all copies of an event that workers are handed. */
export function eventPool(clock: Clock): (relays: RelaySet) => RelaySet {
  const known = Shared.ofRounds<SignedEvent>(clock);
  const one = (event: SignedEvent): SignedEvent => {
    const before = known.get(event.id);
    if (before?.sig === event.sig) return before;
    known.set(event.id, event);
    return event;
  };
  return (relays) => ({
    ...{
      relays: relays.relays,
      readRelays: relays.readRelays,
      publish: relays.publish.bind(relays),
      send: relays.send.bind(relays),
    },
    ...{ status: () => relays.status(), workFor: (kind) => relays.workFor(kind) },
    ...{ ready: (signal) => relays.ready(signal), close: () => relays.close() },
    subscribe: (filters, handlers, options) => {
      const onEvent: typeof handlers.onEvent = (event, relay) =>
        handlers.onEvent(one(event), relay);
      return relays.subscribe(filters, { ...handlers, onEvent }, options);
    },
    async query(filters, options) {
      const { onEvent } = options;
      const asked = onEvent
        ? { ...options, onEvent: (event: SignedEvent) => onEvent(one(event)) }
        : options;
      const found = await relays.query(filters, asked);
      return { ...found, events: found.events.map(one) };
    },
  });
}
