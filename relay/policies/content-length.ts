/** Refuses content of too many characters. */
import type { Policy } from './policy.ts';

export const contentLength: Policy = ({ content }, { limits }) =>
  limits.maxContentLength !== undefined && content.length > limits.maxContentLength
    ? {
        prefix: 'invalid',
        code: 'too-long',
        message: `content too large: ${content.length} characters > ${limits.maxContentLength}`,
      }
    : undefined;
