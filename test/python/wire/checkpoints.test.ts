import { readFileSync } from 'node:fs';
import { sha256Hex } from 'nostrain/base';
import { isJsonObject, parseJson } from 'nostrain/formats';
import type { EventDraft, SignedEvent } from 'nostrain/network';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { canonicalJson } from '../../../src/formats/python-json.ts';
import {
  buildCheckpoint,
  checkpointFits,
  type TrainingCheckpoint,
} from '../../../src/python/wire/checkpoints.ts';
import { plainRecord, readRoundRecord, roundRecord } from '../../../src/python/wire/records.ts';
import { signerOf } from '../../support/signers.ts';
import vectors from '../../vectors/events.json' with { type: 'json' };
import session from '../../vectors/session.json' with { type: 'json' };
import { judgeCheckpoint } from '../support/judge-checkpoint.ts';

const me = signerOf(1);
const nowSeconds = 1_700_000_000;
const context = { run: 'demo', nowSeconds };
const layout = createLayout([
  { name: 'bias', shape: [] },
  { name: 'weight', shape: [1, 2] },
]);
const own: TrainingCheckpoint = {
  run: 'demo',
  worker: me.publicKey,
  round: 4,
  nextRound: 5,
  roundsCompleted: 5,
  slot: 0,
  state: { layout, values: Float64Array.of(0.1, 1e-7, 1e16) },
  momentum: { layout, values: Float64Array.of(-0.5, 0, 3) },
  runtime: 'linear-regression',
  relays: ['wss://relay.example'],
  rounds: [],
  lateGradients: [],
  lateReconciliations: [],
  lateGradientSince: 7,
  updatedAt: nowSeconds,
};
const draft = buildCheckpoint(own, nowSeconds);
const signed = (change: Partial<EventDraft> = {}) => me.sign({ ...draft, ...change });
const judge = (event: SignedEvent, change = {}) => {
  const judged = judgeCheckpoint(event, { ...context, ...change });
  return judged.ok ? 'accepted' : judged.reason;
};

test('a checkpoint comes back from its event', () => {
  const event = signed();
  const { run, worker, round, nextRound, roundsCompleted, slot, ...body } = own;
  expect(judgeCheckpoint(event, context)).toMatchObject({
    ok: true,
    tags: {
      ...{ run, worker, round, nextRound, roundsCompleted, slot },
      model: stateDigest(own.state),
    },
    body: { ...body, writer: worker },
  });
});

test('momentum is on the wire in the direction of improvement', () => {
  expect(JSON.parse(draft.content).momentum_state.parameters.weight.values).toEqual([0, -3]);
});

test('content is rebuilt to the byte, with and without momentum', () => {
  for (const { event, metadata } of vectors.checkpoint) {
    const context = { run: metadata.run_name, nowSeconds: metadata.created_at };
    const judged = judgeCheckpoint(event, context);
    if (!judged.ok) throw new Error(judged.reason);
    const again = buildCheckpoint({ ...judged.tags, ...judged.body }, event.created_at);
    expect(again.content).toBe(event.content);
    expect(again.tags.slice(0, -1)).toEqual(event.tags);
  }
});

test('a checkpoint given as JSON has the canonical content', () => {
  const text = readFileSync(new URL('../../vectors/events.json', import.meta.url), 'utf8');
  const json = parseJson(text);
  const list = json.ok && isJsonObject(json.value) ? json.value.checkpoint : undefined;
  const given = Array.isArray(list) ? list : [];
  expect(given).toHaveLength(2);
  given.forEach((each, i) => {
    expect(canonicalJson(each.checkpoint_json)).toBe(vectors.checkpoint[i]!.event.content);
  });
});

