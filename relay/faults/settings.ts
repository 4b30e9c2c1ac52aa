/** Settings of injected faults, and their text form: `drop=0.1,delay=20..80,oks`, or JSON. */

import { isCount, isRecord } from '../event.ts';

/** Distribution of delivery delays: uniform in a range, normal around a mean, or exponential with a maximum. */
export type DelayDistribution =
  | { readonly shape: 'uniform'; readonly minMs: number; readonly maxMs: number }
  | { readonly shape: 'normal'; readonly meanMs: number; readonly deviationMs: number }
  | { readonly shape: 'exponential'; readonly meanMs: number; readonly maxMs: number };

/** Faults to inject. Shares are from 0 to 1; an absent field injects nothing. */
export interface FaultSettings {
  /** Share of deliveries to subscribers that are dropped. */
  readonly drop?: number;
  /** Share of deliveries that are sent twice. */
  readonly duplicate?: number;
  readonly delay?: DelayDistribution;
  /** Share of deliveries that are delayed so that later ones overtake them. */
  readonly reorder?: number;
  /** Maximum delay of such deliveries; default 200 ms. */
  readonly reorderMs?: number;
  /** Applies the four above to OK answers too. */
  readonly oks?: boolean;
  /** Share of published events that are dropped without an answer. */
  readonly swallow?: number;
  /** Share of published events that are answered with OK true and then dropped. */
  readonly discard?: number;
  /** Number of connections refused before one is accepted. */
  readonly refuseConnections?: number;
  /** Closes each connection after this many frames from it. */
  readonly disconnectAfter?: number;
  /** Share of frames after which the connection is closed. */
  readonly disconnect?: number;
  /** Bytes per second of each connection; everything sent to it is queued. */
  readonly bandwidth?: number;
  /** Events accepted per minute from each connection; others are refused as `rate-limited`. */
  readonly throttle?: number;
  /** Share of deliveries preceded by a copy with the same id and a wrong signature. */
  readonly forge?: number;
  /** Share of deliveries preceded by a copy dated a year later, which matches neither id nor signature. */
  readonly postdate?: number;
  /** Share of REQs answered with EOSE at once, as if nothing were stored. */
  readonly falseEose?: number;
  /** Share of REQs that get their stored events but no EOSE. */
  readonly noEose?: number;
  /** Share of REQs that are closed at once. */
  readonly closeReqs?: number;
  /** Accepts connections and events, and never answers. */
  readonly silent?: boolean;
  /** Leading zero bits required of each event (NIP-13) that the NIP-11 document does not mention. */
  readonly work?: number;
  /** Seconds after which a stored event is deleted. */
  readonly forgetAfter?: number;
  /** Reports limits in the NIP-11 document that the relay does not enforce: almost nothing is allowed. */
  readonly falseLimits?: boolean;
}

const isNumber = (value: unknown): value is number => Number.isFinite(value);
const isShare = (value: unknown): boolean => isNumber(value) && value >= 0 && value <= 1;
const isPositive = (value: unknown): boolean => isNumber(value) && value > 0;
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isCounted = (value: unknown): boolean => isCount(value);

function isDelay(value: unknown): value is DelayDistribution {
  if (!isRecord(value)) return false;
  const { shape, minMs, meanMs, deviationMs, maxMs } = value;
  if (shape === 'normal') return isPositive(meanMs) && isNumber(deviationMs) && deviationMs >= 0;
  if (shape === 'exponential') return isPositive(meanMs) && isPositive(maxMs);
  return shape === 'uniform' && isNumber(minMs) && minMs >= 0 && isNumber(maxMs) && maxMs >= minMs;
}

type Check = readonly [(value: unknown) => boolean, string];
const share: Check = [isShare, 'a share from 0 to 1'];
const count: Check = [isCounted, 'a whole number'];
const positive: Check = [isPositive, 'a number above 0'];

const checks: Readonly<Record<keyof FaultSettings, Check>> = {
  drop: share,
  duplicate: share,
  delay: [isDelay, 'LEAST..MOST, normal:MEAN,DEVIATION or exponential:MEAN,MOST, in ms'],
  reorder: share,
  reorderMs: positive,
  oks: [isFlag, 'true or false'],
  swallow: share,
  discard: share,
  refuseConnections: count,
  disconnectAfter: count,
  disconnect: share,
  bandwidth: positive,
  throttle: count,
  forge: share,
  postdate: share,
  falseEose: share,
  noEose: share,
  closeReqs: share,
  silent: [isFlag, 'true or false'],
  work: count,
  forgetAfter: positive,
  falseLimits: [isFlag, 'true or false'],
};

const RANGE = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/;
const SHAPE = /^(normal|exponential):(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)$/;

/** Parses one `key=value` item; a key alone is true, `20..80` is a uniform delay, `normal:50,10` a normal one. */
function parseItem(item: string): readonly [string, unknown] {
  const [key = '', text = 'true'] = item.split('=').map((part) => part.trim());
  const range = RANGE.exec(text);
  if (range) return [key, { shape: 'uniform', minMs: Number(range[1]), maxMs: Number(range[2]) }];
  const [, shape, meanMs, second] = SHAPE.exec(text) ?? [];
  if (shape) {
    const parameter = { [shape === 'normal' ? 'deviationMs' : 'maxMs']: Number(second) };
    return [key, { shape, meanMs: Number(meanMs), ...parameter }];
  }
  if (text === 'true' || text === 'false') return [key, text === 'true'];
  return [key, text === '' ? Number.NaN : Number(text)];
}

function readText(text: string): unknown {
  if (!text.trimStart().startsWith('{')) {
    return Object.fromEntries(text.split(/,(?!\d)/).map((item) => parseItem(item)));
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the settings, or a sentence that says what is wrong with them. */
export function parseFaults(text: string): FaultSettings | string {
  const settings = readText(text);
  if (!isRecord(settings)) return 'not a JSON object';
  for (const [key, value] of Object.entries(settings)) {
    const check = Object.hasOwn(checks, key) ? checks[key as keyof FaultSettings] : undefined;
    if (!check) {
      return `${JSON.stringify(key)} is not a fault; choose from ${Object.keys(checks).join(', ')}`;
    }
    if (!check[0](value)) return `${key} must be ${check[1]}`;
  }
  return settings;
}
