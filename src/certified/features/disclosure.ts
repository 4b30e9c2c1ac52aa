/**
 * The author's side of reruns: encodes private state, commits to it in the manifest, and discloses it on the run's
 * rerun relays when the contribution is drawn for a check.
 */
import { ConfigError } from '../../base/errors.ts';
import { type ChunkRelays, sendChunks } from '../../network/attachments/publish.ts';
import { chunkTree, type PayloadRoot } from '../../network/chunks/payload.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { readManifest } from '../../network/wire/manifests.ts';
import { isDrawn } from '../../run/committee.ts';
import { formatShard, type Shard } from '../../run/field.ts';
import type { Digest } from '../../run/ids.ts';
import { type FeatureSet, type FeatureValues, featureSet } from '../../run/spec/features.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import type { Origin } from '../../worker/ports.ts';
import { idOf } from '../../worker/state.ts';
import type { PrivateState } from '../../worker/strategy.ts';
import type { ReadyRound } from '../decisions/chain.ts';
import type { CertifiedState } from '../state.ts';
import type { CertifiedFeature, FeatureHost, MemberFeature, PrivateStore } from './feature.ts';

/** Maximum vectors of an inner optimizer's state, including its step count. */
const MOST_VECTORS = 8;

/**
 * Encodes private state: the number of moment vectors and their lengths (u32, little-endian), the delta in f64, then
 * the moments in f32.
 */
export function encodePrivate({ delta, moments }: PrivateState): Uint8Array {
  const head = 4 * (1 + moments.length);
  const size = moments.reduce((sum, { byteLength }) => sum + byteLength, head + delta.byteLength);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, moments.length, true);
  for (const [i, { length }] of moments.entries()) view.setUint32(4 * (i + 1), length, true);
  let at = head;
  for (const part of [delta, ...moments]) {
    bytes.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), at);
    at += part.byteLength;
  }
  return bytes;
}

/**
 * Decodes the private state of a model with `size` parameters; undefined if the bytes are malformed or have non-finite
 * values.
 */
export function readPrivate(bytes: Uint8Array, size: number): PrivateState | undefined {
  if (bytes.length < 4) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = view.getUint32(0, true);
  const head = 4 * (1 + count);
  if (count > MOST_VECTORS || bytes.length < head) return undefined;
  const lengths = Array.from({ length: count }, (_, i) => view.getUint32(4 * (i + 1), true));
  const whole = lengths.reduce((sum, length) => sum + 4 * length, head + 8 * size);
  if (bytes.length !== whole || lengths.some((length) => length > size)) return undefined;
  let at = head;
  const take = (length: number) => {
    at += length;
    return bytes.slice(at - length, at).buffer;
  };
  const delta = new Float64Array(take(8 * size));
  const moments = lengths.map((length) => new Float32Array(take(4 * length)));
  const isWhole = [delta, ...moments].every((part) => part.every(Number.isFinite));
  return isWhole ? { delta, moments } : undefined;
}

export const mostPrivateBytes = (size: number): number =>
  4 * (1 + MOST_VECTORS) + 8 * size + 4 * MOST_VECTORS * size;

/** Returns the Merkle root and length under which the bytes are fetched. */
export function rootOf(bytes: Uint8Array, hash?: Sha256): PayloadRoot {
  const { root, bytes: length } = chunkTree(bytes, hash);
  return { root, bytes: length };
}

/** What a manifest commits to: root and length of the private state, data shard, and engine build. */
export type Commitment = NonNullable<FeatureValues<'manifest'>['rerun']>;

/** Returns the commitment to these bytes, with the origin of the trainer. */
const commitmentTo = (bytes: Uint8Array, { shard, build }: Origin, hash?: Sha256): Commitment => ({
  ...rootOf(bytes, hash),
  shard,
  build,
});

/** Origin of a trainer that reports none: no other machine is expected to reproduce its bits. */
export const unknownOrigin = (shard: Shard): Origin => ({
  shard: formatShard(shard),
  build: 'unknown',
});

/**
 * Number of private states to keep: a check needs that of a contribution and of the one before it, the others are for
 * rounds in progress.
 */
export const KEPT_STATES = 4;

export function memoryStates(): PrivateStore {
  const states = new Map<Digest, Uint8Array>();
  return {
    async save(root, bytes) {
      states.delete(root);
      states.set(root, bytes);
      for (const old of [...states.keys()].slice(0, -KEPT_STATES)) states.delete(old);
    },
    load: async (root) => states.get(root),
  };
}

/** Lifetime of disclosed chunks on relays, in seconds. */
const DISCLOSURE_SECONDS = 7 * 86_400;

type DisclosureOptions = FeatureHost & NonNullable<FeatureHost['disclosure']>;

