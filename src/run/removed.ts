/** Settings, packings and spec features of nostrain 0.1.0 that this version has removed, with what to use instead. */

import { ConfigError } from '../base/errors.ts';

const asTrellis = (name: string) => [name, 'trellis'] as const;

/** Replacements of removed packings. */
export const removedPackings: ReadonlyMap<string, string> = new Map([
  ['int4', 'int8'],
  ...['auto', 'q2', 'ternary', 'sign', 'topk-int8', 'topk-q2', 'topk-sign'].map(asTrellis),
  ...['range', 'scaled', 'rotated'].map(asTrellis),
]);

/** Replacements of removed values of `residual`. */
export const removedResiduals: ReadonlyMap<string, string> = new Map([
  ['local', 'none'],
  ['owned', 'none'],
]);

/** Returns in words which version still plays runs with a removed packing or residual rule. */
export const replayedWith = (name: string): string =>
  `${name} was removed; nostrain 0.1.0 still replays runs with it`;

/** Throws a ConfigError (`codec/removed`) if only an older version plays such a run. */
export function assertPlayable({ packing, residual = '' }: { packing: string; residual?: string }) {
  const old = removedPackings.has(packing) ? packing : residual;
  if (old === residual && !removedResiduals.has(residual)) return;
  throw new ConfigError('codec/removed', replayedWith(old), {
    hint: 'create a new run with `nostrain run create`, which sends deltas otherwise',
  });
}

/** A removed setting: its value without effect, and the hint for any other value. */
interface RemovedSetting {
  readonly usual: unknown;
  readonly hint: string;
}

export const removedSettings: ReadonlyMap<string, RemovedSetting> = new Map([
  [
    'overlap',
    {
      usual: false,
      hint: 'leave "overlap" out: workers take all inner steps after the outcome of a round',
    },
  ],
  [
    'adapterTrain',
    {
      usual: 'both',
      hint:
        'leave "adapterTrain" out: adapters train both matrices; nostrain 0.1.0 still plays ' +
        'runs that do not',
    },
  ],
]);

/** Drops removed settings from a file. Throws a ConfigError (`settings/unknown`) if one had an effect. */
export function withoutRemoved(
  values: Readonly<Record<string, unknown>>,
  from: string,
): Readonly<Record<string, unknown>> {
  const kept = Object.entries(values).filter(([name, value]) => {
    const removed = removedSettings.get(name);
    if (removed === undefined || removed.usual === value) return removed === undefined;
    throw new ConfigError(
      'settings/unknown',
      `${from}: there is no setting ${JSON.stringify(name)}`,
      { hint: removed.hint },
    );
  });
  return Object.fromEntries(kept);
}

/** Removed spec features, with the hint for a run that uses one. */
export const removedFeatures: ReadonlyMap<string, string> = new Map([
  ['overlap', 'create the run without it; nostrain 0.1.0 still plays and replays this one'],
]);
