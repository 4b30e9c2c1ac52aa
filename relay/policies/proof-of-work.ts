/** Refuses an id with too few leading zero bits, or one whose author committed to fewer (NIP-13). */
import type { Arrival } from '../event.ts';
import type { Policy } from './policy.ts';

/** Leading zero bits of a hex id. */
function zeroBits(id: string): number {
  const zeros = /^0*/.exec(id)![0].length;
  const digit = id[zeros];
  return zeros * 4 + (digit === undefined ? 0 : Math.clz32(Number.parseInt(digit, 16)) - 28);
}

export const proofOfWork = (
  { id, tags }: Pick<Arrival, 'id' | 'tags'>,
  { limits }: { readonly limits: { readonly minPow: number } },
): ReturnType<Policy> => {
  const { minPow } = limits;
  if (minPow === 0) return undefined;
  const bits = zeroBits(id);
  if (bits < minPow) return { prefix: 'pow', message: `difficulty ${bits} is less than ${minPow}` };
  const target = tags.find((tag) => tag[0] === 'nonce')?.[2];
  return Number(target) >= minPow
    ? undefined
    : { prefix: 'pow', message: `the nonce tag does not commit to ${minPow} bits` };
};