class DisclosureMember implements MemberFeature {
  readonly #options: DisclosureOptions;
  readonly #run: Digest;
  readonly #features: FeatureSet;
  /** Roots disclosed for the last drawn contribution. */
  #disclosed: readonly Digest[] = [];

  /** Throws a ConfigError (`run/rerun-relays`) if no relay in use is one of the spec's rerun relays. */
  constructor(options: DisclosureOptions) {
    const { spec, relays } = options;
    const named = namedOf(spec, relays.relays);
    if (named.length === 0) {
      throw new ConfigError(
        'run/rerun-relays',
        `this run discloses private state on ${spec.rerun.relays.join(', ')}, ` +
          'but no relay in use is one of these',
        { hint: 'add one: --relay URL' },
      );
    }
    this.#options = { ...options, relays: narrowModel(relays, named) };
    this.#run = runIdOf(spec);
    this.#features = featureSet(spec.features);
  }

  /** Saves the state and returns what the manifest says about it. */
  async commit(state: PrivateState): Promise<FeatureValues<'manifest'>> {
    const { store, origin, sha256 } = this.#options;
    const bytes = encodePrivate(state);
    const rerun = commitmentTo(bytes, origin, sha256);
    await store.save(rerun.root, bytes);
    return { rerun };
  }

  begin({ state: { ledger } }: ReadyRound, before: CertifiedState): void {
    void this.#disclose(before, ledger.entropy);
  }

  ended(state: CertifiedState): Promise<void> {
    return this.#disclose(state, state.head.ledger.entropy);
  }

  /** Discloses the state if the last round's contribution was drawn. Resolves when relays answered; never rejects. */
  async #disclose(state: CertifiedState, entropy: string | null): Promise<void> {
    const { spec, me, store, reporter, signal } = this.#options;
    const last = state.rounds.at(-1);
    if (last === undefined || entropy === null || last.index !== state.round - 1) return;
    if (!last.accepted.includes(me)) return;
    const drawn = { run: this.#run, round: last.index, worker: me, entropy };
    if (!isDrawn(drawn, spec.rerun.permille)) return;
    try {
      const wanted = this.#wanted(state, last.index).map(({ root }) => root);
      const fresh = wanted.filter((root) => !this.#disclosed.includes(root));
      this.#disclosed = wanted;
      for (const root of fresh) {
        const bytes = await store.load(root);
        if (bytes === undefined) throw new Error(`the state ${root.slice(0, 8)} is not stored`);
        await this.#send(bytes);
      }
      reporter.disclosed(last.index);
    } catch (error) {
      if (!signal.aborted) reporter.disclosed(last.index, String(error));
    }
  }

  /** Returns the commitments of the contribution to a round and of the one before it. */
  #wanted({ contributed = [] }: CertifiedState, round: number): readonly Commitment[] {
    const manifests = contributed.map(({ sent }) => {
      const read = readManifest(sent.event, this.#options.sha256, this.#features);
      return { id: idOf(sent), manifest: read.ok ? read.value : undefined };
    });
    const now = manifests.find(({ manifest }) => manifest?.round === round)?.manifest;
    const before = manifests.find(({ id }) => id === now?.prev)?.manifest;
    return [before, now].flatMap((manifest) => manifest?.features?.rerun ?? []);
  }

  async #send(bytes: Uint8Array): Promise<void> {
    const { relays, sign, sha256, clock, signal } = this.#options;
    const createdAt = Math.floor(clock.now() / 1000);
    const lifetime = { createdAt, expiresAt: createdAt + DISCLOSURE_SECONDS };
    const how = { relays, sign, sha256, lifetime, signal, isPatient: true };
    const { enough, deliveries } = sendChunks([bytes], 1, how);
    if (await enough) return;
    const answers = await Promise.all(deliveries);
    throw new Error(answers.map(({ relay, message }) => `${relay} ${message}`).join('; '));
  }
}

/** Returns the relays in use that the spec lists for reruns. */
function namedOf({ rerun }: RunSpec, relays: readonly string[]): readonly string[] {
  const named = new Set(rerun.relays.map(plain));
  return relays.filter((relay) => named.has(plain(relay)));
}

const plain = (url: string): string => (URL.canParse(url) ? new URL(url).href : url);

const narrowModel = (relays: ChunkRelays, named: readonly string[]): ChunkRelays => ({
  relays: named,
  publish: (event, options) => relays.publish(event, options),
  status: () => relays.status(),
});

/** Commits to private state with each contribution, and discloses the states of drawn contributions. */
export const rerun: CertifiedFeature = {
  isIn: (spec) => spec.rerun.permille > 0,
  create: (host) => host.disclosure && new DisclosureMember({ ...host, ...host.disclosure }),
};
