/**
 * Certified rounds with workers that are killed, late, stalled, equivocating or lose their disk: all end in one root.
 */

import { type CertifiedState, hasModel } from 'nostrain/certified/parts';
import { modelRoot } from 'nostrain/consensus';
import type { Digest, WorkerId } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import {
  certifiedRounds,
  certifiedSpec,
  finishedRounds,
  keyOf,
  kill,
  rootsOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { arithmeticTrainer, smallLayout as layout } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;

describe('certified rounds', () => {
  it('T-11: after every round each worker has, and trains from, the bits that the outcome certifies', async () => {
    const { url } = relay();
    const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 4, timing: { viewMs: 500 } });
    const held: [WorkerId, number, Digest][] = [];
    const trainedFrom: [WorkerId, number, Float32Array][] = [];
    const startHere = (index: number) => {
      const inner = arithmeticTrainer(index, layout, { clock: stage.clock, trainMs: 0 });
      const trainer: Trainer = {
        ...inner,
        train: (task, onProgress, signal) => {
          trainedFrom.push([keyOf(index), task.round, Float32Array.from(task.params)]);
          return inner.train(task, onProgress, signal);
        },
      };
      const onSave = ({ round, sent, params, momentum }: CertifiedState) => {
        // the state saved between rounds, not the one saved before sending
        if (!sent) held.push([keyOf(index), round - 1, modelRoot({ params, momentum })]);
      };
      return start({ index, relays: [url], spec, trainer, onSave });
    };
    const members = [0, 1, 2].map(startHere);
    const states = await Promise.all(members.map(({ finished }) => finished));

    const { rounds } = replayed(spec, layout, await historyOf(url, spec, layout, undefined, stage));
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full', 'full']);
    const certified = rounds.map(({ decided }) => decided!.outcome.modelRoot);
    expect(new Set(certified).size).toBe(4);
    expect(held).toHaveLength(12);
    for (const [, round, root] of held) expect(root).toBe(certified[round]);
    expect(trainedFrom).toHaveLength(12);
    for (const [, round, params] of trainedFrom) {
      const { before } = rounds[round]!;
      expect(hasModel(before) && before.params.values).toEqual(params);
    }
    for (const { head } of states) {
      expect(head!.modelRoot).toBe(certified[3]);
      expect(head!.ledgerRoot).toBe(rounds[3]!.decided!.outcome.ledgerRoot);
    }
  });

  it('end in one root for all workers', async () => {
    const { url } = relay();
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

  it('a killed worker resumes from its disk, and ends in the root of the others', async () => {
    const { url } = relay();
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 5, timing: { graceMaxMs: 3000 } });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec, trainMs: 200 }));
    const killed = start({ index: 3, relays: [url], spec, trainMs: 200 });
    await finishedRounds(killed, 1);
    await kill(killed);
    await finishedRounds(members[0]!, 3);
    const returned = start({ index: 3, relays: [url], spec, trainMs: 200, disk: killed.disk });
    await Promise.all([...members, returned].map(({ finished }) => finished));
    expect(rootsOf(returned).at(-1)).toBe(rootsOf(members[0]!).at(-1));
    const faults = members.flatMap(({ events }) => events.filter(({ type }) => type === 'fault'));
    expect(faults).toEqual([]);
  });

  it('a worker that lost its disk returns by replay', async () => {
    const { url } = relay();
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 5, timing: { graceMaxMs: 3000 } });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec, trainMs: 200 }));
    const killed = start({ index: 3, relays: [url], spec, trainMs: 200 });
    await finishedRounds(killed, 1);
    await kill(killed);
    await finishedRounds(members[0]!, 2);
    const returned = start({ index: 3, relays: [url], spec, trainMs: 200 });
    await Promise.all([...members, returned].map(({ finished }) => finished));
    expect(rootsOf(returned)).toEqual(rootsOf(members[0]!));
    const faults = members.flatMap(({ events }) => events.filter(({ type }) => type === 'fault'));
    expect(faults).toEqual([]);
  });

  it('a key that votes for two outcomes in one view is proven faulty and ejected', async () => {
    const { url } = relay();
    const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 4, timing: { graceMaxMs: 3000 } });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const guilty = start({ index: 3, relays: [url], spec, attack: { equivocateFrom: 1 } });
    await Promise.all([...members, guilty].map(({ finished }) => finished));
    for (const member of members) {
      expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
      const faults = member.events.filter((event) => event.type === 'fault');
      expect(faults[0]).toMatchObject({ worker: guilty.id, kind: 'equivocation' });
    }
    const { head } = members[0]!.disk.state!;
    expect(head!.ledger.faulted).toEqual([guilty.id]);
    expect(head!.ledger.members.map(({ key }) => key)).not.toContain(guilty.id);
  });

  it('a run without a quorum stalls, names the missing members, and continues when they return', async () => {
    const { url } = relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2 },
      timing: { graceMinMs: 100, graceMaxMs: 600, viewMs: 500 },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec }));
    const stalls = () => members[0]!.events.filter((event) => event.type === 'stalled');
    await stage.until(() => stalls().some(({ missing }) => missing.includes(keyOf(2))));
    expect(certifiedRounds(members[0]!)).toEqual([]);
    const third = start({ index: 2, relays: [url], spec });
    await Promise.all([...members, third].map(({ finished }) => finished));
    expect(rootsOf(third)).toEqual(rootsOf(members[0]!));
  });

  it('T-10: a recovery epoch ends the round in one root, which returning workers adopt', async () => {
    const { url } = relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2, 3, 4], rounds: 3 },
      timing: { graceMinMs: 100, graceMaxMs: 500, viewMs: 300, recoveryMs: 2500 },
    });
    const members = [0, 1, 2, 3, 4].map((index) =>
      start({ index, relays: [url], spec, trainMs: 200 }),
    );
    const [first, second, third, ...gone] = members;
    await finishedRounds(first!, 1);
    for (const one of gone) await kill(one);
    // four of five are a quorum; three are left, more than half of the roster
    const left = [first!, second!, third!];
    await Promise.all(left.map((member) => finishedRounds(member, 2)));
    const returned = start({ index: 3, relays: [url], spec, disk: gone[0]!.disk });
    const all = [...left, returned];
    await Promise.all(all.map(({ finished }) => finished));
    const roots = rootsOf(first!);
    for (const member of all) {
      for (const { index, certified } of certifiedRounds(member)) {
        expect(certified!.root).toBe(roots[index]);
      }
    }
    expect(certifiedRounds(returned).some(({ certified }) => certified!.attempt > 0)).toBe(true);

    const { rounds, end } = replayed(
      spec,
      layout,
      await historyOf(url, spec, layout, undefined, stage),
    );
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(3).fill('full'));
    expect(rounds.some(({ decided }) => decided!.certificate.attempt > 0)).toBe(true);
    expect(end.state.modelRoot).toBe(roots.at(-1));
  });

  it('a newcomer joins, catches up by replay, and its contribution counts', async () => {
    const { url } = relay();
    const spec = certifiedSpec({ founders: [0, 1], rounds: 10, timing: { graceMaxMs: 2000 } });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 300 }));
    await finishedRounds(members[0]!, 1);
    const newcomer = start({ index: 2, relays: [url], spec, trainMs: 300 });
    await Promise.all([...members, newcomer].map(({ finished }) => finished));
    expect(rootsOf(newcomer)).toEqual(rootsOf(members[0]!));
    const counted = certifiedRounds(members[0]!).flatMap(({ accepted }) => accepted);
    expect(counted).toContain(newcomer.id);
  });

  it('a newcomer starts from a certified checkpoint, and ends in the root of the others', async () => {
    const { url } = relay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1], rounds: 7, timing: { graceMaxMs: 2000 } },
      document: { checkpoint: { every: 2, keep: 3 } },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 400 }));
    await finishedRounds(members[0]!, 3);
    const newcomer = start({ index: 2, relays: [url], spec, fetchesCheckpoint: true });
    await Promise.all([...members, newcomer].map(({ finished }) => finished));
    expect(certifiedRounds(newcomer)[0]!.index).toBeGreaterThanOrEqual(2);
    expect(rootsOf(newcomer).at(-1)).toBe(rootsOf(members[0]!).at(-1));
  });
});
