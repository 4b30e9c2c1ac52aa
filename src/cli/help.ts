/** How help is laid out: commands and flags in groups, the most used first, and one example for each command. */
import { type Command, Help, type HelpConfiguration, Option } from 'commander';
import { examples } from './examples.ts';

const SHELL = 'Shell:';

/** Headings of commands, in this order. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  'Train:': ['demo', 'run-training', 'run', 'sample', 'model', 'tiers'],
  'Runs on this machine:': ['runs', 'show', 'clean', 'keygen', 'doctor'],
  'Large files:': ['checkpoint', 'directory', 'placement'],
  'Relays:': ['relay', 'relays', 'plan'],
  'Certified runs, checked by anybody:': [
    'watch',
    'page',
    'replay',
    'archive',
    'explain',
    'scores',
    'receipt',
    'challenge',
    'witness',
    'stake',
  ],
  [SHELL]: ['completion'],
};
const PYTHON = 'Commands of the Python reference (rounds from 0, as there):';

/** Headings of flags, in this order; what stands in none of them is basic. Headings that a command gives itself come last. */
export const FLAG_GROUPS: Readonly<Record<string, readonly string[]>> = {
  'Basic:': [],
  'Model:': [
    'width',
    'layers',
    'heads',
    'context',
    'ffn',
    'hidden',
    'tokens',
    'runtime',
    'features',
    'horizon',
    'patch',
    'forecastError',
    'scaling',
    'pixels',
    'hiddenSize',
    'weightScale',
    'rank',
    'alpha',
    'targets',
    'basePrecision',
  ],
  'Training:': [
    'rounds',
    'innerSteps',
    'innerSeconds',
    'leastSteps',
    'batchSize',
    'seed',
    'optimizer',
    'localLearningRate',
    'warmupSteps',
    'finalShare',
    'weightDecay',
    'clipNorm',
    'outerLearningRate',
    'momentum',
    'weights',
    'maxExamples',
    'device',
    'threads',
    'recompute',
    'precision',
    'accumulate',
    'evaluate',
    'evaluation',
    'baseFrom',
    'backend',
    'steps',
    'learningRate',
    'sync',
    'roundTimeout',
    'waitFor',
    'joinTimeout',
    'peers',
  ],
  'Network:': [
    'timeout',
    'relayRetries',
    'relayRetryBackoff',
    'relayRetryBackoffMax',
    'relayRetryBackoffMultiplier',
    'relayRate',
    'relayMaxEventBytes',
    'relayCopies',
    'allowPrivateRelays',
    'advertiseRelay',
    'discoverRelays',
    'profile',
    'heartbeatInterval',
    'maxMissedHeartbeats',
    'stripe',
    'rpc',
    'agree',
    'rpcTimeout',
    'wait',
    'drand',
    'idleTimeout',
    'maxWait',
    'directory',
    'allowPrivate',
    'since',
    'heartbeatSince',
    'heartbeatIdleTimeout',
    'workersPerIp',
  ],
  'Advanced:': [
    'packing',
    'codec',
    'eventBudget',
    'owners',
    'fragments',
    'topk',
    'residual',
    'normalize',
    'rule',
    'hostile',
    'before',
    'leastRatePermille',
    'checkpointHistory',
    'payloadBytes',
    'summaryOut',
    'outputFormat',
    'stateFormat',
    'torchCheckpointPayload',
    'inputFormat',
    'secKey',
    'stake',
    'branch',
    'trust',
    'strict',
    'faults',
    'epoch',
    'batch',
    'publicUrl',
    'minPow',
    'momentumState',
    'momentumOut',
    'metricsOut',
    'worker',
    'pubkey',
    'sig',
    'eventId',
    'createdAt',
  ],
};

const FIRST = 'Basic:';
const groupOfFlag = new Map(
  Object.entries(FLAG_GROUPS).flatMap(([heading, names]) => names.map((name) => [name, heading])),
);

/** The heading that a flag stands under. */
export const flagGroup = (option: Option): string =>
  option.helpGroupHeading ?? groupOfFlag.get(option.attributeName()) ?? FIRST;

/** The heading that a command of the program stands under. */
export const commandGroup = (name: string): string =>
  Object.entries(COMMANDS).find(([, names]) => names.includes(name))?.[0] ?? PYTHON;

const ORDER = [...Object.keys(COMMANDS), PYTHON, ...Object.keys(FLAG_GROUPS)];

const usual = new Help();

export const helpConfiguration: HelpConfiguration = {
  groupItems<T extends Command | Option>(
    unsorted: T[],
    visible: T[],
    groupOf: (item: T) => string,
  ): Map<string, T[]> {
    const heading = (item: T) => {
      if (item instanceof Option) return flagGroup(item);
      return item.name() === 'help' ? SHELL : groupOf(item);
    };
    const groups = [...usual.groupItems(unsorted, visible, heading)];
    const known = groups.filter(([name]) => ORDER.includes(name));
    const own = groups.filter(([name]) => !ORDER.includes(name));
    return new Map([...known.sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b)), ...own]);
  },
};

/** Puts the commands of the program under their headings, and its example below each that does something itself. */
export function dressHelp(program: Command): void {
  for (const command of program.commands) {
    command.helpGroup(commandGroup(command.name()));
    addExamples(command, command.name());
  }
}

function addExamples(command: Command, path: string): void {
  const example = examples[path];
  if (example !== undefined) command.addHelpText('after', `\nExample:\n  ${example}`);
  for (const each of command.commands) addExamples(each, `${path} ${each.name()}`);
}
