/** docs/run-spec.md out of the tables the code reads specs by, so that the page cannot say anything else. */

import {
  features,
  type Group,
  presets,
  type SettingName,
  specRules,
  trainingFields,
} from 'nostrain/run';
import { table } from '../../kinds/_render.ts';
import { chunkedFields } from '../../src/run/chunked-files.ts';
import { inputFields } from '../../src/run/input.ts';
import { joinNames, spell, unspecifiedNames } from '../../src/run/settings.ts';
import { type FeatureName, ownedSpecFields } from '../../src/run/spec/features.ts';
import { shapes } from '../../src/run/spec/model-spec.ts';
import {
  evaluationFields,
  groupFields,
  plainFields,
  specDefaults,
  variantFields,
  variantTags,
} from '../../src/run/spec/spec-table.ts';
import { adapterFields, fileFields } from '../../src/run/spec/start.ts';

/** A file `nostrain run create` takes. */
export const example = `name = "four friends"
founders = ["npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"]

[training]
model = "char-gpt"
rounds = 20
innerSteps = 100

[committee]
quorum = "cft"

[timing]
viewMs = 20_000
`;

/** Defaults that follow from something. */
const DERIVED: Readonly<Record<string, string>> = {
  name: 'the model',
  author: 'your key',
  founders: 'the author',
  'timing.graceMaxMs': `${Number(presets.gpt.roundTimeout) * 1000} for a text model, ${Number(presets.linear.roundTimeout) * 1000} else`,
  'limits.payloadBytes': 'what the model needs at most',
  'limits.weightCap': 'examples of a round',
  'data.kind':
    'corpus, own with --evaluation; made for linear and mlp, and for forecaster and vit without --corpus',
  'data.sha256': 'of --corpus, else of tiny Shakespeare',
  'data.bytes': 'as above',
  'data.shards': 'one for each founder',
  'beacon.publicKey': "quicknet's",
};

type Nested = Readonly<Record<string, unknown>>;

const HEAD = ['field', 'default', 'accepted', 'meaning'];

const rowsOf = (group: Group, path: string): readonly (readonly string[])[] =>
  Object.entries(group).map(([name, { accepted, help, default: given }]) => {
    const words = DERIVED[path + name] ?? (given === undefined ? 'none: say it' : String(given));
    return [`\`${path}${name}\``, words, accepted, help.replace(/ \([^()]*, [^()]*\)$/, '')];
  });

function variantRows(name: keyof typeof variantFields): readonly (readonly string[])[] {
  const { tag, help } = variantTags[name];
  const groups: Readonly<Record<string, Group>> = variantFields[name];
  const chosen = (specDefaults as Nested)[name] as Nested | undefined;
  const words = Object.keys(groups);
  const fallback = DERIVED[`${name}.${tag}`] ?? String(chosen?.[tag]);
  const first = [`\`${name}.${tag}\``, fallback, `one of ${words.join(', ')}`, help];
  const rest = words.flatMap((word) =>
    rowsOf(groups[word]!, `${name}.`).map(([field, ...more]) => [`${field} (${word})`, ...more]),
  );
  return [first, ...rest];
}

const training = (): readonly (readonly string[])[] =>
  Object.entries<Group[string]>(trainingFields).map(([name, { accepted, help }]) => {
    const of = (preset: Nested) => (preset[name] === undefined ? 'char-gpt' : String(preset[name]));
    const [text, linear] = [of(presets.gpt), of(presets.linear)];
    const fallback = [
      text,
      ...(name === 'fragments' ? ['2 for a GPT of more than a million parameters'] : []),
      ...(text === linear ? [] : [`${linear} for linear and mlp`]),
    ].join('; ');
    return [`\`training.${name}\``, fallback, accepted, help];
  });

const featureRows = (): readonly (readonly string[])[] =>
  ownedSpecFields(features).map(({ name, feature, field }) => [
    `\`${feature}\``,
    `\`${name}\``,
    `\`${JSON.stringify(field.absent)}\``,
    features[feature as FeatureName].says,
  ]);

const startRows = (): readonly (readonly string[])[] =>
  (
    [
      ['start.files.N.', fileFields],
      ['start.adapter.', adapterFields],
      ['start.model.', { ...shapes.gpt2, ...shapes.llama }],
    ] as const satisfies readonly (readonly [string, Group])[]
  ).flatMap(([path, group]) =>
    Object.entries<Group[string]>(group).map(([name, { accepted, help }]) => [
      `\`${path}${name}\``,
      accepted,
      help.replace('pretrained: ', '').replace(/ \([^()]*, [^()]*\)$/, ''),
    ]),
  );

