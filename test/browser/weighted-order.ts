/** R-03 as a function of nothing but a count, for any engine: draws all of so many (key, weight) pairs and digests their order. */
import { concatBytes, createSha256, fromHex, sha256, toHex, u32, utf8 } from 'nostrain/base';
import { bestOf, createCandidates, drawLots, type Weighted } from 'nostrain/consensus';

/** SHA-256 over the keys in the order of their draw. */
export function run(count: number): string {
  const members = Array.from({ length: count }, (_, i) => pair(i));
  const lots = drawLots(createCandidates(members), sha256(utf8('order')));
  const digest = createSha256();
  for (const { key } of bestOf(lots, 3, count)) digest.update(fromHex(key)!);
  return toHex(digest.digest());
}

/** Weights from 1 to 2^128, as many small as large. */
function pair(index: number): Weighted {
  const key = toHex(sha256(concatBytes(utf8('pair'), u32(index))));
  const drawn = toHex(sha256(concatBytes(utf8('weight'), u32(index))).subarray(0, 16));
  return { key, weight: (BigInt(`0x${drawn}`) >> BigInt(index % 128)) | 1n };
}
