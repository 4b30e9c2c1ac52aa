/** Warns before a run without a spec in which strangers may take part. */
import { isLoopbackRelay, isRelayUrl } from '../../network/transport/relay-urls.ts';
import type { Settings } from '../../run/settings.ts';

/** Returns what strangers can do and which flag prevents it; undefined if `--peers` or loopback keeps them out. */
export function strangersWarning({
  peers,
  relay,
}: Pick<Settings, 'peers' | 'relay'>): string | undefined {
  const isReachable = relay.some((url) => isRelayUrl(url) && !isLoopbackRelay(url));
  if (peers.length > 0 || !isReachable) return undefined;
  return (
    'warning: anyone who knows the relay and the name of this run can take part and ruin the ' +
    'model with harmful updates; to count only your own workers, start each with ' +
    '--peers npub1…,npub1…'
  );
}