const START = [
  'A run with `training.model` `pretrained` says under `start` what it starts from. `create --base PATH` writes it; who joins needs the same',
  'files (`--base`, or the first of `start.from` that can be fetched), and is refused by the name of the first one that differs.',
  '`start.tokenizerSha256` is of the canonical JSON of `tokenizer.json`, `tokenizer_config.json` and the template of chats; a GGUF file has them',
  'inside. `start.model` is the shape of the model, with `rope`, `bias` and, where it has one, `window` of llama: the parameters of adapters',
  'are laid out by it, and drawn from the seed, without any file. `start.root` is null then; where all parameters are trained (`rank` 0) it is the',
  'model root of round 0, so that votes can be checked without the files, and the model with them.',
  '',
  'With [MatFormer tiers](tiers.md#certified-runs-of-published-models) workers may have slices of the model, in files of their own: `start.rings` has a SHA-256 for each slice, of the',
  'numbers that it adds to the base (f32, little-endian, tensor by tensor in the order of the model, feed-forward matrices cut along their width), and each is held against those',
  'that it has. `start.root`, where there is one, is a list of the roots of all slices. Without tiers there are neither.',
];

const fileRows = (): readonly (readonly string[])[] => [
  ['`files.at.N`', 'an https, http, wss or ws address', 'a source of chunks; at most 8, ascending'],
  ...Object.entries<Group[string]>(chunkedFields).map(([name, { accepted, help }]) => [
    `\`files.each.N.${name}\``,
    accepted,
    help,
  ]),
];

const FILES = [
  'A run may say under `files` where its text and the files of its base are in chunks, as [checkpoints.md](checkpoints.md#training-data-and-bases)',
  'has it: `create --packed FOLDER --packed-at SOURCE` writes it. Each is the text of `data` or a file of `start` by its hash, or is read beside one and',
  'has at most 16 MiB; so a spec sends nobody for anything else. The relays of the run are sources too.',
];
const INPUT = [
  'A run with `training.model` `forecaster` or `vit` says under `input` what of series or pictures its model reads, so that its parameters are laid',
  'out without any data. `create` takes the numbers of channels and classes from `--corpus`, or from the synthetic data.',
];

const inputRows = (): readonly (readonly string[])[] =>
  Object.entries(inputFields).flatMap(([form, group]) => [
    ['`input.form`', form, form === 'series' ? 'of a forecaster' : 'of a vit'],
    ...Object.entries(group).map(([name, { accepted, help }]) => [
      `\`input.${name}\` (${form})`,
      accepted,
      help.replace(/^(forecaster|vit): /, '').replace(/ \([^()]*, [^()]*\)$/, ''),
    ]),
  ]);

/** The whole page. */
export function renderPage(): string {
  const groups = Object.entries<Group>(groupFields).flatMap(([name, group]) =>
    rowsOf(group, `${name}.`),
  );
  const variants = (Object.keys(variantFields) as (keyof typeof variantFields)[]).flatMap(
    variantRows,
  );
  const flagsOf = (names: readonly SettingName[]) =>
    names.map((name) => `\`${spell(name)}\``).join(', ');
  return `${[
    ...INTRO,
    '```toml',
    `${example}\`\`\``,
    ...RULES_OF_TEXT,
    '## Fields',
    '',
    table(HEAD, [
      ['`version`', '2', '2', 'of this format; a run of another version is refused'],
      [
        '`features`',
        'those whose fields are said',
        'names, ascending',
        'features of the run, below',
      ],
      ...rowsOf(plainFields, ''),
    ]),
    '',
    table(HEAD, groups),
    '',
    'What these objects have depends on their first field; the word in brackets says which value a field goes with.',
    '',
    table(HEAD, variants),
    '',
    '`evaluation` is null, or an object of the three below, made by `--evaluation FILE`.',
    '',
    table(
      HEAD,
      rowsOf(evaluationFields, 'evaluation.').map(([name, , ...rest]) => [
        name!,
        'of the file',
        ...rest,
      ]),
    ),
    '',
    '## Features',
    '',
    'A spec has the field of a feature exactly when `features` names it, and then says something other than what its absence means. `create` names',
    'the features whose fields are said. What features add to other contents is in [spec-features.md](spec-features.md#features).',
    '',
    table(['feature', 'field', 'absent means', 'meaning'], featureRows()),
    '',
    '## Start',
    '',
    ...START,
    '',
    table(['field', 'accepted', 'meaning'], startRows()),
    '',
    '## Files',
    '',
    ...FILES,
    '',
    table(['field', 'accepted', 'meaning'], fileRows()),
    '',
    '## Input',
    '',
    ...INPUT,
    '',
    table(['field', 'accepted', 'meaning'], inputRows()),
    '',
    '## Training',
    '',
    'All of these are in every spec, whether the model uses them or not. They are typed as in `run-training`: [settings](reference/settings.md).',
    '',
    table(HEAD, training()),
    '',
    `Not in a spec, since each worker chooses alone: ${flagsOf(joinNames)}. \`run join\` takes these, and refuses every other setting`,
    `that differs from the spec, and what goes with runs without one: ${flagsOf(unspecifiedNames)}.`,
    '',
    '## What must hold between fields',
    '',
    ...specRules.map(({ at, says }) => `- \`${at}\`: ${says}`),
  ].join('\n')}\n`;
}

const INTRO = [
  '# The run spec',
  '',
  'Everything that all workers of a run must do alike, in one document. Its SHA-256 is the run id, which every event of the run names:',
  'one changed limit is another run, and nobody can change a run that began. This page is rendered from the tables the program reads',
  'specs by (`test/support/run-spec-page.ts`; `npx vitest run test/run -u` writes it again).',
  '',
  '```sh',
  'nostrain run create --model char-gpt --founder npub1… --relay wss://relay.example.org   # writes it, says what it costs, publishes it',
  'nostrain run inspect naddr1…                                                             # what it says, field by field',
  'nostrain run list --relay wss://relay.example.org                                        # which runs there are',
  'nostrain run join naddr1…                                                                # train in it; `run-training --spec naddr1…` is the same',
  'nostrain run leave naddr1…                                                               # leave the roster; the worker ends by itself',
  '```',
  '',
  '`create` starts from flags, or from a TOML or JSON file over which flags win, and fills in the rest. Every field is an option: the most used have flags (`--help`), the others are `--set committee.size=8`.',
  'A file needs no more than what differs from the defaults:',
  '',
];

