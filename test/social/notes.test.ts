/** A corpus of notes: the same for every reader, without what its authors deleted, and refused if anything is altered. */
import { readFile } from 'node:fs/promises';
import { createSigner, type SignedEvent } from 'nostrain/network';
import { createRelay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import {
  defineNotes,
  deletedNotes,
  parseNotes,
  rebuildNotes,
  writeNotes,
} from '../../src/social/notes.ts';
import { runCommand } from '../support/command-line.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const inFolder = temporaryFolder();
const [anna, bea] = [1, 2].map((byte) => createSigner(new Uint8Array(32).fill(byte))) as [
  ReturnType<typeof createSigner>,
  ReturnType<typeof createSigner>,
];
const START = 1_780_000_000;
const post = (
  signer: typeof anna,
  content: string,
  at: number,
  rest: Partial<SignedEvent> = {},
): SignedEvent => signer.sign({ kind: 1, created_at: START + at, content, tags: [], ...rest });
const notes = [post(anna, 'one', 1), post(bea, 'two', 2), post(anna, 'three ', 3)];
const remove = (signer: typeof anna, tags: string[][], at = 10, kind = 5) =>
  post(signer, '', at, { kind, tags });

describe('a corpus of notes', () => {
  it('N-67: is the same in any order of events, and lists its authors', () => {
    const { corpus, text } = defineNotes(notes, [1]);
    expect(text).toBe('{"text":"one"}\n{"text":"two"}\n{"text":"three"}\n');
    const plain = defineNotes(notes, [1], 'plain');
    expect(plain.text).toBe('one\n\ntwo\n\nthree\n\n');
    expect(rebuildNotes(plain.corpus, notes)).toMatchObject({ ok: true, value: plain });
    expect(defineNotes([...notes, ...notes].reverse(), [1]).corpus).toEqual(corpus);
    expect(corpus.authors.map(({ notes: count }) => count).sort()).toEqual([1, 2]);
    const parsed = parseNotes(writeNotes(corpus));
    expect(parsed.ok && parsed.value).toEqual(corpus);
    expect(rebuildNotes(corpus, [...notes].reverse())).toMatchObject({ ok: true, value: { text } });
  });

  it('N-67: leaves out what its author deleted or vanished with, and nothing that another key names', () => {
    const texts = (...more: SignedEvent[]) => defineNotes([...notes, ...more], [1], 'plain').text;
    expect(texts(remove(anna, [['e', notes[0]!.id]]))).toBe('two\n\nthree\n\n');
    expect(texts(remove(bea, [['e', notes[0]!.id]]))).toBe('one\n\ntwo\n\nthree\n\n');
    expect(texts(remove(anna, [['relay', 'ALL_RELAYS']], 2, 62))).toBe('two\n\nthree\n\n');
    const old = post(anna, 'draft', 4, { kind: 30_023, tags: [['d', 'x']] });
    const article = post(anna, 'article', 5, { kind: 30_023, tags: [['d', 'x']] });
    expect(defineNotes([article, old], [30_023], 'plain').text).toBe('article\n\n');
    const gone = remove(anna, [['a', `30023:${anna.publicKey}:x`]]);
    const { corpus } = defineNotes([article, ...notes], [1, 30_023]);
    expect(deletedNotes(corpus, [gone])).toEqual([3]);
    expect(deletedNotes(corpus, [remove(bea, [['a', `30023:${anna.publicKey}:x`]])])).toEqual([]);
    expect(deletedNotes(corpus, [remove(bea, [['e', notes[0]!.id]])])).toEqual([]);
    expect(deletedNotes(corpus, [remove(anna, [], 3, 62)])).toEqual([0, 2]);
  });

  it('N-67: that lacks a note, or whose definition is altered, is refused', () => {
    const { corpus } = defineNotes(notes, [1]);
    expect(rebuildNotes(corpus, notes.slice(1))).toMatchObject({ ok: false });
    expect(rebuildNotes({ ...corpus, text: 'a'.repeat(64) }, notes)).toMatchObject({ ok: false });
    const reversed = { ...corpus, notes: [...corpus.notes].reverse() };
    expect(parseNotes(writeNotes(reversed))).toMatchObject({ ok: false });
    const [first, ...others] = corpus.notes;
    const stolen = { ...corpus, notes: [{ ...first!, pubkey: bea.publicKey }, ...others] };
    expect(parseNotes(writeNotes(stolen))).toMatchObject({ ok: false });
    expect(parseNotes('{}')).toMatchObject({ ok: false });
    expect(parseNotes('x'.repeat(9 << 20))).toMatchObject({ ok: false });
    const twice = { ...corpus, notes: [first!, first!] };
    expect(parseNotes(writeNotes(twice))).toMatchObject({ ok: false });
  });
});

describe('nostrain corpus', () => {
  it('N-67: defines a corpus, and a second reader fetches the same text and hears of deletions', async () => {
    const relay = await createRelay();
    await publishRaw(relay.url, notes);
    const [definition, first, second] = ['notes.json', 'a.txt', 'b.txt'].map((name) =>
      inFolder(name),
    );
    const reading = ['--relay', relay.url];
    const authors = ['--authors', anna.publicKey, '--authors', bea.publicKey, '--kinds', '1'];
    const defined = await runCommand(
      'corpus',
      'nostr',
      ...authors,
      ...reading,
      '-o',
      definition!,
      '--text',
      first!,
    );
    expect(defined.exitCode, defined.stderr).toBe(0);
    const fetched = await runCommand('corpus', 'fetch', definition!, ...reading, '--text', second!);
    expect(fetched).toMatchObject({ exitCode: 0, stdout: defined.stdout });
    expect(await readFile(second!, 'utf8')).toBe(await readFile(first!, 'utf8'));
    await publishRaw(relay.url, [remove(anna, [['e', notes[0]!.id]])]);
    const after = await runCommand('corpus', 'fetch', definition!, ...reading, '--text', second!);
    expect(after.exitCode).toBe(1);
    expect(after.stderr).toContain('1 of 3 notes are missing');
    await relay.close();
  });
});
