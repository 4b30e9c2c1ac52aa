/** Runs a worker session as a command: reports on the terminal, writes result files, and prints how to resume. */
import { onAbort } from '../../base/async.ts';
import { NostrainError } from '../../base/errors.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { localName } from '../../node/files/data-home.ts';
import { createNativeSha256 } from '../../node/native/sha256.ts';
import { Metrics, serveMetrics } from '../../node/net/http-server.ts';
import { runWorkerSession, type WorkerSessionOptions } from '../../node/worker-session.ts';
import { formOf, runDataOf } from '../../run/data-forms.ts';
import { stateDigest } from '../../tensor/params.ts';
import { commandLine } from '../../terminal/command-line.ts';
import { Interrupted } from '../../terminal/interrupt.ts';
import { asJson, writeNote, writeResult } from '../../terminal/output.ts';
import type { Saved } from '../../terminal/render/live.ts';
import { createReporter } from '../../terminal/reporter.ts';
import { assertHoldsModel, type StateOutput, writeState } from '../../terminal/state-flags.ts';
import type { WorkerFlags } from '../../terminal/worker-flags.ts';
import type { WorkerState } from '../../worker/state.ts';

type OutputFlags = WorkerFlags & StateOutput;

/** The terminal that a worker reports to. */
export interface WorkerReports {
  readonly title: string;
  readonly signal: AbortSignal;
  /** Stream of the reports; default stdout. */
  readonly stream?: NodeJS.WriteStream | undefined;
  /** Called before training with a function that shows a notice. */
  onOpen?(notify: (message: string) => void): void;
  /** Called with every event. */
  onEvent?(event: RunEvent): void;
}

/**
 * Runs a worker until its run ends or Ctrl-C, and writes the requested files. Returns the final state; undefined after
 * Ctrl-C.
 */
export async function runWorkerCommand<M extends object>(
  options: Omit<WorkerSessionOptions<M>, 'device' | 'report' | 'signal'>,
  flags: OutputFlags,
  { title, signal, stream, onOpen, onEvent }: WorkerReports,
): Promise<WorkerState | undefined> {
  assertHoldsModel(flags, options.settings.model);
  const { dir, settings, corpus } = options;
  const writes = formOf(settings) !== 'rows';
  // sampling needs the data that such models were trained on
  const isOfPatches = runDataOf(settings).input.length > 0;
  const data = isOfPatches && typeof corpus === 'string' ? ['--corpus', corpus] : [];
  const saved = {
    folder: dir,
    ...(writes && { sample: commandLine(['sample', localName(dir), ...data]) }),
  };
  const metrics = flags.metrics === undefined ? undefined : new Metrics();
  const shown = metrics && (await serveMetrics(metrics, flags.metrics!));
  const reporter = createReporter(flags.report, {
    title,
    workers: ['me'],
    saved,
    ...(stream && { stream }),
  });
  let release = () => {};
  if (shown) writeNote(`metrics are served at ${shown.url}`);
  if (flags.report !== 'ndjson') {
    reporter.notice(`see it in a browser: ${commandLine(['page', localName(dir)])}`);
  }
  try {
    onOpen?.((message) => reporter.event('me', { type: 'notice', message }));
    const report = (event: RunEvent) => {
      metrics?.take(event);
      onEvent?.(event);
      reporter.event('me', event);
    };
    release = onAbort(signal, () =>
      reporter.notice('stopping as soon as this step is saved; press Ctrl-C again to stop now'),
    );
    const state = await runWorkerSession({
      ...flags,
      ...options,
      displayName: flags.name,
      report,
      signal,
    });
    reporter.close();
    await writeResults(state, flags);
    if (flags.report !== 'ndjson') printSaved(saved);
    return state;
  } catch (error) {
    if (!(error instanceof Interrupted)) {
      if (flags.report === 'ndjson') reporter.event('me', failureOf(error));
      throw error;
    }
    // close the view first: its last frame would overwrite the message
    reporter.close();
    const resumeCommand = commandLine(withoutSecretArguments(process.argv.slice(2)));
    writeNote(`stopped; everything is saved in ${dir}\n  resume with: ${resumeCommand}`);
    process.exitCode = error.exitCode;
    return undefined;
  } finally {
    release();
    reporter.close();
    await shown?.close();
  }
}

/** Returns the failure as an event, for programs that read the NDJSON output and not stderr. */
function failureOf(error: unknown): RunEvent {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof NostrainError)) return { type: 'failed', code: 'internal', message };
  const { code, hint } = error;
  return { type: 'failed', code, message, ...(hint === undefined ? {} : { hint }) };
}

/** Returns the typed arguments without secret keys and without user, password and query of URLs. */
export const withoutSecretArguments = (typed: readonly string[]): readonly string[] =>
  typed.map((word, i) => {
    if (typed[i - 1] === '--sec-key') return '…';
    const [, flag = '', value = ''] = /^(--[\w-]+=)?(.*)$/s.exec(word)!;
    if (flag === '--sec-key=') return `${flag}…`;
    return /^[a-z]+:\/\//i.test(value) ? flag + withoutSecrets(value) : word;
  });

function printSaved({ folder, sample }: Saved): void {
  writeNote(`the model is saved in ${folder}`);
  if (sample !== undefined) writeNote(`sample from it with: ${sample}`);
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
