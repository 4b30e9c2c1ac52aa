/** Refuses an event with too many tags or too long a tag value. */
import type { Policy } from './policy.ts';

export const tagLimits: Policy = ({ tags }, { limits }) => {
  if (tags.length > limits.maxTags) {
    return { prefix: 'invalid', message: `too many tags: ${tags.length} > ${limits.maxTags}` };
  }
  for (const tag of tags) {
    for (const item of tag) {
      const bytes = Buffer.byteLength(item);
      if (bytes > limits.maxTagValueBytes) {
        return {
          prefix: 'invalid',
          message: `tag value too long: ${bytes} bytes > ${limits.maxTagValueBytes}`,
        };
      }
    }
  }
  return undefined;
};
