/** Through which keys founders act before the first round is decided. */
import { genesisOf, type ProtocolMessage, startOf } from 'nostrain/certified/parts';
import { type RunSpec, runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  ActingFounders,
  keysBehind,
  roundWith,
  seatActing,
  seatFounders,
  seatsFounders,
} from '../../src/certified/decisions/founders.ts';
import { certifiedSpec, foundersOf, signerOf } from '../support/certified-run.ts';
import { delegatedBy } from '../support/delegated.ts';

const keyOf = (number: number) => signerOf(number).publicKey;
const spec = certifiedSpec({ sessions: true });
const run = runIdOf(spec);
const chain = genesisOf(spec, startOf(spec));
const signed = { isSigned: () => true };
const forged = { isSigned: () => false };
const roster = foundersOf(4);
let ids = 0;

const byOf = (owner: number, session: number, until = 3) =>
  delegatedBy(signerOf(owner), { run, session: keyOf(session) }, until);
/** A join of session 5 and up for an owner; of the founder's own key without one. */
const join = (session: number, owner: number | null, createdAt?: number) =>
  ({
    ...{ type: 'join', id: `${ids++}`, key: keyOf(session), evidence: '', after: run, tip: run },
    features: { sessions: { by: owner === null ? null : byOf(owner, session) } },
    ...(createdAt !== undefined && { signature: { createdAt } }),
  }) as never as Extract<ProtocolMessage, { type: 'join' }>;
const proposal = (key: string, joins: readonly object[]) =>
  ({ type: 'proposal', id: `${ids++}`, key, outcome: { joins } }) as never as ProtocolMessage;
const vote = (key: string) =>
  ({
    type: 'vote',
    id: `${ids++}`,
    key,
    outcome: { joins: [join(5, 1)] },
  }) as never as ProtocolMessage;
const bare = { key: keyOf(5), type: 'join', id: 'bare' } as never as ProtocolMessage;

const keysIn = (of: { readonly ledger: typeof chain.ledger }) =>
  of.ledger.members.map(({ key }) => key);
/** The roster in which session keys have the rows of these founders. */
const withSessions = (sessions: Readonly<Record<number, number>>) =>
  roster.map((key) => {
    const owner = Object.keys(sessions).find((number) => keyOf(Number(number)) === key);
    return owner === undefined ? key : keyOf(sessions[Number(owner)]!);
  });

describe('the rows of founders in round 0', () => {
  it('are open in round 0 of a run with sessions only', () => {
    expect(seatsFounders(chain)).toBe(true);
    expect(seatsFounders({ ...chain, round: 1 })).toBe(false);
    expect(seatsFounders({ round: 0, spec: certifiedSpec() })).toBe(false);
  });

  it('go to the sessions that founders delegated, and to no others', () => {
    const joins = [
      join(5, 1),
      join(6, 9),
      join(3, null),
      { key: keyOf(7) },
      { key: keyOf(8), features: {} },
    ];
    const seated = seatFounders(chain, joins, signed);
    expect(keysIn(seated)).toEqual(withSessions({ 1: 5 }));
    expect({ ...seated, ledger: chain.ledger }).toEqual(chain);
    const row = seated.ledger.members.find(({ key }) => key === keyOf(5));
    expect(row?.features?.sessions).toEqual({ principal: keyOf(1), until: 3 });
    expect(keysIn(seatFounders(seated, [join(6, 2)], signed))).toEqual(withSessions({ 2: 6 }));
  });

  it('stay with the founders if no delegation holds, or once the round is decided', () => {
    for (const joins of [[], [join(6, 9)], [join(3, null)]])
      expect(seatFounders(chain, joins, signed)).toBe(chain);
    expect(seatFounders(chain, [join(5, 1)], forged)).toBe(chain);
    const later = { ...chain, round: 1 };
    expect(seatFounders(later, [join(5, 1)], signed)).toBe(later);
  });

  it('decide who sits when the round opens', () => {
    const evidence = { ...signed, stakes: () => undefined };
    const { state, electorate } = roundWith(chain, [join(5, 1)], evidence);
    expect(keysIn(state)).toEqual(withSessions({ 1: 5 }));
    expect([...electorate.committee.members].sort()).toEqual([...withSessions({ 1: 5 })].sort());
  });
});

describe('the keys whose votes may count', () => {
  const behind = (of: typeof chain, ...messages: readonly ProtocolMessage[]) =>
    keysBehind(of, {
      ...signed,
      messages: new Map(messages.map((each) => [each.id, each])),
    } as never);

  it('are the members, and in round 0 the sessions in joins and in proposals', () => {
    expect(behind(chain)).toEqual(roster);
    const messages = [
      join(5, 1),
      proposal(keyOf(9), [join(6, 2), join(7, 9)]),
      vote(keyOf(1)),
      bare,
    ];
    expect(behind(chain, ...messages)).toEqual([...roster, keyOf(5), keyOf(6)]);
    expect(behind({ ...chain, round: 1 }, ...messages)).toEqual(roster);
  });
});

