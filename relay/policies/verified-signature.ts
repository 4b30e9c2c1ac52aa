/** Refuses an event whose id or signature is wrong. The costly policy: keep it last. */
import { findForgery } from '../event.ts';
import type { Policy } from './policy.ts';

export const verifiedSignature: Policy = (event) => {
  const code = findForgery(event);
  if (code === undefined) return undefined;
  const message = code === 'wrong-id' ? 'id does not match the event' : 'signature does not verify';
  return { prefix: 'invalid', code, message };
};
