/** Stake sources without a chain: a snapshot document from a file or an event. Only its id is verified. */
import { ChainError, ConfigError } from '../base/errors.ts';
import type { Result } from '../base/result.ts';
import type { Digest } from '../run/ids.ts';
import { parseStakeJson } from '../run/stake-json.ts';
import { type StakeSnapshot, snapshotId } from '../run/stake-snapshot.ts';
import type { StakeSource } from '../run/stake-source.ts';

/** A JSON document under a name; with an id, none but that one. Throws `stake/file` for what is no snapshot. */
export function createFileSource(name: string, text: string, id?: Digest): StakeSource {
  const parsed = parseStakeJson(text);
  if (!parsed.ok) {
    throw new ConfigError('stake/file', `${name} is no stake snapshot: ${parsed.issue.message}`, {
      hint: 'nostrain stake snapshot makes one',
    });
  }
  const found = snapshotId(parsed.value);
  if (id !== undefined && found !== id) {
    throw new ConfigError('stake/other', `${name} is snapshot ${found}, not ${id}`);
  }
  return fixedSource(`file ${name}`, async () => parsed.value);
}

/** Looks for a snapshot among the events of relays; whoever has relays brings this. */
export type FindSnapshot = (id: Digest, signal: AbortSignal) => Promise<Result<StakeSnapshot>>;

/** The snapshot of an id from whatever events carry it. */
export const createEventSource = (id: Digest, find: FindSnapshot): StakeSource =>
  fixedSource(`event of snapshot ${id}`, async (signal) => {
    const found = await find(id, signal);
    if (found.ok) return found.value;
    throw new ChainError(
      'chain/no-event',
      `no event carries snapshot ${id}: ${found.issue.message}`,
      { hint: 'ask other relays, or whoever made the run for the file' },
    );
  });

const fixedSource = (
  name: string,
  read: (signal: AbortSignal) => Promise<StakeSnapshot>,
): StakeSource => ({
  name,
  snapshot(epoch, signal) {
    if (epoch === 0) return read(signal);
    throw new ChainError('chain/epoch', `${name} has no epoch ${epoch}: only a chain goes on`);
  },
});
