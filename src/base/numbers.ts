/** Numbers as people read them. Never locale-dependent, so that lines can be compared. */

/** `-` if there is none, as of a round that a worker only followed. */
export function formatLoss(loss: number | undefined): string {
  if (loss === undefined || Number.isNaN(loss)) return '-';
  const isPlain = Math.abs(loss) < 1e6 && (loss === 0 || Math.abs(loss) >= 1e-3);
  return isPlain ? loss.toFixed(4) : loss.toExponential(2);
}

/** `97.3 %`, of a share from 0 to 1; `-` where there is none. */
export const formatShare = (share: number | undefined): string =>
  share === undefined ? '-' : `${(100 * share).toFixed(1)} %`;

/** 834,048 */
export const formatCount = (count: number): string =>
  Math.round(count)
    .toString()
    .replace(/\B(?=(?:\d{3})+$)/g, ',');

/** Thousands as kB, millions as MB. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(2)} MB`;
}

/** 950, 19.3k, 1.20M */
export function formatRate(perSecond: number): string {
  if (perSecond < 1000) return perSecond.toFixed(0);
  return perSecond < 1e6 ? `${(perSecond / 1e3).toFixed(1)}k` : `${(perSecond / 1e6).toFixed(2)}M`;
}

export const formatSeconds = (seconds: number): string =>
  seconds < 100
    ? `${seconds.toFixed(1)} s`
    : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
