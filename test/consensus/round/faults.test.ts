import { beginRound, step } from 'nostrain/consensus';
import type { Signed, ViewChangeVote } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { judgeFault, type ManifestClaim } from '../../../src/consensus/round/receive.ts';
import { contextFor } from './model-check/setup.ts';
import { cast, friends, Player, proposalBy, voteBy } from './test-network.ts';

const four = friends(4);
const commit = (digest: string, view = 0) => voteBy(four, 'w2', 'commit', digest, { view });
const prepare = (digest: string, view: number, justify = -1) =>
  voteBy(four, 'w2', 'prepare', digest, { view, justify });

describe('R-09: the path to ejection', () => {
  const [one, other] = [commit('X'), commit('Y')];
  const proof = { key: 'w2', kind: 'equivocation', events: [one.id, other.id] };

  test('two commits of one key for one view prove it, in any order, without other events', () => {
    expect(judgeFault(one, other)).toEqual(proof);
    expect(judgeFault(JSON.parse(JSON.stringify(other)), one)).toEqual(proof);
  });

  test('every honest worker that sees both says so, once', () => {
    for (const key of ['w0', 'w1', 'w3']) {
      const me = new Player(four, key);
      for (const vote of [one, other, commit('Z'), prepare('Z', 1), prepare('X', 1)]) {
        me.hear(vote, 300);
      }
      expect(me.all('fault').map(({ fault }) => fault)).toEqual([proof]);
    }
  });

  test('its votes still count in that round, and no more in the next one', () => {
    const me = new Player(four, 'w3');
    me.hear(proposalBy(four, 'w0', 'X'), 1);
    for (const vote of [other, one]) me.hear(vote, 1);
    for (const key of ['w0', 'w1']) me.hear(voteBy(four, key, 'commit', 'X'), 1);
    expect(me.state.decided?.digest).toBe('X');
    const next = { ...contextFor(four, 'w3'), roster: ['w0', 'w1', 'w3'] };
    const state = beginRound(next, { begun: 0, back: null });
    const { effects } = step(next, state, { type: 'message', message: one }, 1);
    expect(effects[0]).toEqual({ type: 'refused', refusal: { code: 'not-a-member', key: 'w2' } });
  });
});

test('two proposals of one view prove an equivocation, also if only their justification differs', () => {
  const proposal = proposalBy(four, 'w2', 'X');
  for (const change of [{ prepares: ['p'] }, { ballots: ['b'] }, { justify: 0 }, { digest: 'Y' }]) {
    const other = { ...proposal, ...change, id: 'other' };
    expect(judgeFault(proposal, other)).toMatchObject({ key: 'w2', kind: 'equivocation' });
  }
  expect(judgeFault(proposal, { ...proposal, id: 'other' })).toBeUndefined();
});

describe('a broken lock', () => {
  test('is a later prepare of something else that nothing since the commit justifies', () => {
    const broken = { key: 'w2', kind: 'broken-lock' };
    expect(judgeFault(commit('X', 3), prepare('Y', 4))).toMatchObject(broken);
    expect(judgeFault(prepare('Y', 9, 2), commit('X', 3))).toMatchObject(broken);
  });

  test('is not one that was justified, came before, is of the same outcome, or of another recovery epoch', () => {
    expect(judgeFault(commit('X', 3), prepare('Y', 5, 3))).toBeUndefined();
    expect(judgeFault(commit('X', 3), prepare('Y', 5, 4))).toBeUndefined();
    expect(judgeFault(commit('X', 3), prepare('Y', 2))).toBeUndefined();
    expect(judgeFault(commit('X', 3), prepare('X', 4))).toBeUndefined();
    expect(judgeFault(commit('X', 3), { ...prepare('Y', 4), attempt: 1 })).toBeUndefined();
    expect(judgeFault(commit('X', 3), { ...prepare('Y', 4), key: 'w1' })).toBeUndefined();
    for (const elsewhere of [{ run: 'other' }, { round: 1 }, { parent: 'other' }]) {
      expect(judgeFault(commit('X', 3), { ...prepare('Y', 4), ...elsewhere })).toBeUndefined();
    }
    // prepared before it committed in that view, and a later commit, which a quorum of prepares justifies
    expect(judgeFault(commit('X', 3), prepare('Y', 3))).toBeUndefined();
    expect(judgeFault(commit('X', 3), commit('Y', 5))).toBeUndefined();
  });
});

