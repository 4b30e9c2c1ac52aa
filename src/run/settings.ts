/**
 * Every setting of a training run, once: its name in a settings file, its flag, its check. Types, flags, file parser
 * and docs/reference/commands.md all come from here.
 */
import { ConfigError } from '../base/errors.ts';
import { type Aggregation, aggregationFields } from './aggregation.ts';
import { formOf, type InputName, inputNames } from './data-forms.ts';
import { choice, type Field, real, spread, sync, text, texts, whole, yesNo } from './field.ts';
import { paceFields, paceSettings } from './pace.ts';
import { removedPackings, withoutRemoved } from './removed.ts';
import { learningFields } from './spec/learning-fields.ts';
import { arithmetics } from './spec/model-spec.ts';
import { workerKeys } from './spec/spec-fields.ts';

/** Packings that take as many bytes as `--event-budget` gives them. */
export const fillingPackings = ['scaled', 'rotated'] as const;

/** How a delta becomes a payload of `nostrain/1` (docs/payload.md). */
export const packingNames = [
  'auto',
  'int8',
  'int4',
  'q2',
  'ternary',
  'topk-sign',
  ...fillingPackings,
] as const;
export type PackingName = (typeof packingNames)[number];

export const residualRules = ['feedback', 'local', 'owned', 'none'] as const;
export type ResidualRule = (typeof residualRules)[number];

export const normalizations = ['workers', 'senders'] as const;
export type Normalization = (typeof normalizations)[number];

export const fields = {
  run: text(
    '--run <name>',
    'name of the run; workers with the same name and relays train together',
  ),
  relay: texts('--relay <url>', 'relay to use, repeatable'),
  ...learningFields,
  ...paceFields,
  packing: choice(
    '--packing <name>',
    'how to pack deltas; auto takes the richest that fits --event-budget; scaled and rotated fill it',
    packingNames,
    removedPackings,
  ),
  codec: choice(
    '--codec <name>',
    'nostrain/0: how to compress payloads; zstd only where every worker reads it',
    ['zlib', 'zstd'],
  ),
  eventBudget: whole(
    '--event-budget <bytes>',
    'with --packing auto, scaled or rotated: bytes a worker may send in a round; up to 65536 it is one event',
    2048,
  ),
  owners: whole(
    '--owners <n>',
    'workers that send each chunk of the parameters; 0: every worker sends all of them',
  ),
  fragments: whole(
    '--fragments <n>',
    'stretches of the model that are sent in turn, one a round; 1 sends all of it in every round',
    1,
  ),
  topk: real(
    '--topk <ratio>',
    'share of the values to send, the largest ones (--packing topk-sign and nostrain/0)',
    {
      from: 0,
      to: 1,
      open: 'from',
    },
  ),
  residual: choice(
    '--residual <rule>',
    'what to do with learning that was not sent: add it to the next delta, keep it in the local model, keep it there for owned chunks only, or drop it',
    residualRules,
  ),
  weights: choice('--weights <rule>', 'weigh contributions by their examples, or all the same', [
    'examples',
    'equal',
  ]),
  maxExamples: whole(
    '--max-examples <n>',
    'most examples that a contribution counts for; 0: inner steps x batch size',
  ),
  normalize: choice(
    '--normalize <rule>',
    'divide a value by the weights of all who send its chunk, or of those who sent the value',
    normalizations,
  ),
  ...aggregationFields,
  sync: sync('--sync <strategy>', 'when to close a round: timeout, strict:N, quorum, async'),
  peers: workerKeys(
    '--peers <keys>',
    'train with the workers of these public keys alone, your own among them',
  ),
  roundTimeout: real(
    '--round-timeout <s>',
    'seconds to wait for contributions, counted from the own one',
    rate0(86400),
  ),
  waitFor: whole(
    '--wait-for <n>',
    'live workers to wait for before the first round; 0: N of strict:N, else 1',
  ),
  joinTimeout: real('--join-timeout <s>', 'seconds to wait for them', rate0(604800)),
  heartbeatInterval: whole('--heartbeat-interval <s>', 'seconds between two heartbeats', 1),
  maxMissedHeartbeats: whole(
    '--max-missed-heartbeats <n>',
    'heartbeats a worker may miss before it counts as gone',
    1,
  ),
  profile: choice(
    '--profile <name>',
    "wire format: this program's, or that of the Python reference",
    ['nostrain/1', 'nostrain/0'],
  ),
  stripe: spread(
    '--stripe <k/n>',
    'spread large payloads over n relays so that any k of them are enough; 1/1 gives each relay all of it',
  ),
  checkpointHistory: whole(
    '--checkpoint-history <n>',
    'nostrain/0: checkpoints to keep on the relays, where the state fits an event',
    1,
  ),
  recompute: yesNo(
    '--recompute',
    'compute activations a second time for backward instead of keeping them: less memory, a third more time',
  ),
  precision: choice(
    '--precision <type>',
    'compute the matrix products of training in half precision, where the device has it',
    arithmetics,
  ),
  accumulate: whole(
    '--accumulate <n>',
    'cut the batch of an inner step into n micro-batches, one after the other: less memory for the same gradient',
    1,
  ),
  evaluate: yesNo('--no-evaluate', 'skip the validation loss and the sample after each round'),
} as const satisfies Record<string, Field<unknown>>;

