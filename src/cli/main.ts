/** The command line: parses, dispatches, words errors, sets the exit code (0 done, 1 failed, 2 usage). */

import { Command, CommanderError } from 'commander';
import { NostrainError } from '../base/errors.ts';
import { pythonCommands } from '../python/commands/index.ts';
import { writeNote, writeOut } from '../terminal/output.ts';
import { archive } from './commands/archive.ts';
import { demo } from './commands/demo/demo.ts';
import { doctor } from './commands/doctor/doctor.ts';
import { explain } from './commands/explain.ts';
import { keygen } from './commands/keygen.ts';
import { plan } from './commands/plan/plan.ts';
import { relay } from './commands/relay.ts';
import { relays } from './commands/relays/relays.ts';
import { replay } from './commands/replay/replay.ts';
import { run } from './commands/run/run.ts';
import { runTraining } from './commands/run-training.ts';
import { sample } from './commands/sample.ts';
import { stake } from './commands/stake/stake.ts';
import { witness } from './commands/witness/witness.ts';

/** The whole program; tests read its flags from here. */
export function createProgram(): Command {
  const program = new Command('nostrain')
    .description('Train one model together over ordinary Nostr relays.')
    .exitOverride()
    .configureOutput({ writeOut, writeErr: (text) => writeNote(text.replace(/\n$/, '')) })
    .showHelpAfterError('(add --help for the flags)');
  const commands = [
    demo(),
    run(),
    runTraining(),
    relay(),
    relays(),
    plan(),
    witness(),
    keygen(),
    replay(),
    archive(),
    explain(),
    sample(),
    stake(),
    doctor(),
    ...pythonCommands.map((build) => build()),
  ];
  for (const command of commands) {
    inherit(command, program);
    program.addCommand(command);
  }
  return program;
}

/** A command built on its own takes over how its parent speaks and ends; so do its own commands. */
function inherit(command: Command, parent: Command): void {
  command.exitOverride().copyInheritedSettings(parent);
  for (const each of command.commands) inherit(each, command);
}

/** Runs one command line and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    await createProgram().parseAsync(argv, { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // commander has printed its own message; help and version are no failures
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const { text, exitCode } = wordError(error);
    writeNote(text);
    return exitCode;
  }
}

/** Codes that say the command line itself is wrong. */
const USAGE = /^(flag\/|settings\/(type|unknown|missing)$)/;

interface WordedError {
  readonly text: string;
  /** 2 when the command line is wrong, else 1: as the Python reference does. */
  readonly exitCode: 1 | 2;
}

/** What a person reads when something failed: one line that names the thing, one with the next step. */
export function wordError(error: unknown): WordedError {
  if (error instanceof NostrainError) {
    const hint = error.hint === undefined ? '' : `\n  try: ${error.hint}`;
    const text = `error (${error.code}): ${error.message}${hint}`;
    return { text, exitCode: USAGE.test(error.code) ? 2 : 1 };
  }
  if (error instanceof Error && error.name === 'AbortError')
    return { text: 'stopped', exitCode: 1 };
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { text: `internal error, please report it: ${text}`, exitCode: 1 };
}
