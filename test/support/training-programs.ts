/** Runs `nostrain run-training` as processes over relays that the test opens; all of them end with the test. */

import { systemClock, toHex } from 'nostrain/base';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { afterEach } from 'vitest';
import { type Program, startProgram } from './processes.ts';
import { secretOf } from './swarm.ts';

/** Call it where tests are declared. */
export function trainingPrograms() {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  return {
    /** Opens a relay; returns its address. */
    async relay(options?: RelayOptions): Promise<string> {
      const { url, close } = await createRelay(options);
      closing.push(close);
      return url;
    },
    start(args: readonly string[], home?: string): Program {
      const program = startProgram(args, home);
      closing.push(() => program.child.kill('SIGKILL'));
      return program;
    },
  };
}

/** The command line of worker `index` of two, with a key of its own that never changes. */
export const workerArgs = (
  index: number,
  url: string,
  dir: string,
  more: readonly string[] = [],
): readonly string[] => [
  ...['run-training', '--model', 'linear', '--run', 'pair', '--relay', url, '--dir', dir],
  ...['--sec-key', toHex(secretOf(index)), '--shard', `${index + 1}/2`, '--sync', 'strict:2'],
  ...['--rounds', '6', '--inner-steps', '40', '--report', 'ndjson', ...more],
];

/** Returns all events of one kind that the relay stores. */
export async function storedEvents(url: string, kind: number): Promise<SignedEvent[]> {
  const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
  const events: SignedEvent[] = [];
  await relays.ready();
  await new Promise<void>((resolve) => {
    relays.subscribe([{ kinds: [kind] }], {
      onEvent: (event) => events.push(event),
      onCaughtUp: () => resolve(),
    });
  });
  await relays.close();
  return events;
}

/** Returns the digest of the model with which a worker ended. */
export async function finalDigest(program: Program): Promise<string> {
  const done = await program.event(({ type }) => type === 'done');
  return done.type === 'done' ? done.digest : '';
}
