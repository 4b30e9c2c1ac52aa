/** What the page of a tab and its worker say to each other. */
import type { RunEvent } from '../certified/rounds/events.ts';
import type { Name } from './naming.ts';

/** What the person chose to train on: a text or CSV, or a folder of pictures. */
export type Chosen =
  | { readonly kind: 'file'; readonly file: File }
  | {
      readonly kind: 'folder';
      /** What it is called. */
      readonly folder: string;
      /** Each with the name of the folder that it is in. */
      readonly files: readonly { readonly class: string; readonly file: File }[];
    };

/** From the page. */
export type ToWorker =
  | {
      readonly type: 'join';
      /** What follows the # in the address of the page, and the host it came from. */
      readonly hash: string;
      readonly host: string;
      readonly chosen?: Chosen | undefined;
      /** In whose name, where somebody said. */
      readonly name?: Name | undefined;
    }
  /** Ends the worker; what is saved stays. */
  | { readonly type: 'stop' }
  /** Whether anybody sees the page. */
  | { readonly type: 'visible'; readonly isVisible: boolean }
  /** Replays the whole run from its events, once the worker is through or stopped. */
  | { readonly type: 'verify' };

/** To the page. */
export type FromWorker =
  | { readonly type: 'event'; readonly event: RunEvent }
  /** The run is over for this worker. */
  | { readonly type: 'ended'; readonly rounds: number; readonly root: string }
  /** It cannot go on. */
  | {
      readonly type: 'failed';
      readonly code: string;
      readonly message: string;
      readonly hint?: string | undefined;
      /** With `tab/name`: what a signer is to sign. */
      readonly draft?: unknown;
    }
  | {
      readonly type: 'verified';
      readonly ok: boolean;
      readonly rounds: number;
      readonly root: string;
      readonly seconds: number;
    };