describe('slots', () => {
  const ballot = (prepared: ViewChangeVote['prepared'], id: string): Signed<ViewChangeVote> => {
    const { run, round, parent } = cast;
    return { type: 'ballot', run, round, parent, attempt: 1, prepared, id, key: 'w2' };
  };
  const claim = { attempt: 0, view: 1, digest: 'X', proposal: 'p', prepares: ['a', 'b'] };
  const manifest = (content: string, id: string): Signed<ManifestClaim> => {
    const { run, round, parent } = cast;
    return { type: 'manifest', run, round, parent, content, id, key: 'w2' };
  };

  test.each([
    ['the same content signed twice', commit('X'), { ...commit('X'), id: 'later' }, false],
    [
      'commits with other unlisted places',
      commit('X'),
      { ...commit('X'), id: 'l', unlisted: [7] },
      true,
    ],
    [
      'prepares with another justification',
      prepare('X', 4, 1),
      { ...prepare('X', 4, 2), id: 'l' },
      true,
    ],
    ['prepares of two views', prepare('X', 4), prepare('Y', 5), false],
    ['a prepare and a commit', prepare('X', 4), commit('X', 4), false],
    ['a proposal and a prepare', proposalBy(four, 'w2', 'X'), prepare('Y', 0), true],
    ['two proposals', proposalBy(four, 'w2', 'X'), proposalBy(four, 'w2', 'Y'), true],
    ['two view-change votes', ballot(null, 'a'), ballot(claim, 'b'), true],
    ['the same view-change vote twice', ballot(claim, 'a'), ballot({ ...claim }, 'b'), false],
    [
      'view-change votes of two recovery epochs',
      ballot(null, 'a'),
      { ...ballot(claim, 'b'), attempt: 2 },
      false,
    ],
    ['two manifests', manifest('1', 'a'), manifest('2', 'b'), true],
    [
      'manifests after two histories',
      manifest('1', 'a'),
      { ...manifest('2', 'b'), parent: 'o' },
      false,
    ],
    ['a manifest and a vote', manifest('1', 'a'), commit('X'), false],
  ])('%s', (_, a, b, isFault) => {
    expect(judgeFault(a, b)?.kind).toBe(isFault ? 'equivocation' : undefined);
    expect(judgeFault(b, a)).toEqual(judgeFault(a, b));
  });
});

test('an equivocator cannot fill the memory, and what was asked for is taken all the same', () => {
  const me = new Player(four, 'w3');
  for (let i = 0; i < 50; i++) me.hear(commit(`flood ${i}`), 1);
  expect(me.state.votes).toHaveLength(2);
  expect(me.all('refused').at(-1)?.refusal).toEqual({ code: 'too-many', key: 'w2' });
  for (const key of ['w0', 'w1']) me.hear(voteBy(four, key, 'commit', 'X'), 1);
  me.hear(commit('X'), 1);
  me.hear(proposalBy(four, 'w0', 'X'), 1);
  expect(me.state.decided?.digest).toBe('X');
});

test('votes from views and attempts that no clock can have reached are refused', () => {
  const me = new Player(friends(4, 'bft', 3), 'w3');
  me.hear(voteBy(four, 'w1', 'commit', 'X', { view: 1_000_000 }), 1000);
  me.hear(voteBy(four, 'w1', 'commit', 'X', { attempt: 7 }), 1000);
  const codes = me.all('refused').map(({ refusal }) => refusal.code);
  expect(codes).toEqual(['too-early', 'too-early']);
});