/** What a worker chooses alone, or all say alike where no spec does. Every other setting is the same on all workers of a run, so its spec holds it. */
const personal = [
  'relay',
  'base',
  'basePrecision',
  'tiers',
  'tier',
  'helperRotation',
  'helper',
  'tierStrategy',
  'shard',
  'sync',
  'peers',
  'roundTimeout',
  'waitFor',
  'joinTimeout',
  'heartbeatInterval',
  'maxMissedHeartbeats',
  'codec',
  'stripe',
  'checkpointHistory',
  'recompute',
  'precision',
  'accumulate',
  'evaluate',
  'rule',
  'hostile',
  'before',
  'leastRatePermille',
  ...paceSettings,
] as const satisfies readonly (keyof typeof fields)[];

/** Of those, what a run without a spec leaves to its workers; with one, rounds close as it says and all events are of nostrain/1. */
const withoutSpec = [
  'tiers',
  'helperRotation',
  'helper',
  'peers',
  'roundTimeout',
  'codec',
  'checkpointHistory',
  'rule',
  'hostile',
  'before',
  'leastRatePermille',
  ...paceSettings,
] as const satisfies readonly (typeof personal)[number][];

/** The spec holds these under another name: its id, and its own profile. */
const named = ['run', 'profile'] as const satisfies readonly (keyof typeof fields)[];

/** What is trained of a published model: the same on all workers, and in a spec part of its `start`. */
export const adapterNames = [
  'rank',
  'alpha',
  'targets',
] as const satisfies readonly (keyof typeof fields)[];

function rate0(to: number): { from: number; to: number; open: 'from' } {
  return { from: 0, to, open: 'from' };
}

export type SettingName = keyof typeof fields;

/** Every setting with a checked value, as `completeSettings` gives them. */
export type Settings = { readonly [K in SettingName]: ReturnType<(typeof fields)[K]['read']> };

export type PartialSettings = { readonly [K in SettingName]?: Settings[K] };

export const settingNames = Object.keys(fields) as SettingName[];

export type PersonalName = (typeof personal)[number];
export type AdapterName = (typeof adapterNames)[number];
export type SharedName = Exclude<
  SettingName,
  PersonalName | AdapterName | InputName | (typeof named)[number]
>;

/** The settings that a run spec fixes for everybody. */
export type SharedSettings = Pick<Settings, SharedName>;

/** The rule of a run without a spec, of which all workers say the same; with one, the spec has it. */
export const ruleSettings = [
  'rule',
  'hostile',
  'before',
  'leastRatePermille',
] as const satisfies readonly (keyof Aggregation)[];

/** How rows become a step. */
export const aggregationOf = ({
  rule,
  hostile,
  before,
  leastRatePermille,
}: Settings): Aggregation => ({
  rule,
  hostile,
  before,
  leastRatePermille,
});

const isOneOf = (names: readonly string[], name: string): boolean => names.includes(name);

export const isPersonal = (name: SettingName): name is PersonalName => isOneOf(personal, name);

/** What a worker of a run with a spec may choose. */
export const joinNames: readonly SettingName[] = personal.filter(
  (name) => !(withoutSpec as readonly string[]).includes(name),
);

/** What a worker chooses alone in a run without a spec, and in no other. */
export const unspecifiedNames: readonly SettingName[] = withoutSpec;

/** In the order of the table. */
export const sharedNames = settingNames.filter(
  (name): name is SharedName =>
    ![...personal, ...named, ...adapterNames, ...inputNames].some((each) => each === name),
);

/** Whether a model is trained on text. */
export const isOfText = (settings: Pick<Settings, 'model'>): boolean =>
  formOf(settings) === 'tokens';

/** Checks every value of a settings file or of parsed flags. Throws on an unknown name with the nearest known ones. */
export function readSettings(
  values: Readonly<Record<string, unknown>>,
  from: string,
): PartialSettings {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(withoutRemoved(values, from))) {
    if (!Object.hasOwn(fields, name)) {
      throw new ConfigError(
        'settings/unknown',
        `${from}: there is no setting ${JSON.stringify(name)}`,
        { hint: `the settings are ${settingNames.join(', ')}` },
      );
    }
    out[name] = fields[name as SettingName].read(value, `${from}: ${name}`);
  }
  return out as PartialSettings;
}

/** Settings are complete when the last layer is applied; later layers win. Throws naming the first one missing. */
export function completeSettings(...layers: readonly PartialSettings[]): Settings {
  const merged: Record<string, unknown> = Object.assign({}, ...layers);
  const missing = settingNames.find((name) => merged[name] === undefined);
  if (missing) {
    throw new ConfigError('settings/missing', `${missing} is not set`, {
      hint: `give it with ${fields[missing].flag}, or "${missing}" in the settings file`,
    });
  }
  return merged as Settings;
}

/** Settings as a file holds them: what `readSettings` takes back. */
export function writeSettings(settings: PartialSettings): Readonly<Record<string, unknown>> {
  const written = settingNames.map((name) => {
    const field: { write?(value: never): string } = fields[name];
    const value = settings[name];
    return [name, field.write && value !== undefined ? field.write(value as never) : value];
  });
  return Object.fromEntries(written.filter(([, value]) => value !== undefined));
}
