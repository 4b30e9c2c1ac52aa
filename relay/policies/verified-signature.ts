/** Refuses an event whose id or signature is wrong. The costly policy: keep it last. */
import { findForgery } from '../event.ts';
import type { Policy } from './policy.ts';

export const verifiedSignature: Policy = (event) => {
  const message = findForgery(event);
  return message === undefined ? undefined : { prefix: 'invalid', message };
};
