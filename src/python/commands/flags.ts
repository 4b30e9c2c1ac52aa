/** Flags that the Python reference's commands share, and how a row of their table becomes a command. */
import { Command } from 'commander';
import { type Clock, systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import type { OpenSocket } from '../../network/transport/socket.ts';
import { openSocket } from '../../node/net/relays.ts';
import {
  addFlags,
  choice,
  type Flag,
  type FlagTable,
  type FlagValues,
  required,
  several,
  text,
  toggle,
  withDefault,
} from '../../terminal/flag-table.ts';
import { outputFlag } from '../../terminal/state-flags.ts';
import { regressionBackends } from '../node/train-on-backend.ts';

/** Clock and network of a command; tests bring their own. */
export interface CommandPorts {
  readonly clock: Clock;
  readonly openSocket: OpenSocket;
}

/** One row of the table of commands. */
interface CommandRow<A extends Readonly<Record<string, string>>, F extends FlagTable> {
  readonly name: string;
  readonly description: string;
  /** Help by the name of the argument; a name with dots takes all words that are left. */
  readonly words?: A;
  readonly flags: F;
  /** Shown after the help. */
  readonly after?: string;
  run(flags: FlagValues<F>, words: ArgumentWords<A>, ports: CommandPorts): Promise<void>;
}

type ArgumentWords<A> = {
  readonly [K in keyof A]: K extends `${string}...` ? readonly string[] : string;
};

/** A row of the table, as what builds its command. */
export const pythonCommand =
  <A extends Readonly<Record<string, string>>, F extends FlagTable>(row: CommandRow<A, F>) =>
  (ports: CommandPorts = { clock: systemClock, openSocket }): Command => {
    const words = Object.entries(row.words ?? {});
    const command = new Command(row.name).description(row.description);
    for (const [name, help] of words) command.argument(`<${name}>`, help);
    if (row.after !== undefined) command.addHelpText('after', row.after);
    return addFlags(command, row.flags).action(() => {
      const typed = words.map(([name], i) => [name, command.processedArgs[i]]);
      return row.run(command.opts(), Object.fromEntries(typed), ports);
    });
  };

const INTEGER = /^\s*[+-]?\d+(?:_\d+)*\s*$/;
const DECIMAL =
  /^\s*[+-]?(?:\d[\d_]*\.?[\d_]*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*$/i;

/**
 * A whole number from `least` on, spelled as Python spells it. As in the Python reference, a text that is no number is
 * a wrong command line (exit code 2), a number out of range a wrong value (1).
 */
export const integer = (value: string, help: string, least: number): Flag<number | undefined> => ({
  value,
  help,
  read(typed, flag) {
    if (!INTEGER.test(typed)) throw noNumber(flag, typed, 'a whole number');
    const number = Number(typed.replaceAll('_', ''));
    if (Number.isSafeInteger(number) && number >= least) return number;
    throw outOfRange(flag, typed, `from ${least} on`);
  },
});

/** Where a number must lie, in words that follow "it must be". */
interface NumberRange {
  readonly says: string;
  holds(value: number): boolean;
}

const from = (least: number): NumberRange => ({
  says: `from ${least} on`,
  holds: (value) => value >= least,
});
export const above0: NumberRange = { says: 'above 0', holds: (value) => value > 0 };
export const share: NumberRange = { says: 'above 0 and at most 1', holds: (x) => x > 0 && x <= 1 };
export const below1: NumberRange = { says: 'from 0 to below 1', holds: (x) => x >= 0 && x < 1 };

/** A finite number in a range, with the errors of `integer`. */
export const decimal = (
  value: string,
  help: string,
  { says, holds }: NumberRange,
): Flag<number | undefined> => ({
  value,
  help,
  read(typed, flag) {
    if (!DECIMAL.test(typed)) throw noNumber(flag, typed, 'a number');
    const number = Number(typed.replaceAll('_', ''));
    if (Number.isFinite(number) && holds(number)) return number;
    throw outOfRange(flag, typed, says);
  },
});

const noNumber = (flag: string, typed: string, accepted: string): ConfigError =>
  new ConfigError('flag/value', `${flag} is ${JSON.stringify(typed)}; it must be ${accepted}`);

const outOfRange = (flag: string, typed: string, says: string): ConfigError =>
  new ConfigError('settings/value', `${flag} is ${typed.trim()}; it must be ${says}`);

export const runtimeFlag = choice('<name>', 'which model it must be (default: what STATE is)', [
  'linear-regression',
  'mlp-regression',
]);

export const backendFlag = withDefault(
  choice(
    '<name>',
    "what computes: python is the reference's order of operations, to the bit; " +
      'numpy, torch and onnx are onnxruntime',
    regressionBackends,
  ),
  'python',
);

export const runFlag = required(text('<name>', 'name of the run'));

/** Of commands that write words or JSON. */
export const resultFlags = (help: string) => ({ json: toggle(help), output: outputFlag });

/** Relays and how often to try them. */
export const relayFlags = (timeoutHelp: string) => ({
  relay: required(several('<url>', 'relay address, ws:// or wss://; repeatable')),
  timeout: withDefault(decimal('<s>', timeoutHelp, above0), 10),
  relayRetries: withDefault(integer('<n>', 'tries after the first one, for each relay', 0), 0),
  relayRetryBackoff: withDefault(decimal('<s>', 'seconds before the first retry', from(0)), 0.25),
  relayRetryBackoffMax: withDefault(
    decimal('<s>', 'longest wait before a retry, in seconds; 0 for no cap', from(0)),
    2,
  ),
  relayRetryBackoffMultiplier: withDefault(
    decimal('<x>', 'growth of the wait from one retry to the next', from(1)),
    2,
  ),
});

export type RelayFlags = FlagValues<ReturnType<typeof relayFlags>>;

export const maxMissedFlag = withDefault(
  integer('<n>', 'a worker is gone after missing this many of its own intervals', 1),
  3,
);

/** What is read from relays, and how long. */
export const listeningFlags = {
  ...relayFlags('seconds a connection may take'),
  run: required(text('<name>', 'name of the training run')),
  since: integer('<unix>', 'only events from this time on, unix seconds', 0),
  idleTimeout: withDefault(
    decimal('<s>', 'stop after so many seconds without a message from the relay', above0),
    2,
  ),
  maxWait: decimal(
    '<s>',
    'stop after so many seconds, whatever the relay sends ' +
      '(default: 60, or 30 idle timeouts if that is longer)',
    above0,
  ),
};

export type ListeningFlags = FlagValues<typeof listeningFlags>;

/** What a built event says of its author and date. */
export const authorFlags = {
  worker: text('<name>', 'worker the event speaks for (default: the public key)'),
  secKey: text('<key>', 'sign with it: 64 hex digits or nsec1…'),
  pubkey: text('<hex>', 'public key of whoever signs elsewhere'),
  sig: text('<hex>', 'signature of this event by that key; needs --pubkey'),
  eventId: text('<hex>', 'the id the event must have; needs --pubkey'),
  createdAt: integer('<s>', 'date of the event in unix seconds (default: now)', 0),
  output: outputFlag,
};

export type AuthorFlags = FlagValues<typeof authorFlags>;
