/**
 * Acceptance T-10: members of a certified run disappear. The times are those of a real run, on a clock that the test
 * advances: rounds of a minute, a grace of a minute and a half, and the default recovery after ten minutes.
 */

import { toProtocolMessage } from 'nostrain/certified/parts';
import { nativeCrypto } from 'nostrain/node';
import { type RunSpec, runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { shortName } from '../../src/run/worker-names.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  kill,
  noticesOf,
  rootsOf,
  type SpecOptions,
} from '../support/certified-swarm.ts';
import { replayed } from '../support/replaying.ts';
import { smallLayout } from '../support/swarm.ts';
import { createTimedSwarm, type TimedSwarm } from '../support/timed-swarm.ts';

// in seconds
const TRAIN = 60;
const GRACE = 90;
const VIEW = 10;
const RECOVERY = 600;
const HOUR = 3600;

const specOf = ({ timing, ...more }: SpecOptions): RunSpec =>
  certifiedSpec({
    ...more,
    timing: {
      ...{ graceMinMs: 1000 * GRACE, graceMaxMs: 1000 * GRACE, viewMs: 1000 * VIEW },
      ...{ recoveryMs: 1000 * RECOVERY },
      ...timing,
    },
  });

/** Founders 0, 1, ... */
const startAll = (swarm: TimedSwarm, count: number): readonly CertifiedMember[] =>
  Array.from({ length: count }, (_, index) => swarm.start({ index }));

const short = (index: number) => shortName(keyOf(index));

const stallsOf = ({ events }: CertifiedMember) => events.filter(({ type }) => type === 'stalled');
const voidsOf = ({ events }: CertifiedMember) => events.filter(({ type }) => type === 'voids');

const haveFinished = (members: readonly CertifiedMember[], rounds: number) => () =>
  members.every((member) => certifiedRounds(member).length >= rounds);

/** The results that a worker proposed in a round. */
const proposedIn = ({ events }: TimedSwarm, spec: RunSpec, by: CertifiedMember, round: number) =>
  events.flatMap((event) => {
    const message = toProtocolMessage(event, runIdOf(spec), nativeCrypto);
    const isIt = message?.type === 'proposal' && message.key === by.id && message.round === round;
    return isIt ? [message.outcome.result] : [];
  });

describe('T-10: two of three are killed', () => {
  const founders = [0, 1, 2];
  const document = { committee: { quorum: 'cft' } };

  it('is a stall that names them once the first view is over', async () => {
    const swarm = createTimedSwarm(specOf({ founders, rounds: 3, document }), TRAIN);
    const [left, ...others] = startAll(swarm, 3);
    expect(await swarm.secondsUntil(haveFinished([left!], 1), HOUR)).toBe(TRAIN);
    for (const other of others) await kill(other);
    const times: number[] = [];
    for (let seconds = 0; times.length < 6; ) {
      const before = stallsOf(left!).length;
      seconds += await swarm.secondsUntil(() => stallsOf(left!).length > before, HOUR);
      times.push(seconds);
    }
    // it proposes in view 0, and in view 1 no one does, so half of its time is enough
    expect(times).toEqual([1, 2, 6, 14, 22, 30].map((views) => GRACE + views * VIEW));
    // each view names its proposer, or the member that did not follow
    const named = (index: number) =>
      noticesOf(left!).some((each) => /no vote from/.test(each) && each.includes(short(index)));
    expect([1, 2].map(named)).toEqual([true, true]);
    expect(stallsOf(left!).slice(0, 3)).toMatchObject([{ view: 0 }, { view: 1 }, { view: 2 }]);
  });

  it('while they are offline no round is void without a quorum, and the run continues when they return', async () => {
    const spec = specOf({ founders, rounds: 3, document, timing: { recoveryMs: 0 } });
    const swarm = createTimedSwarm(spec, TRAIN);
    const [left, ...others] = startAll(swarm, 3);
    await swarm.secondsUntil(haveFinished([left!], 1), HOUR);
    for (const other of others) await kill(other);
    await swarm.clock.advance(HOUR * 1000);
    expect(certifiedRounds(left!)).toHaveLength(1);
    expect(voidsOf(left!)).toEqual([]);
    expect(stallsOf(left!).at(-1)).toMatchObject({ round: 1, attempt: 0 });
    // beyond the view that allows void: one of three proposes it, and cannot decide it
    expect(proposedIn(swarm, spec, left!, 1)).toContain('void');
    expect(replayed(spec, smallLayout, swarm.events).rounds).toHaveLength(1);

    const back = others.map(({ disk }, i) => swarm.start({ index: i + 1, disk }));
    expect(await swarm.secondsUntil(haveFinished([left!], 3), HOUR)).toBe(2 * TRAIN);
    await swarm.finish([left!, ...back], HOUR);
    expect(rootsOf(left!)).toHaveLength(3);
    for (const one of back) expect(rootsOf(one).at(-1)).toBe(rootsOf(left!).at(-1));
  });
});

