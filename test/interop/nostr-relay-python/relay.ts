/** nostr-relay from PyPI, on SQLite, with room for events of 64 KiB: out of the box it takes 4096 characters. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defineThirdParty } from '../third-party.ts';

const configuration = (port: number, folder: string) => `
storage:
  sqlalchemy.url: sqlite+aiosqlite:///${join(folder, 'nostr.sqlite3')}
  validators:
    - nostr_relay.validators.is_not_too_large
    - nostr_relay.validators.is_signed
    - nostr_relay.validators.is_recent
    - nostr_relay.validators.is_not_hellthread
max_event_size: 65536
gunicorn:
  bind: 127.0.0.1:${port}
  workers: 1
  loglevel: warning
`;

export const nostrRelayPython = defineThirdParty({
  name: 'nostr-relay-python',
  version: '1.14',
  language: 'Python',
  program: 'bin/nostr-relay',
  command: async (program, port, folder) => {
    const file = join(folder, 'config.yaml');
    await writeFile(file, configuration(port, folder));
    return [program, '-c', file, 'serve'];
  },
  behavior: {
    contentBytes: 65_000,
    oversize: ['OK without the id', 'invalid: 280 characters should be enough for anybody'],
    forged: ['OK without the id', 'OK true'],
    unsigned: 'OK without the id',
    badFilter: 'EOSE',
    notJson: 'silence',
    tagFilters: 5,
    tagValues: 1024,
    subscriptions: [32, 32],
    results: [520, 520],
    answersFromMemory: false,
    expired: 'served',
    secondsAhead: 3000,
    sameSecond: 'both',
    lateVersion: ['OK true', 'served too'],
    ephemeral: ['OK true', 'kept'],
    deletion: 'deletes, may come back',
    protectedEvent: 'taken',
    challenges: false,
    counts: false,
    syncs: false,
    information: 'without limits',
  },
});
