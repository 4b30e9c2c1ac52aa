/** `nostrain relays check`: what relays really allow, found out by trying. */
import { Command } from 'commander';
import { exitCodes } from '../../../terminal/exit-codes.ts';
import { whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { checkRelaysHere } from './check-here.ts';
import { formatReports } from './table.ts';

interface Flags {
  readonly seconds: number;
  readonly json?: boolean;
}

export const relays = (): Command =>
  new Command('relays').description('test relays before a run').addCommand(check());

const check = (): Command =>
  new Command('check')
    .description(
      'try what each relay allows: some 30 marked events under a throwaway key, deleted afterwards',
    )
    .argument('<url...>', 'relays, as ws:// or wss://')
    .addOption(
      whole(
        '--seconds <n>',
        'longest time for one relay; a slow one is asked for less',
        1,
        600,
      ).default(60),
    )
    .option('--json', 'print JSON')
    .action(async (urls: readonly string[], { seconds, json }: Flags) => {
      await interruptibly(async (signal) => {
        const judged = await checkRelaysHere(urls, { timeLimitMs: 1000 * seconds, signal });
        const flat = judged.map(({ report, verdict }) => ({ ...report, ...verdict }));
        writeOut(json ? asJson(flat) : formatReports(judged));
        const isUsable = judged.some(
          ({ verdict: { carries } }) => carries === 'chunks' || carries === 'manifests',
        );
        if (!isUsable) process.exitCode = exitCodes.failed.code;
      });
    });
