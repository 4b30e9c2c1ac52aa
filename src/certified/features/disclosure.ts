/**
 * The worker's side of reruns: the bytes of its private state, the commitment in its manifest, and showing the state of
 * drawn contributions on the relays that the run names.
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

/** Of any optimizer, and the count of the steps that they have seen. */
const MOST_VECTORS = 8;

/** Canonical bytes: the number of vectors, their lengths (u32, little-endian), values in f64, then vectors in f32. */
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

/** Reads the state of a model with `size` parameters; undefined if the bytes are malformed or not finite. */
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

/** What its bytes are asked for by. */
export function rootOf(bytes: Uint8Array, hash?: Sha256): PayloadRoot {
  const { root, bytes: length } = chunkTree(bytes, hash);
  return { root, bytes: length };
}

/** What a manifest says of it. */
export type Commitment = NonNullable<FeatureValues<'manifest'>['rerun']>;

/** The commitment to these bytes by a trainer that says where its numbers come from. */
const commitmentTo = (bytes: Uint8Array, { shard, build }: Origin, hash?: Sha256): Commitment => ({
  ...rootOf(bytes, hash),
  shard,
  build,
});

/** Of a trainer that says nothing: its bits are like nobody else's. */
export const unknownOrigin = (shard: Shard): Origin => ({
  shard: formatShard(shard),
  build: 'unknown',
});

/** Of a contribution and of the one before it, with one to spare for a round in progress. */
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

/** How long relays are asked to keep what is shown. */
const DISCLOSURE_SECONDS = 7 * 86_400;

type DisclosureOptions = FeatureHost & NonNullable<FeatureHost['disclosure']>;

class DisclosureMember implements MemberFeature {
  readonly #options: DisclosureOptions;
  readonly #run: Digest;
  readonly #features: FeatureSet;
  /** Of what was drawn last. */
  #shown: readonly Digest[] = [];

  /** Throws a `ConfigError` where none of the named relays is among those that are connected. */
  constructor(options: DisclosureOptions) {
    const { spec, relays } = options;
    const named = namedOf(spec, relays.relays);
    if (named.length === 0) {
      throw new ConfigError(
        'run/rerun-relays',
        `this run shows private state on ${spec.rerun.relays.join(', ')}, and none of them is ` +
          'among the relays in use',
        { hint: 'add one: --relay URL' },
      );
    }
    this.#options = { ...options, relays: narrowModel(relays, named) };
    this.#run = runIdOf(spec);
    this.#features = featureSet(spec.features);
  }

  /** What a manifest says of this state, which is kept from now on. */
  async commit(state: PrivateState): Promise<FeatureValues<'manifest'>> {
    const { store, origin, sha256 } = this.#options;
    const bytes = encodePrivate(state);
    const rerun = commitmentTo(bytes, origin, sha256);
    await store.save(rerun.root, bytes);
    return { rerun };
  }

  begin({ state: { ledger } }: ReadyRound, before: CertifiedState): void {
    void this.#show(before, ledger.entropy);
  }

  ended(state: CertifiedState): Promise<void> {
    return this.#show(state, state.head.ledger.entropy);
  }

  /** Shows the state that the last round drew, if any. Never rejects; resolves when relays answered. */
  async #show(state: CertifiedState, entropy: string | null): Promise<void> {
    const { spec, me, store, reporter, signal } = this.#options;
    const last = state.rounds.at(-1);
    if (last === undefined || entropy === null || last.index !== state.round - 1) return;
    if (!last.accepted.includes(me)) return;
    const drawn = { run: this.#run, round: last.index, worker: me, entropy };
    if (!isDrawn(drawn, spec.rerun.permille)) return;
    try {
      const wanted = this.#wanted(state, last.index).map(({ root }) => root);
      const fresh = wanted.filter((root) => !this.#shown.includes(root));
      this.#shown = wanted;
      for (const root of fresh) {
        const bytes = await store.load(root);
        if (bytes === undefined) throw new Error(`the state ${root.slice(0, 8)} is not kept here`);
        await this.#send(bytes);
      }
      reporter.disclosed(last.index);
    } catch (error) {
      if (!signal.aborted) reporter.disclosed(last.index, String(error));
    }
  }

  /** What the contribution to a round commits to, and the one before it. */
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

/** Those of the relays that the run names for it. */
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

/** Commits to private state with each contribution, and shows that of contributions that were drawn. */
export const rerun: CertifiedFeature = {
  isIn: (spec) => spec.rerun.permille > 0,
  create: (host) => host.disclosure && new DisclosureMember({ ...host, ...host.disclosure }),
};
