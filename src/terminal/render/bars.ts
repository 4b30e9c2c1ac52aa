/** Progress bars and sparklines out of block characters. */

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const LEVELS = '▁▂▃▄▅▆▇█';

/** `width` characters, the filled part to an eighth of one. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const filled = '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8];
  return filled + '░'.repeat(width - filled.length);
}

/** At most `width` characters, from the lowest to the highest value; values that are not finite leave a gap. */
export function sparkline(values: readonly number[], width: number): string {
  const columns = resample(values, width);
  const finite = columns.filter(Number.isFinite);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low;
  return columns
    .map((value) => {
      if (!Number.isFinite(value)) return ' ';
      const level = span > 0 ? Math.round(((value - low) / span) * (LEVELS.length - 1)) : 0;
      return LEVELS[level];
    })
    .join('');
}

/** Means of equal stretches, where there are more values than columns. */
function resample(values: readonly number[], width: number): readonly number[] {
  if (values.length <= width) return values;
  return Array.from({ length: width }, (_, i) => {
    const part = values.slice(
      Math.floor((i * values.length) / width),
      Math.floor(((i + 1) * values.length) / width),
    );
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
}
