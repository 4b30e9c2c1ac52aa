/** A round's state as text for the disk, and back. The text is this worker's own; nobody else's is read. */
import type { RoundState } from './round-state.ts';

/** Stakes are the one thing in a state that JSON has no number for. */
export const saveRound = (state: RoundState): string =>
  JSON.stringify(state, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));

export const loadRound = (text: string): RoundState =>
  JSON.parse(text, (key, value: unknown) =>
    key === 'weights' && Array.isArray(value) ? value.map(BigInt) : value,
  );
