/** Fault settings as text, for command lines: JSON, or `drop=0.1,delay=20..80,oks`. */
import { isCount, isRecord } from '../event.ts';
import type { DelayDistribution, FaultSettings } from './fault.ts';

const isNumber = (value: unknown): value is number => Number.isFinite(value);
const isShare = (value: unknown): boolean => isNumber(value) && value >= 0 && value <= 1;
const isPositive = (value: unknown): boolean => isNumber(value) && value > 0;
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isCounted = (value: unknown): boolean => isCount(value);

function isDelay(value: unknown): value is DelayDistribution {
  if (!isRecord(value) || !isNumber(value.maxMs)) return false;
  const least = value.shape === 'uniform' ? value.minMs : value.shape === 'exponential' ? 0 : NaN;
  if (value.shape === 'exponential' && !isPositive(value.meanMs)) return false;
  return isNumber(least) && least >= 0 && value.maxMs >= least;
}

type Check = readonly [(value: unknown) => boolean, string];
const share: Check = [isShare, 'a share from 0 to 1'];
const count: Check = [isCounted, 'a whole number'];
const positive: Check = [isPositive, 'a number above 0'];

const checks: Readonly<Record<keyof FaultSettings, Check>> = {
  drop: share,
  duplicate: share,
  delay: [isDelay, 'ms..ms, or {"shape": "exponential", "meanMs": 20, "maxMs": 100}'],
  reorder: share,
  reorderMs: positive,
  oks: [isFlag, 'true or false'],
  swallow: share,
  refuseConnections: count,
  disconnectAfter: count,
  bandwidth: positive,
  throttle: count,
  forge: share,
  postdate: share,
  falseEose: share,
};

/** One `key=value` item; a key alone is true, `20..80` is a uniform delay. */
function parseItem(item: string): readonly [string, unknown] {
  const [key = '', text = 'true'] = item.split('=').map((part) => part.trim());
  const range = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(text);
  if (range) return [key, { shape: 'uniform', minMs: Number(range[1]), maxMs: Number(range[2]) }];
  if (text === 'true' || text === 'false') return [key, text === 'true'];
  return [key, text === '' ? Number.NaN : Number(text)];
}

function readText(text: string): unknown {
  if (!text.trimStart().startsWith('{')) {
    return Object.fromEntries(text.split(',').map((item) => parseItem(item)));
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
