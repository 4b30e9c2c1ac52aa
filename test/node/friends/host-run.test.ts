/** Friends from a program: a host and those who join by its line train one run, resume it, and end in the same bits. */
import { join } from 'node:path';
import type { RunEvent } from 'nostrain/certified';
import { type FriendMachine, hostRun, joinRun } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { stateDigest } from 'nostrain/tensor';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { temporaryFolder } from '../../support/processes.ts';

let relay: Relay;
let home: string;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());
beforeEach(() => {
  home = temporaryFolder();
  vi.stubEnv('NOSTRAIN_HOME', home);
});
afterEach(() => vi.unstubAllEnvs());

const training = { model: 'linear', rounds: 2, innerSteps: 2 } as const;

/** The machine of a person: a key and a run folder of its own. */
const machineOf = (displayName: string, rest: Partial<FriendMachine> = {}) => ({
  ...{ displayName, secKey: displayName.charCodeAt(0).toString(16).repeat(32) },
  ...{ dir: join(home, displayName), device: 'cpu' as const, threads: 1, ...rest },
});

const digestOf = ({ params }: Awaited<ReturnType<typeof joinRun>>) => stateDigest(params);

it('a host and a friend gather, train one run, and hold the same bits', async () => {
  const people: string[] = [];
  const counted = new Set<string>();
  const host = {
    ...machineOf('Anna', {
      onPeople: (present) => people.push(present.map(({ name }) => name).join(' ')),
      report(event: RunEvent) {
        if (event.type === 'round') for (const key of event.accepted) counted.add(key);
      },
    }),
    ...{ name: 'winter', people: 2, relays: [relay.url], training },
  };
  let friend: ReturnType<typeof joinRun> | undefined;
  let line = '';
  const onLine = (given: string) => {
    line = given;
    friend = joinRun(line, machineOf('Bea'));
  };
  const first = await hostRun({ ...host, onLine });
  const second = await friend!;
  expect(line).toMatch(/^nostrain1/);
  expect(first.round).toBe(2);
  expect(digestOf(second)).toBe(digestOf(first));
  expect(people.at(0)).toBe('Anna');
  expect(people.at(-1)).toBe('Anna Bea');
  expect(counted.size).toBe(2);

  // the same call resumes: no new line, no new run
  const again = await hostRun({ ...host, onLine: () => expect.unreachable() });
  expect(digestOf(again)).toBe(digestOf(first));
}, 60_000);

it('options that make no run, and a name that is taken, are refused before the lobby opens', async () => {
  const onLine = () => expect.unreachable();
  const host = { ...machineOf('Anna'), people: 2, relays: [relay.url], training, onLine };
  await expect(hostRun({ ...host, name: 'no name' })).rejects.toMatchObject({ code: 'flag/name' });
  const typed = { quorum: 'most' };
  await expect(hostRun({ ...host, name: 'spring', typed })).rejects.toMatchObject({
    name: 'ConfigError',
  });
});

it('a host that is stopped in the lobby opens the same one again', async () => {
  const stop = new AbortController();
  const lines: string[] = [];
  const host = { ...machineOf('Anna'), name: 'autumn', people: 2, relays: [relay.url], training };
  const onLine = (line: string) => {
    lines.push(line);
    stop.abort(new Error('stopped'));
  };
  await expect(hostRun({ ...host, signal: stop.signal, onLine })).rejects.toThrow('stopped');
  let friend: ReturnType<typeof joinRun> | undefined;
  const open = hostRun({
    ...host,
    onLine(line) {
      lines.push(line);
      friend = joinRun(line, machineOf('Bea'));
    },
  });
  expect((await open).round).toBe(2);
  expect((await friend!).round).toBe(2);
  expect(lines[1]).toBe(lines[0]);
}, 60_000);

it('a line that was cut off is no line', async () => {
  await expect(joinRun('nostrain1qqq', machineOf('Bea'))).rejects.toMatchObject({
    code: 'join/line',
  });
});
