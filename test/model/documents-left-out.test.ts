/** No batch reads a document that a round leaves out. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { holdData, tokenizers } from 'nostrain/model';
import { expect, it } from 'vitest';
import { openCorpus } from '../../src/node/data/corpus.ts';
import { openTokens } from '../../src/node/data/token-file.ts';
import { builtInForm, prepareTokens } from '../../src/node/data/token-parts.ts';
import { temporaryFolder } from '../support/processes.ts';

const folder = temporaryFolder();
const { signal } = new AbortController();
const onNotice = () => undefined;
const CONTEXT = 8;
const DOCUMENTS = 40;

/** Returns the shard of a corpus whose document i repeats one letter. */
async function shardOf(index: number, form: 'contiguous' | 'interleaved') {
  const lines = Array.from({ length: DOCUMENTS }, (_, i) => {
    return `${JSON.stringify({ text: String.fromCharCode(65 + i).repeat(20) })}\n`;
  });
  const bytes = new TextEncoder().encode(lines.join(''));
  const file = { name: 'notes.jsonl', bytes };
  const options = { cacheDir: folder, allowDownload: false, onNotice, signal };
  const corpus = await openCorpus({ file, ...options });
  const where = join(folder, `${form}-${index}`);
  mkdirSync(where);
  const how = { context: CONTEXT, shard: { index, count: 2 }, form, onNotice, signal };
  return prepareTokens(corpus, builtInForm(tokenizers.bytes), { ...how, folder: where });
}

it.each(['contiguous', 'interleaved'] as const)(
  'N-68: in a %s shard, rows move off the documents, and all others are still read',
  async (form) => {
    for (const index of [1, 2]) {
      const { data } = await shardOf(index, form);
      const holder = { model: 'gpt', openStored: openTokens };
      const held = holdData({ kind: 'tokens', context: CONTEXT, vocabulary: 256 }, data, holder);
      const all = Int32Array.from({ length: held.bound('shard') }, (_, row) => row);
      const reader = openTokens(data.shard);
      const readBy = (rows: Int32Array) =>
        new Set([...rows].flatMap((row) => [...reader.tokens(row, row + CONTEXT + 1)]));
      const before = readBy(held.offsetsOf('shard', all));
      const inShard = [...data.documents!.keys()];
      const without = [inShard[0]!, inShard[3]!, inShard[4]!, inShard.at(-1)!];
      const after = readBy(held.offsetsOf('shard', all, without));
      const lost = [...before].filter((token) => !after.has(token));
      expect(lost.sort()).toEqual(without.map((at) => 65 + at).sort());
      // documents of other shards change nothing
      const others = Array.from({ length: DOCUMENTS }, (_, i) => i).filter(
        (at) => !inShard.includes(at),
      );
      expect(held.offsetsOf('shard', all, others)).toEqual(all);
      expect(() => held.offsetsOf('shard', all, inShard)).toThrow('the authors deleted the notes');
      const { documents: _, ...plain } = data;
      const unknown = holdData(
        { kind: 'tokens', context: CONTEXT, vocabulary: 256 },
        plain,
        holder,
      );
      expect(() => unknown.offsetsOf('shard', all, [0])).toThrow('where its notes are');
    }
  },
);
