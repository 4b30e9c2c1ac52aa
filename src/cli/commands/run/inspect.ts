/** `nostrain run inspect` and `run list`: what a run says, and which runs there are. Nothing is published. */
import { Argument, Command } from 'commander';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { securityReportOf } from '../../../certified/security-report.ts';
import { encodeRunAddress, listRuns, type PublishedRun } from '../../../certified/wire/runs.ts';
import { toNpub } from '../../../node/files/keys.ts';
import { canonicalSpec } from '../../../run/spec/run-spec.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import { whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { addSettingFlags } from '../../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { measuring } from '../../shared/estimate.ts';
import { hintOption } from '../../shared/member-flags.ts';
import { findRun, withRelays } from '../../shared/with-relays.ts';
import { describeReport, describeSpec } from './describe.ts';

interface Flags extends ConnectionFlags {
  readonly relay?: readonly string[];
  readonly workers?: number;
  readonly allowPrivateRelays?: boolean;
  readonly json?: boolean;
}

const LIST_MS = 10_000;

/** Shows one run. */
export const inspectRun = (): Command =>
  addConnectionFlags(
    addSettingFlags(
      new Command('inspect')
        .description('show the spec of a run field by field, and what its rounds send to relays')
        .addArgument(new Argument('<run>', 'file, naddr1… or name of the run'))
        .addOption(hintOption())
        .addOption(
          whole('--workers <n>', 'workers to plan for (default: the founders)', 1, 100_000),
        )
        .option('--json', 'the spec and its security report as JSON ("securityReport")'),
      ['relay'],
    ),
  ).action(async (source: string, flags: Flags) => {
    await interruptibly(async (signal) => {
      const { relay, allowPrivateRelays } = flags;
      const asked = { relays: relay, allowPrivateRelays, connection: connectionOf(flags), signal };
      const { run, spec, relays } = await findRun(source, asked);
      const onNotice = writeNote;
      const securityReport = securityReportOf(spec, {
        workers: flags.workers,
        workersPerIp: 1,
        relays,
        measure: measuring(onNotice),
      });
      const written = JSON.parse(canonicalSpec(spec));
      const lines = [
        `run id   ${run}`,
        '',
        ...describeSpec(spec),
        '',
        ...describeReport(securityReport),
      ];
      writeOut(
        flags.json ? asJson({ run, spec: written, securityReport }) : `${lines.join('\n')}\n`,
      );
    });
  });

/** Shows all runs of some relays. */
export const listOfRuns = (): Command =>
  addConnectionFlags(
    addSettingFlags(
      new Command('list')
        .description('show the runs that relays have, the newest first')
        .option('--json', 'print JSON'),
      ['relay'],
    ),
  ).action(async (flags: Flags) => {
    await interruptibly(async (signal) => {
      const runs = await askForRuns(flags, signal);
      const told = runs.map((each) => summary(each, flags.relay ?? []));
      writeOut(flags.json ? asJson(told) : words(told));
    });
  });

async function askForRuns(flags: Flags, signal: AbortSignal): Promise<readonly PublishedRun[]> {
  if (flags.relay === undefined) {
    throw new ConfigError('flag/relay', 'no relay to ask', { hint: 'give --relay URL' });
  }
  return withRelays(flags.relay, { connection: connectionOf(flags), signal }, (board) =>
    listRuns({ ...board, timeoutMs: LIST_MS }),
  );
}

interface Summary {
  readonly name: string;
  readonly run: string;
  readonly model: string;
  readonly founders: number;
  readonly author: string;
  readonly publishedAt: string;
  readonly naddr: string;
}

function summary({ run, spec, createdAt }: PublishedRun, relays: readonly string[]): Summary {
  const { name, training, founders, author } = spec;
  return {
    name,
    run,
    model: training.model,
    founders: founders.length,
    author: toNpub(author),
    publishedAt: timeOf(createdAt),
    naddr: encodeRunAddress({ run, author, relays }),
  };
}

/** A signed time may be beyond what a date can be. */
function timeOf(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? 'never' : date.toISOString();
}

function words(runs: readonly Summary[]): string {
  if (runs.length === 0) return 'no runs there\n';
  const lines = runs.flatMap(({ name, run, model, founders, author, publishedAt, naddr }) => [
    safeLine(`${name}: ${model}, ${founders} founder${founders === 1 ? '' : 's'}, ${publishedAt}`),
    `  run ${run}`,
    `  by ${author}`,
    `  nostrain run join ${naddr}`,
  ]);
  return `${lines.join('\n')}\n`;
}
