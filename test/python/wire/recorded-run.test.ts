/** A recorded run of two reference workers with three rounds: our code reads their events and rebuilds them from data. */

import { fromHex } from 'nostrain/base';
import { nesterovStep } from 'nostrain/consensus';
import { checkpoint, gradient, heartbeat } from 'nostrain/kinds';
import { createSigner, type SignedEvent, verifyEvent } from 'nostrain/network';
import { parseStateJson } from 'nostrain/python';
import {
  buildGradient,
  meanByReciprocal,
  toContribution,
  toHeartbeat,
} from 'nostrain/python/parts';
import type { Contribution } from 'nostrain/run';
import { stateDigest } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { meanDelta } from '../../support/mean.ts';
import { stateText } from '../../support/state-text.ts';
import { valuesOf } from '../../support/vectors.ts';
import session from '../../vectors/session.json' with { type: 'json' };
import { judgeCheckpoint } from '../support/judge-checkpoint.ts';

const { config, initial_state, events, datasets, secret_keys } = session;
const nowSeconds = 1_700_000_000;
const { layout, values: initial } = parseStateJson(stateText(initial_state));
const rounds = session.session_a.rounds;

const ofKind = (kind: number, round?: number): SignedEvent[] =>
  events.filter(
    (event) =>
      event.kind === kind &&
      (round === undefined || Object.fromEntries(event.tags).round === String(round)),
  );

/** Contributions of a round. */
function contributionsOf(round: number): Contribution[] {
  return ofKind(gradient.kind, round).map((event) => {
    const judged = toContribution(event, {
      run: config.run_name,
      round,
      base: rounds[round]!.model_hash_before,
      layout,
      maxContainerBytes: 4096,
      nowSeconds,
    });
    if (!judged.ok) throw new Error(judged.rejection.detail);
    return judged.value;
  });
}

/** Expected states and momenta of the run: entry [round] is the start of that round. */
function replay(): { values: Float64Array; momentum: Float64Array }[] {
  const trail = [{ values: Float64Array.from(initial), momentum: new Float64Array(layout.size) }];
  for (const { round } of rounds) {
    const { values, momentum } = trail.at(-1)!;
    const mean = meanDelta(
      contributionsOf(round),
      {
        size: layout.size,
        weights: 'examples',
        cap: 1000,
        normalize: 'workers',
      },
      meanByReciprocal,
    );
    const next = nesterovStep(values, momentum, mean, {
      learningRate: config.outer_learning_rate,
      momentum: config.outer_momentum,
    });
    trail.push({
      values: Float64Array.from(next.values),
      momentum: Float64Array.from(next.momentum),
    });
  }
  return trail;
}

const trail = replay();

test('events verify', () => {
  expect(events.map((event) => verifyEvent(event).ok)).toEqual(events.map(() => true));
});

describe('reading', () => {
  test('two contributions a round lead to the digest the reference reports', () => {
    rounds.forEach(({ round, model_hash_before, model_hash_after }) => {
      expect(contributionsOf(round)).toHaveLength(2);
      expect(stateDigest({ layout, values: trail[round]!.values })).toBe(model_hash_before);
      expect(stateDigest({ layout, values: trail[round + 1]!.values })).toBe(model_hash_after);
    });
  });

  test('every heartbeat is a heartbeat of its worker', () => {
    const heartbeats = ofKind(heartbeat.kind).map((event) => {
      const judged = toHeartbeat(event, { run: config.run_name, nowSeconds });
      return judged.ok && { worker: judged.value.worker, leaving: judged.value.leaving };
    });
    expect(heartbeats).toEqual(
      ofKind(heartbeat.kind).map(({ pubkey }) => ({ worker: pubkey, leaving: false })),
    );
  });

  test('every checkpoint holds state and momentum, in our sign, after its round', () => {
    const found = ofKind(checkpoint.kind).map((event) =>
      judgeCheckpoint(event, { run: config.run_name, nowSeconds }),
    );
    expect(found).toHaveLength(6);
    for (const judged of found) {
      if (!judged.ok) throw new Error(judged.reason);
      const { nextRound, model } = judged.tags;
      const { state, momentum, rounds: history } = judged.body;
      expect(model).toBe(rounds[nextRound - 1]!.model_hash_after);
      expect(state.values).toEqual(trail[nextRound]!.values);
      expect([...momentum!.values].map(absoluteZero)).toEqual(
        [...trail[nextRound]!.momentum].map(absoluteZero),
      );
      expect(history).toHaveLength(nextRound);
    }
  });

  const absoluteZero = (value: number) => value + 0;
});

type Dataset = (typeof datasets)['a'];

/** Consecutive batches of a linear model, in the reference's order of operations. */
function train(from: Float64Array, { examples }: Dataset): Float64Array {
  let [bias = 0, ...weights] = from;
  for (let step = 0; step < config.inner_steps; step++) {
    let biasGradient = 0;
    const gradients = weights.map(() => 0);
    for (let i = 0; i < config.batch_size; i++) {
      const { inputs, target } = examples[(step * config.batch_size + i) % examples.length]!;
      const predicted = inputs.reduce((sum, x, j) => sum + weights[j]! * x, 0) + bias;
      const factor = 2 * (predicted - target) * (1 / config.batch_size);
      inputs.forEach((x, j) => {
        gradients[j]! += factor * x;
      });
      biasGradient += factor;
    }
    weights = weights.map((weight, j) => weight - config.local_learning_rate * gradients[j]!);
    bias -= config.local_learning_rate * biasGradient;
  }
  return Float64Array.of(bias, ...weights);
}

describe('writing', () => {
  const workers = (['a', 'b'] as const).flatMap((name) =>
    rounds.map(({ round }) => ({ name, round })),
  );

  test.each(workers)('gradient of $name in round $round, to the signature', ({ name, round }) => {
    const signer = createSigner(fromHex(secret_keys[name])!);
    const expected = ofKind(gradient.kind, round).find(
      ({ pubkey }) => pubkey === signer.publicKey,
    )!;
    const before = trail[round]!.values;
    const after = train(before, datasets[name]);
    const { draft, sent } = buildGradient(
      {
        run: config.run_name,
        round,
        worker: signer.publicKey,
        base: stateDigest({ layout, values: before }),
        steps: config.inner_steps,
        examples: datasets[name].examples.length,
      },
      { layout, values: before.map((value, i) => value - after[i]!) },
      { ratio: config.topk_ratio },
      expected.created_at,
    );
    // scope tags are ours; without them the event is the reference's
    expect(draft.tags.filter(([tag]) => tag === 's')).toHaveLength(2);
    const tags = draft.tags.filter(([tag]) => tag !== 's');
    expect(signer.sign({ ...draft, tags })).toEqual(expected);
    const received = contributionsOf(round).find(({ worker }) => worker === signer.publicKey);
    expect(valuesOf(received!.delta)).toEqual(valuesOf(sent));
  });
});
