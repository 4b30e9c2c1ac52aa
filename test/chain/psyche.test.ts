import { ed25519 } from '@noble/curves/ed25519.js';
import { schnorr } from '@noble/curves/secp256k1.js';
import { base58 } from '@scure/base';
import { sha256, toHex, utf8 } from 'nostrain/base';
import type { Endpoint } from 'nostrain/chain';
import { stakeRows } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  fromBase58,
  isLink,
  type Link,
  linkedKeys,
  linkStatement,
  parseLinks,
  type SignedLink,
} from '../../src/chain/psyche/links.ts';
import {
  createPsycheSource,
  type PsycheRun,
  readCoordinator,
} from '../../src/chain/psyche/psyche-source.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { type FakeAccount, fakeAccount } from '../support/psyche-account.ts';

const CHAIN = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';
const PROGRAM = '4SHugWqSXwKE5fqDchkJcPEqnoZE22VYKtSTVm7axbT7';
const signal = new AbortController().signal;
const secretOf = (i: number) => new Uint8Array(32).fill(i);
const signerOf = (i: number) => ed25519.getPublicKey(secretOf(i));
const keyOf = (i: number) => toHex(schnorr.getPublicKey(secretOf(100 + i)));

function linkOf(i: number, changes: Partial<Link> = {}, keyIndex = i): SignedLink {
  const link: Link = {
    ...{ chain: CHAIN, account: base58.encode(signerOf(i)), key: keyOf(keyIndex), run: 'moss' },
    ...{ made: 100, expires: 1000 },
    ...changes,
  };
  const text = utf8(linkStatement(link));
  return {
    ...link,
    accountSig: toHex(ed25519.sign(text, secretOf(i))),
    keySig: toHex(schnorr.sign(sha256(text), secretOf(100 + keyIndex))),
  };
}

describe('the coordinator account', () => {
  const clients = [
    { signer: signerOf(1), earned: 10n, slashed: 4n },
    { signer: signerOf(2), earned: 5n, active: 1n },
    { signer: signerOf(3) },
  ];

  test('says who takes part', () => {
    expect(readCoordinator(fakeAccount({ clients }))).toEqual({
      ok: true,
      value: {
        ...{ runId: 'moss', state: 3, epoch: 3, step: 77, nonce: 9n },
        clients: [
          { signer: toHex(signerOf(1)), earned: 10n, slashed: 4n },
          { signer: toHex(signerOf(3)), earned: 0n, slashed: 0n },
        ],
      },
    });
  });

  test.each<[string, Uint8Array]>([
    ['another version', fakeAccount({ version: 2n })],
    ['another length', fakeAccount().subarray(1)],
    ['another program', fakeAccount().fill(0, 0, 8)],
    ['an unknown state', fakeAccount({ state: 8 })],
    ['a run without a name', fakeAccount({ run: '' })],
    ['a client twice', fakeAccount({ clients: [clients[0]!, clients[0]!] })],
    ['more clients than fit', fakeAccount().fill(255, 119_000, 119_008)],
  ])('%s is refused', (_, bytes) => {
    expect(readCoordinator(bytes)).toMatchObject({ ok: false });
  });
});

describe('links', () => {
  const question = { chain: CHAIN, run: 'moss', cutoff: 500 };
  const linked = (...links: readonly SignedLink[]) => [...linkedKeys(links, question)];
  const [one, two] = [toHex(signerOf(1)), keyOf(2)];

  test('count where both keys signed, for this chain and run, in their time', () => {
    expect(linked(linkOf(1))).toEqual([[one, keyOf(1)]]);
    expect(linked(linkOf(1, { run: 'other' }))).toEqual([]);
    expect(linked(linkOf(1, { chain: 'solana:other' }))).toEqual([]);
    expect(linked(linkOf(1, { made: 501 }))).toEqual([]);
    expect(linked(linkOf(1, { expires: 500 }))).toEqual([]);
    expect(isLink({ ...linkOf(1), keySig: linkOf(2).keySig })).toBe(false);
    expect(isLink({ ...linkOf(1), accountSig: linkOf(2).accountSig })).toBe(false);
    expect(linked({ ...linkOf(1), key: two })).toEqual([]);
    expect(isLink({ ...linkOf(1), account: 'not an account' })).toBe(false);
  });

  test('the latest of an account counts, two of one moment cancel out', () => {
    const later = linkOf(1, { made: 101 }, 2);
    expect(linked(linkOf(1), later)).toEqual([[one, two]]);
    expect(linked(later, linkOf(1))).toEqual([[one, two]]);
    const same = linkOf(1, {}, 2);
    expect(linked(linkOf(1), same)).toEqual([]);
    expect(linked(linkOf(1), same, linkOf(1))).toEqual([]);
    expect(linked(linkOf(1), same, later)).toEqual([[one, two]]);
  });

  test('are read from JSON strictly', () => {
    const link = linkOf(1);
    expect(parseLinks(JSON.stringify([link]))).toEqual({ ok: true, value: [link] });
    for (const broken of ['{}', '[1]', '[{}]', JSON.stringify([{ ...linkOf(1), made: -1 }])]) {
      expect(parseLinks(broken)).toMatchObject({ ok: false });
    }
  });

  test('addresses are 32 bytes of base58', () => {
    expect(toHex(fromBase58('1'.repeat(32))!)).toBe('00'.repeat(32));
    expect(toHex(fromBase58(base58.encode(signerOf(1)))!)).toBe(one);
    expect(fromBase58(PROGRAM)).toHaveLength(32);
    for (const text of ['', '0'.repeat(40), '1'.repeat(33), 'z'.repeat(44)]) {
      expect(fromBase58(text)).toBeUndefined();
    }
  });
});

