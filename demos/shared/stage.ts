/** Shared parts of all demos: flags, folder, Ctrl-C, the live table, and the verdict in words or JSON. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from 'nostrain';
import { type Scope, withScope } from '../../src/base/async.ts';
import { dataHome } from '../../src/node/files/data-home.ts';
import { takeLock } from '../../src/node/files/run-folder.ts';
import type { FlagValues } from '../../src/terminal/flag-table.ts';
import { onInterrupt } from '../../src/terminal/interrupt.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../src/terminal/output.ts';
import type { Saved } from '../../src/terminal/render/live.ts';
import { createReporter } from '../../src/terminal/reporter.ts';
import type { demoFlags } from './flags.ts';
import type { Exit, OnEvent } from './swarm.ts';
import { tidyDemo } from './tidy.ts';

export type DemoFlags = FlagValues<typeof demoFlags>;

export interface Stage {
  readonly flags: DemoFlags;
  /** Folder of all workers. */
  readonly dir: string;
  readonly scope: Scope;
  readonly signal: AbortSignal;
  /** Shows an event of one worker. A notice that several workers report is shown once. */
  readonly report: OnEvent;
  onNotice(message: string): void;
  /** Prints a line of the verdict, to stdout, or to stderr with --json. */
  say(line: string): void;
  /** Closes the table, prints the document (with --json) and the failed workers; returns whether any failed. */
  end(document: object, exits: readonly Exit[]): boolean;
  /** Ends a demo in which the workers did not agree or were stopped; returns its exit code. */
  endWithoutAgreement(exits: readonly Exit[]): number;
  /** Returns the seconds since the demo began. */
  wallSeconds(): number;
}

interface Show {
  readonly name: string;
  readonly workers: readonly string[];
  saved?(dir: string): Saved;
}

const hasFailed = ({ code, stopped }: Exit): boolean => code !== 0 && !stopped;

/** Plays a demo on its stage and returns its exit code. */
export const onStage = (
  flags: DemoFlags,
  { name, workers, saved }: Show,
  play: (stage: Stage) => Promise<number>,
): Promise<number> =>
  withScope(async (scope) => {
    const startedMs = Date.now();
    const { json = false, headless = false } = flags;
    const { signal, dispose } = onInterrupt();
    scope.defer(dispose);
    const dir = await demoFolder(name, flags.dir, scope);
    const reporter = createReporter(json || headless ? 'plain' : undefined, {
      title: `demo ${name}`,
      workers,
      stream: json ? process.stderr : process.stdout,
      ...(saved && { saved: saved(dir) }),
    });
    scope.defer(() => reporter.close());
    const reported = new Set<string>();
    const say = (line: string) => (json ? writeNote(line) : writeOut(`${line}\n`));
    const exitCode = await play({
      flags,
      dir,
      scope,
      signal,
      report(worker, event) {
        const isKnown = event.type === 'notice' && reported.has(event.message);
        if (event.type === 'notice') reported.add(event.message);
        if (!isKnown) reporter.event(worker, event);
      },
      onNotice: (message) => reporter.notice(message),
      say,
      end(document, exits) {
        reporter.close();
        if (json) writeOut(asJson(document));
        const failed = exits.filter(hasFailed);
        for (const { name: worker, code, words } of failed) {
          say(`${worker} failed (exit ${code})${words ? `: ${words}` : ''}`);
        }
        return failed.length > 0;
      },
      endWithoutAgreement(exits) {
        const isStopped = !exits.some(hasFailed) && exits.some(({ stopped }) => stopped);
        if (isStopped) say(`stopped before the end; files are in ${dir}`);
        else say(`the workers do NOT agree; their logs are in ${dir}`);
        return isStopped ? exitCodes.interrupted.code : exitCodes.failed.code;
      },
      wallSeconds: () => (Date.now() - startedMs) / 1000,
    });
    if (exitCode === exitCodes.done.code) await tidyDemo(dir, workers);
    return exitCode;
  });

/** Returns --dir or the demo's emptied folder. Throws `demo/folder` if --dir has files, `run/busy` if it is in use. */
async function demoFolder(name: string, given: string | undefined, scope: Scope): Promise<string> {
  const dir = given ?? join(dataHome(), 'demos', name);
  await mkdir(dir, { recursive: true });
  const entries = await readdir(dir);
  if (given !== undefined && entries.length > 0) {
    throw new ConfigError('demo/folder', `${dir} is not empty`, {
      hint: 'name a new folder with --dir, or leave it out',
    });
  }
  const lock = await takeLock(dir);
  scope.defer(() => lock.release());
  for (const entry of entries) {
    if (entry !== 'lock') await rm(join(dir, entry), { recursive: true, force: true });
  }
  return dir;
}
