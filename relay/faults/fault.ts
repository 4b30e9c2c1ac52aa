/** A fault rewrites one delivery: the delays, in ms, of the copies that go out. None is a loss, two a repetition. */
import type { Draws } from './draws.ts';

export type Copies = readonly number[];

export type Fault = (copies: Copies) => Copies;

/** How long a delivery takes: any length in a range, around a mean, or mostly short with a long tail. */
export type DelayDistribution =
  | { readonly shape: 'uniform'; readonly minMs: number; readonly maxMs: number }
  | { readonly shape: 'normal'; readonly meanMs: number; readonly deviationMs: number }
  | { readonly shape: 'exponential'; readonly meanMs: number; readonly maxMs: number };

/** What goes wrong on purpose. Shares are from 0 to 1; a field left out does nothing. */
export interface FaultSettings {
  /** Share of deliveries to subscribers that are lost. */
  readonly drop?: number;
  /** Share of deliveries that arrive twice. */
  readonly duplicate?: number;
  readonly delay?: DelayDistribution;
  /** Share of deliveries held back so that later ones overtake them. */
  readonly reorder?: number;
  /** Longest such hold; 200 ms when left out. */
  readonly reorderMs?: number;
  /** Applies the four above to OK answers too. */
  readonly oks?: boolean;
  /** Share of published events that vanish on arrival: not kept, not delivered, not answered. */
  readonly swallow?: number;
  /** Share of published events answered with OK true and then neither kept nor delivered. */
  readonly discard?: number;
  /** Refuses this many connections before it accepts one. */
  readonly refuseConnections?: number;
  /** Closes each connection after this many frames from it. */
  readonly disconnectAfter?: number;
  /** Share of frames after which the connection they came by is closed. */
  readonly disconnect?: number;
  /** Bytes per second that each connection gets; all it is sent waits its turn. */
  readonly bandwidth?: number;
  /** Events a minute taken from each connection; the rest is refused as `rate-limited`. */
  readonly throttle?: number;
  /** Share of deliveries preceded by a twin with the same id and a wrong signature. */
  readonly forge?: number;
  /** Share of deliveries preceded by a copy dated a year later, which fits neither id nor signature. */
  readonly postdate?: number;
  /** Share of REQs answered with EOSE at once, as if nothing were stored. */
  readonly falseEose?: number;
  /** Share of REQs whose EOSE never comes; what is stored does. */
  readonly noEose?: number;
  /** Share of REQs that are closed at once. */
  readonly closeReqs?: number;
  /** Takes connections and events, and never says a word. */
  readonly silent?: boolean;
  /** Leading zero bits wanted of each event (NIP-13) that the relay's document says nothing of. */
  readonly work?: number;
  /** Seconds after which a stored event is forgotten. */
  readonly forgetAfter?: number;
  /** The relay's document (NIP-11) names limits that it does not have: next to nothing is allowed. */
  readonly falseLimits?: boolean;
}

/** Makes the fault that the settings ask for, or nothing. */
export type CreateFault = (settings: FaultSettings, draws: Draws) => Fault | undefined;
