/** The command line: parses, dispatches, words errors, sets the exit code (src/terminal/output.ts). */

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError } from 'commander';
import { NostrainError } from '../base/errors.ts';
import { Interrupted } from '../terminal/interrupt.ts';
import { exitCodes, writeNote, writeOut } from '../terminal/output.ts';
import { dressHelp, helpConfiguration, programHelp, pythonHelp, settingsHelp } from './help.ts';

const { done, failed, usage } = exitCodes;

/** In the order of `--help`. Each is loaded when it is asked for: to load all takes longer than most of them run. */
const nativeCommands: Readonly<Record<string, () => Promise<Command>>> = {
  demo: async () => (await import('./commands/demo.ts')).demo(),
  run: async () => (await import('./commands/run/run.ts')).run(),
  'run-training': async () => (await import('./commands/run-training.ts')).runTraining(),
  relay: async () => (await import('./commands/relay.ts')).relay(),
  relays: async () => (await import('./commands/relays.ts')).relays(),
  plan: async () => (await import('./commands/plan/plan.ts')).plan(),
  witness: async () => (await import('./commands/witness/witness.ts')).witness(),
  keygen: async () => (await import('./commands/keygen.ts')).keygen(),
  replay: async () => (await import('./commands/replay.ts')).replay(),
  checkpoint: async () => (await import('./commands/checkpoint/checkpoint.ts')).checkpoint(),
  archive: async () => (await import('./commands/archive.ts')).archive(),
  scores: async () => (await import('./commands/receipt.ts')).scores(),
  receipt: async () => (await import('./commands/receipt.ts')).receipt(),
  challenge: async () => (await import('./commands/challenge.ts')).challenge(),
  explain: async () => (await import('./commands/explain.ts')).explain(),
  runs: async () => (await import('./commands/runs.ts')).runs(),
  show: async () => (await import('./commands/show.ts')).show(),
  watch: async () => (await import('./commands/watch.ts')).watch(),
  page: async () => (await import('./commands/page/page.ts')).page(),
  clean: async () => (await import('./commands/runs.ts')).clean(),
  model: async () => (await import('./commands/model.ts')).model(),
  tiers: async () => (await import('./commands/tiers.ts')).tiers(),
  sample: async () => (await import('./commands/sample.ts')).sample(),
  stake: async () => (await import('./commands/stake/stake.ts')).stake(),
  placement: async () => (await import('./commands/placement/placement.ts')).placement(),
  directory: async () => (await import('./commands/directory.ts')).directory(),
  doctor: async () => (await import('./commands/doctor/doctor.ts')).doctor(),
  completion: async () =>
    (await import('./commands/completion.ts')).completion(() => createProgram()),
};

/** This command, or all when it is none of ours: then it is one of the Python program's, or to be helped with. */
async function loadCommands(name: string | undefined): Promise<readonly Command[]> {
  if (name === '--version' || name === '-V') return [];
  const own = name !== undefined && Object.hasOwn(nativeCommands, name) && nativeCommands[name];
  if (own) return [await own()];
  const { pythonCommands } = await import('../python/commands/index.ts');
  const all = await Promise.all(Object.values(nativeCommands).map((load) => load()));
  return [...all, ...pythonCommands.map((build) => build())];
}

/** Of the package, wherever this file was built to. */
function packageVersion(): string {
  const folder = dirname(fileURLToPath(import.meta.url));
  const file = ['../..', '../../..'].map((up) => join(folder, up, 'package.json')).find(existsSync);
  return String(JSON.parse(readFileSync(file!, 'utf8')).version);
}

/** The program with the command that is asked for; without one the whole program, whose flags tests read. */
export async function createProgram(name?: string): Promise<Command> {
  const program = new Command('nostrain')
    .description('Train one model together over ordinary Nostr relays.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .exitOverride()
    .configureHelp(helpConfiguration)
    .configureOutput({ writeOut, writeErr: (text) => writeNote(text.replace(/\n$/, '')) })
    .showHelpAfterError('(add --help for the flags)');
  for (const command of await loadCommands(name)) {
    inherit(command, program);
    program.addCommand(command);
  }
  dressHelp(program);
  return program;
}

/** A command built on its own takes over how its parent speaks and ends; so do its own commands. */
function inherit(command: Command, parent: Command): void {
  command.exitOverride().copyInheritedSettings(parent);
  for (const each of command.commands) inherit(each, command);
}

/** Pages of `nostrain help TOPIC` that are of no single command. */
const topics: Readonly<Record<string, () => string | Promise<string>>> = {
  settings: settingsHelp,
  python: async () => pythonHelp(await createProgram()),
};

/** Runs one command line and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    const [first = '', topic = ''] = argv;
    if (first === 'help' && Object.hasOwn(topics, topic)) {
      writeOut(await topics[topic]!());
      return done.code;
    }
    const program = await createProgram(first);
    if (['', 'help', '--help', '-h'].includes(first) && topic === '') {
      if (first === '') writeNote(programHelp(program));
      else writeOut(programHelp(program));
      return first === '' ? usage.code : done.code;
    }
    await program.parseAsync(argv, { from: 'user' });
    return Number(process.exitCode ?? done.code);
  } catch (error) {
    // commander has printed its own message; help and version are no failures
    if (error instanceof CommanderError) return error.exitCode === 0 ? done.code : usage.code;
    const { text, exitCode } = wordError(error);
    writeNote(text);
    return exitCode;
  }
}

/** Codes that say the command line itself is wrong. */
const USAGE = /^(flag\/|settings\/(type|unknown|missing)$)/;

interface WordedError {
  readonly text: string;
  /** 2 when the command line is wrong, else 1: as the Python reference does. After a signal what shells expect. */
  readonly exitCode: number;
}

/** What a person reads when something failed: one line that names the thing, one with the next step. */
export function wordError(error: unknown): WordedError {
  if (error instanceof NostrainError) {
    const hint = error.hint === undefined ? '' : `\n  try: ${error.hint}`;
    const text = `error (${error.code}): ${error.message}${hint}`;
    return { text, exitCode: (USAGE.test(error.code) ? usage : failed).code };
  }
  if (error instanceof Interrupted) return { text: 'stopped', exitCode: error.exitCode };
  if (error instanceof Error && error.name === 'AbortError')
    return { text: 'stopped', exitCode: failed.code };
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { text: `internal error, please report it: ${text}`, exitCode: failed.code };
}
