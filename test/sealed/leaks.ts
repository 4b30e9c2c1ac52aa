/** Finds parts of secret data in written bytes. */
import { tokenizers } from 'nostrain/model';

/** Bytes in a row that count as a leak. */
const LEAK = 16;

/** Forms in which 16 bytes may be written, each with the number of bytes that it takes. */
function needles(data: string): Readonly<Record<string, readonly [length: number, Set<string>]>> {
  const bytes = Buffer.from(data, 'latin1');
  const tokens = tokenizers.chars.encode(data).tokens;
  const int32 = Buffer.from(Int32Array.from(tokens).buffer);
  const starts = Array.from({ length: bytes.length - LEAK + 1 }, (_, i) => i);
  const each = (of: (start: number) => string) => new Set(starts.map(of));
  return {
    raw: [LEAK, each((i) => bytes.toString('latin1', i, i + LEAK))],
    hex: [2 * LEAK, each((i) => bytes.toString('hex', i, i + LEAK))],
    // 15 of 16 bytes from any position fall into whole groups of three
    base64: [16, each((i) => bytes.toString('base64', i, i + 12))],
    tokens: [LEAK, each((i) => Buffer.from(tokens.slice(i, i + LEAK)).toString('latin1'))],
    int32: [4 * LEAK, each((i) => int32.toString('latin1', 4 * i, 4 * (i + LEAK)))],
  };
}

/** Returns how often parts of the data are in the bytes, by form; forms that do not occur are left out. */
export function countLeaks(written: Buffer, data: string): Readonly<Record<string, number>> {
  const text = written.toString('latin1');
  const counts: Record<string, number> = {};
  const lists = text.match(/(?:\d{1,3},){15}\d{1,3}/g) ?? [];
  const ids = Array.from(tokenizers.chars.encode(data).tokens).join();
  const listed = lists.filter((list) => `,${ids},`.includes(`,${list},`)).length;
  if (listed > 0) counts.list = listed;
  for (const [form, [length, parts]] of Object.entries(needles(data))) {
    let found = 0;
    for (let i = 0; i + length <= text.length; i++) {
      if (parts.has(text.substring(i, i + length))) found++;
    }
    if (found > 0) counts[form] = found;
  }
  return counts;
}
