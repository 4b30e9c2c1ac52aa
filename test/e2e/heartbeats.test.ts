/** N-20 with the real engine: a worker in its inner steps is heard, and once it is killed it is found missing in time. */

import { systemClock } from 'nostrain/base';
import { heartbeat } from 'nostrain/kinds';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { expect, it, onTestFinished } from 'vitest';
import { runCommand } from '../support/command-line.ts';
import { startProgram, temporaryFolder } from '../support/processes.ts';

const INTERVAL = 2;
const MISSED = 2;

/** Heartbeats as they arrive, and when. */
async function listen(url: string): Promise<{ event: SignedEvent; at: number }[]> {
  const beats: { event: SignedEvent; at: number }[] = [];
  const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
  onTestFinished(() => relays.close());
  await relays.ready();
  relays.subscribe([{ kinds: [heartbeat.kind] }], {
    onEvent: (event) => beats.push({ event, at: Date.now() / 1000 }),
  });
  return beats;
}

it('N-20: beats while onnxruntime trains; killed, it is stale after its interval times the most that may be missed', async () => {
  const relay = await createRelay();
  onTestFinished(() => relay.close());
  const beats = await listen(relay.url);
  // far more steps than the test waits for
  const program = startProgram([
    ...['run-training', '--set', 'profile=nostrain/0', '--model', 'mlp', '--run', 'beating'],
    ...['--relay', relay.url, '--sync', 'strict:1', '--rounds', '1', '--inner-steps', '5000000'],
    ...['--heartbeat-interval', `${INTERVAL}`, '--report', 'ndjson', '--dir', temporaryFolder()],
  ]);
  onTestFinished(() => void program.child.kill('SIGKILL'));
  await program.event(({ type }) => type === 'progress');
  const from = beats.length;
  await expect.poll(() => beats.length, { timeout: 40_000, interval: 50 }).toBe(from + 4);
  expect(program.events.filter(({ type }) => type === 'round')).toEqual([]);
  const ats = beats.slice(from).map(({ event }) => event.created_at);
  // dated in whole seconds
  const gaps = ats.slice(1).map((at, i) => at - ats[i]!);
  // never sooner; how much later says how busy the machine is
  for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(INTERVAL - 1);

  program.child.kill('SIGKILL');
  await program.exit;
  const last = beats.at(-1)!.event.created_at;
  const isStale = async () => {
    const flags = ['--run', 'beating', '--relay', relay.url, '--idle-timeout', '0.1', '--json'];
    const most = ['--max-missed-heartbeats', `${MISSED}`];
    const { stdout } = await runCommand('discover-workers', ...flags, ...most);
    const { workers } = JSON.parse(stdout);
    return workers.length === 0;
  };
  for (;;) {
    const [begun, stale, ended] = [
      Date.now() / 1000 - last,
      await isStale(),
      Date.now() / 1000 - last,
    ];
    if (ended < INTERVAL * MISSED - 1) expect(stale).toBe(false);
    if (begun > INTERVAL * MISSED + 1) expect(stale).toBe(true);
    if (stale) break;
  }
}, 120_000);
