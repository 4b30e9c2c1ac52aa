/** Comments of other clients and of hostile ones, as the run page takes them in. */
import { readFileSync } from 'node:fs';
import { createSigner, type SignedEvent, verifyEvent } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import { readComments } from '../../src/social/comments.ts';
import { takesZaps } from '../../src/social/zaps.ts';

const file = new URL('../vectors/social/comments.json', import.meta.url);
const recorded = JSON.parse(readFileSync(file, 'utf8'));
const { run, applesauce, ndk } = recorded;
const address = `37810:${run.pubkey}:${'ab'.repeat(32)}`;
const signer = createSigner(new Uint8Array(32).fill(9));

const comment = (content: string, at = 1, tags: readonly string[][] = []): SignedEvent =>
  signer.sign({
    kind: 1111,
    created_at: at,
    content,
    tags: [['A', address], ['K', '37810'], ['a', address], ['k', '37810'], ...tags],
  });

describe('comments', () => {
  it('N-62: of applesauce and NDK are read, oldest first, with what they answer', () => {
    const events: SignedEvent[] = [ndk.comment, applesauce.reply, applesauce.comment];
    for (const event of events) expect(verifyEvent(event).ok).toBe(true);
    const comments = readComments(address, events);
    expect(comments.map(({ text }) => text)).toEqual([
      'How long does a round take?',
      'About a minute.',
      'A comment made with NDK',
    ]);
    expect(comments.map(({ answers }) => answers)).toEqual([
      undefined,
      applesauce.comment.id,
      undefined,
    ]);
    expect(takesZaps(ndk.profile)).toBe(true);
  });

  it('N-62: on something else, without a parent or empty are ignored', () => {
    const other = `37810:${run.pubkey}:${'cd'.repeat(32)}`;
    expect(readComments(other, [applesauce.comment])).toEqual([]);
    const bare = signer.sign({
      kind: 1111,
      created_at: 1,
      content: 'x',
      tags: [
        ['A', address],
        ['K', '37810'],
      ],
    });
    expect(readComments(address, [bare, comment('  '), ndk.deletion])).toEqual([]);
  });

  it('N-62: that flood, are huge or turn text around are cut', () => {
    const spam = comment('spam');
    const flood = Array.from({ length: 50 }, (_, i) => {
      return { ...spam, content: `spam ${i}`, created_at: i };
    });
    expect(readComments(address, flood).map(({ text }) => text)).toEqual(
      Array.from({ length: 10 }, (_, i) => `spam ${40 + i}`),
    );
    const [huge] = readComments(address, [comment('a'.repeat(500_000))]);
    expect(huge!.text.length).toBe(2001);
    const [turned] = readComments(address, [comment('pay \u202e1 sat\u2069')]);
    expect(turned!.text).toBe('pay ·1 sat·');
  });
});
