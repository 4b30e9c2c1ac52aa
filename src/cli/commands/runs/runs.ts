/** `nostrain runs`: the runs kept on this machine, how far each is, and what it takes on the disk. */
import { Command } from 'commander';
import { safeLine } from '../../../base/errors.ts';
import { formatBytes } from '../../../base/numbers.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { type LocalRun, listLocalRuns } from '../../../node/files/local-runs.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { formatAge, lossOf, summaryOf } from './words.ts';

/** The command. */
export const runs = (): Command =>
  new Command('runs')
    .description('list the runs kept on this machine')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const home = dataHome();
      const found = await listLocalRuns(home);
      writeOut(json ? asJson({ home, runs: found.map(summaryOf) }) : words(found, home));
    });

function words(found: readonly LocalRun[], home: string): string {
  if (found.length === 0) {
    return `no runs in ${home} yet\n  try: nostrain demo gpt, or nostrain run-training --model char-gpt\n`;
  }
  const heading = ['name', 'kind', 'state', 'round', 'loss', 'size', 'last change'];
  const now = Date.now();
  const rows = found.map((run) => [
    safeLine(run.word),
    run.kind,
    run.state,
    run.rounds === undefined ? `${run.played}` : `${run.played}/${run.rounds}`,
    lossOf(run),
    formatBytes(run.bytes),
    formatAge(now - run.changedAtMs),
  ]);
  const width = process.stdout.columns || 100;
  const bytes = found.reduce((sum, run) => sum + run.bytes, 0);
  const total = `${found.length} run${found.length === 1 ? '' : 's'}, ${formatBytes(bytes)} in ${home}`;
  const more = 'nostrain show NAME: its curve and rounds; nostrain clean: make room';
  return `${[...alignColumns([heading, ...rows], width), '', total, more].join('\n')}\n`;
}
