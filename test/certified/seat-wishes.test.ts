/**
 * A run with seat wishes: a worker that wants no seat has none two rounds later, keeps training, and may get one again.
 */
import { expect, it } from 'vitest';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { smallLayout as layout } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;

it('a worker that wants no seat has none two rounds later, its work counts, and the seat returns with the wish', async () => {
  const { url } = relay();
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2, 3], rounds: 8 },
    document: { seatWishes: true },
  });
  expect(spec.features).toEqual(['seats']);
  const members: CertifiedMember[] = [];
  const over = () => members[3]!.events.filter(({ type }) => type === 'round').length;
  // it looks away once a round is over, and looks again after four
  const wantsSeat = () => over() < 1 || over() >= 4;
  for (const index of [0, 1, 2, 3]) {
    const wantsSeats = () => index !== 3 || wantsSeat();
    members.push(start({ index, relays: [url], spec, wantsSeats }));
  }
  const ends = await Promise.all(members.map(({ finished }) => finished));
  expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
  const mover = keyOf(3);
  for (const { accepted, certified } of certifiedRounds(members[0]!)) {
    expect(certified!.result).toBe('final');
    expect(accepted).toContain(mover);
    expect(certified!.joined).toEqual([]);
  }
  const { rounds } = replayed(spec, layout, await historyOf(url, spec, layout, undefined, stage));
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(8).fill('full'));
  const seated = rounds.map(({ decided }) =>
    decided!.certificate.committee.members.includes(mover),
  );
  // asked for in the round after it looked away; listed there, or one later where the proposer was faster
  expect(seated.slice(0, 3)).toEqual([true, true, true]);
  expect(seated).toContain(false);
  expect(seated.at(-1)).toBe(true);
  expect(seated.filter((has) => !has).length).toBeLessThanOrEqual(4);
});

it('if no worker wants a seat, all sit', async () => {
  const { url } = relay();
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2], rounds: 4 },
    document: { seatWishes: true, joinsPerRound: 8 },
  });
  const members = [0, 1, 2].map((index) =>
    start({ index, relays: [url], spec, wantsSeats: () => false }),
  );
  await Promise.all(members.map(({ finished }) => finished));
  for (const { certified } of certifiedRounds(members[0]!)) {
    expect(certified).toMatchObject({ result: 'final', of: 3 });
  }
});
