/** Returns pseudorandom bytes, which do not compress; the same seed gives the same bytes. */
export const drawnBytes = (length: number, seed = 1): Uint8Array => {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  });
};
