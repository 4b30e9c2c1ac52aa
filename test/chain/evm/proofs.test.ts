import fc from 'fast-check';
import { fromHex, toHex, utf8 } from 'nostrain/base';
import { callData, encodeRlp, type Rlp } from 'nostrain/chain';
import { describe, expect, test } from 'vitest';
import { decodeRlp, eventTopic, word } from '../../../src/chain/evm/encoding.ts';
import { proveTrieValue, readHeader, readStorageProof } from '../../../src/chain/evm/proof.ts';
import { CHANGED } from '../../../src/chain/evm/stake-sources.ts';
import { stakeRegistry } from '../../../src/chain/registry/stake-registry.ts';
import { buildTrie } from '../../support/trie-builder.ts';

describe('RLP', () => {
  // examples of the Ethereum wiki's page on RLP
  test.each<[Rlp, string]>([
    [utf8('dog'), '83646f67'],
    [[utf8('cat'), utf8('dog')], 'c88363617483646f67'],
    [utf8(''), '80'],
    [[], 'c0'],
    [Uint8Array.of(0), '00'],
    [Uint8Array.of(15), '0f'],
    [Uint8Array.of(4, 0), '820400'],
    [[[], [[]], [[], [[]]]], 'c7c0c1c0c3c0c1c0'],
    [
      utf8('Lorem ipsum dolor sit amet, consectetur adipisicing elit'),
      'b8384c6f72656d20697073756d20646f6c6f722073697420616d65742c20636f6e7365637465747572206164697069736963696e6720656c6974',
    ],
  ])('%#', (item, hex) => {
    expect(toHex(encodeRlp(item))).toBe(hex);
    expect(decodeRlp(fromHex(hex)!)).toEqual(item);
  });

  const { item } = fc.letrec<{ item: Rlp }>((tie) => ({
    item: fc.oneof(
      { maxDepth: 4 },
      fc.uint8Array({ maxLength: 70 }),
      fc.array(tie('item') as fc.Arbitrary<Rlp>, { maxLength: 5 }),
    ),
  }));

  test('decoding what was encoded gives it back; everything has one spelling', () => {
    fc.assert(
      fc.property(item, (each) => {
        expect(decodeRlp(encodeRlp(each))).toEqual(each);
      }),
    );
    const bytes = fc.uint8Array({ maxLength: 80 });
    fc.assert(
      fc.property(bytes, (each) => {
        const decoded = decodeRlp(each);
        if (decoded !== undefined) expect(encodeRlp(decoded)).toEqual(each);
      }),
    );
  });

  test.each(['', '81', '8101', 'b800', 'b90000', 'c1', '8080', 'f800', `${'c1'.repeat(9)}c0`])(
    '%s is refused',
    (hex) => expect(decodeRlp(fromHex(hex)!)).toBeUndefined(),
  );
});

describe('a trie', () => {
  const bytes = (longest: number) => fc.uint8Array({ minLength: 1, maxLength: longest });
  const entries = fc.uniqueArray(fc.tuple(bytes(8), bytes(60)), {
    minLength: 1,
    maxLength: 40,
    selector: ([key]) => toHex(key),
  });

  test('proves what it holds and what it does not', () => {
    fc.assert(
      fc.property(entries, bytes(9), (held, other) => {
        const { root, nodes } = buildTrie(held);
        for (const [key, value] of held) {
          expect(proveTrieValue(root, key, nodes)).toEqual({ ok: true, value });
        }
        const found = held.find(([key]) => toHex(key) === toHex(other));
        expect(proveTrieValue(root, other, nodes)).toEqual({ ok: true, value: found?.[1] });
      }),
      { numRuns: 15 },
    );
  });

  test('never proves anything else, whatever is done to the nodes', () => {
    const harm = fc.record({ node: fc.nat(), at: fc.nat(), to: fc.nat(255), drop: fc.boolean() });
    fc.assert(
      fc.property(entries, harm, (held, { node, at, to, drop }) => {
        const { root, nodes } = buildTrie(held);
        const broken = nodes.map((each) => each.slice());
        const target = broken[node % broken.length]!;
        target[at % target.length] = to;
        if (drop) broken.splice(node % broken.length, 1);
        for (const [key, value] of held) {
          const proved = proveTrieValue(root, key, broken);
          if (proved.ok) expect(proved.value).toEqual(value);
        }
      }),
      { numRuns: 25 },
    );
  });

  test('that is empty holds nothing', () => {
    const { root } = buildTrie([]);
    expect(proveTrieValue(root, utf8('key'), [])).toEqual({ ok: true, value: undefined });
    expect(proveTrieValue(new Uint8Array(32), utf8('key'), [])).toMatchObject({ ok: false });
  });
});

