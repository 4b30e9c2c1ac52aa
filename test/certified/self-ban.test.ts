/** How an honest key could sign two contributions in one round and be ejected with a proof against it. */
import { describe, expect, it } from 'vitest';
import { shortName } from '../../src/run/worker-names.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  kill,
  noticesOf,
} from '../support/certified-swarm.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;
const TRAIN = 4;
const MEMBERS = [0, 1, 2, 3];

const specOf = (rounds: number) =>
  certifiedSpec({
    ...{ founders: MEMBERS, rounds, document: { checkpoint: { every: 1, keep: 3 } } },
    timing: { graceMinMs: 10_000, graceMaxMs: 10_000 },
  });

const faultsOf = (member: CertifiedMember) => member.events.filter(({ type }) => type === 'fault');

const acceptedOf = (member: CertifiedMember, key: string) =>
  certifiedRounds(member).flatMap(({ index, accepted }) => (accepted.includes(key) ? [index] : []));

describe('a key that outlives its run folder', () => {
  it('skips one round and continues, without a proof against it', async () => {
    const swarm = createTimedSwarm(specOf(6), TRAIN);
    // the others take longer, so that it is killed between sending its contribution and the end of the round
    const trainMs = 1000 * (TRAIN + 4);
    const members = MEMBERS.map((index) => swarm.start(index < 3 ? { index, trainMs } : { index }));
    const hasSent = () =>
      certifiedRounds(members[0]!).length === 2 &&
      swarm.events.some(
        ({ kind, pubkey, content }) =>
          kind === 7810 && pubkey === keyOf(3) && content.includes('"round":2'),
      );
    await swarm.secondsUntil(hasSent, HOUR);
    await kill(members[3]!);
    const again = swarm.start({ index: 3, fetchesCheckpoint: true });
    await swarm.finish([...members.slice(0, 3), again], HOUR);
    expect([...members.slice(0, 3), again].flatMap(faultsOf)).toEqual([]);
    expect(noticesOf(again).join()).toMatch(/skips this round, because this key may have signed/);
    expect(acceptedOf(members[0]!, keyOf(3))).toEqual(expect.arrayContaining([0, 1, 4, 5]));
  });
});

describe('two processes with one key', () => {
  it('on two machines: the second reports it and stops, the first continues', async () => {
    const swarm = createTimedSwarm(specOf(6), TRAIN);
    const members = MEMBERS.map((index) => swarm.start({ index }));
    await swarm.secondsUntil(() => certifiedRounds(members[0]!).length === 2, HOUR);
    const second = swarm.start({ index: 3, fetchesCheckpoint: true });
    let error: unknown;
    second.finished.catch((reason: unknown) => {
      error = reason;
    });
    await swarm.secondsUntil(() => error !== undefined, HOUR);
    expect(error).toMatchObject({
      code: 'run/key-in-use',
      message: expect.stringContaining(shortName(keyOf(3))),
      hint: expect.stringContaining('--key-file'),
    });
    await swarm.finish(members, HOUR);
    expect(members.flatMap(faultsOf)).toEqual([]);
    expect(acceptedOf(members[0]!, keyOf(3))).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('with an old copy of the folder: the second stops too', async () => {
    const swarm = createTimedSwarm(specOf(6), TRAIN);
    const members = MEMBERS.map((index) => swarm.start({ index }));
    await swarm.secondsUntil(() => certifiedRounds(members[3]!).length === 1, HOUR);
    const { state, entry } = members[3]!.disk;
    const disk = { state: structuredClone(state), entry: structuredClone(entry) };
    await swarm.secondsUntil(() => certifiedRounds(members[3]!).length === 3, HOUR);
    const second = swarm.start({ index: 3, disk });
    let error: unknown;
    second.finished.catch((reason: unknown) => {
      error = reason;
    });
    await swarm.secondsUntil(() => error !== undefined, HOUR);
    expect(error).toMatchObject({ code: 'run/key-in-use' });
    await swarm.finish(members, HOUR);
    expect(members.flatMap(faultsOf)).toEqual([]);
  });
});