describe('the keys through which founders act, as far as a worker knows', () => {
  const acting = (of: RunSpec = spec, evidence = signed) =>
    new ActingFounders({ ...chain, spec: of }, evidence);
  const keysOf = (of: ActingFounders) => of.joins.map(({ key }) => key);

  it('changes with a join of a session, not with one of the founder itself', () => {
    const founders = acting();
    expect(founders.take(join(1, null, 10))).toBe(false);
    expect(keysOf(founders)).toEqual([keyOf(1)]);
    expect(founders.take(join(5, 1, 11))).toBe(true);
    expect(founders.joins).toMatchObject([
      { key: keyOf(5), features: { sessions: { by: { key: keyOf(1) } } } },
    ]);
    // the founder itself is back
    expect(founders.take(join(1, null, 12))).toBe(true);
    expect(founders.take(join(1, null, 13))).toBe(false);
  });

  it('follows the join with the latest date, so that relays cannot bring an older one back', () => {
    const founders = acting();
    expect(founders.take(join(5, 1, 10))).toBe(true);
    expect(founders.take(join(6, 1, 10))).toBe(false);
    expect(founders.take(join(6, 1, 9))).toBe(false);
    expect(keysOf(founders)).toEqual([keyOf(5)]);
    expect(founders.take(join(6, 1, 11))).toBe(true);
    expect(founders.take(join(6, 1, 12))).toBe(false);
    expect(keysOf(founders)).toEqual([keyOf(6)]);
    // without a date it is the oldest
    expect(founders.take(join(7, 2))).toBe(true);
    expect(founders.take(join(8, 2))).toBe(false);
    expect(founders.take(join(8, 2, 1))).toBe(true);
  });

  it('changes at most four times for one founder', () => {
    const founders = acting();
    const took = [5, 6, 7, 8, 9, 10].map((number, i) => founders.take(join(number, 1, i + 1)));
    expect(took).toEqual([true, true, true, true, false, false]);
    expect(keysOf(founders)).toEqual([keyOf(8)]);
    expect(founders.take(join(5, 2, 1))).toBe(true);
  });

  it('does not change for keys that no founder delegated, or with a forged delegation', () => {
    const founders = acting();
    expect(founders.take(join(6, 9, 10))).toBe(false);
    expect(founders.take(join(6, null, 10))).toBe(false);
    expect(founders.take(bare)).toBe(false);
    expect(founders.take(vote(keyOf(1)))).toBe(false);
    expect(founders.joins).toEqual([]);
    const wary = acting(spec, forged);
    expect(wary.take(join(5, 1, 10))).toBe(false);
    expect(wary.take(join(1, null, 11))).toBe(false);
    expect(keysOf(wary)).toEqual([keyOf(1)]);
  });

  it('only counts founders that are called, in a run with more founders than a round admits', () => {
    const founders = acting({ ...spec, foundersPerRound: 2 });
    const took = [1, 2, 3, 4].map((owner) => founders.take(join(4 + owner, owner, 10)));
    expect(took.filter(Boolean)).toHaveLength(2);
  });

  it('takes the joins of sessions from a proposal of a founder or of a key that acts for one', () => {
    const founders = acting();
    expect(founders.take(proposal(keyOf(9), [join(5, 1)]))).toBe(false);
    expect(founders.take(proposal(keyOf(5), [join(5, 1)]))).toBe(false);
    expect(founders.take(proposal(keyOf(2), []))).toBe(false);
    expect(founders.take(proposal(keyOf(2), [{ key: keyOf(8) }, join(2, null), join(5, 1)]))).toBe(
      true,
    );
    expect(keysOf(founders)).toEqual([keyOf(5)]);
    expect(founders.take(proposal(keyOf(5), [join(6, 3)]))).toBe(true);
    expect(keysOf(founders)).toEqual([keyOf(5), keyOf(6)]);
  });

  it('replaces no key with the joins of a proposal, which may be invalid', () => {
    const founders = acting();
    founders.take(join(5, 1, 10));
    expect(founders.take(proposal(keyOf(2), [join(6, 1, 20)]))).toBe(false);
    expect(keysOf(founders)).toEqual([keyOf(5)]);
    // a join by its own event replaces what a proposal named
    founders.take(proposal(keyOf(2), [join(7, 3, 99)]));
    expect(founders.take(join(8, 3, 1))).toBe(true);
  });

  it('has the rows of the round', () => {
    const messages = [join(5, 1, 10), join(6, 1, 11), vote(keyOf(1))];
    expect(keysIn(seatActing(chain, messages, signed))).toEqual(withSessions({ 1: 6 }));
    const later = { ...chain, round: 1 };
    expect(seatActing(later, messages, signed)).toBe(later);
  });
});