test('storage is read through the account, and only in canonical integers', () => {
  const [address, key] = [new Uint8Array(20).fill(7), word(0n)];
  const proofOf = (stored: Uint8Array, account: (storageRoot: Uint8Array) => Rlp) => {
    const storage = buildTrie([[key, stored]]);
    const state = buildTrie([[address, encodeRlp(account(storage.root))]]);
    const nodes = (list: readonly Uint8Array[]) => list.map((node) => `0x${toHex(node)}`);
    const storageProof = [{ proof: nodes(storage.nodes) }];
    const answer = { accountProof: nodes(state.nodes), storageProof };
    return readStorageProof(answer, state.root, address, [key]);
  };
  const whole = (root: Uint8Array): Rlp => [
    Uint8Array.of(1),
    new Uint8Array(0),
    root,
    new Uint8Array(32),
  ];
  expect(proofOf(encodeRlp(Uint8Array.of(1, 0)), whole)).toEqual({ ok: true, value: [256n] });
  expect(proofOf(encodeRlp(Uint8Array.of(0, 1)), whole)).toMatchObject({ ok: false });
  expect(proofOf(encodeRlp([Uint8Array.of(1)]), whole)).toMatchObject({ ok: false });
  expect(proofOf(encodeRlp(new Uint8Array(33).fill(1)), whole)).toMatchObject({ ok: false });
  expect(proofOf(encodeRlp(Uint8Array.of(1)), (root) => [root])).toMatchObject({ ok: false });
  const nothing: readonly unknown[] = [null, 7, {}, { accountProof: ['zz'] }, { accountProof: [] }];
  for (const answer of nothing) {
    expect(readStorageProof(answer, key, address, [key])).toMatchObject({ ok: false });
  }
});

// block 0 of Ethereum: a header from before all forks
const genesis = {
  hash: '0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3',
  parentHash: `0x${'00'.repeat(32)}`,
  sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
  miner: `0x${'00'.repeat(20)}`,
  stateRoot: '0xd7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544',
  transactionsRoot: '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421',
  receiptsRoot: '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421',
  logsBloom: `0x${'00'.repeat(256)}`,
  difficulty: '0x400000000',
  number: '0x0',
  gasLimit: '0x1388',
  gasUsed: '0x0',
  timestamp: '0x0',
  extraData: '0x11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa',
  mixHash: `0x${'00'.repeat(32)}`,
  nonce: '0x0000000000000042',
};

test('a header is what hashes to its hash', () => {
  const read = readHeader(genesis);
  expect(read).toMatchObject({ ok: true, value: { number: 0, hash: genesis.hash.slice(2) } });
  for (const name of Object.keys(genesis)) {
    expect(readHeader({ ...genesis, [name]: '0x7' })).toMatchObject({ ok: false });
    expect(readHeader({ ...genesis, [name]: null })).toMatchObject({ ok: false });
  }
  for (const block of [null, 7, {}, []]) expect(readHeader(block)).toMatchObject({ ok: false });
});

test('calls and topics are those of the ABI that is committed', () => {
  interface Entry {
    readonly type: string;
    readonly name: string;
    readonly inputs: readonly { readonly type: string }[];
  }
  const abi = JSON.parse(stakeRegistry.abi) as readonly Entry[];
  const signatures = abi
    .filter(({ type }) => type === 'event' || type === 'function')
    .map(({ name, inputs }) => `${name}(${inputs.map(({ type }) => type).join(',')})`);
  expect(signatures.map(eventTopic)).toContain(CHANGED);
  for (const used of ['bondFor(bytes32)', 'requestExit(bytes32)', 'withdraw(bytes32)']) {
    expect(signatures).toContain(used);
  }
  expect(callData('balanceOf(address)', 5n)).toBe(`0x70a08231${'5'.padStart(64, '0')}`);
});
