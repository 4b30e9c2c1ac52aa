/** Acceptance N-10 in certified runs: what comes one round late is counted once by everybody, or by nobody; nothing learned is lost. */
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { OpenSocket } from '../../src/network/transport/socket.ts';
import { openSocket } from '../../src/node/sockets.ts';
import type { RunSpec } from '../../src/run/run-spec.ts';
import { CHUNK_LENGTH } from '../../src/tensor/partial-vector.ts';
import { explain } from '../../src/worker/certified/explain.ts';
import { hasModel } from '../../src/worker/certified/replay.ts';
import { acceptedRows } from '../../src/worker/certified/rows.ts';
import type { Trainer } from '../../src/worker/ports.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  finishedRounds,
  keyOf,
  kill,
  rootsOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, type Replayed, replayed } from '../support/replaying.ts';
import { createStage } from '../support/stage.ts';
import { arithmeticTrainer, smallLayout } from '../support/swarm.ts';

const SLOW = 3;
/** Payloads hold values in 8 bits: what is lost or repeated is a hundred times as much. */
const QUANTIZED = 0.01;
const { relay, start } = createStage(startCertified);

const specWith = (late: 'defer' | 'discard', rounds = 3): RunSpec =>
  certifiedSpec({
    ...{ founders: [0, 1, 2, SLOW], rounds, document: { late } },
    timing: { graceMinMs: 1500, graceMaxMs: 1500, skewMs: 60_000 },
  });

/** Trains the first round for as long as the others take to finish so many. */
const slowTrainer = (others: () => CertifiedMember, rounds: number): Trainer => {
  const usual = arithmeticTrainer(SLOW, smallLayout, { clock: systemClock, trainMs: 0 });
  return {
    ...usual,
    async train(task, onProgress, signal) {
      if (task.round === 0) await finishedRounds(others(), rounds);
      return usual.train(task, onProgress, signal);
    },
  };
};

/** A line on which manifests stay until the first round of the others is over. */
const slowLine =
  (others: () => CertifiedMember): OpenSocket =>
  (url) => {
    const socket = openSocket(url);
    const send = socket.send.bind(socket);
    socket.send = (text) => {
      if (!text.startsWith('["EVENT"') || !text.includes('"kind":7810,')) return send(text);
      void finishedRounds(others(), 1).then(
        () => send(text),
        () => undefined,
      );
    };
    return socket;
  };

/** What counted of a worker, outcome by outcome. */
const rowsOf = ({ rounds }: Replayed, key: string) =>
  rounds.flatMap(({ round, before, decided }) =>
    decided!.outcome.accepted
      .filter(({ index }) => before.ledger.members[index]!.key === key)
      .map(({ late, manifest }) => ({ round, late, manifest })),
  );

/** The delta that a worker's row of a round, on time, brought into the model. */
function deltaOf({ rounds, gathered }: Replayed, round: number, key: string): Float64Array {
  const { before, decided } = rounds[round]!;
  if (!hasModel(before) || decided === undefined) throw new Error(`round ${round} has no model`);
  const rows = acceptedRows(before, decided.outcome, gathered);
  if (!rows.ok) throw new Error('rows are missing');
  const row = rows.value.find(({ late, contribution }) => !late && contribution.worker === key)!;
  const { delta } = row.contribution;
  const values = new Float64Array(smallLayout.size);
  delta.chunks.forEach((chunk, i) => {
    delta.addChunk(i, 1, values, chunk * CHUNK_LENGTH);
  });
  return values;
}

/** What training alone gives from the model a round started with. */
async function freshDelta({ rounds }: Replayed, round: number): Promise<Float64Array> {
  const { before } = rounds[round]!;
  if (!hasModel(before)) throw new Error(`round ${round} has no model`);
  const shared = Float32Array.from(before.params.values);
  const trainer = arithmeticTrainer(SLOW, smallLayout, { clock: systemClock, trainMs: 0 });
  const task = { params: shared, moments: [], round, steps: 1, firstStep: 0 };
  const { signal } = new AbortController();
  const trained = await trainer.train({ ...task, batchKey: [0, 0] }, () => {}, signal);
  return Float64Array.from(shared, (value, i) => value - trained.params[i]!);
}

const largest = (values: Float64Array): number => Math.max(...values.map(Math.abs));

