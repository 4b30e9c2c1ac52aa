/** The relays this one can behave like, so that what works here works there. */
import { nostrRsRelay } from './nostr-rs-relay.ts';
import { nostream } from './nostream.ts';
import type { Profile } from './profile.ts';
import { strfry } from './strfry.ts';

export const profiles = {
  strfry,
  'nostr-rs-relay': nostrRsRelay,
  nostream,
} satisfies Record<string, Profile>;

export type ProfileName = keyof typeof profiles;
