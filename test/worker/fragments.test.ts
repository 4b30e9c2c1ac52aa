/**
 * Fragments of a model, sent in turn over a relay: each is updated once in as many rounds as there are shards, for a
 * fraction of the bytes.
 */

import { createWire } from 'nostrain/network';
import { createRelay, type Relay } from 'nostrain/relay';
import { CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { assignChunks, genesis } from 'nostrain/worker';
import { afterEach, expect, it } from 'vitest';
import { openOne, PRIVATE } from '../support/one-relay.ts';
import { signerOf } from '../support/signers.ts';
import { startMember } from '../support/swarm.ts';

const FRAGMENTS = 12;
const SHARDS = 4;
/** Two chunks a fragment, so that the part of an event that does not grow with its payload is small beside it. */
const CHUNKS = 2 * FRAGMENTS;
const layout = createLayout([{ name: 'w', shape: [CHUNKS * CHUNK_LENGTH] }]);
let relay: Relay;

afterEach(async () => {
  await relay?.close();
});

/** Runs three workers to the end; returns their states after each round, and the largest payload and event bytes. */
async function play(fragments: number) {
  relay = await createRelay();
  const members = [0, 1, 2].map((index) =>
    startMember({
      ...{ index, layout, packing: 'trellis', relays: [relay.url] },
      start: genesis({ layout, values: new Float32Array(layout.size).fill(0.5) }, 1),
      plan: {
        ...{ fragments, rounds: SHARDS, residual: 'none', waitFor: 3 },
        sync: { strategy: 'strict', workers: 3 },
      },
    }),
  );
  const ends = await Promise.all(members.map(({ finished }) => finished));
  await relay.close();
  const [{ params: first }] = ends as [(typeof ends)[0], ...typeof ends];
  const isSame = (value: number, i: number) => value === first.values[i];
  for (const { params } of ends) expect(params.values.every(isSame)).toBe(true);
  const [{ saved }] = members as [(typeof members)[0], ...typeof members];
  const opened = saved.filter(({ sent }) => sent === undefined);
  const states = Array.from(
    { length: SHARDS + 1 },
    (_, round) =>
      opened.findLast((state) => state.round === round)?.params.values ??
      new Float32Array(layout.size).fill(0.5),
  );
  return { states, rounds: ends[0]!.rounds };
}

/** Returns the chunks that a round changed. */
const moved = (before: ArrayLike<number>, after: ArrayLike<number>): readonly number[] =>
  Array.from({ length: CHUNKS }, (_, chunk) => chunk).filter((chunk) => {
    const at = Array.from({ length: CHUNK_LENGTH }, (_, i) => chunk * CHUNK_LENGTH + i);
    return at.some((i) => before[i] !== after[i]);
  });

it('T-20: of 12 fragments in 4 shards each is updated once in four rounds, for a quarter of the bytes', async () => {
  const inTurn = await play(SHARDS);
  const steps = inTurn.states.slice(1).map((after, i) => moved(inTurn.states[i]!, after));
  for (const own of steps) expect(own).toHaveLength(CHUNKS / SHARDS);
  expect(steps.flat().sort((a, b) => a - b)).toEqual([...Array(CHUNKS).keys()]);

  const whole = await play(1);
  for (const [i, after] of whole.states.slice(1).entries()) {
    expect(moved(whole.states[i]!, after)).toHaveLength(CHUNKS);
  }
  for (const [i, { payloadBytes, eventBytes }] of inTurn.rounds.entries()) {
    const all = whole.rounds[i]!;
    for (const share of [payloadBytes / all.payloadBytes, eventBytes / all.eventBytes]) {
      expect(share).toBeGreaterThan(0.25 * 0.9);
      expect(share).toBeLessThan(0.25 * 1.1);
    }
  }
});

it('T-20: a round only takes fragments of its own shard', async () => {
  const { clock, set } = openOne(PRIVATE);
  const wire = createWire({
    ...{ run: 'r', layout, relays: set, signer: signerOf(1), clock, packing: 'int8' as const },
    ...{ ratio: 1, maxContainerBytes: 10 * layout.size },
  });
  const [base, roster] = ['b'.repeat(64), [signerOf(1).publicKey]];
  const shardOf = (round: number) =>
    assignChunks({
      ...{ run: 'r', round, base, roster, owners: 0, fragments: SHARDS },
      size: layout.size,
    });
  const own = { round: 1, base, steps: 1, examples: 1, prev: undefined };
  const delta = Float64Array.from({ length: layout.size }, (_, i) => (i % 7) - 3);
  const { sent, event, payload, eventBytes } = await wire.seal({
    ...{ ...own, delta },
    assignment: shardOf(1),
  });
  const second = [6, 7, 8, 9, 10, 11];
  expect([...sent.chunks!]).toEqual(second);
  const sealed = { event, payload: payload?.slice(), eventBytes };
  const opened = wire.open(sealed, { round: 1, assignment: shardOf(1) });
  expect([...opened.chunks!]).toEqual(second);
  for (const round of [0, 2, 3]) {
    expect(() => wire.open(sealed, { round, assignment: shardOf(round) })).toThrow();
  }
  await wire.close();
});
