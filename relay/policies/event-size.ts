/** Refuses an event whose JSON is larger than the limit. */
import type { Policy } from './policy.ts';

export const eventSize: Policy = ({ json }, { limits }) =>
  json.length > limits.maxEventBytes
    ? {
        prefix: 'invalid',
        message: `event too large: ${json.length} bytes, the limit is ${limits.maxEventBytes}`,
      }
    : undefined;
