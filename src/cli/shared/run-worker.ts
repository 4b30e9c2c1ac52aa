/** A worker session as a command: reports on the terminal, results in files, and the last words when it is stopped. */
import { NostrainError } from '../../base/errors.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { createNativeSha256 } from '../../node/native/sha256.ts';
import { Metrics, serveMetrics } from '../../node/net/http-server.ts';
import { runWorkerSession, type WorkerSessionOptions } from '../../node/worker-session.ts';
import { formOf, runDataOf } from '../../run/data-forms.ts';
import { stateDigest } from '../../tensor/params.ts';
import { commandLine } from '../../terminal/command-line.ts';
import { type Interrupt, Interrupted } from '../../terminal/interrupt.ts';
import { asJson, writeNote, writeResult } from '../../terminal/output.ts';
import type { Saved } from '../../terminal/render/live.ts';
import { createReporter } from '../../terminal/reporter.ts';
import { assertHoldsModel, type StateOutput, writeState } from '../../terminal/state-flags.ts';
import type { WorkerFlags } from '../../terminal/worker-flags.ts';
import type { WorkerState } from '../../worker/state.ts';

type OutputFlags = WorkerFlags & StateOutput;

/** Runs a worker to the end of its run, or to Ctrl-C, reports under that title, and writes the files asked for. */
export async function runWorkerCommand<M extends object>(
  options: Omit<WorkerSessionOptions<M>, 'device' | 'report' | 'signal'>,
  flags: OutputFlags,
  { title, interrupt }: { readonly title: string; readonly interrupt: Interrupt },
): Promise<void> {
  assertHoldsModel(flags, options.settings.model);
  const { dir, settings, corpus } = options;
  const writes = formOf(settings) !== 'rows';
  // what they trained on says how to read it
  const isOfPatches = runDataOf(settings).input.length > 0;
  const data = isOfPatches && corpus !== undefined ? ['--corpus', corpus] : [];
  const saved = { folder: dir, ...(writes && { sample: commandLine(['sample', dir, ...data]) }) };
  const metrics = flags.metrics === undefined ? undefined : new Metrics();
  const shown = metrics && (await serveMetrics(metrics, flags.metrics!));
  const reporter = createReporter(flags.report, { title, workers: ['me'], saved });
  if (shown) writeNote(`numbers for scrapers are at ${shown.url}`);
  try {
    const report = (event: RunEvent) => {
      metrics?.take(event);
      reporter.event('me', event);
    };
    const { signal } = interrupt;
    const state = await runWorkerSession({ ...flags, ...options, report, signal });
    reporter.close();
    await writeResults(state, flags);
    if (flags.report !== 'ndjson') printSaved(saved);
  } catch (error) {
    if (!(error instanceof Interrupted)) {
      if (flags.report === 'ndjson') reporter.event('me', failureOf(error));
      throw error;
    }
    // the view first: its last frame would be drawn over the words
    reporter.close();
    const resumeCommand = commandLine(withoutSecretArguments(process.argv.slice(2)));
    writeNote(`stopped; everything is saved in ${dir}\n  go on with: ${resumeCommand}`);
    process.exitCode = error.exitCode;
  } finally {
    reporter.close();
    await shown?.close();
  }
}

/** For whoever reads the lines of this worker and not its stderr. */
function failureOf(error: unknown): RunEvent {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof NostrainError)) return { type: 'failed', code: 'internal', message };
  const { code, hint } = error;
  return { type: 'failed', code, message, ...(hint === undefined ? {} : { hint }) };
}

/** What was typed, fit to be shown: no secret key, no user, password or query of an address. */
export const withoutSecretArguments = (typed: readonly string[]): readonly string[] =>
  typed.map((word, i) => {
    if (typed[i - 1] === '--sec-key') return '…';
    const [, flag = '', value = ''] = /^(--[\w-]+=)?(.*)$/s.exec(word)!;
    if (flag === '--sec-key=') return `${flag}…`;
    return /^[a-z]+:\/\//i.test(value) ? flag + withoutSecrets(value) : word;
  });

function printSaved({ folder, sample }: Saved): void {
  writeNote(`the model is saved in ${folder}`);
  if (sample !== undefined) writeNote(`see more of it with: ${sample}`);
}

async function writeResults({ params, rounds }: WorkerState, flags: OutputFlags): Promise<void> {
  const { output, summaryOut } = flags;
  if (output !== undefined) await writeState(params, flags);
  if (summaryOut === undefined) return;
  await writeResult(
    asJson({ final_model_hash: stateDigest(params, createNativeSha256), rounds }),
    summaryOut,
  );
}
