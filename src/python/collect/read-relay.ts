/**
 * One subscription at one relay: what it stores and what it sends meanwhile, until there is enough, silence, or no time left.
 * A lost connection is tried again as often as asked; what was heard before the loss still counts.
 */

import type { Clock } from '../../base/clock.ts';
import { createNotifier, notifiedOrDeadline } from '../../base/notifier.ts';
import { Recent } from '../../base/recent.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/filter.ts';
import type { RelaySet, RelayStatus } from '../../network/transport/relay-set.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { RejectReason } from '../../run/contribution.ts';
import type { Zstd } from '../codec/zstd.ts';
import type { RelayAttempts, RelayFailure, RelayOperation } from '../wire/retry-telemetry.ts';

/** What collecting needs of a machine, as `createRelayPorts` gives it. */
export interface ReadingPorts {
  /** A relay set of this relay alone, with the same number of attempts; it is closed after use. */
  open(relay: string): RelaySet;
  readonly clock: Clock;
  /** Connections to try in all. */
  readonly maxAttempts: number;
  readonly signal: AbortSignal;
  /** Without it payloads compressed with zstd are refused. */
  readonly zstd?: Zstd | undefined;
}

export interface Reading {
  readonly operation: RelayOperation;
  readonly filter: Filter;
  /** Ends after this long without any message from the relay. */
  readonly idleMs: number;
  /** Ends so long after the first connection, however much the relay sends. */
  readonly maxMs: number;
  /** A verified event that the filter asks for, once; true when it is one of those looked for. */
  onEvent(event: SignedEvent): boolean;
  /** One of those looked for came again. */
  onRepeated(): void;
  onRefused(reason: RejectReason): void;
  /** Why no more is needed, if so; asked after each event, and once all that was stored has come. */
  enough(isCaughtUp: boolean): string | undefined;
}

/** How the reading ended. */
export type ReadEnd =
  | {
      readonly ok: true;
      /** `idle-timeout`, `relay-closed`, `deadline`, or what `enough` said. */
      readonly reason: string;
      readonly took: RelayAttempts;
      readonly notices: readonly string[];
    }
  | { readonly ok: false; readonly failure: RelayFailure };

type End = { readonly reason: string } | { readonly failed: string };

/** As good as no deadline: timers of most platforms know no longer ones. */
const LONGEST_MS = 86_400_000;
/** Ids by which repeats are known. */
const REMEMBERED = 32_768;

/** Reads from one relay; rejects only with `signal.reason`. */
export async function readRelay(
  relay: string,
  reading: Reading,
  { open, clock, maxAttempts, signal }: ReadingPorts,
): Promise<ReadEnd> {
  const relays = open(relay);
  const status = () => relays.status()[0]!;
  const changed = createNotifier();
  let ended: End | undefined;
  let untilMs = Number.POSITIVE_INFINITY;
  const finish = (end: End) => {
    ended ??= end;
    changed.notify();
  };
  const subscription = relays.subscribe(
    [reading.filter],
    handlersOf(reading, { status, maxAttempts, finish, isOver: () => ended !== undefined }, () => {
      untilMs = Math.min(untilMs, clock.now() + reading.maxMs);
      changed.notify();
    }),
    { recheck: false },
  );
  try {
    while (!ended) {
      const { state, heardMs } = status();
      const idleAtMs = state === 'open' ? heardMs + reading.idleMs : Number.POSITIVE_INFINITY;
      const nowMs = clock.now();
      if (nowMs >= untilMs) finish({ reason: 'deadline' });
      else if (nowMs >= idleAtMs) finish({ reason: 'idle-timeout' });
      else {
        const dueMs = Math.min(untilMs, idleAtMs, nowMs + LONGEST_MS);
        await notifiedOrDeadline(changed, clock, dueMs, signal);
      }
    }
    const { attempts, delaysMs, notices } = status();
    const took = {
      relay: withoutSecrets(relay),
      attempts,
      delaysMs: delaysMs.slice(0, attempts - 1),
    };
    if ('reason' in ended) return { ok: true, reason: ended.reason, took, notices };
    const { operation } = reading;
    return { ok: false, failure: { ...took, operation, message: ended.failed } };
  } finally {
    subscription.close();
    await relays.close();
  }
}

interface Control {
  status(): RelayStatus;
  readonly maxAttempts: number;
  finish(end: End): void;
  /** What comes now comes too late, though before anybody has closed the connection. */
  isOver(): boolean;
}

function handlersOf(
  reading: Reading,
  { status, maxAttempts, finish, isOver }: Control,
  onAsked: () => void,
) {
  let losses = 0;
  let isCaughtUp = false;
  /** Ids of what was looked for, and in which asking each came last. */
  const heard = new Recent<number>(REMEMBERED);
  let asked = 0;
  const judge = () => {
    const reason = reading.enough(isCaughtUp);
    if (reason !== undefined) finish({ reason });
  };
  return {
    onEvent(event: SignedEvent) {
      if (isOver() || !reading.onEvent(event)) return;
      heard.set(event.id, asked);
      judge();
    },
    onRepeated(id: string) {
      const before = heard.get(id);
      if (isOver() || before === undefined) return;
      heard.set(id, asked);
      // after a reconnect everything is sent once more
      if (before === asked) reading.onRepeated();
    },
    onRefused(reason: RejectReason) {
      if (!isOver()) reading.onRefused(reason);
    },
    onAsked() {
      asked++;
      onAsked();
    },
    onCaughtUp() {
      isCaughtUp = true;
      judge();
    },
    onLost(_: string, message: string) {
      if (status().state === 'open') finish({ reason: 'relay-closed' });
      else if (++losses >= maxAttempts) finish({ failed: message });
    },
  };
}
