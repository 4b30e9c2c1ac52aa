/** How the third-party relays differ, as the table in `docs/results/other-relays.md`. */
import { type Behavior, MAX_CONTENT } from '../contract/behavior.ts';
import type { ThirdParty } from './third-party.ts';

const yes = (is: boolean): string => (is ? 'yes' : 'no');
const size = (bytes: number): string =>
  `${bytes >= MAX_CONTENT ? 'at least ' : ''}${Math.round(bytes / 1000)} kB`;
const STORED = 520;
const results = (count: number): string => (count < STORED ? `${count}` : `all ${STORED}`);

const rows: readonly (readonly [string, (behavior: Behavior) => string])[] = [
  ['largest content taken, of those tried', ({ contentBytes }) => size(contentBytes)],
  [
    'answer to a larger one',
    ({ oversize }) => oversize?.filter(Boolean).join(': ') ?? 'none refused',
  ],
  ['answer to a wrong signature', ({ forged }) => forged[0]],
  ['then to the genuine event', ({ forged }) => forged[1]],
  ['answer to an event without signature', ({ unsigned }) => unsigned],
  ['answer to a wrong filter', ({ badFilter }) => badFilter],
  ['answer to what is not JSON', ({ notJson }) => notJson],
  ['tag filters in one filter (5 tried)', ({ tagFilters }) => `${tagFilters}`],
  ['values in one list (1, 20, 64, 256, 1024 tried)', ({ tagValues }) => `${tagValues}`],
  ['of 64 subscriptions answered, served live', ({ subscriptions }) => subscriptions.join(', ')],
  [`of ${STORED} events sent without a limit, with 5000`, (b) => b.results.map(results).join(', ')],
  ['event that has expired', ({ expired }) => expired],
  [
    'furthest date ahead (1, 10, 25, 50 minutes, a year tried)',
    ({ secondsAhead }) => (secondsAhead > 3000 ? 'a year' : `${secondsAhead / 60} minutes`),
  ],
  ['two versions of an address, same second', ({ sameSecond }) => sameSecond],
  ['older version after the newer', ({ lateVersion }) => lateVersion.join(', ')],
  ['ephemeral event nobody listens to', ({ ephemeral }) => ephemeral.join(', ')],
  ['deletion (kind 5) by its author', ({ deletion }) => deletion],
  ['event with a `-` tag (NIP-70)', ({ protectedEvent }) => protectedEvent],
  ['challenges who connects (NIP-42)', ({ challenges }) => yes(challenges)],
  ['COUNT (NIP-45), NEG-OPEN (NIP-77)', ({ counts, syncs }) => `${yes(counts)}, ${yes(syncs)}`],
  ['NIP-11 document', ({ information }) => information],
];

export function renderTable(relays: readonly ThirdParty[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [
    line(['', ...relays.map(({ name, version }) => `${name} ${version}`)]),
    line(['---', ...relays.map(() => '---')]),
    ...rows.map(([title, cell]) => line([title, ...relays.map(({ behavior }) => cell(behavior))])),
  ].join('\n');
}
