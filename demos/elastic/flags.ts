/** The flags of `demo elastic`: tiers of the workers, and latency, loss and bandwidth of its relay. */
import { ConfigError } from 'nostrain';
import { type FaultSettings, parseFaults } from '../../relay/faults/settings.ts';
import { MOST_TIERS } from '../../src/run/spec/model-spec.ts';
import { type Flag, type FlagValues, parsed, untoggle } from '../../src/terminal/flag-table.ts';

export type LineFlags = Pick<FlagValues<typeof elasticFlags>, 'latency' | 'loss' | 'bandwidth'>;

const RATE = /^(\d+(?:\.\d+)?)\s*(k|M|G)?B(?:\/s|ps)$/;
const TIMES: Readonly<Record<string, number>> = { k: 1e3, M: 1e6, G: 1e9 };

interface FaultForm {
  readonly example: string;
  readonly accepted: string;
  /** Returns the text in the form of the relay's fault settings; undefined if it is invalid. */
  read(text: string): string | undefined;
}

/** A flag whose value sets one fault of the relay. */
const faultFlag = (
  value: string,
  help: string,
  fault: keyof FaultSettings,
  { example, accepted, read }: FaultForm,
): Flag<FaultSettings | undefined> =>
  parsed(value, `elastic: ${help}`, (text, flag) => {
    const written = read(text);
    const faults = written === undefined ? accepted : parseFaults(`${fault}=${written}`);
    if (typeof faults !== 'string') return faults;
    const message = `${flag} is ${JSON.stringify(text)}: it must be ${accepted}`;
    throw new ConfigError('flag/value', message, { hint: `write it like ${flag} ${example}` });
  });

/** Parses `0,0,1,2`: a tier for each worker. Throws a ConfigError (`flag/value`). */
function readTiers(text: string, flag: string): readonly number[] {
  const tiers = text.split(',').map((one) => (/^\d$/.test(one.trim()) ? Number(one) : Number.NaN));
  if (tiers.length <= 64 && tiers.includes(0) && tiers.every((tier) => tier <= MOST_TIERS))
    return tiers;
  throw new ConfigError('flag/value', `${flag} is ${JSON.stringify(text)}`, {
    hint:
      `a tier from 0 to ${MOST_TIERS} for each worker, with commas between them, ` +
      '0 among them: 0,0,1,2',
  });
}

/** The flags that only this demo has. */
export const elasticFlags = {
  tiers: parsed(
    '<t,..>',
    'elastic: which MatFormer tier each worker trains (default: 0,0,1,2)',
    readTiers,
  ),
  controls: untoggle('elastic: skip the control runs of the full model'),
  latency: faultFlag('<ms>', 'delay of all messages that the relay delivers', 'delay', {
    example: 'normal:50,10',
    accepted: 'milliseconds: 50, 20..80, normal:MEAN,DEVIATION or exponential:MEAN,MOST',
    read(text) {
      const value = /^\d+(\.\d+)?$/.test(text) ? `${text}..${text}` : text;
      return /^[a-z0-9.:,]+$/.test(value) ? value : undefined;
    },
  }),
  loss: faultFlag(
    '<share>',
    'share of deliveries that the relay loses; a second relay loses nothing',
    'drop',
    {
      example: '0.1',
      accepted: 'a share from 0 to 1',
      read: (text) => (/^\d*\.?\d+$/.test(text) ? text : undefined),
    },
  ),
  bandwidth: faultFlag('<rate>', 'bandwidth of the relay per worker', 'bandwidth', {
    example: '1MB/s',
    accepted: 'bytes per second above 0, with their unit: 500kB/s, 1MB/s',
    read(text) {
      const [, number, unit = ''] = RATE.exec(text) ?? [];
      return number === undefined ? undefined : `${Number(number) * (TIMES[unit] ?? 1)}`;
    },
  }),
};

/** Returns the faults that the flags request; undefined without such flags. */
export function lineFaults({ latency, loss, bandwidth }: LineFlags): FaultSettings | undefined {
  const faults = { ...latency, ...loss, ...bandwidth };
  return Object.keys(faults).length === 0 ? undefined : faults;
}