/** What the slow one learned in round 0 is in what it brought in this round, once. */
async function expectReturned(found: Replayed, round: number): Promise<void> {
  const expected = await freshDelta(found, round);
  const lost = await freshDelta(found, 0);
  const sent = deltaOf(found, round, keyOf(SLOW));
  expect(largest(sent.map((value, i) => value - expected[i]! - lost[i]!))).toBeLessThan(QUANTIZED);
  expect(largest(lost)).toBeGreaterThan(0.1);
}

describe('N-10: a contribution that comes one round late', () => {
  it('deferred: is folded once on every worker, without a step of its own', async () => {
    const { url } = await relay();
    const spec = specWith('defer');
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const slow = start({
      ...{ index: SLOW, relays: [url], spec },
      trainer: slowTrainer(() => members[0]!, 1),
    });
    await Promise.all([...members, slow].map(({ finished }) => finished));
    for (const member of members) expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
    expect(rootsOf(slow)).toEqual(rootsOf(members[0]!));
    const found = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(found.rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    const rows = rowsOf(found, keyOf(SLOW));
    expect(rows.filter(({ late }) => late)).toMatchObject([{ round: 1 }]);
    expect(rows.filter(({ round }) => round === 0)).toEqual([]);
    expect(new Set(rows.map(({ manifest }) => manifest)).size).toBe(rows.length);
    const { standing, pending, residual } = slow.disk.state!;
    expect(standing!.ledger.steps).toBe(3);
    expect(pending).toBeUndefined();
    expect(largest(residual)).toBeLessThan(QUANTIZED);
    const counted = certifiedRounds(members[0]!).map(({ certified }) => certified!.late);
    expect(counted).toEqual([[], [keyOf(SLOW)], []]);
  }, 60_000);

  it('deferred: a restart between the two rounds neither loses nor repeats it', async () => {
    const { url } = await relay();
    const spec = specWith('defer');
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const slow = start({
      ...{ index: SLOW, relays: [url], spec },
      trainer: slowTrainer(() => members[0]!, 1),
    });
    await finishedRounds(slow, 1);
    await kill(slow);
    expect(slow.disk.state!.pending).toBeDefined();
    const returned = start({ index: SLOW, relays: [url], spec, disk: slow.disk });
    await Promise.all([...members, returned].map(({ finished }) => finished));
    expect(rootsOf(returned).at(-1)).toBe(rootsOf(members[0]!).at(-1));
    const found = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rowsOf(found, keyOf(SLOW)).filter(({ late }) => late)).toMatchObject([{ round: 1 }]);
    expect(found.rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    expect(largest(returned.disk.state!.residual)).toBeLessThan(QUANTIZED);
  }, 60_000);

  it('deferred: what the next outcome does not list either comes back, once', async () => {
    const { url } = await relay();
    const spec = specWith('defer', 5);
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const slow = start({
      ...{ index: SLOW, relays: [url], spec },
      trainer: slowTrainer(() => members[0]!, 2),
    });
    await Promise.all([...members, slow].map(({ finished }) => finished));
    const found = replayed(spec, smallLayout, await historyOf(url, spec));
    const rows = rowsOf(found, keyOf(SLOW));
    expect(rows.filter(({ late }) => late)).toEqual([]);
    await expectReturned(found, rows[0]!.round);
  }, 60_000);

  it('discard: is recorded only, and comes back at once', async () => {
    const { url } = await relay();
    const spec = specWith('discard');
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const slow = start({
      ...{ index: SLOW, relays: [url], spec },
      openSocket: slowLine(() => members[0]!),
    });
    await Promise.all([...members, slow].map(({ finished }) => finished));
    expect(rootsOf(slow)).toEqual(rootsOf(members[0]!));
    const found = replayed(spec, smallLayout, await historyOf(url, spec));
    const rows = rowsOf(found, keyOf(SLOW));
    expect(rows.some(({ late, round }) => late || round === 0)).toBe(false);
    const [first, second] = found.rounds;
    const why = explain(keyOf(SLOW), first!, second, found.gathered);
    expect(why).toMatchObject({ counted: false });
    expect(why.why.join(' ')).toMatch(/is valid.*Not listed by/);
    await expectReturned(found, 1);
  }, 60_000);
});
