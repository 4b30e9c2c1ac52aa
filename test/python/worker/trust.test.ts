import { parseJson } from 'nostrain/formats';
import { checkpoint } from 'nostrain/kinds';
import { buildCheckpoint, openReferenceEvent } from 'nostrain/python/parts';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import type { PythonObject } from '../../../src/formats/python-json.ts';
import {
  type CollectedCheckpoint,
  chooseCheckpoint,
  resumeFrom,
} from '../../../src/python/worker/start.ts';
import { signerOf } from '../../support/signers.ts';
import session from '../../vectors/session.json' with { type: 'json' };

const layout = createLayout([{ name: 'w', shape: [2] }]);
const keyOf = (author: number) => signerOf(author).publicKey;

interface Claim {
  readonly author: number;
  readonly nextRound: number;
  readonly value?: number;
  readonly momentum?: number;
  /** The workers it claims to have trained with. */
  readonly with?: readonly number[];
  readonly at?: number;
}

/** A checkpoint as received from a relay. */
function found(claim: Claim): CollectedCheckpoint {
  const { author, nextRound, value = 1, momentum = 0, at = 100 } = claim;
  const worker = keyOf(author);
  const rounds = [{ collected_workers: (claim.with ?? []).map(keyOf) }];
  const draft = buildCheckpoint(
    {
      ...{ run: 'r', worker, round: nextRound - 1, nextRound, roundsCompleted: 1, rounds },
      ...{ runtime: 'linear-regression', relays: [], lateGradients: [], lateReconciliations: [] },
      ...{ lateGradientSince: 0, updatedAt: at },
      state: { layout, values: Float64Array.of(value, value) },
      momentum: { layout, values: Float64Array.of(momentum, momentum) },
    },
    at,
  );
  const event = signerOf(author).sign(draft);
  const read = openReferenceEvent(event, { maxContainerBytes: 9999, maxValues: 9999 });
  if (!read.ok || read.value.type !== 'checkpoint') throw new Error('no checkpoint');
  return { read: read.value, event, eventId: event.id, createdAt: at };
}

const choose = (
  claims: readonly Claim[],
  more: { authors?: readonly number[]; faults?: number } = {},
) => {
  const authors = (more.authors ?? []).map(keyOf);
  const { choice, refused } = chooseCheckpoint(claims.map(found), {
    ...{ me: keyOf(1), authors, faults: more.faults ?? 1 },
  });
  return {
    chosen: choice && [choice.checkpoint.read.tags.nextRound, choice.isVouched],
    refused: refused.map(({ checkpoint: { read }, why }) => [read.tags.nextRound, why]),
  };
};

describe('N-12: which checkpoint to go on from', () => {
  it('is not the highest round: any key can claim that', () => {
    const own = { author: 1, nextRound: 3, with: [1, 2] };
    expect(choose([own, { author: 9, nextRound: 50, value: 666 }])).toEqual({
      chosen: [3, true],
      refused: [[50, '0 of 2 authors needed publish this state']],
    });
  });

  it('needs f + 1 authors of the same state and momentum where the own key has none', () => {
    const pair = [
      { author: 2, nextRound: 4 },
      { author: 3, nextRound: 4 },
    ];
    expect(choose(pair)).toEqual({ chosen: [4, false], refused: [] });
    expect(choose(pair, { faults: 2 })).toEqual({
      chosen: undefined,
      refused: [
        [4, '2 of 3 authors needed publish this state'],
        [4, '2 of 3 authors needed publish this state'],
      ],
    });
    const [two, three] = pair;
    expect(choose([two!, { ...three!, momentum: 5 }]).chosen).toBeUndefined();
    expect(choose([two!, { ...three!, value: 2 }]).chosen).toBeUndefined();
    expect(choose([two!, two!]).chosen).toBeUndefined();
  });

  it('listens only to workers it trained with, once it has', () => {
    const own = { author: 1, nextRound: 3, with: [1, 2, 3] };
    const sybils = [8, 9].map((author) => ({ author, nextRound: 50, value: 666 }));
    expect(choose([own, ...sybils]).chosen).toEqual([3, true]);
    const peers = [2, 3].map((author) => ({ author, nextRound: 6, value: 2 }));
    expect(choose([own, ...sybils, ...peers])).toMatchObject({ chosen: [6, false] });
    // at equal rounds this worker's own checkpoint
    expect(choose([own, ...peers.map((one) => ({ ...one, nextRound: 3 }))]).chosen).toEqual([
      3,
      true,
    ]);
  });

  it('is that of a named author, even if others claim more', () => {
    const claims = [
      ...[1, 2, 3].map((author) => ({ author, nextRound: 9 })),
      { author: 7, nextRound: 5 },
      { author: 7, nextRound: 4, at: 200 },
    ];
    expect(choose(claims, { authors: [7] })).toEqual({
      chosen: [5, true],
      refused: [1, 2, 3].map(() => [9, 'its author is not the requested one']),
    });
    expect(choose(claims, { authors: [6] }).chosen).toBeUndefined();
  });

  it('nothing, of nothing', () => {
    expect(choose([])).toEqual({ chosen: undefined, refused: [] });
  });
});

describe('going on from a checkpoint of the reference', () => {
  const event = session.events.findLast(({ kind }) => kind === checkpoint.kind)!;
  const read = openReferenceEvent(event, { maxContainerBytes: 9999, maxValues: 9999 });
  if (!read.ok || read.value.type !== 'checkpoint') throw new Error('no checkpoint');
  const { body } = read.value;
  const options = { nextRound: 3, keepsLate: true, lossBefore: 1 };

  it('takes over state, momentum, rounds and the date up to which late gradients are known', () => {
    const resumed = resumeFrom(body, options);
    if (!resumed.ok) throw new Error(resumed.issue.message);
    const { round, params, momentum, history } = resumed.value;
    expect(round).toBe(3);
    expect([params.values, momentum]).toEqual([body.state.values, body.momentum!.values]);
    expect(history?.records.map((record) => record.round)).toEqual([0, 1, 2]);
    expect(history?.lateSince).toBe(1_700_000_000);
  });

  it('ignores late gradients of an unknown author', () => {
    const late = parseJson(
      '{"round":0,"worker":"w","event_id":"e","created_at":1,"model_hash":"m","payload":"x"}',
    );
    const [one] = late.ok ? [late.value as PythonObject] : [];
    const poisoned = { ...body, lateGradients: [one!] };
    const kept = resumeFrom(poisoned, options);
    expect(kept.ok && kept.value.history?.late).toHaveLength(1);
    const left = resumeFrom(poisoned, { ...options, keepsLate: false });
    expect(left.ok && left.value.history?.late).toEqual([]);
  });

  it('refuses what it cannot read', () => {
    expect(resumeFrom({ ...body, rounds: [{}] }, options).ok).toBe(false);
    expect(resumeFrom({ ...body, lateGradients: [{}] }, options).ok).toBe(false);
    expect(resumeFrom({ ...body, lateReconciliations: [{}] }, options).ok).toBe(false);
  });
});
