/** The `@nostr-relay/*` packages from npm, on SQLite in memory, with their own defaults but one. */
import { defineThirdParty } from '../third-party.ts';

export const nostrRelayJs = defineThirdParty({
  name: 'nostr-relay-js',
  version: '0.0.40',
  language: 'TypeScript',
  program: 'main.mjs',
  command: async (program, port) => [process.execPath, program, `${port}`, '0'],
  behavior: {
    contentBytes: 102_000,
    oversize: ['NOTICE', 'invalid: must be less than or equal to 102400 chars at "[1].content"'],
    forged: ['OK false', 'OK false'],
    unsigned: 'NOTICE',
    badFilter: 'NOTICE',
    notJson: 'NOTICE',
    tagFilters: 2,
    tagValues: 256,
    subscriptions: [64, 20],
    results: [100, 520],
    answersFromMemory: false,
    expired: 'refused',
    secondsAhead: 31_536_000,
    sameSecond: 'lowest id',
    lateVersion: ['OK true', 'not served'],
    ephemeral: ['OK true', 'not kept'],
    deletion: 'deletes for good',
    protectedEvent: 'taken',
    challenges: true,
    counts: false,
    syncs: false,
    information: 'none',
  },
});
