/** Refuses kinds this relay was not opened for. */
import type { Policy } from './policy.ts';

export const allowedKinds: Policy = ({ kind }, { limits }) =>
  limits.kinds && !limits.kinds.includes(kind)
    ? { prefix: 'blocked', message: `kind ${kind} is not accepted here` }
    : undefined;
