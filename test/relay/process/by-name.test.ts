import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { expect, test } from 'vitest';
import { openReader } from '../../support/raw-reader.ts';
import { eventOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const at = temporaryFolder();

test('a stranger imports the relay by name and sets all of it', async () => {
  const options: Required<Omit<RelayOptions, 'policies'>> = {
    host: '127.0.0.1',
    port: 0,
    name: 'theirs',
    maxEventBytes: 4096,
    limits: { maxSubscriptions: 3 },
    strict: 'strfry',
    auth: 'write',
    minPow: 1,
    publicUrl: 'wss://relay.example',
    store: at('store'),
    faults: { delay: { shape: 'normal', meanMs: 1, deviationMs: 1 } },
    seed: 7,
    nowMs: () => 1_700_000_000_000,
    setTimer: () => () => undefined,
  };
  const relay = await createRelay(options);
  const reader = await openReader(relay.url);
  const reply = await reader.publish(eventOf('no key has proved itself'));
  expect(reply.slice(2)).toEqual([false, 'auth-required: publishing here needs AUTH']);
  const headers = { Accept: 'application/nostr+json' };
  const response = await fetch(relay.url.replace('ws', 'http'), { headers });
  expect(await response.json()).toMatchObject({
    name: 'theirs',
    limitation: { max_subscriptions: 3, auth_required: true },
  });
  await reader.close();
  await relay.close();
});

test('the name works in a plain Node program too', () => {
  const program = `
    import { createRelay } from 'nostrain/relay';
    const relay = await createRelay();
    console.log(relay.url);
    await relay.close();`;
  const flags = ['--import', 'tsx', '--conditions=nostrain:source', '--input-type=module'];
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const printed = execFileSync(process.execPath, [...flags, '--eval', program], { cwd: root });
  expect(String(printed)).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\n$/);
});
