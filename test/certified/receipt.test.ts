/** T-13: a receipt is computed from the events of a run, and each of its rounds can be proved. */

import { isRoundOf, receiptOf } from 'nostrain/certified';
import { expect, it } from 'vitest';
import { generateRun, signerOf } from '../support/certified-run.ts';

const keyOf = (number: number) => signerOf(number).publicKey;

it('T-13: lists who contributed to which round, and proves that these rounds belong to the run', async () => {
  const { events, spec } = generateRun([{}, { ignored: [2] }, {}]);
  const { receipt, prove } = (await receiptOf({ events, beacons: [] }, { spec }))!;
  expect(receipt.rounds).toBe(3);
  expect(receipt.complete).toBe(spec.training.rounds === 3);
  const row = (number: number) => receipt.rows.find(({ worker }) => worker === keyOf(number))!;
  expect(row(1).counted).toEqual([0, 1, 2]);
  expect(row(2).counted).toEqual([0, 2]);
  expect(row(1).score).toBeNull();
  for (const round of [0, 1, 2]) {
    const proof = prove(round);
    expect(isRoundOf(receipt.runRoot, proof)).toBe(true);
    expect(isRoundOf(receipt.runRoot, { ...proof, digest: 'a'.repeat(64) })).toBe(false);
  }
  // the order of events and duplicates do not matter
  const again = await receiptOf(
    { events: [...events, ...events].reverse(), beacons: [] },
    { spec },
  );
  expect(again!.receipt).toEqual(receipt);
});

it('T-13: is incomplete before the run is over, and undefined without events', async () => {
  const { events, spec } = generateRun([{}]);
  const made = await receiptOf({ events, beacons: [] }, { spec });
  expect(made!.receipt.complete).toBe(spec.training.rounds === 1);
  expect(await receiptOf({ events: [], beacons: [] }, { spec })).toBeUndefined();
});
