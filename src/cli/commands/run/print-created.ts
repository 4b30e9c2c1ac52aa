/** What `run create` prints: the run, its report, the command to send to friends, and the link of a tab. */
import type { Made } from '../../../certified/make-spec.ts';
import type { SecurityReport } from '../../../certified/security-report.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import { hintProblem } from '../../../network/transport/relay-urls.ts';
import { type RunSpec, runIdOf } from '../../../run/spec/run-spec.ts';
import { quoteWords } from '../../../terminal/command-line.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { tabLines, tabLink } from '../../shared/tab-link.ts';
import { summarizeReport } from './inspect.ts';

export interface CreatedRun extends Made {
  readonly securityReport: SecurityReport;
  readonly output: string;
  readonly published: readonly string[];
  readonly stakeFile: string | undefined;
  readonly tab: string | undefined;
}

/** Maximum lines of report and warnings, so that at most eight lines precede the command to send. */
const MOST_REPORTED = 5;

/** Prints what was created as text, or as one JSON document. */
export function printCreated(
  { spec, adaptations, securityReport, output, published, stakeFile, tab }: CreatedRun,
  isJson: boolean,
): void {
  const run = runIdOf(spec);
  const isPublished = published.length > 0;
  const naddr = isPublished
    ? encodeRunAddress({ run, author: spec.author, relays: published })
    : undefined;
  // joiners refuse private relay addresses in an naddr unless they opt in, so the command carries the flag
  const isPrivate = isPublished && published.every((url) => hintProblem(url) !== undefined);
  const line = quoteWords([
    'nostrain',
    'run',
    'join',
    naddr ?? output,
    ...(isPrivate ? ['--allow-private-relays'] : []),
    // the relays of the run also have the snapshot
    ...(stakeFile === undefined || isPublished ? [] : ['--stake', stakeFile]),
  ]);
  if (isJson) {
    const address = naddr === undefined ? {} : { naddr, tab: tab && tabLink(tab, naddr) };
    writeOut(
      asJson({
        run,
        file: output,
        ...address,
        relays: published,
        join: line,
        adaptations,
        securityReport,
      }),
    );
    return;
  }
  const files = stakeFile === undefined || isPublished ? 'the file' : 'both files';
  const lines = [
    `run id   ${run}`,
    `file     ${output}; every field: nostrain run inspect ${quoteWords([output])}`,
    ...summarizeReport(securityReport, MOST_REPORTED),
    isPublished
      ? 'send this command to your friends:'
      : `send your friends ${files} and this command:`,
    `  ${line}`,
    ...(naddr === undefined ? [] : tabLines(spec, naddr, tab)),
    nextStep(spec),
  ];
  writeOut(`${lines.join('\n')}\n`);
}

/** Returns what the creator of a run does next: a run waits for its founders. */
function nextStep({ founders }: RunSpec): string {
  return founders.length > 1
    ? `run it yourself too: the run starts when most of its ${founders.length} founders have joined`
    : 'run it yourself last: you are the only founder, so the run starts as soon as you join; ' +
        'with friends, `nostrain host` waits for them';
}
