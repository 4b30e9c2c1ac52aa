/** Corpora as tokens in files: the same tokens as in memory, whole documents, what cannot be used by its line, and little memory. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { shardText, splitText, type TokenPart, tokenizers, writePlay } from 'nostrain/model';
import { openCorpus } from 'nostrain/node/parts';
import { describe, expect, test } from 'vitest';
import { openTokens } from '../../../src/node/data/token-file.ts';
import {
  builtInForm,
  type PrepareTokens,
  prepareTokens,
} from '../../../src/node/data/token-parts.ts';
import {
  type CorpusForm,
  type CorpusSource,
  tokenizeCorpus,
  usualLimits,
} from '../../../src/node/data/tokenize.ts';
import { readInPieces } from '../../../src/node/files/atomic-file.ts';
import { createTokenizer } from '../../../src/pretrained/tokenizer.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { tinyTokenizer } from '../../support/tiny-llama.ts';

const at = temporaryFolder();
const play = writePlay({ minimumBytes: 60_000 });
const published = createTokenizer(
  { tokenizer: tinyTokenizer(['t h', 'th e', 'Ġ the']), config: {} },
  { name: 'tiny', vocabulary: 260 },
);
const tiny: CorpusForm = {
  ...{ tokenizer: published, begin: [], end: [10], special: new Set([259]), hash: 'tiny' },
};
const chatml = `{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`;
const withChat = { ...tiny, chat: { template: chatml, config: {} } };
const notices: string[] = [];

const corpus = async (name: string, content: string | Uint8Array) => {
  await writeFile(at(name), content);
  return await openCorpus({
    ...{ file: at(name), cacheDir: at('cache'), allowDownload: false },
    onNotice: (message) => notices.push(message),
  });
};
const usual = (): PrepareTokens => ({
  ...{ context: 32, shard: { index: 1, count: 1 }, form: 'interleaved', folder: at('cache') },
  onNotice: (message) => notices.push(message),
});
const all = (part: TokenPart) => {
  const reader = openTokens(part);
  const [tokens, counted] = [reader.tokens(0, reader.length), reader.counted(0, reader.length)];
  reader.close();
  return { tokens: [...tokens], counted: [...counted] };
};
const lines = (documents: readonly unknown[]) =>
  documents.map((document) => JSON.stringify(document)).join('\n');

describe('a text', () => {
  test.each(['interleaved', 'contiguous'] as const)(
    'from a file in small pieces has the tokens and %s shards that it has in memory',
    async (form) => {
      const source = await corpus('play.txt', play);
      const whole = published.encode(play).tokens;
      const { training, validation } = splitText(whole, { context: 32 });
      const limits = { ...usualLimits, buffer: 100, inMemory: 0 };
      for (const index of [1, 2, 3]) {
        const shard = { index, count: 3 };
        const prepared = await prepareTokens(source, tiny, { ...usual(), shard, form, limits });
        const { data } = prepared;
        expect('file' in data.shard && 'file' in data.validation).toBe(true);
        expect(all(data.shard).tokens).toEqual([
          ...shardText(training, shard, { form, context: 32 }),
        ]);
        expect(all(data.validation).tokens).toEqual([...validation]);
        const text = published.decode(validation);
        expect(prepared.bytesPerToken).toBeCloseTo(text.length / validation.length, 9);
      }
    },
  );

  test('is made into tokens once for each tokenizer', async () => {
    const source = await corpus('play.txt', play);
    let read = 0;
    const counted: CorpusSource = {
      ...source,
      read: () => {
        read++;
        return source.read();
      },
    };
    const folder = at('cache');
    const options = { folder, onNotice: () => {} };
    const first = await tokenizeCorpus(counted, tiny, options);
    expect(await tokenizeCorpus(counted, tiny, options)).toEqual(first);
    expect(read).toBe(1);
    await tokenizeCorpus(counted, { ...tiny, hash: 'other' }, options);
    expect(read).toBe(2);
    // a file that was cut off is made again
    await writeFile(first.ids, new Uint8Array(4));
    expect(await tokenizeCorpus(counted, tiny, options)).toEqual(first);
    expect(read).toBe(3);
    expect((await readdir(folder)).filter((name) => /-.*-/.test(name))).toEqual([]);
  });

  test('of characters or bytes is the same from a file as from memory', async () => {
    const source = await corpus('play.txt', `${new TextDecoder().decode(play)} dö ~ 😀`);
    for (const tokenizer of [tokenizers.chars, tokenizers.bytes]) {
      const form = builtInForm(tokenizer);
      const file = await tokenizeCorpus(source, form, { ...usual(), folder: at('cache') });
      const ids = new Int32Array((await readFile(file.ids)).buffer.slice(0));
      const expected = tokenizer.encode(await readFile(at('play.txt')));
      expect([...ids.subarray(0, file.tokens)]).toEqual([...expected.tokens]);
      expect(file.replaced).toBe(expected.replaced);
    }
  });

  test('is never in memory as a whole', async () => {
    const source = await corpus('play.txt', play);
    const { size } = source;
    let [behind, most, given] = [0, 0, 0];
    const form: CorpusForm = {
      ...tiny,
      hash: 'watched',
      tokenizer: {
        ...published,
        encode: (text) => {
          behind -= text.length;
          return published.encode(text);
        },
      },
    };
    async function* slowly() {
      for await (const piece of readInPieces(at('play.txt'))) {
        for (let from = 0; from < piece.length; from += 1000) {
          const part = piece.subarray(from, from + 1000);
          given += part.length;
          behind += part.length;
          most = Math.max(most, behind);
          yield part;
        }
      }
    }
    const many: CorpusSource = {
      ...source,
      read: async function* () {
        for (let i = 0; i < 20; i++) yield* slowly();
      },
    };
    const options = { ...usual(), limits: { ...usualLimits, buffer: 500 } };
    const file = await tokenizeCorpus(many, form, options);
    expect(given).toBe(20 * size);
    expect(file.tokens).toBeGreaterThan(5 * size);
    expect(most).toBeLessThan(2 ** 16 + 4000);
  });

  test('that has no place to be cut is refused beyond a bound', async () => {
    const source = await corpus('one.txt', 'a'.repeat(300_000));
    const limits = { ...usualLimits, whole: 100_000 };
    await expect(prepareTokens(source, tiny, { ...usual(), limits })).rejects.toMatchObject({
      code: 'corpus/whole',
    });
  });
});

const documents = Array.from({ length: 60 }, (_, i) => ({
  prompt: `Question ${i}: what is the double of ${i}?\n`,
  completion: `The double of ${i} is ${2 * i}, as everybody knows.`,
}));
const ended = (text: string) => [...published.encode(text).tokens, 10];

describe('documents', () => {
  test('are dealt whole, and of completions only those count', async () => {
    const source = await corpus('some.jsonl', lines(documents));
    const parts = await Promise.all(
      [1, 2, 3].map((index) =>
        prepareTokens(source, tiny, { ...usual(), shard: { index, count: 3 } }),
      ),
    );
    // the last tenth of the tokens, which are more in later ones, from the next beginning of one on
    const held = 55;
    parts.forEach(({ data }, k) => {
      const own = documents.slice(0, held).filter((_, i) => i % 3 === k);
      const { tokens, counted } = all(data.shard);
      expect(tokens).toEqual(
        own.flatMap(({ prompt, completion }) => [
          ...published.encode(prompt).tokens,
          ...ended(completion),
        ]),
      );
      const learnt = tokens.filter((_, i) => counted[i] === 1);
      expect(learnt).toEqual(own.flatMap(({ completion }) => ended(completion)));
    });
    const { tokens } = all(parts[0]!.data.validation);
    expect(published.decode(tokens)).toContain('Question 55:');
    expect(published.decode(tokens)).not.toContain('Question 54:');
  });

  test('of many are dealt in groups of neighbours', async () => {
    const many = Array.from({ length: 70_000 }, (_, i) => ({ text: `${i % 10}` }));
    const source = await corpus('many.jsonl', lines(many));
    const file = await tokenizeCorpus(source, tiny, usual());
    expect(file.documents).toBe(70_000);
    expect(file.stops).toHaveLength(35_000);
    expect(file.stops.slice(0, 2)).toEqual([4, 8]);
    expect(file.counted).toBeUndefined();
  });

  test('that are conversations go through the template', async () => {
    const talks = documents.map(({ prompt, completion }) => ({
      messages: [
        { role: 'user', content: prompt },
        { role: 'assistant', content: completion },
      ],
    }));
    const source = await corpus('talks.jsonl', lines(talks));
    const { data, bytesPerToken } = await prepareTokens(source, withChat, usual());
    const { tokens, counted } = all(data.shard);
    expect(published.decode(tokens)).toContain(
      '<user>Question 0: what is the double of 0?\n\n<assistant>The double of 0 is 0, as everybody knows.\n',
    );
    const learnt = published.decode(tokens.filter((_, i) => counted[i] === 1));
    expect(learnt.split('\n')[1]).toBe('The double of 1 is 2, as everybody knows.');
    expect(learnt).not.toContain('Question');
    expect(bytesPerToken).toBe(1);
    await expect(prepareTokens(source, tiny, usual())).rejects.toThrow(
      /line 1 of .*talks\.jsonl cannot be used: it has messages, and the model has no chat template/,
    );
  });

  test.each<[string, string, string]>([
    ['no JSON', '{"text": ', 'line 41 of'],
    ['another form', '{"question": "a"}', 'line 41 of'],
    ['no assistant', '{"messages": [{"role": "user", "content": "a"}]}', 'line 41 of'],
    [
      'a turn that the template refuses',
      '{"messages": [{"role": "assistant", "content": "a"}]}',
      'line 41 of',
    ],
    ['a line without end', `{"text": "${'a'.repeat(5000)}"}`, 'is longer than 4000 bytes'],
    ['bytes that are not UTF-8', '\xff', 'is not UTF-8'],
  ])('with %s are refused by their line', async (_, line, reason) => {
    const good = lines(documents.slice(0, 40));
    const source = await corpus('bad.jsonl', Buffer.from(`${good}\n${line}\n`, 'latin1'));
    const template = `{% if messages[0].role != 'user' %}{{ raise_exception('a user begins') }}{% endif %}${chatml}`;
    const form = { ...tiny, chat: { template, config: {} } };
    const limits = { ...usualLimits, line: 4000 };
    const failed = prepareTokens(source, form, { ...usual(), limits });
    await expect(failed).rejects.toMatchObject({ code: 'corpus/line', data: { line: 41 } });
    await expect(failed).rejects.toThrow(reason);
    expect(await readdir(at('cache')).catch(() => [])).toEqual([]);
  });

  test('of one line, or with nothing that counts in a part, are refused', async () => {
    const one = await corpus('one.jsonl', JSON.stringify({ text: 'a'.repeat(2000) }));
    await expect(prepareTokens(one, tiny, usual())).rejects.toThrow('only one line');
    const two = lines([{ text: 'a'.repeat(3000) }, { prompt: 'b'.repeat(400), completion: 'c' }]);
    const source = await corpus('two.jsonl', two);
    const { data } = await prepareTokens(source, tiny, usual());
    expect(all(data.validation).counted.reduce<number>((sum, mark) => sum + mark, 0)).toBe(2);
    const shard = { index: 2, count: 2 };
    await expect(prepareTokens(source, tiny, { ...usual(), shard })).rejects.toMatchObject({
      code: 'data/too-small',
    });
  });
});

describe('a hostile template', () => {
  const long = (body: string) => `{% for a in range(60000) %}${body}{% endfor %}`;
  test.each([
    ['never ends', long(long('{% set x = a %}')), 'takes more than 1 second'],
    ['grows', `{% set ns = namespace(x=[1]) %}${long('{% set ns.x = ns.x + ns.x %}')}`, 'template'],
  ])('that %s is ended', async (_, template, reason) => {
    const { createChatRenderer } = await import('../../../src/node/data/chat-renderer.ts');
    const renderer = createChatRenderer({ template, config: {} }, 1);
    const asked = renderer.render([[{ role: 'assistant', content: 'a' }]]);
    const outcome = await asked.then(
      (answer) => JSON.stringify(answer),
      (error: Error) => error.message,
    );
    expect(outcome).toContain(reason);
    await renderer.close();
  });
});
