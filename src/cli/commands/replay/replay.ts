/** `nostrain replay`: recomputes a certified run from its events, without any key, and says where it stops being right. */
import { Command } from 'commander';
import { replayRun } from '../../../certified/replay-run.ts';
import type { Digest } from '../../../run/ids.ts';
import { exitCodes } from '../../../terminal/exit-codes.ts';
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
import { branchOption, trustOption } from '../../shared/member-flags.ts';
import { formatEnd, formatLine } from './words.ts';

interface Flags extends SourceFlags {
  readonly branch?: Digest;
  readonly trust?: Digest;
  readonly json?: boolean;
}

export const replay = (): Command =>
  addSourceFlags(
    new Command('replay').description(
      'recompute a certified run from its events and name the first bad round; needs no key',
    ),
  )
    .option('--events <file>', 'read this instead of asking relays; any bad line is an error')
    .addOption(branchOption())
    .addOption(trustOption())
    .option('--json', 'print JSON')
    .action(async (flags: Flags, command: Command) => {
      refuseUnused(command, [askingRule(flags)]);
      await interruptibly(async (signal) => {
        const source = await sourceOf(flags, signal);
        const archive = await openSource(flags, source);
        const report = await replayRun(archive, {
          ...source.options,
          ...{ through: flags.branch, trust: flags.trust },
          onRound: (round) => {
            if (!flags.json) writeOut(formatLine(round));
          },
        });
        writeOut(flags.json ? asJson(report) : formatEnd(report));
        const { believed } = report;
        if (believed > 0) {
          writeNote(
            `${believed} block hashes of the beacon are as the file says; --rpc URL compares them with their chain`,
          );
        }
        if (!report.ok) process.exitCode = exitCodes.failed.code;
      });
    });
