/** khatru, the Go framework behind `nak serve` and many public relays, as it is without any policy. */
import { defineThirdParty } from '../third-party.ts';

export const khatru = defineThirdParty({
  name: 'khatru',
  version: '0.19.1',
  language: 'Go',
  program: 'khatru',
  command: async (program, port) => [program, `127.0.0.1:${port}`],
  behavior: {
    contentBytes: 262_000,
    oversize: ['hangs up', ''],
    forged: ['OK false', 'OK true'],
    unsigned: 'OK false',
    badFilter: 'NOTICE',
    notJson: 'NOTICE',
    tagFilters: 5,
    tagValues: 1024,
    subscriptions: [64, 64],
    results: [500, 500],
    answersFromMemory: false,
    expired: 'served',
    secondsAhead: 31_536_000,
    sameSecond: 'lowest id',
    lateVersion: ['OK true', 'not served'],
    ephemeral: ['OK false', 'not kept'],
    deletion: 'deletes, may come back',
    protectedEvent: 'refused',
    challenges: false,
    counts: true,
    syncs: false,
    information: 'without limits',
  },
});
