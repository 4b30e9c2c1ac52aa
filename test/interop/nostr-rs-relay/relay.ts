/** nostr-rs-relay, on SQLite, with its own defaults. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defineThirdParty } from '../third-party.ts';

export const nostrRsRelay = defineThirdParty({
  name: 'nostr-rs-relay',
  version: '0.8.12',
  language: 'Rust',
  program: 'bin/nostr-rs-relay',
  command: async (program, port, folder) => {
    const file = join(folder, 'config.toml');
    await writeFile(
      file,
      `[info]\nrelay_url = "ws://127.0.0.1:${port}/"\n[network]\naddress = "127.0.0.1"\nport = ${port}\n[options]\nreject_future_seconds = 1800\n`,
    );
    return [program, '--config', file, '--db', folder];
  },
  behavior: {
    contentBytes: 131_000,
    oversize: ['NOTICE', 'message too large (262355 > 262144)'],
    forged: ['OK false', 'OK true'],
    unsigned: 'NOTICE',
    badFilter: 'EOSE',
    notJson: 'NOTICE',
    tagFilters: 5,
    tagValues: 1024,
    subscriptions: [32, 32],
    results: [520, 520],
    answersFromMemory: false,
    expired: 'refused',
    secondsAhead: 1500,
    sameSecond: 'first',
    lateVersion: ['OK true', 'not served'],
    ephemeral: ['silence', 'not kept'],
    deletion: 'deletes for good',
    protectedEvent: 'taken',
    challenges: false,
    counts: false,
    syncs: false,
    information: 'with limits',
  },
});
