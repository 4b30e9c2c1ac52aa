/**
 * The run that `nostrain host` makes: a minority of its founders may be away at any time, the run waits while most are,
 * and nobody is removed or finishes alone. Hours take moments on the test's clock.
 */
import type { RunSpec } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { founderFields } from '../../src/node/friends/lobby-run.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  kill,
  rootsOf,
} from '../support/certified-swarm.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const TRAIN = 20;
const ROUNDS = 6;
const HOUR = 3600;
/** Longer than the time until a recovery. */
const WAIT = 1500;

const specWith = (people: number, quorum: 'cft' | 'bft' = 'cft'): RunSpec => {
  const { timing, ...document } = founderFields(quorum);
  const times = { ...timing, graceMinMs: 5000, graceMaxMs: 120_000, recoveryMs: 600_000 };
  const founders = Array.from({ length: people }, (_, index) => index);
  return certifiedSpec({ founders, rounds: ROUNDS, document, timing: times });
};

const played = (members: readonly CertifiedMember[], rounds: number) => () =>
  members.every((member) => certifiedRounds(member).length >= rounds);

const acceptedIn = (member: CertifiedMember, index: number) =>
  certifiedRounds(member).find((round) => round.index === index)?.accepted ?? [];

describe('three friends', () => {
  it('train on while one of them is away, whoever it is, in the same bits', async () => {
    const spec = specWith(3);
    const swarm = createTimedSwarm(spec, TRAIN);
    const [anna, bea, cid] = [0, 1, 2].map((index) => swarm.start({ index }));
    await swarm.secondsUntil(played([anna!, bea!, cid!], 1), HOUR);
    await kill(cid!);
    await swarm.secondsUntil(played([anna!, bea!], 3), HOUR);
    expect(acceptedIn(anna!, 2)).toEqual([anna!.id, bea!.id].sort());
    // one comes back while another goes, so that each has been away
    const back = swarm.start({ index: 2, disk: cid!.disk });
    await kill(anna!);
    await swarm.finish([bea!, back], 2 * HOUR);
    expect(acceptedIn(bea!, ROUNDS - 1)).toEqual([bea!.id, back.id].sort());
    expect(rootsOf(bea!).slice(-2)).toEqual(rootsOf(back).slice(-2));
    expect(bea!.disk.state?.head.ledger.members.length).toBe(3);
  });

  it('wait while two are away, and go on when one of these is back', async () => {
    const spec = specWith(3);
    const swarm = createTimedSwarm(spec, TRAIN);
    const [anna, bea, cid] = [0, 1, 2].map((index) => swarm.start({ index }));
    await swarm.secondsUntil(played([anna!], 2), HOUR);
    await kill(bea!);
    await kill(cid!);
    const before = certifiedRounds(anna!).length;
    await swarm.clock.advance(WAIT * 1000);
    expect(certifiedRounds(anna!).length).toBeLessThanOrEqual(before + 1);
    const stalled = anna!.events.filter(({ type }) => type === 'stalled').at(-1);
    expect(stalled).toMatchObject({ missing: expect.arrayContaining([bea!.id, cid!.id]) });
    const back = swarm.start({ index: 1, disk: bea!.disk });
    await swarm.finish([anna!, back], 5 * HOUR);
    expect(rootsOf(anna!).at(-1)).toBe(rootsOf(back).at(-1));
  });

  it('begin although one of them has not come yet', async () => {
    const swarm = createTimedSwarm(specWith(3), TRAIN);
    const members = [0, 1].map((index) => swarm.start({ index }));
    await swarm.secondsUntil(played(members, 2), HOUR);
    const late = swarm.start({ index: 2 });
    await swarm.finish([...members, late], 2 * HOUR);
    expect(acceptedIn(members[0]!, ROUNDS - 1)).toContain(late.id);
  });
});

it('two friends wait for each other, from the first round on', async () => {
  const swarm = createTimedSwarm(specWith(2), TRAIN);
  const anna = swarm.start({ index: 0 });
  await swarm.clock.advance(WAIT * 1000);
  expect(certifiedRounds(anna)).toEqual([]);
  const bea = swarm.start({ index: 1 });
  await swarm.secondsUntil(played([anna, bea], 2), HOUR);
  await kill(bea);
  const before = certifiedRounds(anna).length;
  await swarm.clock.advance(WAIT * 1000);
  expect(certifiedRounds(anna).length).toBeLessThanOrEqual(before + 1);
  const back = swarm.start({ index: 1, disk: bea.disk });
  await swarm.finish([anna, back], 5 * HOUR);
});

it('with --quorum bft three friends wait for each of them', async () => {
  const swarm = createTimedSwarm(specWith(3, 'bft'), TRAIN);
  const members = [0, 1].map((index) => swarm.start({ index }));
  await swarm.clock.advance((WAIT * 1000) / 10);
  expect(certifiedRounds(members[0]!)).toEqual([]);
});
