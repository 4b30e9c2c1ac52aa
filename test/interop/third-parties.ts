/** The relays that nobody here wrote. One line each. */
import { khatru } from './khatru/relay.ts';
import { nostrRelayJs } from './nostr-relay-js/relay.ts';
import { nostrRelayPython } from './nostr-relay-python/relay.ts';
import { nostrRsRelay } from './nostr-rs-relay/relay.ts';
import type { ThirdParty } from './third-party.ts';

export const thirdParties: readonly ThirdParty[] = [
  khatru,
  nostrRelayPython,
  nostrRelayJs,
  nostrRsRelay,
];
