/** Commands as rows: what a command gets of its arguments and flags, and when it takes Ctrl-C over. */
import { afterEach, expect, it } from 'vitest';
import { defineCommand, defineGroup } from '../../src/terminal/command.ts';
import { several, text, toggle, untoggle } from '../../src/terminal/flag-table.ts';

const before = process.listenerCount('SIGINT');
afterEach(() => expect(process.listenerCount('SIGINT')).toBe(before));

const parse = (create: ReturnType<typeof defineCommand>, ...words: readonly string[]) =>
  create().exitOverride().parseAsync(words, { from: 'user' });

it('passes arguments, defaults of arguments, and flags', async () => {
  const calls: unknown[] = [];
  const create = defineCommand({
    name: 'pack',
    help: 'pack files',
    args: [
      ['<file>', 'file'],
      ['[folder]', 'folder', '.'],
      ['[more...]', 'more files'],
    ],
    flags: { quick: toggle('quick'), to: several('<url>', 'to'), seats: untoggle('no seats') },
    run: ({ quick, to, seats }, { args, command }) =>
      calls.push([...args, quick, to, seats, command.name()]),
  });
  await parse(create, 'a');
  await parse(create, 'a', 'b', 'c', 'd', '--quick', '--to', 'x', '--to', 'y', '--no-seats');
  expect(calls).toEqual([
    ['a', '.', [], undefined, undefined, true, 'pack'],
    ['a', 'b', ['c', 'd'], true, ['x', 'y'], false, 'pack'],
  ]);
});

it('takes Ctrl-C over only if the command reads the signal, and only while it runs', async () => {
  const counts: number[] = [];
  const count = () => counts.push(process.listenerCount('SIGINT') - before);
  await parse(defineCommand({ name: 'a', help: '', flags: {}, run: count }));
  const reading = defineCommand({
    name: 'b',
    help: '',
    flags: {},
    run: async (_, { signal }) => {
      count();
      process.emit('SIGINT');
      signal.throwIfAborted();
    },
  });
  await expect(parse(reading)).rejects.toMatchObject({ name: 'AbortError', exitCode: 130 });
  expect(counts).toEqual([0, 1]);
});

it('a group has commands of its own in each program', () => {
  const create = defineGroup('files', 'about files', [
    defineCommand({ name: 'list', help: 'list', flags: { out: text('<f>', 'f') }, run: () => {} }),
  ]);
  const [one, other] = [create(), create()];
  expect(one.commands.map((each) => each.name())).toEqual(['list']);
  expect(one.commands[0]).not.toBe(other.commands[0]);
});
