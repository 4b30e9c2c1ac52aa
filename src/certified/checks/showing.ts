/**
 * The worker's side of running inner phases again: it commits to its private state with each contribution, keeps the last ones, and shows those of
 * contributions that were drawn, on the relays that the run names and nowhere else.
 */
import { ConfigError } from '../../base/errors.ts';
import { type ChunkRelays, sendChunks } from '../../network/attachments/publish.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { readManifest } from '../../network/wire/manifests.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { isDrawn } from '../../run/rerun.ts';
import { type FeatureSet, type FeatureValues, featureSet } from '../../run/spec/features.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import type { Origin } from '../../worker/ports.ts';
import { idOf } from '../../worker/state.ts';
import type { PrivateState } from '../../worker/strategy.ts';
import type { Reporter } from '../rounds/events.ts';
import type { CertifiedState } from '../state.ts';
import { type Commitment, commitmentTo, encodePrivate } from './private-state.ts';

/** Where private states are kept until they may have to be shown, by root. */
export interface PrivateStore {
  /** Older ones may be let go of. */
  save(root: Digest, bytes: Uint8Array): Promise<void>;
  load(root: Digest): Promise<Uint8Array | undefined>;
}

/** Of a contribution and of the one before it, with one to spare for a round in progress. */
export const KEPT_STATES = 4;

/** Private states in memory, the last ones. */
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
const SHOWN_SECONDS = 7 * 86_400;

export interface ShowingOptions {
  readonly spec: RunSpec;
  readonly me: WorkerId;
  readonly origin: Origin;
  readonly store: PrivateStore;
  /** Connected; those that the run names are used. */
  readonly relays: ChunkRelays;
  readonly sign: (draft: EventDraft) => SignedEvent;
  readonly now: () => number;
  readonly reporter: Pick<Reporter, 'shown'>;
  readonly sha256: Sha256;
  readonly signal: AbortSignal;
}

/** What a worker shows of itself. */
export class Showing {
  readonly #options: ShowingOptions;
  readonly #run: Digest;
  readonly #features: FeatureSet;
  /** Of what was drawn last. */
  #shown: readonly Digest[] = [];

  /** Throws a `ConfigError` where none of the named relays is among those that are connected. */
  constructor(options: ShowingOptions) {
    const { spec, relays } = options;
    const named = namedOf(spec, relays.relays);
    if (named.length === 0) {
      throw new ConfigError(
        'run/rerun-relays',
        `this run shows private state on ${spec.rerun.relays.join(', ')}, and none of them is among the relays in use`,
        { hint: 'add one: --relay URL' },
      );
    }
    this.#options = { ...options, relays: narrowed(relays, named) };
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

  /** Shows what the last round asks for, if it drew this worker; never rejects. Resolves when relays have it, or will not. */
  async after(state: CertifiedState, entropy: string | null): Promise<void> {
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
      reporter.shown(last.index);
    } catch (error) {
      if (!signal.aborted) reporter.shown(last.index, String(error));
    }
  }

  /** What the contribution to a round commits to, and the one before it. */
  #wanted({ contributed = [] }: CertifiedState, round: number): readonly Commitment[] {
    const own = contributed.map(({ sent }) => {
      const read = readManifest(sent.event, this.#options.sha256, this.#features);
      return { id: idOf(sent), said: read.ok ? read.value : undefined };
    });
    const now = own.find(({ said }) => said?.round === round)?.said;
    const before = own.find(({ id }) => id === now?.prev)?.said;
    return [before, now].flatMap((said) => said?.features?.rerun ?? []);
  }

  async #send(bytes: Uint8Array): Promise<void> {
    const { relays, sign, sha256, now, signal } = this.#options;
    const createdAt = Math.floor(now() / 1000);
    const lifetime = { createdAt, expiresAt: createdAt + SHOWN_SECONDS };
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

const narrowed = (relays: ChunkRelays, named: readonly string[]): ChunkRelays => ({
  relays: named,
  publish: (event, options) => relays.publish(event, options),
  status: () => relays.status(),
});
