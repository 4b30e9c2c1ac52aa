/** Where a run's text and base are in chunks, in its spec: read within bounds, and of nothing that the run does not need. */

import { canonicalSpec, parseRunSpec } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { sampleDocument, sampleSpec } from '../support/run-spec.ts';

const hex = (digit: string) => digit.repeat(64);
const data = { kind: 'corpus', sha256: hex('a'), bytes: 5000, form: 'interleaved', shards: 2 };
const text = { name: 'text.txt', bytes: 5000, sha256: hex('a'), blake3: hex('b'), manifest: hex('c') }; // biome-ignore format: one file
const at = ['https://blossom.example.org', 'wss://relay.example.org'];
const training = { model: 'gpt' };
const spec = (files: unknown) => sampleSpec({ training, data, files, features: ['files'] });

describe('the section `files` of a spec', () => {
  it('names the text of the run and the places, and is a feature', () => {
    const read = spec({ at, each: [text] });
    expect(read.files).toEqual({ at, each: [text] });
    expect(JSON.parse(canonicalSpec(read))).toMatchObject({ features: ['files'] });
    expect(sampleSpec({ training, data }).files).toBeNull();
    expect(spec({ at: [], each: [text] }).files!.at).toEqual([]);
  });

  it.each<[string, unknown, RegExp]>([
    ['nothing', {}, /^files\.at is missing/],
    ['more', { at, each: [text], more: 1 }, /^files\.more is unknown/],
    ['no file', { at, each: [] }, /^files\.each is \[\]; it must be a list of 1 to 1024/],
    ['one twice', { at, each: [text, text] }, /^files\.each is .*each once/],
    ['no object', { at, each: [1] }, /^files\.each\.0 is 1; it must be an object/],
    ['a place twice', { at: [at[0], at[0]], each: [text] }, /^files\.at is .*ascending/],
    ['another order', { at: [...at].reverse(), each: [text] }, /^files\.at is .*ascending/],
    ['a folder', { at: ['/etc'], each: [text] }, /^files\.at is \["\/etc"\]; it must be/],
    ['a user', { at: ['https://a:b@c.example'], each: [text] }, /^files\.at is/],
    ['a query', { at: ['https://c.example/?a=1'], each: [text] }, /^files\.at is/],
    ['a path', { at, each: [{ ...text, name: '../key' }] }, /^files\.each\.0\.name is/],
    ['no length', { at, each: [{ ...text, bytes: 0 }] }, /^files\.each\.0\.bytes is 0/],
    ['2^40 bytes', { at, each: [{ ...text, bytes: 2 ** 40 }] }, /^files\.each\.0\.bytes is 1099511627776; it must be at most 68719476736/], // biome-ignore format: one case
    [
      'another hash',
      { at, each: [{ ...text, manifest: 'x' }] },
      /^files\.each\.0\.manifest is "x"/,
    ],
    ['what nobody needs', { at, each: [{ ...text, sha256: hex('d') }] }, /files\.each.*each is the text of data, the manifest of sealed, or a file of start/], // biome-ignore format: one case
    ['a file beside no base', { at, each: [{ ...text, name: 'tokenizer_config.json', sha256: hex('d') }] }, /files\.each.*each is the text/], // biome-ignore format: one case
  ])('is refused with %s', (_, files, words) => {
    const document = sampleDocument({ training, data, files, features: ['files'] });
    expect(() => parseRunSpec(JSON.stringify(document))).toThrow(words);
  });
});
