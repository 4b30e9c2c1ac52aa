/** Measurements of one relay: what it accepted, kept, refused and asked for while it was tried. */
import type { RelayInfo } from '../network/transport/relay-info.ts';

/** `yes`: accepted, and there when asked for. `lost`: accepted, and never seen again. `unknown`: not tried, or no verdict. */
export type KindVerdict = 'yes' | 'lost' | 'refused' | 'unknown';

/** Whether a relay takes one kind of event, and in which words it refused. */
export interface KindReport {
  readonly verdict: KindVerdict;
  /** The relay's words, or ours when it had none. */
  readonly words: string;
}

/** Whether a tag filter brings exactly the events it should. */
export type FilterVerdict = 'works' | 'brings too much' | 'finds nothing' | 'refused' | 'unknown';

/** How many events a relay took before it asked for slower ones. */
export interface RateReport {
  /** Events accepted before the first `rate-limited`, or in all when there was none. */
  readonly accepted: number;
  /** From the first of them to the last, or to the refusal. */
  readonly seconds: number;
  /** The relay's words when it had enough. */
  readonly throttled?: string;
  /** Seconds until it took another one, at the pace we tried. */
  readonly againAfterSeconds?: number;
}

/** The largest event that a relay took and brought back. */
export interface SizeReport {
  /** The largest event accepted and read back; 0 when there was none. */
  readonly keptBytes: number;
  /** The smallest that was too large. */
  readonly refusedBytes?: number;
  readonly words?: string;
}

/** What a relay says of itself (NIP-11), and how far its clock is off. */
export interface RelayDescription {
  /** What the relay says of itself (NIP-11). */
  readonly stated?: RelayInfo;
  /** This machine's clock minus the relay's. */
  readonly skewSeconds?: number;
}

/** Everything that a trial found out about a relay. */
export interface RelayReport extends RelayDescription {
  readonly url: string;
  /** Why there is nothing else. */
  readonly problem?: string;
  readonly openedMs?: number;
  /** The relay's words when it refused an event dated now. */
  readonly clockWords?: string;
  readonly auth: {
    readonly write: boolean;
    readonly read: boolean;
    /** Whether it then let a key in that it has never seen. */
    readonly letIn?: boolean;
  };
  /** Present when proof of work was asked for. */
  readonly work?: { readonly bits?: number; readonly words: string };
  /** Present when the relay ended the connection after most messages. */
  readonly hangUps?: { readonly times: number; readonly messages: number };
  readonly size: SizeReport;
  readonly rate: RateReport;
  readonly kinds: Readonly<Record<number, KindReport>>;
  readonly filters: { readonly s: FilterVerdict; readonly c: FilterVerdict };
  /** Whether the events are gone after their deletion; absent when that was not seen. */
  readonly deletes?: boolean;
  readonly spent: { readonly events: number; readonly bytes: number; readonly seconds: number };
}
