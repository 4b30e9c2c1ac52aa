/** A certified run of a mixture of experts: each group moves its own experts, and everything at its time. */

import { sha256 } from 'nostrain/base';
import { receiptOf } from 'nostrain/certified';
import type { CertifiedState } from 'nostrain/certified/parts';
import { expertRanges, modelOfRun } from 'nostrain/model';
import { createPacker } from 'nostrain/network';
import { CHUNK_LENGTH, chunkCount } from 'nostrain/tensor';
import { expect, it } from 'vitest';
import {
  type CertifiedMember,
  certifiedRounds,
  keyOf,
  rootsOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { groupedModel, groupedSpec } from '../support/groups.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;

/** Returns which parts of the model differ between two states: 0 for shared tensors, e + 1 for expert e. */
function movedParts(spec: ReturnType<typeof groupedSpec>, [a, b]: readonly CertifiedState[]) {
  const parts = expertRanges(modelOfRun(spec));
  return [...parts.keys()].filter((i) => {
    const { from, to } = parts[i]!;
    const differs = (one: ArrayLike<number>, other: ArrayLike<number>) => {
      for (let at = from; at < to; at++) if (!Object.is(one[at], other[at])) return true;
      return false;
    };
    return differs(a!.params.values, b!.params.values) || differs(a!.momentum, b!.momentum);
  });
}

/** Starts four workers, three in group `a`; the fourth, in `b`, is killed after `lost` rounds. */
async function play(rounds: number, mixture: object, lost?: number) {
  const { url } = relay();
  const spec = groupedSpec([0, 1, 2, 3], { rounds, mixture });
  const { layout, first } = groupedModel(spec);
  const saved = new Map<number, CertifiedState>();
  const members: CertifiedMember[] = [0, 0, 0, 1].map((group, index) =>
    start({
      ...{ index, relays: [url], spec, layout, first, group },
      onSave(state) {
        if (index === 0 && !state.sent) saved.set(state.round, state);
        if (index === 3 && state.round === lost) members[3]!.stop();
      },
    }),
  );
  const ends = await Promise.all(members.slice(0, 3).map(({ finished }) => finished));
  return { spec, url, members, ends, saved, layout, first };
}

it('C-05 a group moves its experts alone, shared tensors move in their rounds, and a replay finds the same', async () => {
  const { spec, url, members, ends, saved, layout, first } = await play(5, {});
  expect(spec.features).toContain('experts');
  expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
  const experts = [1, 2, 3, 4];
  const moved = [1, 2, 3, 4].map((round) =>
    movedParts(spec, [saved.get(round)!, saved.get(round + 1)!]),
  );
  // round 0 is the warm-up; after it every third round moves the shared tensors
  expect(moved).toEqual([experts, experts, [0, ...experts], experts]);
  const groups = ends[0]!.head.ledger.members.map(({ features }) => features!.experts!.group);
  expect([...groups].sort()).toEqual([0, 0, 0, 1]);
  const history = await historyOf(url, spec, layout, first, stage);
  const { receipt } = (await receiptOf({ events: history, beacons: [] }, { spec }))!;
  expect(receipt.rows.map(({ group }) => group).sort()).toEqual(['a', 'a', 'a', 'b']);
  const again = replayed(spec, layout, history, undefined, first);
  expect(again.end.state.modelRoot).toBe(rootsOf(members[0]!).at(-1));
});

it('C-05 a group that is offline loses its rounds alone: the other one ends in the bits of an undisturbed run', async () => {
  const [whole, cut] = [await play(4, { sharedEvery: 0 }), await play(4, { sharedEvery: 0 }, 2)];
  const rounds = certifiedRounds(cut.members[0]!);
  expect(rounds.map(({ certified }) => certified!.result)).toEqual(Array(4).fill('final'));
  expect(rounds.at(-1)!.accepted).not.toContain(keyOf(3));
  expect(movedParts(cut.spec, [cut.saved.get(3)!, cut.ends[0]!])).toEqual([1, 2]);
  expect(movedParts(cut.spec, [whole.ends[0]!, cut.ends[0]!])).toEqual([3, 4]);
});

it('refuses groups that overlap, leave experts out, or go with parts of the model', () => {
  const changed = (mixture: object) => () => groupedSpec([0], { mixture });
  expect(changed({ groups: ['a=0,1', 'b=1,2,3'] })).toThrow('each expert is in exactly one group');
  expect(changed({ groups: ['a=0,1', 'b=3'] })).toThrow('each expert is in exactly one group');
  expect(changed({ groups: ['a=0,1', 'a=2,3'] })).toThrow('a name of its own');
  expect(changed({ groups: ['a 0,1'] })).toThrow('groups like shakespeare=0,1');
  expect(changed({ experts: 0, groups: [] })).toThrow('exactly where features names experts');
  expect(() => groupedSpec([0], { late: 'defer' })).toThrow('the tensors of another round');
});

it('refuses a payload with other parts than those of its group', () => {
  const spec = groupedSpec([0]);
  const { layout } = groupedModel(spec);
  const packer = createPacker({ run: 'run', layout, sha256 });
  const assigned = (...parts: readonly number[]) => {
    const chunks = parts.flatMap((part) => {
      const { from, to } = expertRanges(modelOfRun(spec))[part]!;
      const first = from / CHUNK_LENGTH;
      return Array.from({ length: chunkCount(to) - first }, (_, i) => first + i);
    });
    const moving = Uint32Array.from(chunks);
    const assignment = { digest: undefined, moving, chunksOf: () => moving, most: moving.length };
    return { round: 1, worker: keyOf(0), assignment };
  };
  const delta = new Float64Array(layout.size).fill(0.5);
  const { payload, codec } = packer.pack(delta, assigned(1, 2, 3));
  expect(packer.open(payload, codec, assigned(1, 2, 3)).ok).toBe(true);
  expect(packer.open(payload, codec, assigned(1, 2))).toMatchObject({ ok: false });
  // chunks have no numbers: a payload of the right length is read as the chunks of the group
  const same = packer.pack(delta, assigned(3, 4));
  const read = packer.open(same.payload, codec, assigned(1, 2));
  expect(read.ok && read.value.chunks).toEqual(assigned(1, 2).assignment.moving);
});
