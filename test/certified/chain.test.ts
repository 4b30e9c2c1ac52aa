/** The state of a run between two rounds: stakes, whom members wait for, and what is kept. */
import { type Certified, electorateOf, startOf } from 'nostrain/certified/parts';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { certifiedAfter } from '../../src/certified/decisions/certificate.ts';
import {
  certifiedOf,
  chainHeadOf,
  finishedRound,
  openingOf,
  rosterJoin,
  roundAfter,
  stakesOf,
  withEntropy,
} from '../../src/certified/decisions/chain.ts';
import {
  assignmentOf,
  previousRoundParametersOf,
  roundParametersOf,
  unwrapRuling,
} from '../../src/certified/decisions/contributions.ts';
import {
  but,
  eventfulEvidence,
  eventfulRound,
  eventfulRun,
  keyOf,
} from '../support/eventful-run.ts';

const other = 'e'.repeat(64);
const found = eventfulEvidence();
const { spec, run } = eventfulRun();

describe('the stakes of a round', () => {
  const table = new Map([[keyOf(1), 5n]]);
  const withStake = (members: readonly object[] = []) =>
    ({ features: { stake: { snapshot: 'table', next: '' } }, members }) as never as Ledger;

  it('are none, missing, or those of the table', () => {
    expect(stakesOf({ features: {}, members: [] } as never, found)).toEqual({
      ok: true,
      value: null,
    });
    expect(stakesOf(withStake(), { stakes: () => undefined })).toEqual({
      ok: false,
      missing: [{ what: 'snapshot', id: 'table' }],
    });
    const same = stakesOf(withStake([{ key: keyOf(1) }]), { stakes: () => table });
    expect(same).toEqual({ ok: true, value: table });
    expect(unwrapRuling(same)).toBe(table);
  });

  it('of session keys are those of their principals, once computed', () => {
    const session = (number: number, principal: number) => ({
      key: keyOf(number),
      features: { sessions: { principal: keyOf(principal), until: 9 } },
    });
    const ledger = withStake([{ key: keyOf(1) }, session(5, 1), session(6, 2)]);
    const stakes = unwrapRuling(stakesOf(ledger, { stakes: () => table }))!;
    expect([1, 5, 6].map((number) => stakes.get(keyOf(number)))).toEqual([5n, 5n, 0n]);
    expect(table.size).toBe(1);
    expect(unwrapRuling(stakesOf(ledger, { stakes: () => table }))).toBe(stakes);
    const next = unwrapRuling(stakesOf(ledger, { stakes: () => new Map([[keyOf(1), 7n]]) }))!;
    expect(next.get(keyOf(5))).toBe(7n);
  });

  it('are needed before anything of the round is judged', () => {
    const { before } = eventfulRound(2);
    const ledger = {
      ...before.ledger,
      features: { stake: { snapshot: 'table', next: '' } },
    } as Ledger;
    const missing = { ok: false, missing: [{ what: 'snapshot', id: 'table' }] };
    const without = but({ stakes: () => undefined });
    expect(roundParametersOf({ ...before, ledger }, without)).toEqual(missing);
    const past = { ...before, before: { ...before.before!, ledger } };
    expect(previousRoundParametersOf(past, without)).toEqual(missing);
    expect(() => unwrapRuling(roundParametersOf({ ...before, ledger }, without))).toThrow(
      TypeError,
    );
    expect(previousRoundParametersOf(eventfulRound(0).before, found)).toEqual({
      ok: true,
      value: null,
    });
    expect(certifiedAfter({ ...before, ledger }, without)).toEqual(missing);
  });
});

describe('the keys that members wait for', () => {
  const { before } = eventfulRound(4);
  const live = electorateOf(before, null).live;
  const [first] = before.ledger.members;
  const newcomer = keyOf(8);
  const awaits = (
    member: object,
    stakes: ReadonlyMap<string, bigint> | null = null,
    contributors = 0,
  ) => {
    const members = [...before.ledger.members, { ...first!, key: newcomer, ...member }].sort(
      (a, b) => (a.key < b.key ? -1 : 1),
    );
    const of = {
      ...before,
      spec: { ...spec, contributors },
      ledger: { ...before.ledger, members },
    };
    return electorateOf(of as Certified, stakes).awaited;
  };
  const fresh = { joined: 2, lastSeen: -1, seenBefore: -1, seatFrom: -1, tip: null };
  const everyone = new Map(
    [...before.ledger.members.map(({ key }) => key), newcomer].map((key) => [key, 5n]),
  );

  it.each<[string, boolean, object]>([
    ['a newcomer that sent nothing yet', true, {}],
    ['in its third round', true, { joined: 2 }],
    ['in its fourth round', false, { joined: 1 }],
    ['that is a founder', false, { joined: 0 }],
    ['that was first seen in the last round', true, { joined: 1, lastSeen: 0 }],
    ['that was seen before', false, { joined: 2, lastSeen: 0, seenBefore: 0 }],
  ])('%s: %s', (_, isAwaited, change) => {
    expect(awaits({ ...fresh, ...change }).includes(newcomer)).toBe(isAwaited);
  });

  it('are, in a run with stakes, those that never had a seat, and only with stake', () => {
    expect(awaits({ ...fresh, joined: 1 }, everyone)).toContain(newcomer);
    expect(awaits({ ...fresh, joined: 1, seatFrom: 0 }, everyone)).not.toContain(newcomer);
    const poor = new Map([...everyone].filter(([key]) => key !== newcomer));
    expect(awaits(fresh, poor)).not.toContain(newcomer);
  });

  it('are live members, and in a run that draws its contributors no others than those', () => {
    const awaited = awaits({ ...fresh, joined: 1 });
    for (const key of live) expect(awaited).toContain(key);
    expect(awaited).not.toContain(newcomer);
    expect([...awaited]).toEqual([...awaited].sort());
    expect(awaits(fresh, null, 2).length).toBeLessThanOrEqual(2);
  });
});

