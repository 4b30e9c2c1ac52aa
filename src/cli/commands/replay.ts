/** `nostrain replay`: recomputes a certified run from its events, without any key, and reports the first bad round. */

import { isHex32 } from '../../base/bytes.ts';
import { isJsonObject, parseJson } from '../../base/canonical-json.ts';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { createSlowReporter, measuringReporter, whileSlow } from '../../base/slow.ts';
import { startOf } from '../../certified/decisions/chain.ts';
import type { BadLine, Opened } from '../../certified/records/archive.ts';
import { firstOfFork } from '../../certified/records/fork.ts';
import {
  type ReplayReport,
  type RoundReport,
  recordDifference,
  replayRun,
} from '../../certified/records/replay-run.ts';
import { openArchive } from '../../dashboard/follow-run.ts';
import { parseEvent, verifyEvent } from '../../network/event.ts';
import { prepareTask } from '../../node/data/task.ts';
import { createTrainer } from '../../node/engine/trainer.ts';
import { toNpub } from '../../node/files/keys.ts';
import { parentsOn } from '../../node/join/parent.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { openFullBaseOf } from '../../node/pretrained/base-model.ts';
import { type OpenedModel, openImportedTask } from '../../node/pretrained/imported-file.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import { removedPackings, replayedWith } from '../../run/removed.ts';
import { settingsOf } from '../../run/spec/read-spec.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { shortName } from '../../run/worker-names.ts';
import { addressOfRun, closingShares } from '../../social/announce.ts';
import { checkZaps, type ZapVerdict } from '../../social/zaps.ts';
import type { Params, Vector } from '../../tensor/params.ts';
import { defineCommand } from '../../terminal/command.ts';
import { type FlagValues, several, text, toggle } from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import {
  askingRule,
  type OpenedRecord,
  openRecord,
  openSource,
  readArchiveFile,
  sourceFlags,
  sourceOf,
} from '../shared/archive-source.ts';
import { fetchEvents, fetchStart } from '../shared/chunks.ts';
import { readText } from '../shared/files.ts';
import { historyFlags } from '../shared/member-flags.ts';

const replayFlags = {
  ...sourceFlags,
  events: text(
    '<file>',
    'archive file or folder to read instead of asking relays (any bad line is an error), or ' +
      'the digest of its chunks',
  ),
  from: several(
    '<source>',
    'source for the chunks of --events DIGEST, or of the ONNX file that a run starts from: ' +
      'https://…, wss://… or a folder, repeatable',
  ),
  ...historyFlags,
  base: text(
    '<path>',
    'published model that the run starts from; also evaluates the recomputed model',
  ),
  corpus: text(
    '<file>',
    'text or .jsonl file that the run trains on, or its https address (default: the standard ' +
      'corpus)',
  ),
  parent: text('<file>', 'archive of the run that this one forks (default: asks relays)'),
  note: text('<file>', 'signed note about the run (JSON): check the weights of its zap tags'),
  json: toggle('print JSON'),
};

type ReplayFlags = FlagValues<typeof replayFlags>;

export const replay = defineCommand({
  name: 'replay',
  help: 'recompute a certified run from its events and report the first bad round; needs no key',
  flags: replayFlags,
  async run(commandFlags, { signal, command }) {
    refuseUnused(command, [
      askingRule(commandFlags),
      { flags: ['corpus'], goesWith: '--base', holds: commandFlags.base !== undefined },
    ]);
    const flags = await withEvents(commandFlags, signal);
    const source = await sourceOf(flags, signal);
    const record = flags.events === undefined ? undefined : await openRecord(flags.events);
    const archive = await openSource(flags, source);
    const model = modelIn(flags, { ...source.reach, signal });
    const parents = { ...parentsIn(flags, source), first: model.first };
    const first = async (spec: RunSpec) => {
      const fromBase = model.first(spec);
      return (await firstOfFork(spec, parents)) ?? fromBase;
    };
    const slowly = createSlowReporter(writeNote);
    const report = await replayRun(archive, {
      ...source.options,
      states: record?.states,
      through: flags.branch,
      trust: flags.trust,
      ...model,
      first,
      onRound: (round) => {
        if (flags.json) slowly(`replayed ${roundName(round.round)}`);
        else writeOut(formatLine(round));
      },
    });
    const evaluation = await model.evaluate();
    const zaps = flags.note === undefined ? undefined : await checkNote(flags.note, archive);
    const document = { ...report, ...(evaluation && { evaluation }), ...(zaps && { zaps }) };
    writeOut(flags.json ? asJson(document) : formatEnd(report, evaluation));
    if (zaps && !flags.json) writeOut(formatZaps(zaps));
    const { believed } = report;
    if (believed > 0) {
      writeNote(
        `${believed} block hashes of the beacon are taken from the file unchecked; --rpc ` +
          'URL compares them with their chain',
      );
    }
    const isAsRecorded = record === undefined || compareRecord(record, report);
    if (!report.ok || !isAsRecorded || zaps?.isRight === false)
      process.exitCode = exitCodes.failed.code;
  },
});

