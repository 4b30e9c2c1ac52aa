import { describe, expect, it } from 'vitest';
import { createView, fold } from '../../src/dashboard/view.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  finishedRounds,
  keyOf,
  rootsOf,
  startCertified,
  until,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { createStage } from '../support/stage.ts';
import { smallLayout } from '../support/swarm.ts';

const { relay, start } = createStage(startCertified);

const short = (index: number) => keyOf(index).slice(0, 8);

/** What the live view says below its table. */
const noticesOf = ({ events }: CertifiedMember): readonly string[] =>
  events
    .reduce((view, event) => fold(view, 'alice', event), createView(['alice']))
    .notices.map(({ message }) => message);

/** As a kill: what is on disk stays. */
async function kill(member: CertifiedMember): Promise<void> {
  member.stop();
  await member.finished.catch(() => undefined);
}

describe('T-10: members of a certified run go away', () => {
  it('two of three gone is a stall that names them, nothing is void without a quorum, and it goes on when they return', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 3 },
      timing: { graceMinMs: 100, graceMaxMs: 400, viewMs: 150 },
      document: { committee: { quorum: 'cft' } },
    });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec, trainMs: 200 }));
    const [left, ...others] = members;
    await finishedRounds(left!, 1);
    for (const other of others) await kill(other);
    const isNamed = (index: number) =>
      noticesOf(left!).some((each) => /not heard from/.test(each) && each.includes(short(index)));
    await until(left!, () => isNamed(1) && isNamed(2));
    // past the view from which on void would do: one of three does not decide that either
    await until(left!, () => left!.events.some((e) => e.type === 'stalled' && e.view > 3));
    const stall = left!.events.findLast((event) => event.type === 'stalled');
    const isOver = ({ index }: { readonly index: number }) => index >= stall!.round;
    expect(certifiedRounds(left!).filter(isOver)).toEqual([]);

    const back = others.map(({ disk }, i) => start({ index: i + 1, relays: [url], spec, disk }));
    await Promise.all([left!, ...back].map(({ finished }) => finished));
    expect(rootsOf(left!)).toHaveLength(3);
    for (const one of back) expect(rootsOf(one).at(-1)).toBe(rootsOf(left!).at(-1));
  }, 60_000);

  it('a recovery attempt ends the round in one root for who is left, and who returns adopts it', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2, 3, 4], rounds: 5 },
      timing: { graceMinMs: 100, graceMaxMs: 500, viewMs: 300, recoveryMs: 2500 },
    });
    const members = [0, 1, 2, 3, 4].map((index) =>
      start({ index, relays: [url], spec, trainMs: 200 }),
    );
    const [first, second, third, ...gone] = members;
    await finishedRounds(first!, 1);
    for (const one of gone) await kill(one);
    // four of five are a quorum: three are left, more than half of the roster
    await Promise.all([first!, second!, third!].map((member) => finishedRounds(member, 2)));
    // who starts again now has nothing of the recovered round but its end
    await kill(third!);
    const again = start({ index: 2, relays: [url], spec, disk: third!.disk });
    await Promise.all([first!, second!].map((member) => finishedRounds(member, 3)));
    const returned = start({ index: 3, relays: [url], spec, disk: gone[0]!.disk });
    const isThrough = (member: CertifiedMember) => certifiedRounds(member).at(-1)?.index === 4;
    const all = [first!, second!, again, returned];
    await Promise.all(all.map((member) => until(member, () => isThrough(member))));
    const roots = rootsOf(first!);
    for (const member of all) {
      for (const { index, certified } of certifiedRounds(member)) {
        expect(certified!.root).toBe(roots[index]);
      }
    }
    expect(certifiedRounds(returned).some(({ certified }) => certified!.attempt > 0)).toBe(true);

    const { rounds, end } = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(5).fill('full'));
    expect(rounds.some(({ decided }) => decided!.certificate.attempt > 0)).toBe(true);
    expect(end.state.modelRoot).toBe(roots.at(-1));
  }, 90_000);

  it('three void rounds in a row raise an alert', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1], rounds: 4 },
      timing: { graceMinMs: 50, graceMaxMs: 250, viewMs: 500 },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 800 }));
    await Promise.all(members.map((member) => finishedRounds(member, 4)));
    for (const member of members) {
      const results = certifiedRounds(member).map(({ certified }) => certified!.result);
      expect(results).toEqual(['void', 'void', 'void', 'void']);
      expect(member.events.filter((event) => event.type === 'voids')).toEqual([
        { type: 'voids', round: 2, count: 3 },
        { type: 'voids', round: 3, count: 4 },
      ]);
      expect(noticesOf(member)).toContainEqual(
        expect.stringMatching(/^round 3: ALERT, 3 rounds in a row were void/),
      );
    }
    expect(rootsOf(members[0]!)).toEqual(rootsOf(members[1]!));
  }, 60_000);
});
