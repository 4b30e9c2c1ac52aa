/** Relay addresses as people write them: trimmed, checked, each relay once; whose they are, and what of them others may see. */
import { ConfigError } from '../../base/errors.ts';

const HINT = 'give one or more ws:// or wss:// addresses, for example ws://127.0.0.1:7777';

/** The addresses in order, without repeats; throws a `ConfigError` that names a wrong one. */
export function parseRelayUrls(urls: readonly string[]): readonly string[] {
  const byTarget = new Map<string, string>();
  for (const url of urls.map((text) => text.trim()).filter((text) => text !== '')) {
    const target = targetOf(url);
    if (!byTarget.has(target)) byTarget.set(target, url);
  }
  if (byTarget.size === 0) {
    throw new ConfigError('relay/no-url', 'no relay was given', { hint: HINT });
  }
  return [...byTarget.values()];
}

function targetOf(url: string): string {
  if (!isRelayUrl(url)) {
    throw new ConfigError(
      'relay/bad-url',
      `not a relay address: ${JSON.stringify(withoutSecrets(url))}`,
      {
        hint: HINT,
        data: { url: withoutSecrets(url) },
      },
    );
  }
  return new URL(url).href;
}

/** Whether a WebSocket could be opened there. */
export const isRelayUrl = (url: string): boolean =>
  /^wss?:/i.test(url) && URL.canParse(url) && !url.includes('#');

/**
 * The address as others may see it, in events, errors and logs: without user, password, query and fragment, any of which may be a
 * secret. What has none of them stays as it was written.
 */
export function withoutSecrets(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url?.host) {
    return text.replace(/^((?:ws|http)s?:)?.*@/is, '$1//').replace(/[?#].*$/s, '');
  }
  const { protocol, host, pathname, username, password } = url;
  const isBare = username === '' && password === '' && !/[?#@]/.test(text);
  return isBare ? text : `${protocol}//${host}${pathname}`;
}

/** The same of several relays, each with a name of its own. */
export function namesOf(urls: readonly string[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const url of urls) {
    const name = withoutSecrets(url);
    names.set(names.has(name) ? `${name}#${names.size + 1}` : name, url);
  }
  return names;
}

/** Loopback, private and link-local IPv4 (RFC 1918, RFC 3927). */
const PRIVATE_IPV4 = /^(?:127|10|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))\./;
/** The same of IPv6 (RFC 4193, RFC 4291). */
const PRIVATE_IPV6 = /^\[(?:::1|f[cd][0-9a-f]{2}:.*|fe[89ab][0-9a-f]:.*)\]$/;
const LOCAL_NAME = /^localhost$|\.(?:localhost|local)$/;

/** Whether the address is on this machine or in its own network: a relay of ours or a friend's, not a public one. */
export function isPrivateRelay(url: string): boolean {
  const { hostname } = new URL(url);
  if (/^[\d.]+$/.test(hostname)) return PRIVATE_IPV4.test(hostname);
  return PRIVATE_IPV6.test(hostname) || LOCAL_NAME.test(hostname);
}