describe('a Psyche run as a source', () => {
  const clients = [
    { signer: signerOf(1), earned: 10n, slashed: 4n },
    { signer: signerOf(2), earned: 5n, slashed: 6n },
    { signer: signerOf(3), earned: 7n },
  ];
  const links = [linkOf(1), linkOf(2)];
  const answer = (account: FakeAccount, owner = PROGRAM) => ({
    value: { owner, data: [Buffer.from(fakeAccount(account)).toString('base64'), 'base64'] },
  });
  /** An endpoint that gives one answer after the other, the last one for ever. */
  const serving = (...answers: readonly unknown[]): Endpoint => {
    let next = 0;
    return { name: 'fake', call: async () => answers[Math.min(next++, answers.length - 1)] };
  };
  const clock = createManualClock();
  const at = (all: readonly Endpoint[], contract: Partial<PsycheRun> = {}, epoch = 3, waitMs = 0) =>
    createPsycheSource(
      { chain: CHAIN, endpoints: { all, need: all.length }, clock, waitMs, pollMs: 1000 },
      { account: 'any', run: 'moss', weights: 'equal', links, cutoff: 500, ...contract },
      { base: epoch, period: 1 },
    ).snapshot(0, signal);

  test('has a row for every linked client that takes part', async () => {
    const equal = await at([serving(answer({ clients }))]);
    expect(equal).toMatchObject({ chain: CHAIN, strategy: 'psyche', height: 3, unit: 'client' });
    expect(equal.rows).toEqual(
      stakeRows([
        [keyOf(1), 1n],
        [keyOf(2), 1n],
      ]),
    );
    const earned = await at([serving(answer({ clients }))], { weights: 'earned' });
    expect(earned).toMatchObject({ unit: 'point', rows: stakeRows([[keyOf(1), 6n]]) });
  });

  test('is read again while it changes', async () => {
    const [a, b] = [answer({ clients, nonce: 1n }), answer({ clients, nonce: 2n })];
    expect((await at([serving(a, b, b)])).rows).toHaveLength(2);
    let nonce = 0n;
    const restless: Endpoint = { name: 'fake', call: async () => answer({ nonce: nonce++ }) };
    await expect(at([restless])).rejects.toThrow(/changes faster/);
  });

  test('endpoints must agree', async () => {
    const [one, other] = [
      serving(answer({ clients })),
      serving(answer({ clients: clients.slice(1) })),
    ];
    await expect(at([one, other])).rejects.toMatchObject({ code: 'chain/disagree' });
  });

  test('the past cannot be read, the future is waited for', async () => {
    await expect(at([serving(answer({ epoch: 4 }))])).rejects.toMatchObject({ code: 'chain/past' });
    const early = answer({ epoch: 2 });
    await expect(at([serving(early)])).rejects.toMatchObject({ code: 'chain/not-final' });
    const waiting = at([serving(early, early, answer({ clients }))], {}, 3, 5000);
    await clock.advance(1000);
    expect((await waiting).rows).toHaveLength(2);
  });

  test.each<[string, unknown, RegExp]>([
    ['nothing', null, /not an account of the Psyche program/],
    ['no account', { value: null }, /not an account of the Psyche program/],
    [
      'an account of somebody else',
      answer({}, '1'.repeat(32)),
      /not an account of the Psyche program/,
    ],
    [
      'data of another length',
      { value: { owner: PROGRAM, data: ['AAAA', 'base64'] } },
      /119160 bytes/,
    ],
    ['another run', answer({ run: 'fern' }), /to run fern/],
  ])('%s is no reading', async (_, given, message) => {
    await expect(at([serving(given)])).rejects.toThrow(message);
  });
});
