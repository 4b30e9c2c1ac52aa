/** From a number of bytes to a packing: the richest that fits, known before anything is encoded. */
import { ConfigError } from '../../base/errors.ts';
import { type Packing, payloadBytesAtMost } from './codecs.ts';

/** Codecs that send every value, by how little of a delta's energy they leave, least first. */
const DENSE = ['int8', 'int4', 'q2', 'ternary'] as const;
/** Beyond two fifths of a chunk, one level for all that is sent loses more than the added values bring. */
const MOST_KEPT = 1638;

/**
 * The packing that leaves least behind of those that take at most `maxBytes` for this many chunks: a dense one if it fits,
 * else the signs of as many largest values as do. Throws when not even one value per chunk fits.
 */
export function choosePacking(maxBytes: number, chunks: number): Packing {
  const fits = (packing: Packing) => payloadBytesAtMost(packing, chunks) <= maxBytes;
  for (const codec of DENSE) {
    const packing = { codec, kept: 0 };
    if (fits(packing)) return packing;
  }
  let [kept, beyond] = [0, MOST_KEPT + 1];
  while (beyond - kept > 1) {
    const middle = (kept + beyond) >>> 1;
    if (fits({ codec: 'topk-sign', kept: middle })) kept = middle;
    else beyond = middle;
  }
  if (kept > 0) return { codec: 'topk-sign', kept };
  const least = payloadBytesAtMost({ codec: 'topk-sign', kept: 1 }, chunks);
  throw new ConfigError('codec/budget', `${maxBytes} bytes cannot hold ${chunks} chunks`, {
    hint: `allow at least ${least} bytes per payload, or let each worker own less`,
  });
}

/** Raw bytes of payload in an event of this many bytes that has `envelopeBytes` beside its base64. */
export const payloadBudget = (eventBytes: number, envelopeBytes: number): number =>
  Math.max(0, 3 * Math.floor((eventBytes - envelopeBytes) / 4));
