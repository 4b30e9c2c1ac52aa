/** `nostrain replay`: recomputes a certified run from its events, without any key, and says where it stops being right. */
import { Command } from 'commander';
import { isHex32 } from '../../../base/bytes.ts';
import { recordDifference } from '../../../certified/records/record.ts';
import { type ReplayReport, replayRun } from '../../../certified/records/replay-run.ts';
import type { BaseModel } from '../../../node/pretrained/base-model.ts';
import type { Digest } from '../../../run/ids.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import type { Params } from '../../../tensor/params.ts';
import { exitCodes } from '../../../terminal/exit-codes.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { refuseUnused } from '../../../terminal/unused-flags.ts';
import {
  addSourceFlags,
  askingRule,
  openSource,
  type SourceFlags,
  sourceOf,
} from '../../shared/archive-source.ts';
import { bringEvents } from '../../shared/bring-files.ts';
import { branchOption, trustOption } from '../../shared/member-flags.ts';
import { type OpenedRecord, openRecord } from '../../shared/record-folder.ts';
import { evaluateModel, openBaseIn } from './evaluate.ts';
import { formatEnd, formatLine } from './words.ts';

interface Flags extends SourceFlags {
  readonly from?: readonly string[];
  readonly branch?: Digest;
  readonly trust?: Digest;
  readonly base?: string;
  readonly corpus?: string;
  readonly json?: boolean;
}

export const replay = (): Command =>
  addSourceFlags(
    new Command('replay').description(
      'recompute a certified run from its events and name the first bad round; needs no key',
    ),
  )
    .option(
      '--events <file>',
      'read this file or folder instead of asking relays; any bad line is an error; or the digest of its chunks',
    )
    .addOption(
      repeatable(
        '--from <place>',
        'where chunks of --events DIGEST are: https://…, wss://… or a folder, repeatable',
      ),
    )
    .addOption(branchOption())
    .addOption(trustOption())
    .option(
      '--base <path>',
      'published model that the run starts from: also evaluates what was recomputed',
    )
    .option(
      '--corpus <file>',
      'text or .jsonl file that the run trains on, or the https address of one (default: the usual one)',
    )
    .option('--json', 'print JSON')
    .action(async (asked: Flags, command: Command) => {
      refuseUnused(command, [
        askingRule(asked),
        { flags: ['from'], goesWith: '--events DIGEST', holds: isHex32(asked.events ?? '') },
        { flags: ['corpus'], goesWith: '--base', holds: asked.base !== undefined },
      ]);
      await interruptibly(async (signal) => {
        const flags = await withEvents(asked, signal);
        const source = await sourceOf(flags, signal);
        const kept = flags.events === undefined ? undefined : await openRecord(flags.events);
        const archive = await openSource(flags, source);
        const model = modelIn(flags, signal);
        const report = await replayRun(archive, {
          ...source.options,
          states: kept?.states,
          through: flags.branch,
          trust: flags.trust,
          ...model,
          onRound: (round) => {
            if (!flags.json) writeOut(formatLine(round));
          },
        });
        const evaluation = await model.evaluate();
        const told = { ...report, ...(evaluation && { evaluation }) };
        writeOut(flags.json ? asJson(told) : formatEnd(report, evaluation));
        const { believed } = report;
        if (believed > 0) {
          writeNote(
            `${believed} block hashes of the beacon are as the file says; --rpc URL compares them with their chain`,
          );
        }
        const isAsRecorded = kept === undefined || compareRecord(kept, report);
        if (!report.ok || !isAsRecorded) process.exitCode = exitCodes.failed.code;
      });
    });

/** With the file of events, fetched where they are named by the digest of their chunks. */
async function withEvents(flags: Flags, signal: AbortSignal): Promise<Flags> {
  const { events, from = [] } = flags;
  if (events === undefined || !isHex32(events)) return flags;
  return { ...flags, events: await bringEvents(events, from, flags, signal) };
}

/** Says what of a folder is not as its record has it. */
function compareRecord({ record, changed }: OpenedRecord, report: ReplayReport): boolean {
  const difference = recordDifference(record, report);
  for (const file of changed) writeNote(`${file} is lost, or not what record.json says`);
  if (difference !== undefined) writeNote(difference);
  return changed.length === 0 && difference === undefined;
}

/** What a replay asks about the base of a run, and what it is told of the model. */
function modelIn({ base: path, corpus }: Flags, signal: AbortSignal) {
  const options = path && { base: path, corpus, signal, onNotice: writeNote };
  let base: BaseModel | undefined;
  let last: { readonly spec: RunSpec; readonly params: Params } | undefined;
  return {
    first: async (spec: RunSpec) => {
      if (options) base = await openBaseIn(spec, options);
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

const ADAPTERS =
  'the roots of adapters follow from the events alone: no base is needed for them; --base PATH also evaluates';
const WHOLE =
  'all of a published model is trained: without its files (--base PATH) votes are checked, and the model is not';
