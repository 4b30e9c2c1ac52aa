/** Relay addresses as people write them: trimmed, checked, each relay once. */
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
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isSocket = parsed?.protocol === 'ws:' || parsed?.protocol === 'wss:';
  if (!isSocket || url.includes('#')) {
    throw new ConfigError('relay/bad-url', `not a relay address: ${JSON.stringify(url)}`, {
      hint: HINT,
      data: { url },
    });
  }
  return parsed.href;
}
