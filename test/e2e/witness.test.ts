/** Who is a witness, asked of the built program by people who share nothing but a list of members. */
import { expect, it } from 'vitest';
import { keyOf } from '../support/members.ts';
import { writeMembers } from '../support/members-file.ts';
import { runProgram } from '../support/processes.ts';

const COUNT = 40;
/** The members in an order of each machine's own. */
const shuffled = (machine: number): readonly number[] =>
  Array.from({ length: COUNT }, (_, i) => i).sort((a, b) =>
    keyOf(1000 * machine + a) < keyOf(1000 * machine + b) ? -1 : 1,
  );

const who = async (file: string, ...change: readonly string[]): Promise<readonly string[]> => {
  const asked = ['--run', 'x', '--batch', '2', '--epoch', '7', '--entropy', keyOf(5), '-k', '8'];
  const args = ['witness', 'who', '--members', file, ...asked, ...change];
  const { code, stdout, stderr } = await runProgram(args);
  expect([code, stderr]).toEqual([0, '']);
  return stdout.trimEnd().split('\n');
};

it('R-01: ten processes with their members in other orders print the same witnesses', async () => {
  const machines = Array.from({ length: 10 }, (_, machine) => writeMembers(shuffled(machine)));
  const answers = await Promise.all(machines.map((file) => who(file)));
  expect(answers[0]).toHaveLength(8);
  for (const answer of answers) expect(answer).toEqual(answers[0]);
});
