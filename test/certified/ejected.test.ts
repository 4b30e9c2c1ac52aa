/** The stake of a key that is proven faulty: it has no effect from the outcome on that lists the proof. */

import { replayRun } from 'nostrain/certified';
import {
  buildSnapshot,
  electorateOf,
  gather,
  stakesOf,
  unwrapRuling,
} from 'nostrain/certified/parts';
import { type StakeSnapshot, snapshotId, stakeRows } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { certifiedSpec, generateRun, type Round, signerOf } from '../support/certified-run.ts';

const keyOf = (number: number) => signerOf(number).publicKey;
const CULPRIT = 3;
const table: StakeSnapshot = {
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit: 'point' },
  blockHash: '0'.repeat(64),
  // the culprit has the largest stake that is allowed
  rows: stakeRows([1, 2, 3, 4].map((number) => [keyOf(number), number === CULPRIT ? 1000n : 10n])),
};
const life = { createdAt: 1_790_000_000, expiresAt: 2_500_000_000 };
const event = signerOf(1).sign(buildSnapshot(table, life).draft);
const spec = certifiedSpec({
  stake: { source: 'file', snapshot: snapshotId(table) },
  committee: { weights: 'stake' },
});
const play = (...rounds: readonly Round[]) => generateRun(rounds, spec, [event]);

describe('R-09: the stake of an ejected key', () => {
  const honest = play({}, {}, {});
  const faulty = play({}, { equivocator: CULPRIT }, {});
  const weighed = ({ state, events, run }: typeof honest) => {
    const gathered = gather(events, { run, spec });
    const electorate = electorateOf(state, unwrapRuling(stakesOf(state.ledger, gathered)) ?? null);
    const { members, weights } = electorate.committee;
    return { roster: electorate.roster, members, weights };
  };

  it('gives no seat, no vote and no weight in later rounds', () => {
    expect(weighed(honest).members).toContain(keyOf(CULPRIT));
    const { roster, members, weights } = weighed(faulty);
    expect(roster).not.toContain(keyOf(CULPRIT));
    expect([...members].sort()).toEqual([1, 2, 4].map(keyOf).sort());
    expect(weights).toEqual([10n, 10n, 10n]);
  });

  it('has no effect in the outcome that lists the proof', () => {
    // the same rounds, except that the culprit sends nothing in the last one: its contribution changed no bit of the
    // model
    const silent = play({}, { equivocator: CULPRIT }, { absent: [CULPRIT] });
    expect(faulty.rounds[1]!.modelRoot).toBe(silent.rounds[1]!.modelRoot);
    expect(faulty.rounds[2]!.modelRoot).toBe(silent.rounds[2]!.modelRoot);
    expect(honest.rounds[2]!.modelRoot).not.toBe(silent.rounds[2]!.modelRoot);
  });

  it('is recomputed identically by a replay', async () => {
    const report = await replayRun({ events: faulty.events, beacons: [] }, { spec });
    expect(report).toMatchObject({ ok: true, rounds: 3 });
  });
});

it('the scores that an ejected key reported do not count', () => {
  const scored = certifiedSpec({ scores: true });
  const reports = { 1: { 1: 100 }, [CULPRIT]: { 1: 200 }, 4: { 1: 300 } };
  const historyOf = (round: Round) => {
    const { state } = generateRun([{}, { ...round, silent: [2], scoresOf: reports }, {}], scored);
    return state.ledger.members.find(({ key }) => key === keyOf(1))!.features!.scores!.history;
  };
  expect(historyOf({}).at(-1)).toBe(200);
  expect(historyOf({ equivocator: CULPRIT }).at(-1)).toBe(100);
});
