/** A run without a spec says what strangers can do, unless they are kept out. */
import { describe, expect, it } from 'vitest';
import { strangersWarning } from '../../../src/cli/commands/run-training.ts';
import { runCommand } from '../../support/command-line.ts';
import { signerOf } from '../../support/signers.ts';

const PUBLIC = 'wss://relay.example.org';
const peers = [signerOf(1).publicKey];

describe('run-training without --peers', () => {
  it.each([
    [PUBLIC],
    ['ws://10.0.0.2:7777'],
    ['ws://0.0.0.0:7777'],
    ['ws://127.example.org'],
    ['ws://localhost.example.org'],
    ['ws://[fe80::1]:7777'],
  ])('warns over %s', (relay) => {
    const warning = strangersWarning({ peers: [], relay: ['ws://127.0.0.1:7777', relay] });
    expect(warning).toMatch(/^warning: anyone .* --peers npub1…,npub1…$/);
    expect(strangersWarning({ peers, relay: [relay] })).toBeUndefined();
  });

  it.each([['ws://127.0.0.1:7777'], ['ws://localhost:7777'], ['ws://[::1]:7777']])(
    'says nothing over %s',
    (relay) => {
      expect(strangersWarning({ peers: [], relay: [relay] })).toBeUndefined();
    },
  );

  it('prints it before it connects', async () => {
    // the error that follows keeps this test from the network
    const line = [
      'run-training',
      '--model',
      'linear',
      '--run',
      'r',
      '--relay',
      PUBLIC,
      ...['--sync', 'strict:2', '--start', '/nowhere'],
    ];
    const alone = await runCommand(...line);
    expect(alone.stderr).toMatch(/warning: anyone who knows the relay.*\n.*error \(/s);
    expect((await runCommand(...line, '--peers', peers[0]!)).stderr).not.toContain('warning');
  });
});
