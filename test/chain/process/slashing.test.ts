import fc from 'fast-check';
import { fromHex, toHex, utf8 } from 'nostrain/base';
import { buildFault, proofBody } from 'nostrain/certified/parts';
import {
  callData,
  createRegistrySource,
  type DeployedRegistry,
  requestExit,
  slashCall,
  withdraw,
} from 'nostrain/chain';
import type { EventDraft, SignedEvent, Signer } from 'nostrain/network';
import { anyFeatures } from 'nostrain/run';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toFaultProof } from '../../../src/certified/wire/faults.ts';
import { slashingRegistry } from '../../../src/chain/registry/slashing-registry.ts';
import { accessTo, anvilMissing, never, startAnvil, type TestChain } from '../../support/anvil.ts';
import {
  ballot,
  claim,
  commit,
  faults,
  hash,
  lifetime,
  manifest,
  prepare,
  propose,
  RUN,
  scores,
  worked,
} from '../../support/contradictions.ts';
import { describeWith } from '../../support/needs.ts';
import { signerOf } from '../../support/signers.ts';

/** Two events that an honest key may sign, or that are not of one key's one slot. */
const innocent: Readonly<Record<string, readonly [EventDraft, EventDraft]>> = {
  'one content, signed twice': [commit(), { ...commit(), created_at: 1_700_000_009 }],
  'one content, with work and without': [commit(), worked(commit(), '7')],
  'another run': [commit(), commit({ run: hash('run 2'), digest: hash('Y') })],
  'another round': [commit(), commit({ round: 8, digest: hash('Y') })],
  'another past': [commit(), commit({ parent: hash('p2'), digest: hash('Y') })],
  'another view': [commit(), commit({ view: 3, digest: hash('Y') })],
  'another recovery epoch': [commit(), commit({ attempt: 1, digest: hash('Y') })],
  'a prepare and its commit': [prepare(), commit()],
  'a prepare and another commit in one view': [prepare({ digest: hash('Y') }), commit()],
  'a justified change of mind': [
    commit({ view: 3 }),
    prepare({ view: 5, justify: 3, digest: hash('Y') }),
  ],
  'a prepare before the commit': [commit({ view: 3 }), prepare({ view: 1, digest: hash('Y') })],
  'later the same': [commit({ view: 3 }), prepare({ view: 4 })],
  'view-change votes of two epochs': [ballot(null), ballot(null, { attempt: 2 })],
  'a manifest and a vote': [manifest('AAAA'), commit()],
  'a view-change vote and a vote': [ballot(null), commit({ attempt: 1 })],
};

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const FIELD = 2n ** 256n - 2n ** 32n - 977n;
interface Typed {
  readonly type: string;
  readonly name?: string;
  readonly inputs?: readonly Typed[];
  readonly components?: readonly Typed[];
}
const typesOf = (all: readonly Typed[]): string =>
  all.map(({ type, components }) => (components ? `(${typesOf(components)})` : type)).join();
const abi = JSON.parse(slashingRegistry.abi) as readonly Typed[];
const inputs = (name: string) => abi.find((each) => each.name === name)!.inputs!;
const PROVE = callData(`prove(${typesOf(inputs('prove'))})`);

const names = (table: Readonly<Record<string, unknown>>) => Object.keys(table);
type Pair = readonly [SignedEvent, SignedEvent];
const signed = (signer: Signer, [a, b]: readonly [EventDraft, EventDraft]): Pair => [
  signer.sign(a),
  signer.sign(b),
];

