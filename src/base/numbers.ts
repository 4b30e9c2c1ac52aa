/** Formats numbers for people. Never depends on the locale, so that lines can be compared. */

/** Formats a loss; `-` if undefined, for example in a round that the worker only followed. */
export function formatLoss(loss: number | undefined): string {
  if (loss === undefined || Number.isNaN(loss)) return '-';
  const isPlain = Math.abs(loss) < 1e6 && (loss === 0 || Math.abs(loss) >= 1e-3);
  return isPlain ? loss.toFixed(4) : loss.toExponential(2);
}

/** Formats a share from 0 to 1 as `97.3 %`; `-` if undefined. */
export const formatShare = (share: number | undefined): string =>
  share === undefined ? '-' : `${(100 * share).toFixed(1)} %`;

/** Groups thousands: `834,048`. */
export const formatCount = (count: number): string =>
  Math.round(count)
    .toString()
    .replace(/\B(?=(?:\d{3})+$)/g, ',');

/** Formats thousands as kB, millions as MB. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(2)} MB`;
}

/** Formats a rate: `950`, `19.3k`, `1.20M`. */
export function formatRate(perSecond: number): string {
  if (perSecond < 1000) return perSecond.toFixed(0);
  return perSecond < 1e6 ? `${(perSecond / 1e3).toFixed(1)}k` : `${(perSecond / 1e6).toFixed(2)}M`;
}

export const formatSeconds = (seconds: number): string =>
  seconds < 100
    ? `${seconds.toFixed(1)} s`
    : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;

/** Formats a count with its noun: `1 worker`, `2 workers`. */
export const plural = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;