describe('rejections', () => {
  const withBody = (change: object, tags: Record<string, string> = {}) => {
    const content = JSON.stringify({ ...JSON.parse(draft.content), ...change });
    return signed({
      content,
      tags: draft.tags.map(([tag = '', value = '']) =>
        tag === 'checkpoint' ? [tag, sha256Hex(Buffer.from(content))] : [tag, tags[tag] ?? value],
      ),
    });
  };
  const other = { parameters: { bias: { shape: [], values: [1] } } };

  test.each([
    ['untouched', withBody({}), 'accepted'],
    ['another key', signerOf(2).sign(draft), 'worker-key-mismatch'],
    [
      'content that was changed',
      signed({ content: draft.content.replace('0.1', '0.2') }),
      'malformed',
    ],
    [
      'white space, which does not change the hash',
      signed({ content: ` ${draft.content}` }),
      'accepted',
    ],
    ['a state that is not the model tag', withBody({ current_state: other }), 'malformed'],
    ['another run inside', withBody({ run: 'other' }), 'malformed'],
    ['another worker inside', withBody({ worker: 'f'.repeat(64) }), 'malformed'],
    ['another next round inside', withBody({ next_round: 6 }), 'malformed'],
    ['a fractional next round', withBody({ next_round: 5.5 }), 'malformed'],
    ['another count of rounds inside', withBody({ rounds_completed: 6 }), 'malformed'],
    ['no state', withBody({ current_state: null }), 'malformed'],
    ['momentum of another shape', withBody({ momentum_state: other }), 'malformed'],
  ])('%s', (_, event, expected) => {
    expect(judge(event)).toBe(expected);
  });

  test('run and date', () => {
    expect(judge(signed(), { run: 'other' })).toBe('other-run');
    expect(judge(signed(), { nowSeconds: nowSeconds - 901 })).toBe('from-the-future');
  });

  test('only run, next_round, rounds and current_state are needed', () => {
    const { run, next_round, current_state } = JSON.parse(draft.content);
    const content = JSON.stringify({ run, next_round, current_state, rounds: [1, 2, 3, 4, 5] });
    const tags = draft.tags.map(([tag = '', value = '']) =>
      tag === 'checkpoint' ? [tag, sha256Hex(Buffer.from(content))] : [tag, value],
    );
    expect(judgeCheckpoint(signed({ content, tags }), context)).toMatchObject({
      ok: true,
      body: { momentum: undefined, rounds: [], runtime: 'linear-regression', updatedAt: 0 },
    });
  });
});

test('whether it fits is measured on the signed event', () => {
  const size = JSON.stringify(signed()).length;
  expect(checkpointFits(own, size)).toBe(true);
  expect(checkpointFits(own, size - 1)).toBe(false);
  const large = createLayout([{ name: 'w', shape: [1_000_000] }]);
  const state = { layout: large, values: new Float32Array(1_000_000) };
  expect(checkpointFits({ ...own, state, momentum: undefined }, 128 * 1024)).toBe(false);
});

test('a round record has the members the reference writes, each of its type', () => {
  const relays = ['wss://relay.example'];
  const whole = {
    ...plainRecord(
      {
        ...{ round: 0, digestBefore: 'a', digestAfter: 'b', reason: 'deadline' },
        losses: { before: 1, afterInner: 0.5, afterOuter: 0.75 },
        collectedWorkers: ['y'],
      },
      relays,
    ),
    knownWorkers: ['x', 'y'],
    examples: 4,
    totalWeight: 4,
  };
  const record = roundRecord(whole);
  expect(record.missing_workers).toEqual(['x']);
  const theirs = session.events.findLast(({ kind }) => kind === 33335)!;
  const parsed = parseJson(theirs.content);
  const rounds = parsed.ok && isJsonObject(parsed.value) ? parsed.value.rounds : undefined;
  const [first] = Array.isArray(rounds) ? rounds : [];
  expect(Object.keys(record).sort()).toEqual(Object.keys(first).sort());
  for (const [key, value] of Object.entries(record)) expect(typeof value).toBe(typeof first[key]);
  expect(readRoundRecord(record)).toEqual({ ok: true, value: whole });
  const again = readRoundRecord(first);
  expect(again.ok && roundRecord(again.value)).toEqual({ ...first });
  expect(readRoundRecord({ round: 1n }).ok).toBe(false);
});
