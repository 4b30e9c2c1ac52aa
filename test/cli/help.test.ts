/** What people read when they ask for help: every command says what it does, its flags in groups, one example that works as it stands. */
import type { Command } from 'commander';
import { fields, type Group, settingNames } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { examples, examplesOf } from '../../src/cli/examples.ts';
import { commandGroup, flagGroup, flagHeadings } from '../../src/cli/help.ts';
import { createProgram } from '../../src/cli/main.ts';
import { isReplaced } from '../../src/terminal/options.ts';
import { runCommand } from '../support/command-line.ts';

interface Leaf {
  readonly path: string;
  readonly command: Command;
}

const leavesOf = (command: Command, path: string): readonly Leaf[] =>
  command.commands.length === 0
    ? [{ path, command }]
    : command.commands
        .filter((each) => !('_hidden' in each && each._hidden === true))
        .flatMap((each) => leavesOf(each, `${path} ${each.name()}`.trim()));

const program = await createProgram();
const leaves = leavesOf(program, '');

/** As a shell reads it, as far as examples go: words, and those in double quotes; nothing after a redirection. */
const wordsOf = (line: string): readonly string[] =>
  [...line.split(' > ')[0]!.matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, bare]) => quoted ?? bare!,
  );

/** Stands for what an example leaves out: keys and digests have a form. */
const whole = (word: string): string =>
  word.replace('npub1…', `npub1${'q'.repeat(58)}`).replace('DIGEST', 'd'.repeat(64));

describe.each(leaves)('nostrain $path', ({ path, command }) => {
  it('says what it does, with a verb', () => {
    expect(command.description()).toMatch(/^[a-z]+ .{8,}/);
  });

  it('has every flag in a group, with words', () => {
    const own = /^(?:Rules of the run|With STATE and DATASET|Advanced)/;
    for (const option of command.options.filter((each) => !isReplaced(each))) {
      const heading = flagGroup(option);
      expect(
        flagHeadings.includes(heading) || own.test(heading),
        `${option.flags}: ${heading}`,
      ).toBe(true);
      expect(option.description.length, option.flags).toBeGreaterThan(5);
      expect(option.description, option.flags).not.toMatch(
        /^(?:of|its|their|whose|who|how (?:far|long)) /,
      );
    }
  });

  it('has an example that parses', async () => {
    expect(examplesOf(path).length, 'in src/cli/examples.ts').toBeGreaterThan(0);
    for (const example of examplesOf(path)) {
      const [name, ...words] = wordsOf(example.replace('\\\n', ' '));
      expect(name).toBe('nostrain');
      expect(words.slice(0, path.split(' ').length).join(' ')).toBe(path);
      const fresh = await createProgram(words[0]);
      let ran = 0;
      for (const leaf of leavesOf(fresh, '')) leaf.command.action(() => void ran++);
      await fresh.parseAsync(words.map(whole), { from: 'user' });
      expect(ran).toBe(1);
    }
  });

  it('shows all of it', async () => {
    const { exitCode, stdout, stderr } = await runCommand(...path.split(' '), '--help');
    expect([exitCode, stderr]).toEqual([0, '']);
    expect(stdout).toContain('\nBasic:\n');
    expect(stdout).not.toContain('\nOptions:\n');
    const [example] = examplesOf(path);
    expect(stdout).toMatch(/^Examples?:$/m);
    expect(stdout).toContain(`:\n  ${example!.replaceAll('\n', '\n  ')}\n`);
  });
});

it('has no example of a command that is not there', () => {
  expect(Object.keys(examples).sort()).toEqual(leaves.map(({ path }) => path).sort());
});

it('keeps the commands of the Python reference apart', async () => {
  const own = (await runCommand('--help')).stdout;
  const python = (await runCommand('help', 'python')).stdout;
  expect(own).toMatch(/\nStart here:\n {2}host [\s\S]*\n {2}Relays: [\s\S]*\n {2}Certified runs: /);
  expect(python).toContain('Commands of the Python reference (rounds from 0, as there):\n');
  expect(python).toContain('discover-checkpoints');
  expect(python).toContain('--late-gradient-strategy');
  for (const name of ['train-local', 'outer-step', 'build-event']) {
    expect(commandGroup(name)).toContain('Python');
    expect(own).not.toContain(name);
  }
  for (const name of ['run-training ', 'replay']) expect(python).not.toContain(`  ${name}`);
});

it('starts with what a new user types, on one screen, and names every command', async () => {
  const { stdout } = await runCommand('--help');
  expect(stdout.split('\n').length).toBeLessThanOrEqual(40);
  for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
  const { commands } = await createProgram();
  for (const command of commands.filter((each) => !commandGroup(each.name()).includes('Python'))) {
    expect(stdout).toMatch(new RegExp(`\\b${command.name()}\\b`));
  }
});

it.each([['run-training'], ['run', 'create']])(
  '%s shows at most 40 flags in 80 lines',
  async (...path) => {
    const { stdout } = await runCommand(...path, '--help');
    const lines = stdout.trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(80);
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
    expect(lines.filter((line) => /^ {2}-/.test(line)).length).toBeLessThanOrEqual(40);
    expect(lines[0]).toBe('Examples:');
    expect(lines.filter((line) => line.startsWith('  nostrain ')).length).toBe(2);
  },
);

it('help settings lists every setting and field of a spec, with how it is typed', async () => {
  const { stdout } = await runCommand('help', 'settings');
  for (const name of settingNames) {
    const { flag } = (fields as Group)[name]!;
    expect(stdout.split(`\n  ${flag ?? name}\n`).length, name).toBeGreaterThan(1);
  }
  expect(stdout).toContain(
    '\n  committee.size\n      seats (K); the roster when it is smaller (default: 64)\n',
  );
});

it('groups flags, the basic ones first', async () => {
  const { stdout } = await runCommand('run-training', '--help');
  const headings = stdout.match(/^\S.*:$/gm);
  expect(headings).toEqual(['Examples:', 'Arguments:', 'Basic:', 'Training:']);
  expect(stdout.replace(/\s+/g, ' ')).toContain(
    '--seed <n> random seed; must be the same for everyone (default: 1) --rounds <n> ',
  );
});

it('run join lists only what it takes', async () => {
  const { stdout } = await runCommand('run', 'join', '--help');
  for (const flag of ['--shard', '--sync', '--relay', '--corpus']) expect(stdout).toContain(flag);
  for (const flag of ['--rounds', '--codec', '--peers', '--momentum ']) {
    expect(stdout).not.toContain(`  ${flag}`);
  }
});

it('prints its version', async () => {
  for (const flag of ['--version', '-V']) {
    const { exitCode, stdout } = await runCommand(flag);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  }
});
