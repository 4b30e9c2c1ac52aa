/** What all connections of one relay share. */
import type { FaultSettings } from './faults/fault.ts';
import type { Limits } from './limits.ts';
import type { Policy } from './policies/policy.ts';
import type { Session } from './session.ts';
import type { Store } from './store.ts';

/** Counted since the relay started. */
export interface Counts {
  connectionsTotal: number;
  connectionsRefused: number;
  eventsAccepted: number;
  eventsDuplicate: number;
  eventsRefused: number;
  eventsSwallowed: number;
  framesIn: number;
  framesOut: number;
  bytesIn: number;
  bytesOut: number;
  deliveriesDropped: number;
  deliveriesDuplicated: number;
  deliveriesDelayed: number;
}

export interface Core {
  readonly limits: Limits;
  readonly policies: readonly Policy[];
  readonly faults: FaultSettings;
  readonly seed: number;
  readonly store: Store;
  readonly sessions: Set<Session>;
  readonly counts: Counts;
  nowMs(): number;
}

export const zeroCounts = (): Counts => ({
  connectionsTotal: 0,
  connectionsRefused: 0,
  eventsAccepted: 0,
  eventsDuplicate: 0,
  eventsRefused: 0,
  eventsSwallowed: 0,
  framesIn: 0,
  framesOut: 0,
  bytesIn: 0,
  bytesOut: 0,
  deliveriesDropped: 0,
  deliveriesDuplicated: 0,
  deliveriesDelayed: 0,
});
