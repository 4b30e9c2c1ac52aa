/**
 * Leaving a run: one command asks to leave, the outcome that lists it completes it, and the others continue; an earlier
 * join does not bring the key back.
 */

import { toHex } from 'nostrain/base';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Program,
  runProgram,
  startProgram,
  temporaryFolder,
} from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const relays: Relay[] = [];
const programs: Program[] = [];
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  for (const one of relays.splice(0)) await one.close();
});

const keyOf = (number: number) => ['--sec-key', toHex(new Uint8Array(32).fill(number))];

function start(...args: readonly string[]): Program {
  const program = startProgram([...args, '--report', 'ndjson']);
  programs.push(program);
  return program;
}

const PRIVATE = '--allow-private-relays';

/** The rounds that a program finished. */
const roundsOf = ({ events }: Program) => events.filter((event) => event.type === 'round');

describe('a run with a spec', { timeout: 120_000 }, () => {
  it('is joined with `run-training --spec`, left with `run leave`, and joined again', async () => {
    const relay = await createRelay();
    relays.push(relay);
    const made = await runProgram([
      ...['run', 'create', '--relay', relay.url, '--model', 'linear', '--rounds', '400'],
      ...['--founder', signerOf(2).publicKey, '--inner-steps', '5', '--json', ...keyOf(1)],
      ...['-o', `${temporaryFolder()}/run.json`, '--set', 'timing.graceMinMs=500'],
      ...['--set', 'timing.graceMaxMs=2000'],
    ]);
    const address: string = JSON.parse(made.stdout).naddr;
    const stays = start('run', 'join', address, PRIVATE, ...keyOf(1));
    const dir = temporaryFolder();
    const training = ['run-training', '--spec', address, PRIVATE, '--dir', dir, ...keyOf(2)];
    const goes = start(...training);
    await goes.event(({ type }) => type === 'round');

    const stranger = await runProgram(['run', 'leave', address, PRIVATE, ...keyOf(3)]);
    expect(stranger.stderr).toContain('error (run/not-a-member)');
    const left = await runProgram(['run', 'leave', address, PRIVATE, ...keyOf(2)]);
    const [, asked] =
      /outcome that lists it, of round (\d+) or a later one\n$/.exec(left.stdout) ?? [];
    expect(await goes.exit).toBe(0);
    const last = roundsOf(goes).at(-1)!;
    const me = signerOf(2).publicKey;
    expect(last.certified!.left).toEqual([me]);
    expect(last.index + 1).toBeGreaterThanOrEqual(Number(asked));
    expect(goes.events.some(({ type }) => type === 'done')).toBe(true);
    expect(last.index).toBeLessThan(399);

    // its earlier join is still on the relay, but has no effect
    const after = await stays.event(
      (event) => event.type === 'round' && event.index >= last.index + 3,
    );
    expect(after.type).toBe('round');
    const since = roundsOf(stays).filter(({ index }) => index > last.index);
    expect(since.flatMap(({ certified }) => certified!.joined)).toEqual([]);

    const again = start(...training);
    await again.event((event) => event.type === 'round' && event.accepted.includes(me));
    expect(roundsOf(again)[0]!.index).toBe(last.index + 1);
    const joined = roundsOf(again).flatMap(({ certified }) => certified!.joined);
    // on a busy machine it may be dropped for its absence, and join once more
    expect([...new Set(joined)]).toEqual([me]);
    for (const { child } of [stays, again]) child.kill('SIGINT');
    expect(await again.exit).toBe(130);
  });
});