describe('the state of a run', () => {
  const { before } = eventfulRound(3);

  it('is kept without its model, and restored with it', () => {
    const votes = { attempt: 0, view: 0, ctx: '', rows: [] };
    const head = chainHeadOf({ ...before, taken: {} as never }, votes);
    expect(head).toMatchObject({ votes, left: [], round: 3, parent: before.parent });
    for (const name of ['spec', 'params', 'momentum', 'taken'])
      expect(head).not.toHaveProperty(name);
    expect(chainHeadOf(before, null, [other]).left).toEqual([other]);
    const { params, momentum } = before;
    expect(certifiedOf(spec, head, { params, momentum })).toEqual({ ...before, taken: undefined });
  });

  it('knows the rounds of recent outcomes', () => {
    expect(roundAfter(before, run)).toBe(-1);
    expect(roundAfter(before, before.parent)).toBe(2);
    expect(roundAfter(before, other)).toBeUndefined();
  });

  it('passes on what a join asks for', () => {
    const join = { key: keyOf(8), after: before.parent, tip: other };
    expect(rosterJoin(before, join)).toEqual({ key: keyOf(8), tip: other });
    const by = { key: keyOf(9), until: 7 };
    const of = (features: object, after = before.parent) =>
      rosterJoin(before, { ...join, after, features } as never);
    expect(of({ seats: { wants: 1 }, sessions: { by } })).toMatchObject({
      seats: { wants: 1, asked: 2 },
      session: { principal: keyOf(9), until: 7 },
    });
    expect(of({ seats: { wants: 1 } }, other)).toMatchObject({ seats: { asked: -1 } });
    expect(of({ sessions: { by: null } })).toMatchObject({ session: { principal: '', until: -1 } });
    expect(of({ widths: { tier: 1 }, experts: { group: 2 } })).toMatchObject({ tier: 1, group: 2 });
  });

  it('waits for the beacon value of its round, once', () => {
    expect(withEntropy(before, found)).toEqual({ ok: true, value: before });
    const dark = { ...before, ledger: { ...before.ledger, entropy: null } };
    const missing = [{ what: 'beacon', id: `${before.time}` }];
    expect(withEntropy(dark, but({ beacon: () => undefined }))).toEqual({ ok: false, missing });
    const lit = unwrapRuling(withEntropy(dark, but({ beacon: () => other })));
    expect({ ...lit, ledger: dark.ledger }).toEqual(dark);
    expect(() => electorateOf(dark, null)).toThrow(RangeError);
    const bare = unwrapRuling(roundParametersOf(dark, found));
    expect(() => assignmentOf(bare)).toThrow(RangeError);
  });

  it('records a round when it is decided', () => {
    const { round, parent, modelRoot, ledger } = before;
    expect(finishedRound(before)).toEqual({ round, parent, base: modelRoot, ledger });
    const sliceRoots = [other];
    expect(finishedRound({ ...before, sliceRoots })).toMatchObject({ sliceRoots });
  });
});

describe('the first state of a run', () => {
  const { layout } = startOf(spec);
  const values = Float32Array.from({ length: layout.size }, (_, i) => i);
  const lineage = {
    run,
    author: keyOf(1),
    relays: [],
    rounds: 1,
    outcome: other,
    root: other,
    first: other,
  };
  const fork = { ...spec, parent: lineage };
  const tuned = (root: string | null) => ({ ...spec, start: { root } }) as never as typeof spec;

  it('has the parameters of the seed, or those that a fork or a published model starts from', () => {
    expect(startOf(spec, values).values).toEqual(startOf(spec).values);
    expect(startOf(tuned(null), values).values).toEqual(startOf(spec).values);
    for (const of of [fork, tuned(other)]) {
      expect(startOf(of, values)).toEqual({ layout, values });
      expect(startOf(of, values).values).not.toBe(values);
    }
  });

  it.each([
    ['fork/needed', fork],
    ['base/needed', tuned(other)],
  ])('is refused without them: %s', (code, of) => {
    for (const first of [undefined, values.slice(1)])
      expect(() => startOf(of, first)).toThrow(expect.objectContaining({ code }));
  });

  it('is that which the spec names', () => {
    const opening = openingOf(fork, {});
    expect(opening).not.toHaveProperty('params');
    expect(opening.modelRoot).toBe(other);
    expect(() => openingOf(fork, { first: values })).toThrow(
      expect.objectContaining({ code: 'base/other' }),
    );
    expect(openingOf(spec, {})).toHaveProperty('params');
  });
});
