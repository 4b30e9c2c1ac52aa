/** Refuses what needs a key that has not proved itself: all writing where AUTH is asked for (NIP-42), and protected events (NIP-70). */
import { isProtected } from '../event.ts';
import type { Policy } from './policy.ts';

export const authenticated: Policy = (event, { auth, keys }) => {
  if (auth !== 'none' && keys.size === 0) {
    return { prefix: 'auth-required', message: 'publishing here needs AUTH' };
  }
  if (!isProtected(event) || keys.has(event.pubkey)) return undefined;
  const message = 'this event may only be published by its author';
  return { prefix: keys.size === 0 ? 'auth-required' : 'restricted', code: 'protected', message };
};
