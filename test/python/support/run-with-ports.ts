/** Runs one command with the clock and sockets of a test and returns its stdout. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { CommandPorts } from '../../../src/python/commands/flags.ts';
import { createFakeSockets, type FakeSocket } from '../../support/fake-sockets.ts';
import { createManualClock, type ManualClock } from '../../support/manual-clock.ts';

export interface Bench {
  readonly clock: ManualClock;
  readonly attempts: readonly FakeSocket[];
  /** Milliseconds from the start at which each connection was tried. */
  readonly triedAtMs: readonly number[];
  /** Starts the command, which proceeds as the clock advances. */
  run(create: (ports: CommandPorts) => Command, ...argv: readonly string[]): Promise<string>;
  /** Moves the clock until the command ends, at most this long. */
  finish(running: Promise<string>, mostMs: number, stepMs?: number): Promise<string>;
}

/** `onAttempt` acts as the relay. Results go to a file in `folder`. */
export function createBench(
  folder: string,
  onAttempt: (socket: FakeSocket, index: number) => void,
): Bench {
  const clock = createManualClock();
  const startMs = clock.now();
  const triedAtMs: number[] = [];
  const sockets = createFakeSockets((socket, index) => {
    triedAtMs.push(clock.now() - startMs);
    onAttempt(socket, index);
  });
  let runs = 0;
  return {
    clock,
    attempts: sockets.attempts,
    triedAtMs,
    async run(create, ...argv) {
      const output = join(folder, `printed-${++runs}`);
      const command = create({ clock, openSocket: sockets.openSocket }).exitOverride();
      await command.parseAsync([...argv, '-o', output], { from: 'user' });
      return readFile(output, 'utf8');
    },
    async finish(running, mostMs, stepMs = 50) {
      let isOver = false;
      const over = () => {
        isOver = true;
      };
      running.then(over, over);
      // files and WebAssembly are read in real time
      while (sockets.attempts.length === 0 && !isOver) await new Promise((r) => setImmediate(r));
      for (let ms = 0; ms < mostMs && !isOver; ms += stepMs) await clock.advance(stepMs);
      while (!isOver && sockets.attempts.length > 0 && clock.pending === 0) {
        await new Promise((r) => setImmediate(r));
      }
      return running;
    },
  };
}
