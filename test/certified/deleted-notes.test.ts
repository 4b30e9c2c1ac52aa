/** Notes that their authors delete are left out by all workers from the round after the outcome that lists them. */
import type { Trainer } from 'nostrain/worker';
import { expect, it } from 'vitest';
import {
  certifiedRounds,
  certifiedSpec,
  rootsOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { arithmeticTrainer, smallLayout as layout } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;
const ROUNDS = 6;
/** Longer than members wait between two queries for deletions. */
const TRAIN_MS = 61_000;

/** Plays a run in which these members (of four) know of these deleted notes from round 2 on. */
async function play(knowing: readonly number[], deleted: readonly number[]) {
  const { url } = relay();
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2, 3], rounds: ROUNDS },
    training: { model: 'char-gpt' },
    document: {
      notes: 'ab'.repeat(32),
      data: { kind: 'corpus', sha256: 'cd'.repeat(32), bytes: 4096, shards: 4 },
    },
    timing: { graceMinMs: 80_000, graceMaxMs: 120_000 },
  });
  expect(spec.features).toContain('notes');
  const left: (readonly number[])[][] = [];
  const members = [0, 1, 2, 3].map((index) => {
    const { clock } = stage;
    const plain = arithmeticTrainer(index, layout, { clock, trainMs: TRAIN_MS });
    const seen: (readonly number[])[] = [];
    left.push(seen);
    const trainer: Trainer = {
      ...plain,
      train(task, ...rest) {
        seen[task.round] = task.without ?? [];
        return plain.train(task, ...rest);
      },
    };
    const deletedNotes = async () => (seen.length >= 2 && deleted) || [];
    const machine = knowing.includes(index) ? { deletedNotes } : {};
    return start({ index, relays: [url], spec, trainer, machine });
  });
  await Promise.all(members.map(({ finished }) => finished));
  const { rounds, end } = replayed(
    spec,
    layout,
    await historyOf(url, spec, layout, undefined, stage),
  );
  return { members, left, rounds, end };
}

it('N-68: a deletion that members name counts for all workers from one round on, and a replay agrees', async () => {
  const { members, left, rounds } = await play([0, 1], [3, 8]);
  // named in commits of round 2, which outcome 3 lists
  for (const seen of left) expect(seen).toEqual([[], [], [], [], [3, 8], [3, 8]]);
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(ROUNDS).fill('full'));
  for (const member of members) {
    expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
    expect(certifiedRounds(member).map(({ certified }) => certified!.deletedNotes)).toEqual([
      ...[0, 0, 0, 2, 2, 2],
    ]);
  }
});

it('N-68: a deletion that only one member of four names does not count', async () => {
  const { members, left } = await play([0], [3]);
  for (const seen of left) expect(seen.flat()).toEqual([]);
  const listed = certifiedRounds(members[0]!).map(({ certified }) => certified!.deletedNotes);
  expect(listed).toEqual(Array(ROUNDS).fill(0));
});
