/** A run that invites: a key joins once a founder has invited it, also while the run trains; others never do. */

import type { CertifiedState } from 'nostrain/certified/parts';
import { expect, it } from 'vitest';
import { assertInviting, invitationTo, seekCredentials } from '../../src/certified/invitations.ts';
import { certifiedRounds, certifiedSpec, keyOf } from '../support/certified-swarm.ts';
import { sampleSpec } from '../support/run-spec.ts';
import { signerOf } from '../support/swarm.ts';
import { createTimedSwarm, type TimedSwarm } from '../support/timed-swarm.ts';

const FOUNDERS = [0, 1, 2];
const founders = FOUNDERS.map(keyOf).sort();
const spec = certifiedSpec({
  ...{ founders: FOUNDERS, rounds: 20 },
  document: {
    joinsPerRound: 4,
    admission: { kind: 'trust', anchors: founders, by: 'assertions', rank: 100 },
  },
  timing: { graceMinMs: 2000, graceMaxMs: 20_000 },
});
/** Founders need no invitation, and their joins show none. */
const asFounder = { evidence: '', features: { trust: { proof: [] } } };
const NOW = 1_790_000_000;

/** Searches for the invitation of a key, as its worker does. */
async function searching({ connect, clock }: TimedSwarm, index: number) {
  const notices: string[] = [];
  const found = seekCredentials(spec, {
    ...{ key: keyOf(index), isMember: false, after: '00'.repeat(32), relays: connect(), clock },
    signal: new AbortController().signal,
    onNotice: (message) => notices.push(message),
  });
  await clock.advance(11_000);
  return { notices, admission: await found };
}

it('counts a key from the moment a founder invites it, and no key that a stranger invites', async () => {
  const swarm = createTimedSwarm(spec, 5);
  const [friend, stranger] = [await searching(swarm, 3), await searching(swarm, 4)];
  const members = [
    ...FOUNDERS.map((index) => swarm.start({ index, admission: asFounder })),
    swarm.start({ index: 3, admission: friend.admission }),
    swarm.start({ index: 4, admission: stranger.admission }),
  ];
  const rosterOf = () =>
    (members[0]!.disk.state as CertifiedState).head.ledger.members.map(({ key }) => key);
  const played = (rounds: number) => () => certifiedRounds(members[0]!).length >= rounds;
  expect(friend.admission()).toBeUndefined();
  expect(friend.notices.join()).toMatch(
    /not invited.*Ask npub1\w+ or npub1.* nostrain run invite [0-9a-f]{64} npub1/,
  );

  await swarm.secondsUntil(played(2), 600);
  expect(rosterOf()).toEqual(founders);
  swarm.put(signerOf(0).sign(invitationTo(keyOf(3), NOW)));
  swarm.put(signerOf(4).sign(invitationTo(keyOf(4), NOW)));
  await swarm.finish(members, 600);
  expect(rosterOf()).toEqual([...founders, keyOf(3)].sort());
  expect(stranger.admission()).toBeUndefined();
});

it('refuses invitations by a key that may not invite, and for runs that take none', () => {
  assertInviting(spec, founders[0]!);
  expect(() => assertInviting(spec, keyOf(4))).toThrow('may not invite others');
  const list = { admission: { kind: 'list', keys: [keyOf(4)] } };
  expect(() => assertInviting(sampleSpec(list), keyOf(4))).toThrow(/only 3 named keys may join/);
  expect(() => assertInviting(sampleSpec(), keyOf(4))).toThrow('anyone may join');
});