const RULES_OF_TEXT = [
  '',
  'A spec that names more than 84 founders is for a crowd: where nothing else is asked, `create` sets `foundersPerRound` to 84 and `joinsPerRound` to 16, so that an outcome with all of',
  'these joins, and rows and votes of 64 members, fits into one event of 64 KiB. A run that begins with fewer lists a quarter of its roster at once, whatever it grows to.',
  '',
  'Keys may be written as npub or in hex. What is unknown, missing in a whole spec, out of bounds or at odds with another field is refused',
  'with its path and what would be accepted.',
  '',
  '**Canonical text**: JSON by RFC 8785 (JCS): keys sorted at every level, no spaces, no escapes but those JSON needs, numbers as ECMAScript',
  'prints doubles (`0.003`, `0.00001`, `1e-7`). Public keys are hex, and lists of keys ascend. The run id is the SHA-256 of this text in UTF-8, in lowercase hex. `kinds/samples/run/valid.json` has one.',
  '',
  '**Address**: `naddr1…` (NIP-19) of the kind 37810 event, whose `d` is the run id; see [protocol.md](protocol.md). Whatever a relay serves',
  'under it is hashed and compared, so a later event of the same author, or a lying relay, can withhold a run and never change it. A worker',
  'keeps the spec in its folder.',
  '',
  '**Data**: `corpus` is one text, the same for everybody, by its hash: the joiner names the file, and another text is refused with both',
  "hashes. It is dealt into `data.shards` parts; founders take theirs by position in the list, others by their key's hash, and `--shard k/n`",
  'overrides both. `own` leaves each worker its own data (`--corpus PATH`); so that all report the same validation loss, a slice named by',
  '`evaluation` travels as chunks (kind 7811) beside the spec. `made` is synthetic examples from the seed, for linear, mlp,',
  'forecaster and vit. Of pictures `data.sha256` is the hash of classes, sizes and decoded pixels, and `data.bytes` the number of these.',
  '',
  '**Limits**: how many values a payload may hold is not among them. The model fixes it: a payload that says anything but the values of the',
  'chunks its author owes is refused by its header, before anything is unpacked.',
  '',
  '**Admission.** Where a document says nothing of admission and names no stake, `create` admits the founders and keys that they invite ([who may join](certified-runs.md#who-may-join)).',
  'Where anyone may join (open, work), `create` sets `foundersDecide`: one person may have many keys. With `foundersDecide` false such a run has no defence against that, and `create` says so.',
  '',
  '**With stakes**, contributions weigh as their keys do in the draw of committees: by stake where `committee.weights` is `stake`, capped as votes are,',
  'else alike. Keys without stake, or with less than `committee.minStake`, may join. They own no part of the model and send nothing, nobody waits for',
  'them, and what they sent all the same would weigh nothing. `create` says which rule holds.',
  '',
];
