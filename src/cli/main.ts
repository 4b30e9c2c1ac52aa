/** The command line: loads and runs the command, formats errors, returns the exit code (src/terminal/output.ts). */

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError } from 'commander';
import { NostrainError } from '../base/errors.ts';
import { canAsk } from '../terminal/ask.ts';
import { Interrupted } from '../terminal/interrupt.ts';
import { exitCodes, writeNote, writeOut } from '../terminal/output.ts';
import { dressHelp, helpConfiguration, programHelp, pythonHelp, settingsHelp } from './help.ts';

const { done, failed, usage } = exitCodes;

/** Commands in the order of `--help`. Each is loaded on demand, because loading all takes longer than running most. */
const nativeCommands: Readonly<Record<string, () => Promise<Command>>> = {
  host: async () => (await import('./commands/friends/host.ts')).hostFriends(),
  join: async () => (await import('./commands/friends/join.ts')).joinFriends(),
  demo: async () => (await import('./commands/demo.ts')).demo(),
  run: async () => (await import('./commands/run/run.ts')).run(),
  'run-training': async () => (await import('./commands/run-training.ts')).runTraining(),
  relay: async () => (await import('./commands/relay.ts')).relay(),
  relays: async () => (await import('./commands/relays-find.ts')).relays(),
  plan: async () => (await import('./commands/plan/plan.ts')).plan(),
  witness: async () => (await import('./commands/witness/witness.ts')).witness(),
  keygen: async () => (await import('./commands/keygen.ts')).keygen(),
  whoami: async () => (await import('./commands/whoami.ts')).whoami(),
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
  handler: async () => (await import('./commands/handler.ts')).handler(),
  corpus: async () => (await import('./commands/corpus.ts')).corpus(),
  clean: async () => (await import('./commands/runs.ts')).clean(),
  model: async () => (await import('./commands/model.ts')).model(),
  tiers: async () => (await import('./commands/tiers.ts')).tiers(),
  sample: async () => (await import('./commands/sample.ts')).sample(),
  serve: async () => (await import('./commands/serve/serve.ts')).serve(),
  train: async () => (await import('./commands/serve/serve.ts')).train(),
  shard: async () => (await import('./commands/shard.ts')).shard(),
  attest: async () => (await import('./commands/attest.ts')).attest(),
  stake: async () => (await import('./commands/stake/stake.ts')).stake(),
  placement: async () => (await import('./commands/placement/placement.ts')).placement(),
  directory: async () => (await import('./commands/directory.ts')).directory(),
  doctor: async () => (await import('./commands/doctor/doctor.ts')).doctor(),
  completion: async () =>
    (await import('./commands/completion.ts')).completion(() => createProgram()),
};

/** Loads one of our commands by name; otherwise all commands and those of the Python reference, for help and errors. */
async function loadCommands(name: string | undefined): Promise<readonly Command[]> {
  if (name === '--version' || name === '-V') return [];
  const load = name !== undefined && Object.hasOwn(nativeCommands, name) && nativeCommands[name];
  if (load) return [await load()];
  const { pythonCommands } = await import('../python/commands/index.ts');
  const all = await Promise.all(Object.values(nativeCommands).map((load) => load()));
  return [...all, ...pythonCommands.map((build) => build())];
}

/** Returns the version of the package, from source or from dist/. */
function packageVersion(): string {
  const folder = dirname(fileURLToPath(import.meta.url));
  const file = ['../..', '../../..'].map((up) => join(folder, up, 'package.json')).find(existsSync);
  return String(JSON.parse(readFileSync(file!, 'utf8')).version);
}

/** Creates the program with one command, or with all of them if no name is given; tests read the flags of all. */
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

/** Applies the parent's output and exit settings to a command and its subcommands. */
function inherit(command: Command, parent: Command): void {
  command.exitOverride().copyInheritedSettings(parent);
  for (const each of command.commands) inherit(each, command);
}

/** Topics of `nostrain help TOPIC` that do not belong to a single command. */
const topics: Readonly<Record<string, () => string | Promise<string>>> = {
  settings: settingsHelp,
  python: async () => pythonHelp(await createProgram()),
};

/** Asks a person for a command, shows it, and runs it. */
async function mainFromAnswers(): Promise<number> {
  const { askCommand } = await import('./first-command.ts');
  const { quoteWords } = await import('../terminal/command-line.ts');
  const words = await askCommand();
  writeNote(`nostrain ${quoteWords(words)}`);
  return main(words);
}

/** Runs one command line and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    const [first = '', topic = ''] = argv;
    if (argv.length === 0 && canAsk()) return await mainFromAnswers();
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
    const words = argv.some((word) => word.endsWith('.onnx'))
      ? await (await import('./shared/imported-model.ts')).withImportedModel(argv)
      : argv;
    await program.parseAsync(words, { from: 'user' });
    return Number(process.exitCode ?? done.code);
  } catch (error) {
    // commander has already printed its message; help and version are not failures
    if (error instanceof CommanderError) return error.exitCode === 0 ? done.code : usage.code;
    const { text, exitCode } = wordError(error);
    writeNote(text);
    return exitCode;
  }
}

/** Error codes that mean an invalid command line. */
const USAGE = /^(flag\/|settings\/(type|unknown|missing)$)/;

interface WordedError {
  readonly text: string;
  /**
   * 2 if the command line is invalid, otherwise 1, like the Python reference. After a signal, the code that shells
   * expect.
   */
  readonly exitCode: number;
}

/** Formats an error for people: one line with the problem, one with the next step. */
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
