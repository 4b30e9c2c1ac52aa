/** Chunks of checkpoints that members hold on their disks for each other, and fetch from those that are running. */
import { concatBytes, sha256Hex, utf8 } from 'nostrain/base';
import type { CheckpointChunks } from 'nostrain/certified/parts';
import { manifestDigest } from 'nostrain/network';
import type { Digest, WorkerId } from 'nostrain/run';
import type { PackedBytes } from '../../src/certified/wire/checkpoints.ts';

/** Members that hold each chunk. */
export const REPLICAS = 2;

/** What one member holds, by digest of the manifest. */
export type Held = ReadonlyMap<Digest, PackedBytes>;

interface Holding {
  readonly me: WorkerId;
  load(): Held;
  save(held: Held): void;
  /** Returns what running members hold. */
  others(): readonly Held[];
}

const isHolder = (me: WorkerId, chunk: Digest, members: readonly WorkerId[]): boolean => {
  const rank = (key: WorkerId) => sha256Hex(utf8(`${chunk}${key}`));
  return members.filter((key) => rank(key) < rank(me)).length < REPLICAS;
};

export const holdersOf = ({ me, load, save, others }: Holding): CheckpointChunks => ({
  store: async () => undefined,
  async fetch({ digest }) {
    const found = others().flatMap((held) => held.get(digest) ?? []);
    const [first] = found;
    if (!first) throw new Error('no running member holds it');
    const parts = first.manifest.chunks.map(({ sha256 }) => {
      const chunk = found.find(({ chunks }) => chunks.has(sha256))?.chunks.get(sha256);
      if (!chunk) throw new Error(`no running member holds chunk ${sha256}`);
      return chunk;
    });
    return concatBytes(...parts);
  },
  holder: {
    announce: () => undefined,
    async hold({ manifest, chunks }, members) {
      const mine = [...chunks].filter(([id]) => isHolder(me, id, members));
      if (mine.length === 0) return;
      save(new Map(load()).set(manifestDigest(manifest), { manifest, chunks: new Map(mine) }));
    },
  },
});
