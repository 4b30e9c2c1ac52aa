/** `nostrain run inspect` and `run list`: show the fields of a run spec, and the runs on relays. Publish nothing. */

import { ConfigError, safeLine } from '../../../base/errors.ts';
import { formatBytes, plural } from '../../../base/numbers.ts';
import { type SecurityReport, securityReportOf } from '../../../certified/security-report.ts';
import { encodeRunAddress, listRuns, type PublishedRun } from '../../../certified/wire/runs.ts';
import { wholeSeconds } from '../../../network/wire/cost.ts';
import { toNpub } from '../../../node/files/keys.ts';
import type { Group } from '../../../run/field.ts';
import { fields } from '../../../run/options.ts';
import { writeSettings } from '../../../run/settings.ts';
import { canonicalSpec, type RunSpec, tierName } from '../../../run/spec/run-spec.ts';
import {
  groupFields,
  plainFields,
  variantFields,
  variantTags,
} from '../../../run/spec/spec-table.ts';
import { fullName } from '../../../run/worker-names.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../../terminal/connection.ts';
import { type FlagValues, setting, toggle, whole } from '../../../terminal/flag-table.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { wrap } from '../../../terminal/render/text.ts';
import { measurePayload } from '../../shared/estimate.ts';
import { privateRelaysFlag } from '../../shared/member-flags.ts';
import { findRun, withRelays } from '../../shared/with-relays.ts';

const listFlags = {
  json: toggle('print JSON'),
  relay: setting(fields.relay),
  ...connectionFlags,
};

type ListFlags = FlagValues<typeof listFlags>;

const LIST_MS = 10_000;

export const inspectRun = defineCommand({
  name: 'inspect',
  help: 'show the spec of a run field by field, and the load on relays per round',
  args: [['<run>', 'file, naddr1…, link or name of the run']],
  flags: {
    allowPrivateRelays: privateRelaysFlag,
    workers: whole('<n>', 'number of workers to plan for (default: the founders)', 1, 100_000),
    json: toggle('print the spec and its security report as JSON'),
    relay: setting(fields.relay),
    ...connectionFlags,
  },
  async run(flags, { args: [source], signal }) {
    const { run, spec, relays } = await findRun(source, flags, { signal });
    const securityReport = securityReportOf(spec, {
      workers: flags.workers,
      workersPerIp: 1,
      relays,
      measure: measurePayload,
    });
    const written = JSON.parse(canonicalSpec(spec));
    const lines = [
      `run id   ${run}`,
      '',
      ...describeSpec(spec),
      '',
      ...describeReport(securityReport),
    ];
    writeOut(flags.json ? asJson({ run, spec: written, securityReport }) : `${lines.join('\n')}\n`);
  },
});

export const listOfRuns = defineCommand({
  name: 'list',
  help: 'list the runs on relays, newest first',
  flags: listFlags,
  async run(flags, { signal }) {
    const runs = await askForRuns(flags, signal);
    const summaries = inTree(runs).map(({ listed, depth }) =>
      summary(listed, flags.relay ?? [], depth),
    );
    writeOut(flags.json ? asJson(summaries) : words(summaries));
  },
});

async function askForRuns(flags: ListFlags, signal: AbortSignal): Promise<readonly PublishedRun[]> {
  if (flags.relay === undefined) {
    throw new ConfigError('flag/relay', 'no relay to ask', { hint: 'name one with --relay URL' });
  }
  return withRelays(flags.relay, { connection: connectionOf(flags), signal }, (relaySession) =>
    listRuns({ ...relaySession, timeoutMs: LIST_MS }),
  );
}

/** Returns runs so that each fork follows its parent, with the number of ancestors that are listed. */
function inTree(
  runs: readonly PublishedRun[],
): readonly { readonly listed: PublishedRun; readonly depth: number }[] {
  const listedRuns = new Set(runs.map(({ run }) => run));
  const isRoot = ({ spec: { parent } }: PublishedRun) => !parent || !listedRuns.has(parent.run);
  const branch = (listed: PublishedRun, depth: number): ReturnType<typeof inTree> => [
    { listed, depth },
    ...runs
      .filter(({ spec }) => spec.parent?.run === listed.run)
      .flatMap((child) => branch(child, depth + 1)),
  ];
  return runs.filter(isRoot).flatMap((root) => branch(root, 0));
}

