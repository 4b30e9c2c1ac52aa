/**
 * Where an author reads and writes (NIP-65, kind 10002), and relay hints beside ids (NIP-01). Addresses of others are
 * for people to look at: nothing here is connected to by itself.
 */
import type { EventDraft } from '../event.ts';
import { isRelayUrl, withoutSecrets } from './relay-urls.ts';

/** Where somebody reads and writes, as `parseRelayList` gives it. */
export interface RelayList {
  readonly read: readonly string[];
  readonly write: readonly string[];
}

export const RELAY_LIST_KIND = 10_002;
/** More are not read: NIP-65 itself asks for two to four. */
const MAX_RELAYS = 16;
const MAX_URL_LENGTH = 256;

/** The list that says: all of these, for both; without what may be secret of them. */
export const buildRelayList = (urls: readonly string[], createdAt: number): EventDraft => ({
  kind: RELAY_LIST_KIND,
  created_at: createdAt,
  tags: urls.map((url) => ['r', withoutSecrets(url)]),
  content: '',
});

/** The usable addresses of a verified event, or undefined when it is no relay list. */
export function parseRelayList({ kind, tags }: EventDraft): RelayList | undefined {
  if (kind !== RELAY_LIST_KIND) return undefined;
  const usable = tags.filter(([name, url]) => name === 'r' && isUsable(url)).slice(0, MAX_RELAYS);
  const forUse = (use: string) => [
    ...new Set(usable.filter(([, , only]) => !only || only === use).map(([, url]) => url!)),
  ];
  return { read: forUse('read'), write: forUse('write') };
}

/** The relays named beside the events, authors and addresses that an event refers to, each once. */
export function relayHints({ tags }: EventDraft): readonly string[] {
  const hints = tags.filter(([name]) => name === 'e' || name === 'p' || name === 'a');
  return [...new Set(hints.map(([, , url]) => url).filter(isUsable))].slice(0, MAX_RELAYS);
}

const isUsable = (url: string | undefined): url is string =>
  url !== undefined && url.length <= MAX_URL_LENGTH && isRelayUrl(url);
