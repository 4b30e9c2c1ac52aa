/** All relays lose their data, as if they were replaced by empty ones: workers republish what the run needs. */

import { archiveRun, replayRun } from 'nostrain/certified';
import { startOf } from 'nostrain/certified/parts';
import { nativeCrypto } from 'nostrain/node';
import { runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  Backfill,
  formatKeptRound,
  parseKeptRound,
} from '../../src/certified/rounds/keep-round.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  rootsOf,
} from '../support/certified-swarm.ts';
import { eventOf } from '../support/signers.ts';
import { createTimedSwarm, type TimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;
const FOUNDERS = [0, 1, 2, 3];
const TRAIN = 4;

const specOf = (rounds: number) =>
  certifiedSpec({
    ...{ founders: FOUNDERS, rounds },
    document: { checkpoint: { every: 4, keep: 3 }, joinsPerRound: 2 },
    timing: { graceMinMs: 10_000, graceMaxMs: 10_000 },
  });

const spec = specOf(12);
const run = runIdOf(spec);
const { layout } = startOf(spec);
const roundsOf = (member: CertifiedMember) => certifiedRounds(member).length;

/** Replays the run from relays alone. */
async function replayFrom(swarm: TimedSwarm) {
  const asked = { relays: swarm.connect(), signal: new AbortController().signal };
  return replayRun(await archiveRun(run, asked), { run, crypto: nativeCrypto });
}

const republished = ({ events }: CertifiedMember) =>
  events.filter(
    (event) => event.type === 'notice' && /had lost earlier rounds/.test(event.message),
  );

describe('all relays lose everything', () => {
  it('while workers run: relays have the history from round 0 again, for replays and newcomers', async () => {
    const swarm = createTimedSwarm(spec, TRAIN);
    const members = [...FOUNDERS, 4].map((index) => swarm.start({ index, layout }));
    await swarm.secondsUntil(() => members.every((member) => roundsOf(member) >= 6), HOUR);
    swarm.forget();
    await swarm.secondsUntil(() => members.every((member) => roundsOf(member) >= 9), HOUR);
    const newcomer = swarm.start({ index: 6, layout, fetchesCheckpoint: true });
    await swarm.finish([...members, newcomer], HOUR);
    const roots = rootsOf(members[0]!);
    expect(rootsOf(newcomer).at(-1)).toBe(roots.at(-1));
    expect(members.some((member) => republished(member).length > 0)).toBe(true);

    const report = await replayFrom(swarm);
    expect(report).toMatchObject({ ok: true, rounds: spec.training.rounds, firstBad: null });
    expect(report.lines.map(({ modelRoot }) => modelRoot)).toEqual(roots);
    // founders publish a bounded amount: one archive per founder and round, and their checkpoints
    const copies = swarm.events.filter(({ kind }) => kind === 7815);
    expect(copies.length).toBeLessThanOrEqual(spec.training.rounds * members.length);
  });

  it('while no worker runs: workers that resume from their folders republish it', async () => {
    const swarm = createTimedSwarm(spec, TRAIN);
    const first = FOUNDERS.map((index) => swarm.start({ index, layout }));
    await swarm.secondsUntil(() => first.every((member) => roundsOf(member) >= 5), HOUR);
    for (const member of first) member.stop();
    await swarm.secondsUntil(() => false, 5).catch(() => undefined);
    swarm.forget();
    const again = FOUNDERS.map((index) => swarm.start({ index, layout, disk: first[index]!.disk }));
    await swarm.finish(again, HOUR);
    const report = await replayFrom(swarm);
    expect(report).toMatchObject({ ok: true, rounds: spec.training.rounds, firstBad: null });
  });

  it('after the last round: restarting one founder is enough', async () => {
    const swarm = createTimedSwarm(spec, TRAIN);
    const members = FOUNDERS.map((index) => swarm.start({ index, layout }));
    await swarm.finish(members, HOUR);
    const root = rootsOf(members[0]!).at(-1)!;
    swarm.forget();
    expect(
      (await archiveRun(run, { relays: swarm.connect(), signal: new AbortController().signal }))
        .events,
    ).toEqual([]);
    const again = swarm.start({ index: 2, layout, disk: members[2]!.disk });
    await swarm.finish([again], HOUR);
    expect(republished(again)).toHaveLength(1);
    const report = await replayFrom(swarm);
    expect(report).toMatchObject({ ok: true, rounds: spec.training.rounds, modelRoot: root });
  });
});

describe('the record of a round on disk', () => {
  const record = {
    ...{ round: 3, by: ['ab'.repeat(32)], events: [], bodies: [Uint8Array.of(1, 2)] },
    stakes: '{}',
  };

  it('survives a round trip', () => {
    expect(parseKeptRound(formatKeptRound(record))).toEqual(record);
  });

  it.each(['', '{', '{}', '[]', 'null', '{"round":3,"by":[],"events":[],"bodies":[]}'])(
    'is ignored if the file is broken: %s',
    (text) => {
      expect(parseKeptRound(text)).toBeUndefined();
    },
  );
});

describe('a round that no relay has', () => {
  const START_SECONDS = 1_700_000_000;

  /** Returns what is published again a while after the round was decided, and how many rounds count as lost. */
  async function publishedAfter(
    seconds: number,
    archivers: readonly number[] = [],
  ): Promise<readonly [number[], number[]]> {
    const me = keyOf(0);
    const events = [eventOf('vote', { created_at: START_SECONDS })];
    const text = formatKeptRound({ round: 0, by: FOUNDERS.map(keyOf), events, bodies: [] });
    const published: number[] = [];
    const lost: number[] = [];
    const backfill = new Backfill({
      control: {
        archivers: async (_: number, by: readonly string[]) =>
          new Set(by.length === 1 ? [] : archivers.map(keyOf)),
        archiveVotes: async (round: number) => void published.push(round),
        publishSpec: async () => undefined,
      },
      store: { sizes: async () => new Map([[0, text.length]]), load: async () => text },
      reporter: { republished: (_: number, count: number) => void lost.push(count) },
      clock: { now: () => 1000 * (START_SECONDS + seconds) },
    } as never);
    await backfill.republishMissing({ round: 1, spec, params: startOf(spec) } as never, me);
    return [published, lost];
  }

  it('was lost if it is old, and is on its way if it was just decided', async () => {
    expect(await publishedAfter(5)).toEqual([[0], []]);
    expect(await publishedAfter(60)).toEqual([[0], [1]]);
  });

  it('gets another archive without a note if fewer members archived it than wanted', async () => {
    expect(await publishedAfter(60, [1, 2])).toEqual([[0], []]);
    expect(await publishedAfter(60, [1, 2, 3])).toEqual([[], []]);
  });
});