interface Summary {
  readonly name: string;
  readonly run: string;
  readonly model: string;
  /** Trust tier, labelled if the run accepts simulated machines. */
  readonly tier: string;
  readonly founders: number;
  readonly author: string;
  readonly publishedAt: string;
  readonly naddr: string;
  /** The run that this one continues, and the number of its rounds before the fork. */
  readonly parent?: { readonly run: string; readonly rounds: number };
  /** Number of its ancestors in the list. */
  readonly depth: number;
}

export function summary(
  { run, spec, createdAt }: PublishedRun,
  relays: readonly string[],
  depth = 0,
): Summary {
  const { name, training, founders, author, parent } = spec;
  return {
    name,
    run,
    model: training.model,
    tier: tierName(spec),
    founders: founders.length,
    author: toNpub(author),
    publishedAt: timeOf(createdAt),
    naddr: encodeRunAddress({ run, author, relays }),
    ...(parent && { parent: { run: parent.run, rounds: parent.rounds } }),
    depth,
  };
}

/** Formats a signed time, which may be beyond the range of Date. */
function timeOf(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? 'never' : date.toISOString();
}

/** Maximum levels of indentation. */
const MOST_INDENT = 8;

function words(runs: readonly Summary[]): string {
  if (runs.length === 0) return 'no runs on these relays\n';
  const lines = runs.flatMap((each) => {
    const { name, run, model, tier, founders, author, publishedAt, naddr, parent, depth } = each;
    const facts = [
      safeLine(`${name}: ${model}, ${tier} tier, ${plural(founders, 'founder')}, ${publishedAt}`),
      ...(parent ? [`  goes on from run ${parent.run} after ${parent.rounds} rounds`] : []),
      `  run ${run}`,
      `  by ${fullName(author)}`,
      `  nostrain run join ${naddr}`,
    ];
    return facts.map((line) => '  '.repeat(Math.min(depth, MOST_INDENT)) + line);
  });
  return `${lines.join('\n')}\n`;
}

const WIDTH = 100;
/** Width of path and value, before the meaning. */
const INDENT = 44;
const MOST_KEYS = 8;
/** Fields that hold keys; these are shown as npub. */
const KEYS = ['author', 'founders', 'keys'];

/** Formats every field by section, one line each. */
function describeSpec(spec: RunSpec): readonly string[] {
  const groups = Object.entries<Group>(groupFields).flatMap(([name, fields]) => [
    '',
    ...rows(spec[name as keyof typeof groupFields], fields, `${name}.`),
  ]);
  const variants = Object.entries(variantTags).flatMap(([name, { tag }]) =>
    describeVariant(spec, name as keyof typeof variantTags, tag),
  );
  const training = Object.entries(writeSettings(spec.training)).map(
    ([name, value]) => `${name} ${formatValue(value)}`,
  );
  return [
    ...rows(spec, plainFields, ''),
    '',
    ...wrap(`training: ${training.join(', ')}`, WIDTH),
    ...startWords(spec),
    ...filesWords(spec),
    ...groups,
    '',
    ...variants,
    row('evaluation', evaluationWords(spec), 'data on which all workers evaluate'),
  ].flat();
}

/** Describes the published model that a run starts from, and which part of it is trained. */
function startWords({ start }: RunSpec): readonly string[] {
  if (start === null) return [];
  const { files, from, adapter, tokenizerSha256, rings: sliceHashes = [] } = start;
  const trained =
    adapter.rank === 0
      ? 'all parameters'
      : `adapters of rank ${adapter.rank} on ${adapter.targets} (both), alpha ${adapter.alpha}`;
  const shown = files.slice(0, MOST_KEYS);
  const more = files.length > shown.length ? [`and ${files.length - shown.length} more files`] : [];
  return [
    '',
    ...row('start.adapter', trained, 'trained part of the published model'),
    ...shown.flatMap(({ name, bytes, sha256 }) =>
      row(`start ${name}`, `${formatBytes(bytes)}, SHA-256 ${sha256}`, ''),
    ),
    ...more,
    ...row('start.tokenizerSha256', tokenizerSha256, ''),
    ...sliceHashes.flatMap((sha256, slice) =>
      row(`start.rings of tier ${sliceHashes.length - 1 - slice}`, sha256, ''),
    ),
    ...row('start.from', from.length === 0 ? 'no source' : from.join(' '), 'hints'),
  ];
}

