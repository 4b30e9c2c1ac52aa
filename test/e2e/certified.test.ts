import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay, type RelayOptions } from '../../relay/server.ts';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  finishedRounds,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';

const open: Relay[] = [];
const started: CertifiedMember[] = [];
async function relay(options: RelayOptions = {}): Promise<Relay> {
  const one = await createRelay(options);
  open.push(one);
  return one;
}
function start(options: CertifiedOptions): CertifiedMember {
  const member = startCertified(options);
  started.push(member);
  return member;
}
afterEach(async () => {
  for (const member of started.splice(0)) member.stop();
  for (const one of open.splice(0)) await one.close();
});

const rootsOf = (member: CertifiedMember) =>
  certifiedRounds(member).map(({ certified }) => certified!.root);

describe('certified rounds', () => {
  it('end in one root for everybody', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 3 });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const states = await Promise.all(members.map(({ finished }) => finished));
    expect(states.map(({ round }) => round)).toEqual([3, 3, 3]);
    for (const member of members) {
      expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
      for (const { certified, accepted } of certifiedRounds(member)) {
        expect(certified!.result).toBe('final');
        expect(accepted).toHaveLength(3);
      }
    }
  });

  it('N-07: one root over relays that reorder, repeat and drop', async () => {
    const urls = [
      (await relay({ seed: 1, faults: { duplicate: 0.1, reorder: 0.3 } })).url,
      (await relay({ seed: 2, faults: { drop: 0.3, swallow: 0.2 } })).url,
      (await relay({ seed: 3, faults: { delay: { shape: 'uniform', minMs: 0, maxMs: 60 } } })).url,
    ];
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 4 });
    const members = [0, 1, 2, 3].map((index) => start({ index, relays: urls, spec }));
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      expect(rootsOf(member)).toHaveLength(4);
      expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
    }
  }, 60_000);

  it('a killed worker goes on from its disk, and ends in the root of the others', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 5, timing: { graceMaxMs: 3000 } });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const killed = start({ index: 3, relays: [url], spec });
    await finishedRounds(killed, 1);
    killed.stop();
    await killed.finished.catch(() => undefined);
    await finishedRounds(members[0]!, 3);
    const returned = start({ index: 3, relays: [url], spec, disk: killed.disk });
    await Promise.all([...members, returned].map(({ finished }) => finished));
    expect(rootsOf(returned).at(-1)).toBe(rootsOf(members[0]!).at(-1));
    const faults = members.flatMap(({ events }) => events.filter(({ type }) => type === 'fault'));
    expect(faults).toEqual([]);
  }, 60_000);

  it('a worker that lost its disk comes back by replay', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 5, timing: { graceMaxMs: 3000 } });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const killed = start({ index: 3, relays: [url], spec });
    await finishedRounds(killed, 1);
    killed.stop();
    await killed.finished.catch(() => undefined);
    await finishedRounds(members[0]!, 2);
    const returned = start({ index: 3, relays: [url], spec });
    await Promise.all([...members, returned].map(({ finished }) => finished));
    expect(rootsOf(returned)).toEqual(rootsOf(members[0]!));
    const faults = members.flatMap(({ events }) => events.filter(({ type }) => type === 'fault'));
    expect(faults).toEqual([]);
  }, 60_000);

  it('who votes for two outcomes in one place is proven guilty and leaves the roster', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 4, timing: { graceMaxMs: 3000 } });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const guilty = start({ index: 3, relays: [url], spec, misdeeds: { equivocateFrom: 1 } });
    await Promise.all([...members, guilty].map(({ finished }) => finished));
    for (const member of members) {
      expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
      const faults = member.events.filter((event) => event.type === 'fault');
      expect(faults[0]).toMatchObject({ worker: guilty.id, kind: 'equivocation' });
    }
    const { standing } = members[0]!.disk.state!;
    expect(standing!.ledger.faulted).toEqual([guilty.id]);
    expect(standing!.ledger.members.map(({ key }) => key)).not.toContain(guilty.id);
  }, 60_000);

  it('a round in which nothing comes in time is void, and costs nobody what was learned', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({
      founders: [0, 1],
      rounds: 2,
      timing: { graceMinMs: 100, graceMaxMs: 700 },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 3000 }));
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      const [first] = certifiedRounds(member);
      expect(first!.certified!.result).toBe('void');
      expect(first!.certified!.root).toBe(first!.base);
      const residual = member.disk.state!.residual;
      expect(residual.some((value) => value !== 0)).toBe(true);
    }
    expect(rootsOf(members[0]!)).toEqual(rootsOf(members[1]!));
  }, 60_000);

  it('a run without its quorum stalls, says who is missing, and goes on when they come', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2 },
      timing: { graceMinMs: 100, graceMaxMs: 600, viewMs: 500 },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec }));
    const stalls = () => members[0]!.events.filter((event) => event.type === 'stalled');
    while (!stalls().some(({ missing }) => missing.includes(keyOf(2)))) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(certifiedRounds(members[0]!)).toEqual([]);
    const third = start({ index: 2, relays: [url], spec });
    await Promise.all([...members, third].map(({ finished }) => finished));
    expect(rootsOf(third)).toEqual(rootsOf(members[0]!));
  }, 60_000);

  it('a newcomer joins, catches up by replay, and its work is counted', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({ founders: [0, 1], rounds: 10, timing: { graceMaxMs: 2000 } });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 300 }));
    await finishedRounds(members[0]!, 1);
    const newcomer = start({ index: 2, relays: [url], spec, trainMs: 300 });
    await Promise.all([...members, newcomer].map(({ finished }) => finished));
    expect(rootsOf(newcomer)).toEqual(rootsOf(members[0]!));
    const counted = certifiedRounds(members[0]!).flatMap(({ accepted }) => accepted);
    expect(counted).toContain(newcomer.id);
  }, 60_000);

  it('a newcomer goes on from a certified checkpoint, and ends in the root of the others', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1], rounds: 7, timing: { graceMaxMs: 2000 } },
      document: { checkpoint: { every: 2, keep: 3 } },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 400 }));
    await finishedRounds(members[0]!, 3);
    const newcomer = start({ index: 2, relays: [url], spec, looksForCheckpoint: true });
    await Promise.all([...members, newcomer].map(({ finished }) => finished));
    expect(certifiedRounds(newcomer)[0]!.index).toBeGreaterThanOrEqual(2);
    expect(rootsOf(newcomer).at(-1)).toBe(rootsOf(members[0]!).at(-1));
  }, 60_000);
});
