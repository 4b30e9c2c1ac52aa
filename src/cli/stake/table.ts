/** A stake snapshot as a person looks at it: who has which share, drawn. */
import { npubEncode } from 'nostr-tools/nip19';
import { safeLine } from '../../base/safe-text.ts';
import { type StakeSnapshot, snapshotId, totalStake } from '../../run/stake-snapshot.ts';
import { bar } from '../../terminal/render/bars.ts';
import { alignColumns } from '../../terminal/render/columns.ts';
import { formatCount } from '../../terminal/render/numbers.ts';

const BAR = 24;

/** At most `most` rows, the largest stakes first. */
export function formatStakes(snapshot: StakeSnapshot, width: number, most: number): string {
  const { chain, strategy, params, height, blockHash, unit, rows } = snapshot;
  const total = totalStake(snapshot);
  const largest = rows.toSorted((a, b) =>
    a.stake === b.stake ? (a.key < b.key ? -1 : 1) : a.stake > b.stake ? -1 : 1,
  );
  const shown = largest.slice(0, most);
  const lines = shown.map(({ key, stake }) => {
    const share = Number((stake * 1_000_000n) / total) / 1_000_000;
    return [npubEncode(key), grouped(stake), `${(100 * share).toFixed(2)} %`, bar(share, BAR)];
  });
  const left = largest.length - shown.length;
  return `${[
    `snapshot ${snapshotId(snapshot)}`,
    `${strategy} on ${chain}, block ${height} ${blockHash.slice(0, 16)}…, ${safeLine(params)}`,
    `${formatCount(rows.length)} keys, ${grouped(total)} ${unit} in all`,
    ...(lines.length === 0
      ? []
      : ['', ...alignColumns([['key', unit, 'share', ''], ...lines], width)]),
    ...(left > 0 ? [`… and ${formatCount(left)} with less`] : []),
  ].join('\n')}\n`;
}

const grouped = (value: bigint): string => value.toString().replace(/\B(?=(?:\d{3})+$)/g, ',');
