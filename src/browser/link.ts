/** Parses the link of a tab (run, relays, device), and defines the messages between page and worker. */
import { ConfigError } from '../base/errors.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import { parseRunName } from '../certified/wire/run-names.ts';
import { decodeRunAddress, type RunAddress } from '../certified/wire/runs.ts';
import { hintProblem, parseRelayUrls } from '../network/transport/relay-urls.ts';
import { type Precision, precisions } from '../run/spec/model-spec.ts';
import type { Device } from '../trainer/messages.ts';
import type { Name } from './naming.ts';

export interface TabLink {
  readonly address: RunAddress;
  /** Relays in the link, else in the run address; private ones only if this machine serves the page. */
  readonly relays: readonly string[];
  readonly device: 'auto' | Device;
  readonly threads?: number;
  /** Distinguishes several workers in one browser. */
  readonly slot: string;
  /** Whether the worker measures the shared loss after each round; one worker may do so for all. */
  readonly evaluates: boolean;
  /** Numbers that hold a published model under adapters; default q4. */
  readonly basePrecision: Precision;
  /** drand endpoints, for runs with a drand beacon. */
  readonly drand: readonly string[];
  /** Whether this machine serves the page: then private addresses are allowed. */
  readonly isLocal: boolean;
  /** Starts without asking the user; only if this machine serves the page. */
  readonly starts: boolean;
}

const DEVICES: Readonly<Record<string, TabLink['device']>> = {
  auto: 'auto',
  wasm: 'cpu',
  webgpu: 'webgpu',
};
const MOST_THREADS = 64;
const MOST_RELAYS = 8;
const SLOT = /^[\w-]{1,32}$/;
/** Host names of this machine: a page that it serves may name private relays. */
const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Reads `#naddr1…&device=wasm&threads=1&relay=wss://…&slot=b`. Throws a ConfigError that says what is wrong. */
export function parseLink(hash: string, host: string): TabLink {
  const { run = '', params = new URLSearchParams() } = parseRunName(hash) ?? {};
  const address = decodeRunAddress(run);
  if (!address.ok) {
    throw wrong(
      run === '' ? 'the link names no run' : `the run in the link is ${address.issue.message}`,
      'open a link that ends in #naddr1…, as `nostrain run create --relay URL` prints it',
    );
  }
  const relayParams = params.getAll('relay');
  const hints = (relayParams.length > 0 ? parseRelayUrls(relayParams) : address.value.relays).slice(
    0,
    MOST_RELAYS,
  );
  // a page from the internet must not reach into the private network of its visitor
  const isLocal = LOCAL.has(host);
  const relays = isLocal ? hints : hints.filter((url) => hintProblem(url) === undefined);
  if (relays.length === 0) {
    throw wrong('the link names no allowed relay', 'add &relay=wss://… to it');
  }
  const threads = threadsOf(params.get('threads'));
  return {
    address: address.value,
    relays,
    device: deviceOf(params.get('device')),
    ...(threads !== undefined && { threads }),
    slot: slotOf(params.get('slot')),
    evaluates: params.get('evaluate') !== 'no',
    basePrecision: precisionOf(params.get('base')),
    drand: drandOf(params.getAll('drand')),
    isLocal,
    starts: isLocal && params.has('start'),
  };
}

function deviceOf(text: string | null): TabLink['device'] {
  const device = DEVICES[text ?? 'auto'];
  if (device !== undefined) return device;
  throw wrong(`device=${text} is unknown`, 'use device=wasm or device=webgpu');
}

function threadsOf(text: string | null): number | undefined {
  if (text === null) return undefined;
  const threads = Number(text);
  if (Number.isSafeInteger(threads) && threads >= 1 && threads <= MOST_THREADS) return threads;
  throw wrong(
    `threads=${text} is not a number of threads`,
    'use a whole number, such as threads=2',
  );
}

function precisionOf(text: string | null): Precision {
  const precision = precisions.find((each) => each === (text ?? 'q4'));
  if (precision !== undefined) return precision;
  throw wrong(`base=${text} is unknown`, `use base=${precisions.join(', base=')}`);
}

function drandOf(urls: readonly string[]): readonly string[] {
  const bad = urls.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url));
  if (bad === undefined) return urls.slice(0, MOST_RELAYS);
  throw wrong('a drand endpoint in the link is no address', 'use drand=https://…');
}

function slotOf(text: string | null): string {
  const slot = text ?? 'main';
  if (SLOT.test(slot)) return slot;
  throw wrong(
    'the slot in the link is not a short name',
    'use letters and digits, such as slot=second',
  );
}

const wrong = (message: string, hint: string): ConfigError =>
  new ConfigError('tab/link', message, { hint });

/** Data that the user chose: a text or CSV file, or a folder of pictures. */
export type Chosen =
  | { readonly kind: 'file'; readonly file: File }
  | {
      readonly kind: 'folder';
      readonly folder: string;
      /** Picture files, each with the name of its class folder. */
      readonly files: readonly { readonly class: string; readonly file: File }[];
    };

/** What a tab tells its user before it downloads a base. */
export interface BaseOffer {
  /** Names of the files. */
  readonly name: string;
  readonly bytes: number;
  /** Bytes that this browser already has. */
  readonly have: number;
  /** Memory that training takes, in bytes; an estimate. */
  readonly memory: number;
}

export type ToWorker =
  | {
      readonly type: 'join';
      /** The part of the page's address after #, and its host. */
      readonly hash: string;
      readonly host: string;
      readonly chosen?: Chosen | undefined;
      readonly name?: Name | undefined;
      /** The user has read the offer of a base and pressed the button. */
      readonly isAccepted?: boolean | undefined;
    }
  | { readonly type: 'stop' }
  | { readonly type: 'visible'; readonly isVisible: boolean }
  /** Trains no more steps until a message without a reason. */
  | { readonly type: 'pause'; readonly reason?: string | undefined }
  /** Continues a prompt with the shared adapters, or with the base alone. */
  | { readonly type: 'write'; readonly prompt: string; readonly isTuned: boolean }
  /** Replays the run from its events, after the worker has finished or stopped. */
  | { readonly type: 'verify' };

export type FromWorker =
  | { readonly type: 'download'; readonly have: number; readonly of: number }
  /** The text so far of the answer to `write`. */
  | {
      readonly type: 'written';
      readonly text: string;
      readonly isTuned: boolean;
      readonly isDone: boolean;
    }
  | { readonly type: 'event'; readonly event: RunEvent }
  | { readonly type: 'ended'; readonly rounds: number; readonly root: string }
  | {
      readonly type: 'failed';
      readonly code: string;
      readonly message: string;
      readonly hint?: string | undefined;
      /** With code `tab/name`: the draft that a signer must sign. */
      readonly draft?: unknown;
      /** With code `tab/start`: what the button starts. */
      readonly offer?: BaseOffer | undefined;
    }
  | {
      readonly type: 'verified';
      readonly ok: boolean;
      readonly rounds: number;
      readonly root: string;
      readonly seconds: number;
    };
