import { systemClock } from 'nostrain/base';
import {
  type Filter,
  matchesFilter,
  type SignedEvent,
  type Signer,
  verifyEvent,
} from 'nostrain/network';
import { type RunSpec, runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/base/canonical-json.ts';
import { credentialsFor, refuseAdmission } from '../../src/certified/decisions/admission.ts';
import { joinProof } from '../../src/run/spec/feature-fields.ts';
import { sampleSpec } from '../support/run-spec.ts';
import { signerOf } from '../support/signers.ts';

const [founder, , newcomer, other] = [1, 2, 3, 4].map((number) => signerOf(number).publicKey);
const signal = new AbortController().signal;
const means = { clock: systemClock, signal, find: async () => [] };
const isSigned = () => true;

describe('admission by work', () => {
  const spec = sampleSpec({ admission: { kind: 'work', bits: 8 } });
  const run = runIdOf(spec);
  const judge = (key: string, evidence: string, of = run) =>
    refuseAdmission(spec, of, null, { key, evidence }, isSigned);

  it('admits a key with proof of work for this run and this key only', async () => {
    const { evidence } = await credentialsFor(spec, run, newcomer!, means);
    expect(judge(newcomer!, evidence)).toBeUndefined();
    expect(judge(other!, evidence)).toBe('join-without-work');
    expect(judge(newcomer!, evidence, 'cd'.repeat(32))).toBe('join-without-work');
    for (const bad of ['', `0${evidence}`, ` ${evidence}`, 'x', '9'.repeat(17)]) {
      expect(judge(newcomer!, bad)).toBe('join-without-work');
    }
  });

  it('requires nothing of founders', async () => {
    expect(await credentialsFor(spec, run, founder!, means)).toEqual({ evidence: '' });
    expect(judge(founder!, '')).toBeUndefined();
  });

  it('stops when aborted', async () => {
    const hard = sampleSpec({ admission: { kind: 'work', bits: 22 } });
    const over = new AbortController();
    const mining = credentialsFor(hard, run, newcomer!, { ...means, signal: over.signal });
    over.abort(new Error('enough'));
    await expect(mining).rejects.toThrow('enough');
  });
});

describe('admission by stake', () => {
  const stake = { source: 'file', snapshot: 'ab'.repeat(32) };
  const spec = sampleSpec({ stake, admission: { kind: 'stake', least: '10' } });
  const stakes = new Map([
    [newcomer!, 10n],
    [other!, 9n],
  ]);
  const judge = (key: string) =>
    refuseAdmission(spec, runIdOf(spec), stakes, { key, evidence: '' }, isSigned);

  it('admits keys with enough stake', () => {
    expect(judge(newcomer!)).toBeUndefined();
    expect(judge(founder!)).toBeUndefined();
    expect(judge(other!)).toBe('join-without-stake');
    expect(judge(signerOf(5).publicKey)).toBe('join-without-stake');
  });
});

describe('admission by trust', () => {
  const [anchor, friend, stranger] = [6, 7, 8].map((number) => signerOf(number));
  const key = newcomer!;
  const trusting = (change: object = {}) =>
    sampleSpec({
      joinsPerRound: 4,
      admission: { kind: 'trust', anchors: [anchor!.publicKey], ...change },
    });
  const list = (by: Signer, of: readonly string[], at = 1000, more: readonly string[][] = []) =>
    by.sign({ kind: 3, created_at: at, tags: [...of.map((p) => ['p', p]), ...more], content: '' });
  const assertion = (by: Signer, of: string, rank: string, at = 1000) =>
    by.sign({
      ...{ kind: 30_382, created_at: at, content: '' },
      tags: [
        ['d', of],
        ['rank', rank],
      ],
    });
  const genuine = (event: SignedEvent) => verifyEvent(event).ok;
  const judge = (spec: RunSpec, proof: readonly SignedEvent[], who = key) =>
    refuseAdmission(
      spec,
      runIdOf(spec),
      null,
      {
        key: who,
        evidence: '',
        features: { trust: { proof: proof.map((event) => ({ ...event })) } },
      },
      genuine,
    );
  const refused = 'join-without-trust';

  it('admits keys that an anchor follows, by that list only', () => {
    const spec = trusting();
    const good = list(anchor!, [other!, key]);
    expect(judge(spec, [good])).toBeUndefined();
    expect(judge(spec, [good], other)).toBeUndefined();
    expect(judge(spec, [good], signerOf(9).publicKey)).toBe(refused);
    expect(judge(spec, [])).toBe(refused);
    expect(judge(spec, [list(stranger!, [key])])).toBe(refused);
    expect(judge(spec, [good, good])).toBe(refused);
    // another author under the trusted key, changed words, another kind
    const forged = { ...list(stranger!, [key]), pubkey: anchor!.publicKey };
    const changed = { ...list(anchor!, [other!]), tags: [['p', key]] };
    const note = anchor!.sign({ kind: 1, created_at: 1000, tags: [['p', key]], content: '' });
    for (const bad of [forged, changed, note]) expect(judge(spec, [bad])).toBe(refused);
  });

  it('accepts as many hops as the spec allows, each list by a key that the previous one names', () => {
    const way = [list(anchor!, [friend!.publicKey]), list(friend!, [key])];
    expect(judge(trusting({ hops: 2 }), way)).toBeUndefined();
    expect(judge(trusting({ hops: 1 }), way)).toBe(refused);
    expect(judge(trusting({ hops: 2 }), [...way].reverse())).toBe(refused);
    const gap = [list(anchor!, [other!]), list(friend!, [key])];
    expect(judge(trusting({ hops: 2 }), gap)).toBe(refused);
  });

  it('admits keys to which an anchor asserts at least this rank', () => {
    const spec = trusting({ by: 'assertions', rank: 50 });
    expect(judge(spec, [assertion(anchor!, key, '50')])).toBeUndefined();
    for (const rank of ['49', '101', '1e2', '', '050', '-60']) {
      expect(judge(spec, [assertion(anchor!, key, rank)])).toBe(refused);
    }
    expect(judge(spec, [assertion(stranger!, key, '90')])).toBe(refused);
    expect(judge(spec, [assertion(anchor!, other!, '90')])).toBe(refused);
    expect(judge(spec, [list(anchor!, [key])])).toBe(refused);
  });

  it('refuses evidence from before the time in the spec', () => {
    const spec = trusting({ since: 1000 });
    expect(judge(spec, [list(anchor!, [key], 1000)])).toBeUndefined();
    expect(judge(spec, [list(anchor!, [key], 999)])).toBe(refused);
  });

  it('requires no proof of founders, and refuses one', async () => {
    const spec = trusting();
    expect(judge(spec, [], founder)).toBeUndefined();
    expect(judge(spec, [list(anchor!, [founder!])], founder)).toBe(refused);
    expect(await credentialsFor(spec, runIdOf(spec), founder!, means)).toEqual({
      ...{ evidence: '', features: { trust: { proof: [] } } },
    });
  });

  it('finds the shortest proof on relays, in a form that others accept', async () => {
    const many = Array.from({ length: 150 }, (_, i) => i.toString(16).padStart(64, '0'));
    const heap = [
      ...[list(anchor!, many), list(anchor!, [friend!.publicKey]), list(stranger!, [key])],
      ...[list(friend!, [...many, key]), list(friend!, [key])],
    ];
    const find = async (filters: readonly Filter[]) =>
      heap.filter((event) => filters.some((filter) => matchesFilter(filter, event)));
    for (const [hops, length] of [
      [1, 0],
      [2, 2],
      [3, 2],
    ] as const) {
      const spec = trusting({ hops });
      const shown = await credentialsFor(spec, runIdOf(spec), key, { ...means, find });
      const { proof } = shown.features!.trust!;
      expect(proof).toHaveLength(length);
      const asking = { key, ...shown };
      const found = refuseAdmission(spec, runIdOf(spec), null, asking, genuine);
      expect(found).toBe(length > 0 ? undefined : refused);
    }
  });

  it('is bounded: longer lists, more events and other members are refused', () => {
    const events = (count: number) => Array(count).fill({ ...list(anchor!, [key]) });
    expect(joinProof.read(events(3))).toBeDefined();
    expect(joinProof.read(events(4))).toBeUndefined();
    const long = list(
      anchor!,
      Array.from({ length: 200 }, () => key),
    );
    expect(joinProof.read([{ ...long } as unknown as Json])).toBeUndefined();
    for (const bad of [null, {}, ['x'], [{ id: 'x' }], [{ ...events(1)[0], more: 1 }]]) {
      expect(joinProof.read(bad)).toBeUndefined();
    }
  });

  it('makes an open run verified, so that rules for a majority of honest workers are allowed', () => {
    const aggregation = { rule: 'geometric-median', hostile: 1 };
    const document = {
      ...{ aggregation, tier: 'verified', joinsPerRound: 4 },
      admission: { kind: 'trust', anchors: [anchor!.publicKey] },
    };
    const { features, tier } = sampleSpec(document);
    expect({ features, tier }).toEqual({ features: ['rule', 'tier', 'trust'], tier: 'verified' });
    expect(() => sampleSpec({ ...document, admission: { kind: 'open' } })).toThrow(
      /must set who may join/,
    );
    expect(() => sampleSpec({ ...document, joinsPerRound: 0 })).toThrow(/joinsPerRound/);
    const both = { ...document.admission, hops: 2, by: 'assertions' };
    expect(() => sampleSpec({ ...document, admission: both })).toThrow(/admission.hops/);
  });
});
