/** Parses the names of certified runs that people paste: addresses, `nostr:` URIs, run ids and links of web pages. */
import { isHex32 } from '../../base/bytes.ts';

/** What names a run, as a person typed it. */
export interface RunName {
  /** `naddr1…`, or a run id. */
  readonly run: string;
  /** Relays that a link names besides the address; unverified. */
  readonly relays: readonly string[];
  /** All parameters of a link. */
  readonly params: URLSearchParams;
}

/** Maximum characters of a link. */
const LONGEST = 4096;
const MOST_RELAYS = 16;

/**
 * Parses `naddr1…`, `nostr:naddr1…`, a run id, and web links with one of them after the #: `#naddr1…&relay=wss://…` or
 * `#run=naddr1…&relay=wss://…`. Returns undefined for other text, such as the name of a file.
 */
export function parseRunName(text: string): RunName | undefined {
  const trimmed = text.trim().slice(0, LONGEST);
  const at = /^(?:https?:\/\/\S*)?#/i.exec(trimmed)?.[0].length ?? 0;
  const fragment = trimmed.slice(at);
  const [first = '', ...rest] = fragment.split('&');
  const isQuery = at > 0 && first.includes('=');
  const params = new URLSearchParams(isQuery ? fragment : rest.join('&'));
  const named = isQuery ? (params.get('run') ?? '') : decode(first);
  const run = named.replace(/^(?:web\+)?nostr:(?:\/\/)?/i, '');
  if (!run.startsWith('naddr1') && !isHex32(run)) return undefined;
  return { run, relays: params.getAll('relay').slice(0, MOST_RELAYS), params };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
