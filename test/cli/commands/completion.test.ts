/** Scripts that complete command lines, read by the shells that are here. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { itWith } from '../../support/needs.ts';

const script = async (shell: string): Promise<string> => {
  const { exitCode, stdout, stderr } = await runCommand('completion', shell);
  expect([exitCode, stderr]).toEqual([0, '']);
  return stdout;
};

const bashMissing = existsSync('/bin/bash') ? undefined : 'there is no /bin/bash';

/** What bash offers for the last word of a line. */
async function offered(...line: readonly string[]): Promise<readonly string[]> {
  const words = line.map((word) => `'${word}'`).join(' ');
  const run = `${await script('bash')}
COMP_WORDS=(${words}); COMP_CWORD=${line.length - 1}; _nostrain; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const printed = execFileSync('/bin/bash', ['-c', run], { encoding: 'utf8', cwd: '/' });
  return printed.split('\n').filter((word) => word !== '');
}

describe('in bash', () => {
  itWith(bashMissing)('completes commands', async () => {
    expect(await offered('nostrain', 'run')).toEqual(['run', 'run-training', 'runs']);
    expect(await offered('nostrain', 'run', '')).toEqual(
      expect.arrayContaining(['create', 'inspect', 'list', 'join', 'leave']),
    );
    expect(await offered('nostrain', 'demo', 'g')).toEqual(['gpt']);
    expect(await offered('nostrain', 'completion', '')).toEqual(['bash', 'zsh', 'fish']);
  });

  itWith(bashMissing)('completes flags, those of the command alone', async () => {
    expect(await offered('nostrain', 'run', 'join', '--sha')).toEqual(['--shard']);
    expect(await offered('nostrain', 'run', 'join', '--widt')).toEqual([]);
    expect(await offered('nostrain', 'run-training', '--batc')).toEqual(['--batch-size']);
    expect(await offered('nostrain', 'keygen', '--')).toEqual(['--output', '--help']);
  });

  itWith(bashMissing)('completes what a flag takes', async () => {
    expect(await offered('nostrain', 'run-training', '--device', 'c')).toEqual(['cpu', 'cuda']);
    expect(await offered('nostrain', 'run-training', '--model', '')).toEqual(
      expect.arrayContaining(['char-gpt', 'linear']),
    );
    expect(await offered('nostrain', 'run-training', '--rounds', '')).toEqual([]);
    expect(await offered('nostrain', 'keygen', '-o', 'x', '--output', 'et')).toEqual(['etc']);
  });
});

describe('--set', () => {
  itWith(bashMissing)('completes names of the command, and the values of a choice', async () => {
    const train = ['nostrain', 'run-training', '--set'];
    expect(await offered(...train, 'own')).toEqual(['owners=']);
    expect(await offered(...train, 'packing', '=', 't')).toEqual(['trellis']);
    expect(await offered(...train, 'packing', '=')).toContain('trellis');
    expect(await offered(...train, 'owners', '=', '')).toEqual([]);
    expect(await offered(...train, 'committee')).toEqual([]);
    expect(await offered('nostrain', 'run', 'create', '--set', 'committee.s')).toEqual([
      'committee.size=',
    ]);
  });

  it('is completed by fish as whole words', async () => {
    const line = (await script('fish')).split('\n').find((each) => each.includes(' -l set '));
    expect(line).toMatch(/-x -a '.*\brelayRate= /);
  });
});

it('prints a script for zsh, which reads that of bash', async () => {
  const printed = await script('zsh');
  expect(printed.startsWith('#compdef nostrain\n')).toBe(true);
  expect(printed).toContain('bashcompinit');
});

it('prints a line for each flag and command for fish', async () => {
  const lines = (await script('fish')).split('\n');
  expect(lines).toContain(
    "complete -c nostrain -n '__fish_use_subcommand' -f -a keygen -d 'create a secret key'",
  );
  const join = '__fish_seen_subcommand_from run; and __fish_seen_subcommand_from join';
  expect(lines.find((line) => line.includes(`'${join}' -l shard `))).toContain(
    "-d 'part of the data",
  );
});

it('refuses other shells', async () => {
  const { exitCode, stderr } = await runCommand('completion', 'tcsh');
  expect(exitCode).toBe(2);
  expect(stderr).toContain('Allowed choices are bash, zsh, fish');
});
