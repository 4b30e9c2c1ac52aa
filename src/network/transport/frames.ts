/** Messages from a relay (NIP-01, NIP-42): read from text that may be anything. */

export type RelayFrame =
  | { readonly type: 'event'; readonly subscription: string; readonly event: unknown }
  | { readonly type: 'eose'; readonly subscription: string }
  | { readonly type: 'closed'; readonly subscription: string; readonly message: string }
  | {
      readonly type: 'ok';
      readonly id: string;
      readonly accepted: boolean;
      readonly message: string;
    }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'auth'; readonly challenge: string };

/** No message of the protocol nests deeper than frame, event, tags, tag. */
const MAX_DEPTH = 8;
const MAX_TEXT = 500;

/** The frame in the text, or undefined when it is none that we know. Never throws. */
export function parseFrame(text: string): RelayFrame | undefined {
  if (nestsDeeper(text, MAX_DEPTH)) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(json)) return undefined;
  const [type, name, second, third] = json as unknown[];
  if (typeof name !== 'string') return undefined;
  switch (type) {
    case 'EVENT':
      return { type: 'event', subscription: name, event: second };
    case 'EOSE':
      return { type: 'eose', subscription: name };
    case 'CLOSED':
      return { type: 'closed', subscription: name, message: clip(second) };
    case 'OK':
      if (typeof second !== 'boolean') return undefined;
      return { type: 'ok', id: name, accepted: second, message: clip(third) };
    case 'NOTICE':
      return { type: 'notice', message: clip(name) };
    case 'AUTH':
      return { type: 'auth', challenge: name };
    default:
      return undefined;
  }
}

/** A relay's words, short enough to keep and safe to show on a terminal. */
const clip = (text: unknown): string =>
  typeof text === 'string' ? text.slice(0, MAX_TEXT).replace(/\p{Cc}+/gu, ' ') : '';

/** Whether brackets outside strings nest deeper than `max`; stops at the first that does. */
export function nestsDeeper(text: string, max: number): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x5b || code === 0x7b) {
      depth++;
      if (depth > max) return true;
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return false;
}

/** The index of the quote that ends the string starting at `start`, or of the last character. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return text.length;
}