describeWith(anvilMissing)('stake at risk (R-09): the slashing registry', () => {
  let chain: TestChain;
  let registry: DeployedRegistry;
  const culprit = signerOf(1);
  const calls = async (pair: Pair, at = registry) => {
    const { data, to } = slashCall(at, chain.accounts[3]!, pair)!;
    return { from: chain.accounts[3], to, data };
  };
  /** Why a call reverts; undefined where it goes through. Nothing of it stays. */
  const dryRun = (call: object): Promise<string | undefined> =>
    chain.call('eth_call', call, 'latest').then(
      () => undefined,
      (error: Error) => error.message,
    );

  beforeAll(async () => {
    chain = await startAnvil();
    registry = await chain.deploy(10n, { slashedPermille: 500, reporterPermille: 100 });
    for (const number of [1, 2])
      await chain.bond(registry, 0, signerOf(number).publicKey, 10n ** 18n);
  });
  afterAll(() => chain?.stop());

  test.each(names(faults))('%s are a fault there as in a proof of kind 7817', async (name) => {
    const pair = signed(culprit, faults[name]!);
    const proof = culprit.sign(buildFault(RUN, [pair[0], pair[1]], lifetime));
    const said = toFaultProof(proof, undefined, () => utf8(proofBody(pair)), anyFeatures);
    expect(said?.ok && said.value.kind !== 'failed-check').toBe(true);
    expect(await dryRun(await calls(pair))).toBe(undefined);
    expect(await dryRun(await calls([pair[1], pair[0]]))).toBe(undefined);
  });

  test.each(names(innocent))('%s: no fault', async (name) => {
    const [a, b] = signed(culprit, innocent[name]!);
    expect(await dryRun(await calls([a, b]))).toMatch(/revert/);
    expect(await dryRun(await calls([b, a]))).toMatch(/revert/);
  });

  test.each([
    ['another id', (event: SignedEvent) => ({ ...event, created_at: event.created_at + 1 })],
    [
      'another expiration',
      (event: SignedEvent) => ({
        ...event,
        tags: event.tags.map((tag) =>
          tag[0] === 'expiration' ? ['expiration', '1800000000'] : tag,
        ),
      }),
    ],
    ['another kind', (event: SignedEvent) => ({ ...event, kind: 7814 })],
    ['the key of another', (event: SignedEvent) => ({ ...event, pubkey: signerOf(2).publicKey })],
    [
      'another content',
      (event: SignedEvent) => ({
        ...event,
        content: event.content.replace('"view":2', '"view":3'),
      }),
    ],
    ...(
      [
        ['r = 0', () => [0n, 1n]],
        ['s = 0', (r: bigint) => [r, 0n]],
        ['-s', (r: bigint, s: bigint) => [r, ORDER - s]],
        ['s of the order or more', (r: bigint, s: bigint) => [r, (s + ORDER) % 2n ** 256n]],
        ['r of no point', (_: bigint, s: bigint) => [5n, s]],
        ['r of the field or more', (_: bigint, s: bigint) => [FIELD + 1n, s]],
        ['another r', (r: bigint, s: bigint) => [r ^ 1n, s]],
        ['r and s in turn', (r: bigint, s: bigint) => [s, r]],
      ] as const
    ).map(
      ([name, change]) =>
        [
          name,
          (event: SignedEvent) => {
            const [r, s] = [event.sig.slice(0, 64), event.sig.slice(64)].map((x) =>
              BigInt(`0x${x}`),
            );
            const sig = change(r!, s!)
              .map((x) => x.toString(16).padStart(64, '0'))
              .join('');
            return { ...event, sig };
          },
        ] as const,
    ),
  ] as const)('%s is not what was signed', async (name, change) => {
    const [a, b] = signed(culprit, faults['two commits']!);
    expect(await dryRun(await calls([change(a), change(b)]))).toMatch(/revert/);
    if (name === 'the key of another') return;
    expect(await dryRun(await calls([a, change(b)]))).toMatch(/revert/);
  });

  test('an honest key is not framed, whatever is made of its events', async () => {
    const honest = signerOf(2);
    const said = [
      ...[0, 1, 2].flatMap((round) => [
        ...[prepare({ round }), commit({ round, features: scores(round), unlisted: [1] })],
        prepare({ round, view: 4, digest: hash('Y'), justify: 3 }),
        propose(JSON.stringify({ round, view: 9, digest: hash('Z') }), { round, view: 3 }),
        ballot(claim, { round }),
      ]),
      ...[manifest('AAAA'), manifest('AAAB', {})].slice(0, 1),
    ].map((draft) => honest.sign(draft));
    const anyEvent = fc.constantFrom(...said);
    const bend = fc.record({
      at: fc.nat(),
      xor: fc.integer({ min: 1, max: 255 }),
      word: fc.nat(),
      from: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(
        anyEvent,
        anyEvent,
        fc.array(bend, { maxLength: 3 }),
        fc.boolean(),
        async (a, b, bends, isWords) => {
          const call = await calls([a, b]);
          const bytes = fromHex(call.data!.slice(2))!;
          for (const { at, xor, word, from } of bends) {
            const words = Math.floor((bytes.length - 4) / 32);
            // whole words of one statement take the place of words of the other, or a byte changes
            if (isWords)
              bytes.copyWithin(
                4 + 32 * (word % words),
                4 + 32 * (from % words),
                36 + 32 * (from % words),
              );
            else bytes[36 + (at % (bytes.length - 36))]! ^= xor;
          }
          const isKept = toHex(bytes.subarray(4, 36)) === honest.publicKey;
          if (isKept)
            expect(await dryRun({ ...call, data: `0x${toHex(bytes)}` })).toMatch(
              /revert|decode|invalid/i,
            );
        },
      ),
      { numRuns: 1000 },
    );
  }, 60_000);

  test('signatures of 100 keys hold there as they do here, and none of them for another key', async () => {
    for (let i = 3; i < 103; i++) {
      const pair = signed(signerOf(i), faults['two commits']!);
      const { data } = slashCall(registry, chain.accounts[0]!, pair)!;
      const selector = PROVE;
      const call = { to: `0x${toHex(registry.contract)}`, data: selector + data!.slice(10) };
      expect(await chain.call('eth_call', call, 'latest')).toBe(`0x${pair[0].id}${pair[1].id}`);
    }
  }, 60_000);

  const balance = async (account: string) =>
    BigInt(String(await chain.call('eth_getBalance', account, 'latest')));
  const COIN = 10n ** 18n;

  test('a fault costs a share of all coin behind the key, on its way out or not, once; the rest is paid out', async () => {
    const at = await chain.deploy(10n, { slashedPermille: 300, reporterPermille: 250 });
    const [pair, again] = [faults['two commits']!, faults['two prepares']!].map((each) =>
      signed(culprit, each),
    );
    const key = culprit.publicKey;
    await chain.bond(at, 0, key, COIN);
    await chain.bond(at, 1, key, 2n * COIN + 1n);
    await chain.bond(at, 1, signerOf(2).publicKey, 5n * COIN);
    await chain.send(requestExit(at, chain.accounts[0]!, key));
    const burnedBefore = await balance(`0x${'00'.repeat(20)}`);
    const reporter = chain.accounts[4]!;
    const before = await balance(reporter);
    await chain.call('anvil_setNextBlockBaseFeePerGas', '0x0');
    const { gas, block } = await chain.send({
      ...slashCall(at, reporter, pair!)!,
    });
    expect(gas).toBeGreaterThan(100_000);
    const taken = ((3n * COIN + 1n) * 300n) / 1000n;
    const paid = (taken * 250n) / 1000n;
    expect((await balance(`0x${'00'.repeat(20)}`)) - burnedBefore).toBeGreaterThanOrEqual(
      taken - paid,
    );
    expect((await balance(reporter)) - before).toBeLessThanOrEqual(paid);
    expect((await balance(reporter)) - before).toBeGreaterThan(paid - COIN / 100n);
    for (const each of [pair!, again!]) {
      expect(await dryRun(await calls(each, at))).toMatch(/revert/);
    }
    await expect(chain.bond(at, 0, key, COIN)).rejects.toThrow();
    await chain.send(requestExit(at, chain.accounts[1]!, key));
    await chain.call('evm_increaseTime', 11);
    await chain.mine(4);
    const source = createRegistrySource(
      accessTo([chain.endpoint], 1),
      { contract: at.contract, from: at.block },
      { base: block, period: 1 },
    );
    // its stake counts for nothing from the block on in which it was shown
    expect((await source.snapshot(0, never)).rows).toEqual([
      { key: signerOf(2).publicKey, stake: 5n * COIN },
    ]);
    for (const funder of [0, 1]) await chain.send(withdraw(at, chain.accounts[funder]!, key));
    const kept = await balance(`0x${toHex(at.contract)}`);
    expect(kept - 5n * COIN).toBeGreaterThanOrEqual(0n);
    expect(kept - 5n * COIN).toBeLessThan(3n);
    await expect(chain.send(withdraw(at, chain.accounts[0]!, key))).rejects.toThrow();
  });

  test('a key without stake has nothing to lose, and shares that make no sense are refused', async () => {
    const pair = signed(signerOf(9), faults['two commits']!);
    expect(await dryRun(await calls(pair))).toMatch(/revert/);
    for (const [slashedPermille, reporterPermille] of [
      [0, 0],
      [1001, 0],
      [500, 501],
    ] as const) {
      await expect(chain.deploy(1n, { slashedPermille, reporterPermille })).rejects.toThrow();
    }
  });
});
