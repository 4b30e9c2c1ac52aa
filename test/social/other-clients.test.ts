/** Events of other clients (applesauce, NDK, nostr-tools), recorded, are read as those clients mean them. */
import { readFileSync } from 'node:fs';
import { parseRelayList, type SignedEvent, verifyEvent } from 'nostrain/network';
import { expect, it } from 'vitest';
import { defineNotes, deletedNotes } from '../../src/social/notes.ts';
import { rankCandidates } from '../../src/social/relay-records.ts';
import { checkZaps, splitZaps } from '../../src/social/zaps.ts';

const file = new URL('../vectors/social/events.json', import.meta.url);
const { applesauce, ndk, nostrTools } = JSON.parse(readFileSync(file, 'utf8')) as Record<
  'applesauce' | 'ndk' | 'nostrTools',
  Readonly<Record<string, SignedEvent>>
>;
const [anna, bea] = [applesauce.note!.pubkey, ndk.article!.pubkey];

it('N-67: notes of applesauce and an article of NDK are a corpus, and deletions of applesauce count', () => {
  const { note, gone, deletion } = applesauce as Record<string, SignedEvent>;
  const all = [note!, gone!, deletion!, ndk.article!, nostrTools.vanish!];
  for (const event of all) expect(verifyEvent(event).ok).toBe(true);
  const { corpus } = defineNotes([note!, gone!, ndk.article!], [1, 30_023]);
  expect(corpus.notes.map(({ id }) => id)).toEqual([note!.id, gone!.id, ndk.article!.id]);
  expect(deletedNotes(corpus, [deletion!])).toEqual([1]);
  expect(deletedNotes(corpus, [nostrTools.vanish!])).toEqual([2]);
  const { text } = defineNotes(all, [1, 30_023], 'plain');
  expect(text).toBe('A note made with applesauce\n\n');
});

it('N-63: a zap split and a profile of applesauce are read', () => {
  const shares = [
    { key: anna, weight: 8 },
    { key: bea, weight: 3 },
  ];
  expect(checkZaps(applesauce.zapNote!.tags, shares)).toMatchObject({ isRight: true, leftOut: [] });
  expect(splitZaps(shares, [applesauce.profile!])).toEqual({ shares: [shares[0]], leftOut: [bea] });
});

it('N-66: relay lists of applesauce and NDK name candidates', () => {
  expect(parseRelayList(ndk.relayList!)).toMatchObject({ write: ['wss://write.example.org'] });
  const lists = [applesauce.mailboxes!, ndk.relayList!];
  expect(rankCandidates(lists, [anna, bea]).map(({ url }) => url)).toEqual([
    'wss://out.example.org/',
    'wss://write.example.org/',
  ]);
});
