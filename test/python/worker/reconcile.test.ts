import { isJsonObject, parseJson } from 'nostrain/formats';
import type { LateGradientRecord as LateGradient } from 'nostrain/python';
import { type Params, stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { flipped } from '../../../src/python/wire/messages.ts';
import {
  isPending,
  lateGradientJson,
  readLateGradient,
  readReconciliation,
  reconciliationJson,
} from '../../../src/python/wire/records.ts';
import { reconcile } from '../../../src/python/worker/late.ts';
import type { LateRule } from '../../../src/python/worker/session.ts';
import { type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly config: {
    readonly late_gradient_strategy?: 'discard';
    readonly late_reconciliation_learning_rate?: number;
    readonly late_reconciliation_momentum?: number;
  };
  readonly defaults: { readonly outer_learning_rate: number; readonly outer_momentum: number };
  readonly current_state: JsonState;
  readonly momentum_state: JsonState | null;
  readonly current_round: number;
  readonly records_in: readonly object[];
  readonly records_out: readonly object[];
  readonly state_out: { readonly digest: string };
  readonly momentum_out: { readonly state: JsonState } | null;
  readonly summary: object | null;
  readonly error_count: number;
}

const { cases } = readVectors<{ cases: Case[] }>('late-reconciliation.json');

/** Records and summaries as our JSON reader sees them. */
function jsonOf(value: object) {
  const json = parseJson(JSON.stringify(value));
  if (!json.ok || !isJsonObject(json.value)) throw new Error('no object');
  return json.value;
}

function lateOf(record: object): LateGradient {
  const late = readLateGradient(jsonOf(record));
  if (!late.ok) throw new Error(late.issue.message);
  return late.value;
}

const rule = ({ config, defaults }: Case, more: Partial<LateRule> = {}): LateRule => ({
  strategy: config.late_gradient_strategy ?? 'deferred',
  learningRate: config.late_reconciliation_learning_rate ?? defaults.outer_learning_rate,
  momentum: config.late_reconciliation_momentum ?? defaults.outer_momentum,
  advancesMomentum: true,
  weightCap: Number.MAX_SAFE_INTEGER,
  ...more,
});

function play(test: Case, more: Partial<LateRule> = {}) {
  const params = toParams(test.current_state);
  const momentum = test.momentum_state
    ? flipped(toParams(test.momentum_state).values)
    : new Float64Array(params.layout.size);
  const late = test.records_in.map(lateOf);
  const options = { round: test.current_round, limits: { maxContainerBytes: 4096 } };
  return reconcile(
    { params, momentum, late },
    { ...options, rule: rule(test, more), now: 1_700_000_999 },
  );
}

/** Treats -0 and 0 as equal, since momentum changes its sign on the wire. */
const plain = ({ values }: Pick<Params, 'values'>) => Array.from(values, (value) => value + 0);

describe('late gradients as the reference folds them in', () => {
  it.each(cases)('$name', (test) => {
    const fold = play(test);
    expect(stateDigest(fold.params)).toBe(test.state_out.digest);
    if (test.momentum_out) {
      const wire = { values: flipped(fold.momentum) };
      expect(plain(wire)).toEqual(plain(toParams(test.momentum_out.state)));
    }
    expect(fold.late.map(lateGradientJson)).toEqual(test.records_out.map(jsonOf));
    expect(fold.done ? reconciliationJson(fold.done) : null).toEqual(
      test.summary && {
        ...jsonOf(test.summary),
        learning_rate: rule(test).learningRate,
        momentum: rule(test).momentum,
      },
    );
    expect(fold.errors).toBe(test.error_count);
  });

  it('comes back from its JSON, and is refused when something is missing', () => {
    const [, test] = cases;
    const fold = play(test!);
    const again = readReconciliation(reconciliationJson(fold.done!));
    expect(again).toEqual({ ok: true, value: fold.done });
    expect(fold.late.map((one) => lateOf(lateGradientText(one)))).toEqual(fold.late);
    expect(readLateGradient({ round: 1n }).ok).toBe(false);
    expect(readLateGradient('late').ok).toBe(false);
    expect(readReconciliation({ current_round: 1n, applied_at: 1n }).ok).toBe(false);
    expect(readReconciliation([]).ok).toBe(false);
  });

  const lateGradientText = (one: LateGradient): object =>
    JSON.parse(
      JSON.stringify(lateGradientJson(one), (_, v) => (typeof v === 'bigint' ? Number(v) : v)),
    );
});

describe('late gradients by default', () => {
  const [, test] = cases;

  it('N-10: momentum does not advance, and no gradient weighs more than its cap', () => {
    const fold = play(test!, { advancesMomentum: false });
    const before = flipped(toParams(test!.momentum_state!).values);
    expect(fold.momentum).toEqual(before);
    const whole = play(test!, { advancesMomentum: false, momentum: 0, learningRate: 1 });
    const half = play(test!, { advancesMomentum: false, momentum: 0, learningRate: 0.5 });
    const from = toParams(test!.current_state).values;
    whole.params.values.forEach((value, i) => {
      expect(half.params.values[i]! - from[i]!).toBeCloseTo((value - from[i]!) / 2, 12);
    });
    const [first] = cases;
    expect(play(first!).done?.totalWeight).toBe(4);
    expect(play(first!, { weightCap: 2 }).done?.totalWeight).toBe(3);
  });

  it('are folded in once', () => {
    const fold = play(test!);
    const again = reconcile(fold, {
      ...{ round: 3, rule: rule(test!), limits: { maxContainerBytes: 4096 }, now: 0 },
    });
    expect(again.done).toBeUndefined();
    expect(again.params).toBe(fold.params);
    expect(fold.late.some(isPending)).toBe(false);
  });

  it('never try again what cannot be read', () => {
    const broken = { ...lateOf(test!.records_in[0]!), payload: 'AAAA' };
    const params = toParams(test!.current_state);
    const momentum = new Float64Array(params.layout.size);
    const fold = reconcile(
      { params, momentum, late: [broken] },
      { round: 2, rule: rule(test!), limits: { maxContainerBytes: 4096 }, now: 0 },
    );
    expect(fold).toMatchObject({ errors: 1, params });
    expect(fold.late[0]?.error).toMatch(/^truncated|bad/);
  });
});
