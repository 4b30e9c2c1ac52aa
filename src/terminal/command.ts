/** Commands as rows: name, help, arguments, flags, and the function that runs them. */
import { Command } from 'commander';
import { addFlags, type FlagTable, type FlagValues } from './flag-table.ts';
import { type Interrupt, onInterrupt } from './interrupt.ts';

/** A declaration as commander writes it, such as `<file>`, `[run]` or `[name...]`. */
type ArgumentRow = readonly [declaration: string, help: string, initial?: string];

type ArgumentValue<R extends ArgumentRow> = R[0] extends `${string}...${string}`
  ? readonly string[]
  : R extends readonly [`[${string}`, string]
    ? string | undefined
    : string;

/** What a command works with in addition to its flags. */
export interface Invocation {
  readonly command: Command;
  /** Aborted by Ctrl-C. A command that does not read it ends at Ctrl-C at once. */
  readonly signal: AbortSignal;
}

interface InvocationOf<A extends readonly ArgumentRow[]> extends Invocation {
  readonly args: { readonly [K in keyof A]: ArgumentValue<A[K]> };
}

interface CommandRow<A extends readonly ArgumentRow[], F extends FlagTable> {
  readonly name: string;
  readonly help: string;
  /** Text after the help. */
  readonly more?: string;
  readonly args?: A;
  readonly flags: F;
  /** Changes what the help shows of the options. */
  finish?(command: Command): void;
  run(flags: FlagValues<F>, invocation: InvocationOf<A>): unknown;
}

/** Returns the function that creates the command of a row: each program has commands of its own. */
export const defineCommand =
  <const A extends readonly ArgumentRow[] = [], const F extends FlagTable = FlagTable>(
    row: CommandRow<A, F>,
  ): (() => Command) =>
  () => {
    const { name, help, more, flags, args = [] } = row;
    const command = addFlags(new Command(name).description(help), flags);
    for (const each of args) command.argument(...each);
    row.finish?.(command);
    if (more !== undefined) command.addHelpText('after', `\n${more}`);
    return command.action(async (...typed: unknown[]) => {
      let interrupt: Interrupt | undefined;
      const values = typed.slice(0, args.length) as InvocationOf<A>['args'];
      try {
        await row.run(typed[args.length] as FlagValues<F>, {
          args: values,
          command,
          get signal() {
            interrupt ??= onInterrupt();
            return interrupt.signal;
          },
        });
      } finally {
        interrupt?.dispose();
      }
    });
  };

/** Returns the function that creates a command with these subcommands. */
export const defineGroup =
  (name: string, help: string, commands: readonly (() => Command)[]): (() => Command) =>
  () =>
    commands.reduce(
      (group, create) => group.addCommand(create()),
      new Command(name).description(help),
    );
