/**
 * Splits flat vectors for several threads: evenly, but never inside a range that must stay whole. The split depends on sizes
 * only, never on the number of threads, so the results are bit-identical for any thread count.
 */

/** The elements `from` to `to - 1` of a flat vector. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** At most `count` ranges that cover `size` elements; a border inside a stretch of `whole` moves to its nearer end. */
export function cutRanges(size: number, count: number, whole: readonly Range[]): readonly Range[] {
  const borders = Array.from({ length: count + 1 }, (_, i) => {
    const at = Math.floor((size * i) / count);
    const inside = whole.find(({ from, to }) => from < at && at < to);
    if (!inside) return at;
    return at - inside.from < inside.to - at ? inside.from : inside.to;
  });
  const apart = [...new Set(borders)];
  return apart.slice(1).map((to, i) => ({ from: apart[i]!, to }));
}
