/** The flags of `demo elastic`: who trains which tier, and what is done to the network: latency, loss and bandwidth of its relay, as people write them, and the same for the same seed. */
import { Option } from 'commander';
import type { FaultSettings } from '../../relay/faults/settings.ts';
import { parseFaults } from '../../relay/faults/settings.ts';
import { ConfigError } from '../../src/base/errors.ts';
import { MOST_TIERS } from '../../src/run/spec/model-spec.ts';

export interface LineFlags {
  readonly latency?: Pick<FaultSettings, 'delay'>;
  readonly loss?: Pick<FaultSettings, 'drop'>;
  readonly bandwidth?: Pick<FaultSettings, 'bandwidth'>;
}

/** How the flags are called by commander. */
export const elasticFlagNames = ['tiers', 'controls', 'latency', 'loss', 'bandwidth'] as const;

const RATE = /^(\d+(?:\.\d+)?)\s*(k|M|G)?B(?:\/s|ps)$/;
const TIMES = { k: 1e3, M: 1e6, G: 1e9 } as const;

/** A fault of the relay by its own name for it, or the words that say what the flag takes. */
function faultOf<K extends keyof FaultSettings>(
  flag: string,
  text: string,
  { key, value, accepted }: { key: K; value: string | undefined; accepted: string },
): Pick<FaultSettings, K> {
  const faults = value === undefined ? accepted : parseFaults(`${key}=${value}`);
  if (typeof faults !== 'string') return faults as Pick<FaultSettings, K>;
  throw new ConfigError(
    'flag/value',
    `${flag} is ${JSON.stringify(text)}: it must be ${accepted}`,
    {
      hint: `write it like ${flag} ${EXAMPLES[flag]}`,
    },
  );
}

const EXAMPLES: Readonly<Record<string, string>> = {
  '--latency': 'normal:50,10',
  '--loss': '0.1',
  '--bandwidth': '1MB/s',
};

function latency(text: string): Pick<FaultSettings, 'delay'> {
  const accepted = 'milliseconds: 50, 20..80, normal:MEAN,DEVIATION or exponential:MEAN,MOST';
  const value = /^\d+(\.\d+)?$/.test(text) ? `${text}..${text}` : text;
  const isDelay = /^[a-z0-9.:,]+$/.test(value);
  return faultOf('--latency', text, { key: 'delay', value: isDelay ? value : undefined, accepted });
}

function loss(text: string): Pick<FaultSettings, 'drop'> {
  const value = /^\d*\.?\d+$/.test(text) ? text : undefined;
  return faultOf('--loss', text, { key: 'drop', value, accepted: 'a share from 0 to 1' });
}

function bandwidth(text: string): Pick<FaultSettings, 'bandwidth'> {
  const [, number, unit] = RATE.exec(text) ?? [];
  const times = unit === undefined ? 1 : TIMES[unit as keyof typeof TIMES];
  const value = number === undefined ? undefined : `${Number(number) * times}`;
  const accepted = 'bytes per second above 0, with their unit: 500kB/s, 1MB/s';
  return faultOf('--bandwidth', text, { key: 'bandwidth', value, accepted });
}

/** `0,0,1,2`: a tier for each worker, up to the smallest there is. */
function tiersFlag(text: string): readonly number[] {
  const tiers = text.split(',').map((one) => (/^\d$/.test(one.trim()) ? Number(one) : Number.NaN));
  if (tiers.length <= 64 && tiers.includes(0) && tiers.every((tier) => tier <= MOST_TIERS))
    return tiers;
  throw new ConfigError('flag/value', `--tiers is ${JSON.stringify(text)}`, {
    hint: `a tier from 0 to ${MOST_TIERS} for each worker, with commas between them, 0 among them: 0,0,1,2`,
  });
}

/** The flags of this demo alone. */
export const elasticOptions = (): readonly Option[] => [
  new Option(
    '--tiers <t,..>',
    'elastic: which tier of width each worker trains (default: 0,0,1,2)',
  ).argParser(tiersFlag),
  new Option('--no-controls', 'elastic: without the workers of the whole model to compare with'),
  new Option('--latency <ms>', 'elastic: delay of everything the relay delivers').argParser(
    latency,
  ),
  new Option(
    '--loss <share>',
    'elastic: share of its deliveries that are lost; a second relay loses nothing',
  ).argParser(loss),
  new Option('--bandwidth <rate>', 'elastic: what each worker gets of the relay').argParser(
    bandwidth,
  ),
];

/** All of them as faults of a relay; undefined where none is asked for. */
export function lineFaults({ latency, loss, bandwidth }: LineFlags): FaultSettings | undefined {
  const faults = { ...latency, ...loss, ...bandwidth };
  return Object.keys(faults).length === 0 ? undefined : faults;
}
