/** What a tab is told: the link in its address (run, relays, device), and the messages of page and worker. */
import { ConfigError } from '../base/errors.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import { decodeRunAddress, type RunAddress } from '../certified/wire/runs.ts';
import { hintProblem, parseRelayUrls } from '../network/transport/relay-urls.ts';
import type { Device } from '../trainer/messages.ts';
import type { Name } from './naming.ts';

export interface TabLink {
  readonly address: RunAddress;
  /** Those of the link, else those the address names; of a private network none unless this machine serves the page. */
  readonly relays: readonly string[];
  readonly device: 'auto' | Device;
  readonly threads?: number;
  /** Tells several workers of one browser apart. */
  readonly slot: string;
  /** Whether it measures the shared loss after each round; one worker may do it for all. */
  readonly evaluates: boolean;
}

const DEVICES: Readonly<Record<string, TabLink['device']>> = {
  auto: 'auto',
  wasm: 'cpu',
  webgpu: 'webgpu',
};
const MOST_THREADS = 64;
const MOST_RELAYS = 8;
const SLOT = /^[\w-]{1,32}$/;
/** Hosts that are this machine: whoever serves a page from there may name relays on it. */
const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Reads `#naddr1…&device=wasm&threads=1&relay=wss://…&slot=b`. Throws a ConfigError that says what is wrong. */
export function parseLink(hash: string, host: string): TabLink {
  const [named = '', ...rest] = hash.replace(/^#/, '').split('&');
  const asked = new URLSearchParams(rest.join('&'));
  const address = decodeRunAddress(decodeURIComponent(named));
  if (!address.ok) {
    throw wrong(
      named === '' ? 'the link names no run' : `what the link names is ${address.issue.message}`,
      'open a link that ends in #naddr1…, as `nostrain run create --relay URL` prints it',
    );
  }
  const said = asked.getAll('relay');
  const hints = (said.length > 0 ? parseRelayUrls(said) : address.value.relays).slice(
    0,
    MOST_RELAYS,
  );
  // the page came from somebody: what it names must not lead into the network of whoever opens it
  const relays = LOCAL.has(host) ? hints : hints.filter((url) => hintProblem(url) === undefined);
  if (relays.length === 0) {
    throw wrong('the link names no relay that may be dialled', 'add &relay=wss://… to it');
  }
  const threads = threadsOf(asked.get('threads'));
  return {
    address: address.value,
    relays,
    device: deviceOf(asked.get('device')),
    ...(threads !== undefined && { threads }),
    slot: slotOf(asked.get('slot')),
    evaluates: asked.get('evaluate') !== 'no',
  };
}

function deviceOf(text: string | null): TabLink['device'] {
  const device = DEVICES[text ?? 'auto'];
  if (device !== undefined) return device;
  throw wrong(`device=${text} is no way to train`, 'say device=wasm or device=webgpu');
}

function threadsOf(text: string | null): number | undefined {
  if (text === null) return undefined;
  const threads = Number(text);
  if (Number.isSafeInteger(threads) && threads >= 1 && threads <= MOST_THREADS) return threads;
  throw wrong(`threads=${text} is no number of threads`, 'say a whole number, such as threads=2');
}

function slotOf(text: string | null): string {
  const slot = text ?? 'main';
  if (SLOT.test(slot)) return slot;
  throw wrong('the slot of the link is no short name', 'use letters and digits: slot=second');
}

const wrong = (message: string, hint: string): ConfigError =>
  new ConfigError('tab/link', message, { hint });

/** What the person chose to train on: a text or CSV, or a folder of pictures. */
export type Chosen =
  | { readonly kind: 'file'; readonly file: File }
  | {
      readonly kind: 'folder';
      readonly folder: string;
      /** Each with the name of the folder that it is in. */
      readonly files: readonly { readonly class: string; readonly file: File }[];
    };

export type ToWorker =
  | {
      readonly type: 'join';
      /** What follows the # in the address of the page, and the host it came from. */
      readonly hash: string;
      readonly host: string;
      readonly chosen?: Chosen | undefined;
      readonly name?: Name | undefined;
    }
  | { readonly type: 'stop' }
  | { readonly type: 'visible'; readonly isVisible: boolean }
  /** Replays the whole run from its events, once the worker is through or stopped. */
  | { readonly type: 'verify' };

export type FromWorker =
  | { readonly type: 'event'; readonly event: RunEvent }
  | { readonly type: 'ended'; readonly rounds: number; readonly root: string }
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