/** Downloads the archive if `--events` is a digest, and returns the flags with its file. */
async function withEvents(flags: ReplayFlags, signal: AbortSignal): Promise<ReplayFlags> {
  const { events, from = [] } = flags;
  if (events === undefined || !isHex32(events)) return flags;
  return { ...flags, events: await fetchEvents(events, from, flags, signal) };
}

/** Returns the means to rebuild the parent of a fork: from a file, else from relays. */
function parentsIn(
  { parent, allowPrivateRelays }: ReplayFlags,
  { reach, options: { beacon } }: Awaited<ReturnType<typeof sourceOf>>,
) {
  const onRelays = parentsOn({ ...reach, onNotice: writeNote, beacon, allowPrivateRelays });
  return parent === undefined ? onRelays : { ...onRelays, open: () => readArchiveFile(parent) };
}

/** Compares the zap tags of a signed event with the weights that follow from the run, which must be over. */
async function checkNote(file: string, archive: Opened): Promise<ZapVerdict> {
  const json = parseJson(await readText(file));
  const event = parseEvent(
    json.ok && isJsonObject(json.value) ? (json.value.event ?? json.value) : undefined,
  );
  const { run, spec, picture } = await openArchive(archive, {
    nowSeconds: 0,
    sha256: nativeSha256,
  });
  const address = addressOfRun(spec.author, run);
  const isAbout = event.ok && event.value.tags.some(([name, of]) => name === 'a' && of === address);
  if (!isAbout || !verifyEvent(event.value).ok || picture.rounds.length < picture.planned) {
    throw new ConfigError('note/file', `${file} is not a signed note about this run, once over`, {
      hint: 'give the JSON that `nostrain run announce --json` printed after the last round',
    });
  }
  return checkZaps(event.value.tags, closingShares(picture));
}

const formatZaps = ({ isRight, leftOut, problems }: ZapVerdict): string =>
  [
    isRight ? 'zap weights: right' : 'zap weights: WRONG',
    ...problems.map((problem) => `  ${safeLine(problem)}`),
    ...leftOut.map((key) => `  leaves out ${toNpub(key)}`),
    '',
  ].join('\n');

/** Reports the differences between a folder and its record. */
function compareRecord({ record, changed }: OpenedRecord, report: ReplayReport): boolean {
  const difference = recordDifference(record, report);
  for (const file of changed) writeNote(`${file} is missing or does not match record.json`);
  if (difference !== undefined) writeNote(difference);
  return changed.length === 0 && difference === undefined;
}

/** Returns the callbacks with which a replay opens the base model, and the evaluation of the final model. */
function modelIn(
  flags: ReplayFlags,
  reach: { readonly relays: readonly string[]; readonly signal: AbortSignal },
) {
  const { base: path, corpus, from = [] } = flags;
  const options = path && { base: path, corpus, signal: reach.signal, onNotice: writeNote };
  let base: OpenedModel | undefined;
  let last: { readonly spec: RunSpec; readonly params: Params } | undefined;
  return {
    first: async (spec: RunSpec) => {
      const { packing } = spec.training;
      if (removedPackings.has(packing)) writeNote(`${replayedWith(packing)}; ${CHAIN}`);
      const fetched = options ? undefined : await fetchStart(spec, from, flags, reach);
      if (options) base = await openBaseIn(spec, options);
      else if (fetched !== undefined)
        base = await openBaseIn(spec, { ...reach, base: fetched, onNotice: writeNote });
      else if (spec.start !== null) writeNote(spec.start.root === null ? ADAPTERS : WHOLE);
      return spec.start?.root ? await base?.first(spec.training.seed) : undefined;
    },
    onModel: (spec: RunSpec, params: Params) => {
      last = { spec, params };
    },
    evaluate: async () =>
      options && base && last
        ? await evaluateModel(last.spec, last.params, base, options)
        : undefined,
  };
}

const CHAIN = 'here votes and roots are checked but the model is not';
const ADAPTERS =
  'adapter roots are computed from the events alone, so the base is not needed; with --base ' +
  'PATH the model is also evaluated';
const WHOLE =
  'the run trains all parameters of a published model: without its files (--base PATH), ' +
  'votes are checked but the model is not';

/** Validation losses, per token. */
export interface ReplayEvaluation {
  readonly before: number;
  readonly after: number;
}

