/** Parses messages of relays from untrusted text, and types of filters (NIP-01, NIP-42, NIP-67, NIP-77). */
import type { Window } from '../../../kinds/_define.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import type { SignedEvent } from '../event.ts';

/** Whether the relay sent all stored events of a REQ (NIP-67). */
export type EoseHint = 'finish' | 'more';

export interface EventFrame {
  readonly type: 'event';
  readonly subscription: string;
  readonly event: unknown;
  /** Whether the text has no escape sequences in its strings. */
  readonly isPlain: boolean;
}

export type RelayFrame =
  | EventFrame
  | {
      readonly type: 'eose';
      readonly subscription: string;
      readonly hint: EoseHint | undefined;
    }
  | { readonly type: 'closed'; readonly subscription: string; readonly message: string }
  | {
      readonly type: 'ok';
      readonly id: string;
      readonly accepted: boolean;
      readonly message: string;
    }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'neg-msg'; readonly subscription: string; readonly message: string }
  | { readonly type: 'neg-err'; readonly subscription: string; readonly message: string }
  | { readonly type: 'auth'; readonly challenge: string };

/** Maximum nesting: frame, event, tags, tag. */
const MAX_DEPTH = 8;
/** Maximum brackets and commas outside strings; a frame of nothing else would take ten times its size in memory. */
const MAX_PARTS = 65_536;
const MAX_TEXT = 500;
/** Maximum length of a negentropy message; real relays stay below 500 kB, which is twice that in hex. */
const MAX_SYNC_TEXT = 1 << 20;

/** Parses a frame; undefined if it is not a known message. Never throws. */
export function parseFrame(text: string): RelayFrame | undefined {
  if (isTooComplex(text, MAX_DEPTH, MAX_PARTS)) return undefined;
  const json = jsonIn(text);
  if (!Array.isArray(json)) return undefined;
  const [type, name, second, third] = json as unknown[];
  if (typeof name !== 'string') return undefined;
  switch (type) {
    case 'EVENT':
      return {
        type: 'event',
        subscription: name,
        event: second,
        isPlain: !text.includes('\\'),
      };
    case 'EOSE':
      return { type: 'eose', subscription: name, hint: readHint(second) };
    case 'CLOSED':
      return { type: 'closed', subscription: name, message: clip(second) };
    case 'OK':
      if (typeof second !== 'boolean') return undefined;
      return { type: 'ok', id: name, accepted: second, message: clip(third) };
    case 'NOTICE':
      return { type: 'notice', message: clip(name) };
    case 'AUTH':
      return name.length <= MAX_TEXT ? { type: 'auth', challenge: name } : undefined;
    case 'NEG-MSG':
      if (typeof second !== 'string' || second.length > MAX_SYNC_TEXT) return undefined;
      return { type: 'neg-msg', subscription: name, message: second };
    case 'NEG-ERR':
      return { type: 'neg-err', subscription: name, message: clip(second) };
    default:
      return undefined;
  }
}

/** Returns the hint of an EOSE. Unknown hints are ignored; if a relay sends both, `more` wins. */
function readHint(hints: unknown): EoseHint | undefined {
  if (!Array.isArray(hints)) return undefined;
  if (hints.includes('more')) return 'more';
  return hints.includes('finish') ? 'finish' : undefined;
}

/** Shortens a relay's message and makes it safe to show on a terminal. */
function clip(text: unknown): string {
  if (typeof text !== 'string') return '';
  // copied, since a slice would keep the whole text in memory
  const short: string =
    text.length > MAX_TEXT ? JSON.parse(JSON.stringify(text.slice(0, MAX_TEXT))) : text;
  return short.replace(/\p{Cc}+/gu, ' ');
}

/** Reports whether brackets outside strings nest deeper than `maxDepth`, or brackets and commas exceed `maxParts`. */
export function isTooComplex(text: string, maxDepth: number, maxParts: number): boolean {
  let depth = 0;
  let parts = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x5b || code === 0x7b) {
      depth++;
      parts++;
      if (depth > maxDepth) return true;
    } else if (code === 0x5d || code === 0x7d) depth--;
    else if (code === 0x2c) parts++;
    if (parts > maxParts) return true;
  }
  return false;
}

function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return text.length;
}

/** A subscription filter (NIP-01). */
export interface Filter extends Window {
  readonly ids?: readonly string[];
  readonly kinds?: readonly number[];
  /** Maximum number of stored events; does not limit live ones. */
  readonly limit?: number;
  /** Events whose first value of this single-letter tag is in the list. */
  readonly [tag: `#${string}`]: readonly string[];
}

/** Reports whether an event matches a filter. */
export function matchesFilter(filter: Filter, event: SignedEvent): boolean {
  const { ids, authors, kinds, since, until } = filter;
  if (ids && !ids.includes(event.id)) return false;
  if (authors && !authors.includes(event.pubkey)) return false;
  if (kinds && !kinds.includes(event.kind)) return false;
  if (since !== undefined && event.created_at < since) return false;
  if (until !== undefined && event.created_at > until) return false;
  for (const [key, values] of Object.entries(filter)) {
    if (!key.startsWith('#') || !Array.isArray(values)) continue;
    const name = key.slice(1);
    if (!event.tags.some((tag) => tag[0] === name && values.includes(tag[1] ?? ''))) return false;
  }
  return true;
}
