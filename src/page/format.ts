/** Formats keys, hashes, scores and times for the page. */

export const shortHash = (hash: string): string => hash.slice(0, 12);

export const score = (value: number | undefined): string =>
  value === undefined ? '-' : (value / 1e6).toFixed(4);

export function ago(seconds: number, now = Date.now() / 1000): string {
  if (seconds <= 0) return 'never';
  const elapsed = Math.max(0, Math.round(now - seconds));
  if (elapsed < 60) return `${elapsed} s ago`;
  if (elapsed < 3600) return `${Math.round(elapsed / 60)} min ago`;
  if (elapsed < 86_400) return `${Math.round(elapsed / 3600)} h ago`;
  return `${Math.round(elapsed / 86_400)} days ago`;
}

export const clock = (seconds: number): string =>
  seconds <= 0 ? '-' : new Date(1000 * seconds).toISOString().replace('T', ' ').slice(0, 19);