export interface EvaluateOptions {
  /** Path or hub reference of the base. */
  readonly base: string;
  /** Text file that the run trains on. */
  readonly corpus?: string | undefined;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

const settingsIn = (spec: RunSpec, base: string) =>
  settingsOf(spec, { base, relay: [], shard: { index: 1, count: 1 } });

/** Opens the base of a run and checks it against the spec. */
export function openBaseIn(spec: RunSpec, options: EvaluateOptions): Promise<OpenedModel> {
  const { start } = spec;
  if (start !== null) {
    const settings = settingsIn(spec, options.base);
    return start.model.architecture === 'onnx'
      ? openImportedTask(settings, start)
      : openFullBaseOf(start, settings, options);
  }
  throw new ConfigError('flag/unused', 'this run starts from no published model', {
    hint: 'leave --base out',
  });
}

/** Evaluates on the validation slice of the text that the run trains on. */
export async function evaluateModel(
  spec: RunSpec,
  { values }: Params,
  base: OpenedModel,
  options: EvaluateOptions,
): Promise<ReplayEvaluation> {
  const { data, dataFrom } = spec;
  if (data.kind !== 'corpus') {
    throw new ConfigError('replay/data', 'each worker of this run trains on private data', {
      hint: 'leave --base out: the roots can be checked without it',
    });
  }
  const fixed = { sha256: data.sha256, form: data.form, from: dataFrom };
  const settings = settingsIn(spec, options.base);
  const task = await prepareTask(settings, { ...options, base, fixed });
  const { onNotice } = options;
  const setup = { ...task, batch: settings.batchSize, device: 'cpu' } as const;
  const trainer = await whileSlow('opening the trainer', onNotice, () => createTrainer(setup));
  const measured = (which: string, params: Vector) =>
    trainer.evaluate(params, 'validation', { onProgress: measuringReporter(which, onNotice) });
  try {
    const first = startOf(spec, spec.start?.root ? await base.first(settings.seed) : undefined);
    const before = await measured('the model before training', first.values);
    return { before, after: await measured('the final model', values) };
  } finally {
    await trainer.close();
  }
}

const short = (hex: string): string => hex.slice(0, 12);
const MOST_BAD = 20;

export function formatLine(line: RoundReport): string {
  const { round, checked, result, problem, missing } = line;
  const head = `round ${String(roundNumber(round)).padStart(4)}  `;
  if (problem !== undefined) return `${head}BAD          ${problem}\n`;
  const lacks = missing === undefined ? '' : `  missing: ${missing.join(', ')}`;
  if (result === undefined) return `${head}not checked${lacks}\n`;
  const { accepted = [], signers, seats, modelRoot = '', ledgerRoot = '' } = line;
  const how =
    checked === 'full' ? 'full       ' : checked === 'chain' ? 'chain      ' : 'not checked';
  const roots = `model ${short(modelRoot)}  ledger ${short(ledgerRoot)}`;
  const rows = `${String(accepted.length).padStart(3)} accepted`;
  const model =
    checked === 'chain' && lacks !== '' ? `  model not checked, ${lacks.trimStart()}` : '';
  const rest = checked === 'nothing' ? lacks : model;
  return (
    `${head}${how}  ${result.padEnd(5)}  ${rows}  ${signers} of ${seats} signed  ` +
    `${roots}${notes(line)}${rest}\n`
  );
}

function notes({
  attempt,
  view,
  accepted,
  rejected,
  joined,
  left,
  faults,
  forks,
}: RoundReport): string {
  const late = (accepted ?? []).filter((row) => row.late).map(({ worker }) => worker);
  const all = [
    ...(attempt ? [`recovery epoch ${attempt}`] : []),
    ...(view ? [`view ${view}`] : []),
    ...late.map((key) => `late ${shortName(key)}`),
    ...(rejected ?? []).map(({ worker, reason }) => `rejected ${shortName(worker)} (${reason})`),
    ...(joined ?? []).map((key) => `joined ${shortName(key)}`),
    ...(left ?? []).map((key) => `left ${shortName(key)}`),
    ...(faults ?? []).map(({ worker, kind }) => `fault ${shortName(worker)} (${kind})`),
    ...(forks ?? []).map((digest) => `FORK: ${digest} was also decided`),
  ];
  return all.length === 0 ? '' : `  ${all.join(', ')}`;
}

/** Formats an archive line that is not an event. */
const formatBad = ({ line, reason, round }: BadLine): string =>
  `line ${line}  BAD  ${reason}${round === undefined ? '' : `  (${roundName(round)})`}\n`;

export function formatEnd(report: ReplayReport, evaluation?: ReplayEvaluation): string {
  const { ok, rounds, firstBad, bad, lines, runRoot, modelRoot, ledgerRoot } = report;
  const wrong = bad.slice(0, MOST_BAD).map(formatBad).join('');
  const more = bad.length > MOST_BAD ? `and ${bad.length - MOST_BAD} more lines\n` : '';
  const full = lines.filter(({ checked }) => checked === 'full').length;
  const roots =
    `run root ${runRoot ?? 'none'}\nmodel root ${modelRoot}\nledger root ` + `${ledgerRoot}\n`;
  const loss = evaluation
    ? `validation loss ${evaluation.before.toFixed(4)} before the first round, ` +
      `${evaluation.after.toFixed(4)} after the last one\n`
    : '';
  if (ok) return `${roots}${loss}ok: ${rounds} rounds, all recomputed in full\n`;
  const untrusted = report.isTrusted ? '' : 'BAD: the outcome of --trust is not in this history\n';
  const first = firstBad === null ? '' : `; the first bad round is ${roundNumber(firstBad)}`;
  const verdict =
    firstBad === null && bad.length === 0
      ? `not checked in full: ${full} of ${rounds} rounds recomputed`
      : `BAD: ${full} of ${rounds} rounds recomputed${first}`;
  return `${wrong}${more}${roots}${untrusted}${verdict}\n`;
}