/** Describes the files that joiners fetch in chunks, and their sources. */
function filesWords({ files }: RunSpec): readonly string[] {
  if (files === null) return [];
  const shown = files.each.slice(0, MOST_KEYS);
  const more = files.each.length - shown.length;
  return [
    '',
    ...row('files.at', files.at.join(' ') || 'the relays of the run', 'sources of the chunks'),
    ...shown.flatMap(({ name, bytes, manifest }) =>
      row(`files ${name}`, `${formatBytes(bytes)}, manifest ${manifest}`, ''),
    ),
    ...(more > 0 ? [`and ${more} more files`] : []),
  ];
}

function describeVariant(
  spec: RunSpec,
  name: keyof typeof variantTags,
  tag: string,
): readonly string[] {
  const value: Readonly<Record<string, unknown>> = spec[name];
  const groups: Readonly<Record<string, Group>> = variantFields[name];
  const word = String(value[tag]);
  return [...row(`${name}.${tag}`, word, ''), ...rows(value, groups[word]!, `${name}.`)];
}

const evaluationWords = ({ evaluation }: RunSpec): string =>
  evaluation === null
    ? 'none'
    : `${formatBytes(evaluation.bytes)}, SHA-256 ${evaluation.sha256}, root ${evaluation.root}`;

const rows = (values: object, fields: Group, path: string): readonly string[] =>
  Object.entries(fields).flatMap(([name, { help }]) =>
    row(
      path + name,
      formatValue((values as Readonly<Record<string, unknown>>)[name], KEYS.includes(name)),
      help,
    ),
  );

/** Formats path and value, with the meaning next to them, or below if they are long. */
function row(path: string, value: string, meaning: string): readonly string[] {
  const head = safeLine(`${path.padEnd(30)} ${value}`);
  const words = meaning === '' ? [] : wrap(meaning, WIDTH - INDENT);
  const indented = words.map((line) => ' '.repeat(INDENT) + line);
  if (words.length === 0 || head.length >= INDENT) return [head, ...indented];
  return [head.padEnd(INDENT) + words[0], ...indented.slice(1)];
}

function formatValue(value: unknown, isKey = false): string {
  if (!Array.isArray(value)) return isKey ? toNpub(String(value)) : String(value);
  const shown = value.slice(0, MOST_KEYS).map((each) => formatValue(each, isKey));
  const rest = value.length - MOST_KEYS;
  return `${shown.join(' ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** Describes the load of rounds on relays, in sentences. */
export const describeReport = (report: SecurityReport): readonly string[] => [
  ...costWords(report),
  ...wrap(report.admissionRule, WIDTH),
  ...(report.stakeRule === undefined ? [] : wrap(report.stakeRule, WIDTH)),
  ...report.warnings.flatMap((warning) =>
    wrap(`warning: ${warning}`, WIDTH).map((line, i) => (i === 0 ? line : `  ${line}`)),
  ),
];

/** Describes the load in at most this many lines; warnings that do not fit are counted. */
export function summarizeReport(report: SecurityReport, lines: number): readonly string[] {
  const { admissionRule, stakeRule, warnings } = report;
  const head = [
    costWords(report).join('; '),
    admissionRule,
    ...(stakeRule === undefined ? [] : [stakeRule]),
  ];
  const maxWarnings = lines - head.length;
  const shown = warnings.length <= maxWarnings ? warnings : warnings.slice(0, maxWarnings - 1);
  const left = warnings.length - shown.length;
  return [
    ...head,
    ...shown.map((warning) => `warning: ${warning}`),
    ...(left > 0 ? [`and ${left} more warnings: run \`nostrain run inspect\` to see them`] : []),
  ];
}

function costWords(report: SecurityReport): readonly string[] {
  const { workers, seats, quorum, eventsPerRound, eventsPerMember, payloadBytes } = report;
  const floor = Number.isFinite(report.floorSeconds)
    ? `at least ${wholeSeconds(report.floorSeconds)} s on public relays`
    : 'longer than public relays allow';
  return [
    `${plural(workers, 'worker')}: ${plural(seats, 'seat')}, ${quorum} decide`,
    `${eventsPerRound} events per round, ${eventsPerMember} from each member, payload at ` +
      `most ${formatBytes(payloadBytes)}`,
    `a round lasts ${floor}`,
  ];
}