describe('T-10: recovery', () => {
  // four of five are a quorum, and three are more than half of the roster
  const founders = [0, 1, 2, 3, 4];

  it('ends the round in one root for the remaining members once it is due, and returning members adopt it', async () => {
    const spec = specOf({ founders, rounds: 5 });
    const swarm = createTimedSwarm(spec, TRAIN);
    const [first, second, third, ...gone] = startAll(swarm, 5);
    expect(await swarm.secondsUntil(haveFinished([first!], 1), HOUR)).toBe(TRAIN);
    for (const one of gone) await kill(one);
    const seconds = await swarm.secondsUntil(haveFinished([first!, second!, third!], 2), HOUR);
    // proposers of the new epoch come from the whole roster: two of them are missing
    expect(seconds).toBeGreaterThan(GRACE + RECOVERY);
    expect(seconds).toBeLessThanOrEqual(GRACE + RECOVERY + (1 + 2 + 4) * VIEW);
    // a worker that restarts now only finds the end of the recovered round
    await kill(third!);
    const again = swarm.start({ index: 2, disk: third!.disk });
    // members that did not vote to leave are no longer waited for
    expect(await swarm.secondsUntil(haveFinished([first!, second!], 3), HOUR)).toBeLessThan(GRACE);
    const returned = swarm.start({ index: 3, disk: gone[0]!.disk });
    const all = [first!, second!, again, returned];
    const areThrough = () => all.every((member) => certifiedRounds(member).at(-1)?.index === 4);
    await swarm.secondsUntil(areThrough, HOUR);
    const roots = rootsOf(first!);
    for (const member of all) {
      for (const { index, certified } of certifiedRounds(member)) {
        expect(certified!.root).toBe(roots[index]);
      }
    }
    const attempts = certifiedRounds(returned).map(({ certified }) => certified!.attempt);
    expect(attempts[0]).toBe(1);

    const { rounds, end } = replayed(spec, smallLayout, swarm.events);
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(5).fill('full'));
    expect(rounds.map(({ decided }) => decided!.certificate.attempt)).toEqual([0, 1, 0, 0, 0]);
    expect(end.state.modelRoot).toBe(roots.at(-1));
  });

  it('waits below its floor as long as necessary, names the missing members, and accepts them when they return', async () => {
    const swarm = createTimedSwarm(specOf({ founders, rounds: 2 }), TRAIN);
    const [first, second, ...gone] = startAll(swarm, 5);
    await swarm.secondsUntil(haveFinished([first!, second!], 1), HOUR);
    for (const one of gone) await kill(one);
    await swarm.clock.advance(HOUR * 1000);
    for (const member of [first!, second!]) {
      expect(certifiedRounds(member)).toHaveLength(1);
      const missing = gone.map(({ id }) => id).sort();
      expect(stallsOf(member).at(-1)).toMatchObject({ round: 1, attempt: 1, missing });
    }
    const third = swarm.start({ index: 2, disk: gone[0]!.disk });
    const seconds = await swarm.finish([first!, second!, third], HOUR);
    // it sees at once that the others closed long ago, and its vote completes the floor
    expect(seconds).toBeLessThanOrEqual(TRAIN + (1 + 2 + 4) * VIEW);
    expect(rootsOf(third).at(-1)).toBe(rootsOf(first!).at(-1));
    expect(rootsOf(second!)).toEqual(rootsOf(first!));
    const { result, attempt } = certifiedRounds(first!)[1]!.certified!;
    expect(result).toBe('final');
    expect(attempt).toBeGreaterThan(0);
  });
});

describe('T-10: rounds without any contribution in time', () => {
  const founders = [0, 1];
  const SLOW = 300;

  it('are void by a quorum, and no worker loses its learning', async () => {
    const swarm = createTimedSwarm(specOf({ founders, rounds: 2 }), SLOW);
    const members = startAll(swarm, 2);
    await swarm.finish(members, HOUR);
    for (const member of members) {
      const [first] = certifiedRounds(member);
      expect(first!.certified).toMatchObject({ result: 'void', root: first!.base });
      expect(first!.certified!.signers).toEqual(members.map(({ id }) => id).sort());
      expect(member.disk.state!.residual.some((value) => value !== 0)).toBe(true);
    }
    expect(rootsOf(members[0]!)).toEqual(rootsOf(members[1]!));
  });

  it('three in a row raise an alert', async () => {
    const swarm = createTimedSwarm(specOf({ founders, rounds: 4 }), SLOW);
    const members = startAll(swarm, 2);
    const isAlert = () => members.every((member) => voidsOf(member).length > 0);
    expect(await swarm.secondsUntil(isAlert, HOUR)).toBe(3 * SLOW);
    await swarm.finish(members, HOUR);
    for (const member of members) {
      const results = certifiedRounds(member).map(({ certified }) => certified!.result);
      expect(results).toEqual(['void', 'void', 'void', 'void']);
      expect(voidsOf(member)).toEqual([
        { type: 'voids', round: 2, count: 3 },
        { type: 'voids', round: 3, count: 4 },
      ]);
      expect(noticesOf(member)).toContainEqual(
        expect.stringMatching(/^round 4: ALERT, 4 rounds in a row were void/),
      );
    }
    expect(rootsOf(members[0]!)).toEqual(rootsOf(members[1]!));
  });
});
