/** Flags shared by the commands of the Python reference, and the builder that turns a table row into a command. */
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

/** Clock and network of a command; tests pass their own. */
export interface CommandPorts {
  readonly clock: Clock;
  readonly openSocket: OpenSocket;
}

/** A row of the table of commands. */
interface CommandRow<A extends Readonly<Record<string, string>>, F extends FlagTable> {
  readonly name: string;
  readonly description: string;
  /** Help by name of the argument; a name that ends in dots takes all remaining words. */
  readonly words?: A;
  readonly flags: F;
  /** Text after the help. */
  readonly after?: string;
  run(flags: FlagValues<F>, words: ArgumentWords<A>, ports: CommandPorts): Promise<void>;
}

type ArgumentWords<A> = {
  readonly [K in keyof A]: K extends `${string}...` ? readonly string[] : string;
};

/** Returns a function that builds the command of a table row. */
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
 * An integer of at least `least`, in Python's syntax. As in the Python reference, text that is not a number is a wrong
 * command line (exit code 2), and a number out of range is a wrong value (1).
 */
export const integer = (value: string, help: string, least: number): Flag<number | undefined> => ({
  value,
  help,
  read(typed, flag) {
    if (!INTEGER.test(typed)) throw noNumber(flag, typed, 'a whole number');
    const number = Number(typed.replaceAll('_', ''));
    if (Number.isSafeInteger(number) && number >= least) return number;
    throw outOfRange(flag, typed, `at least ${least}`);
  },
});

/** Range of a number; `says` follows the words "it must be". */
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

/** A finite number in a range, with the same errors as `integer`. */
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

export const runtimeFlag = choice('<name>', 'required model of STATE (default: any)', [
  'linear-regression',
  'mlp-regression',
]);

export const backendFlag = withDefault(
  choice(
    '<name>',
    "backend: python follows the reference's order of operations bit for bit; " +
      'numpy, torch and onnx use onnxruntime',
    regressionBackends,
  ),
  'python',
);

export const runFlag = required(text('<name>', 'name of the run'));

/** Flags of commands that write text or JSON. */
export const resultFlags = (help: string) => ({ json: toggle(help), output: outputFlag });

/** Flags for relays and retries. */
export const relayFlags = (timeoutHelp: string) => ({
  relay: required(several('<url>', 'relay address, ws:// or wss://; repeatable')),
  timeout: withDefault(decimal('<s>', timeoutHelp, above0), 10),
  relayRetries: withDefault(integer('<n>', 'retries per relay after the first attempt', 0), 0),
  relayRetryBackoff: withDefault(decimal('<s>', 'seconds before the first retry', from(0)), 0.25),
  relayRetryBackoffMax: withDefault(
    decimal('<s>', 'longest wait before a retry, in seconds; 0 for no limit', from(0)),
    2,
  ),
  relayRetryBackoffMultiplier: withDefault(
    decimal('<x>', 'factor of the wait from one retry to the next', from(1)),
    2,
  ),
});

export type RelayFlags = FlagValues<ReturnType<typeof relayFlags>>;

export const maxMissedFlag = withDefault(
  integer('<n>', 'a worker is gone after missing this many of its own intervals', 1),
  3,
);

/** Flags for reading a run from relays. */
export const listeningFlags = {
  ...relayFlags('time limit of a connection attempt, in seconds'),
  run: required(text('<name>', 'name of the training run')),
  since: integer('<unix>', 'only events from this time on, in Unix seconds', 0),
  idleTimeout: withDefault(
    decimal('<s>', 'stop after this many seconds without a message from the relay', above0),
    2,
  ),
  maxWait: decimal(
    '<s>',
    'stop after this many seconds, whatever the relay sends ' +
      '(default: 60, or 30 idle timeouts if that is longer)',
    above0,
  ),
};

export type ListeningFlags = FlagValues<typeof listeningFlags>;

/** Flags for author and date of an event. */
export const authorFlags = {
  worker: text('<name>', 'worker named in the event (default: the public key)'),
  secKey: text('<key>', 'key to sign with: 64 hex digits or nsec1…'),
  pubkey: text('<hex>', 'public key of an external signer'),
  sig: text('<hex>', 'signature of this event by that key; requires --pubkey'),
  eventId: text('<hex>', 'expected id of the event; requires --pubkey'),
  createdAt: integer('<s>', 'date of the event in Unix seconds (default: now)', 0),
  output: outputFlag,
};

export type AuthorFlags = FlagValues<typeof authorFlags>;
