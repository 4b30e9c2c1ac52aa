/** Fault settings as text, for command lines: JSON, or `drop=0.1,delay=20..80,oks`. */
import { isCount, isRecord } from '../event.ts';
import type { DelayDistribution, FaultSettings } from './fault.ts';

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

/** One `key=value` item; a key alone is true, `20..80` is a uniform delay, `normal:50,10` one around a mean. */
function parseItem(item: string): readonly [string, unknown] {
  const [key = '', text = 'true'] = item.split('=').map((part) => part.trim());
  const range = RANGE.exec(text);
  if (range) return [key, { shape: 'uniform', minMs: Number(range[1]), maxMs: Number(range[2]) }];
  const [, shape, meanMs, second] = SHAPE.exec(text) ?? [];
  if (shape) {
    const spread = { [shape === 'normal' ? 'deviationMs' : 'maxMs']: Number(second) };
    return [key, { shape, meanMs: Number(meanMs), ...spread }];
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

/** The settings, or a sentence saying what is wrong with them. */
export function parseFaults(text: string): FaultSettings | string {
  const settings = readText(text);
  if (!isRecord(settings)) return 'not a JSON object';
  for (const [key, value] of Object.entries(settings)) {
    const check = Object.hasOwn(checks, key) ? checks[key as keyof FaultSettings] : undefined;
    if (!check) {
      return `${JSON.stringify(key)} is no fault; there are ${Object.keys(checks).join(', ')}`;
    }
    if (!check[0](value)) return `${key} must be ${check[1]}`;
  }
  return settings;
}
