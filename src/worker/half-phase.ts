/**
 * Inner phases that outlive a kill: every few seconds what a phase has come to is written down, with a digest of everything that its end
 * follows from; a worker that is started again in the same phase takes the steps that are left, to the same bits.
 */
import { toHex, utf8 } from '../base/bytes.ts';
import { createSha256 } from '../base/hash.ts';
import { decodeSafetensors, encodeSafetensors } from '../tensor/safetensors.ts';
import type { HalfPhase, Keeping, Session, TrainTask } from './ports.ts';

/** Between two times that a phase is kept, at least. */
const LEAST_MS = 5000;
/** Keeping it takes at most one part in so many of the time. */
const SHARE = 50;
/** How fast a disk is taken to be before it was written to. */
const BYTES_PER_MS = 100_000;

const FORMAT = { format: 'nostrain-phase', version: '1' };

/** Keeps the inner phases of one session, one after the other, in one place. */
export class PhaseKeeper {
  readonly #session: Session;
  /** What an earlier session left: taken up once, by the first phase of this one. */
  #left: Promise<Kept | undefined> | undefined;
  /** What it took to keep one, the last time. */
  #costMs: number | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Whether an earlier session left this phase in the middle. */
  async isLeft(task: TrainTask): Promise<boolean> {
    return (await this.#leftOf(() => this.#digestOf(task))) !== undefined;
  }

  /** How to keep this phase, and where it was left; undefined where the store keeps no phases. */
  async keepingOf(task: TrainTask): Promise<Keeping | undefined> {
    const { clock, store } = this.#session.ports;
    const { phase } = store;
    if (!phase) return undefined;
    let digest: string | undefined;
    const digestOf = () => {
      digest ??= this.#digestOf(task);
      return digest;
    };
    const from = await this.#leftOf(digestOf);
    this.#left = Promise.resolve(undefined);
    let keptMs = clock.now();
    let askedMs = keptMs;
    const vectors = 1 + Math.max(2, task.moments.length - 1);
    const guessMs = (4 * vectors * task.params.length) / BYTES_PER_MS;
    return {
      from,
      isDue: () => {
        askedMs = clock.now();
        return askedMs - keptMs >= Math.max(LEAST_MS, SHARE * (this.#costMs ?? guessMs));
      },
      keep: async (half) => {
        await phase.save(encode(half, digestOf(), this.#hash));
        keptMs = clock.now();
        this.#costMs = keptMs - askedMs;
      },
    };
  }

  async #leftOf(digestOf: () => string): Promise<HalfPhase | undefined> {
    this.#left ??= this.#load();
    const left = await this.#left;
    return left && left.digest === digestOf() ? left.half : undefined;
  }

  async #load(): Promise<Kept | undefined> {
    const bytes = await this.#session.ports.store.phase?.load();
    return bytes && decode(bytes, this.#hash);
  }

  /** Of everything that the end of a phase follows from, but the data, which a run and a shard have for good. */
  #digestOf({ params, moments, round, steps, firstStep, batchKey }: TrainTask): string {
    const { plan, ports } = this.#session;
    const { device, origin } = ports.trainer;
    const said = { run: plan.run, rounds: plan.rounds, pace: plan.pace, device, origin };
    const task = { round, steps, firstStep, batchKey, sizes: moments.map(({ length }) => length) };
    return this.#hash(utf8(JSON.stringify({ ...said, ...task })), params, ...moments);
  }

  readonly #hash: Hash = (...parts) => {
    const hash = (this.#session.ports.createSha256 ?? createSha256)();
    for (const { buffer, byteOffset, byteLength } of parts)
      hash.update(new Uint8Array(buffer, byteOffset, byteLength));
    return toHex(hash.digest());
  };
}

type Hash = (...parts: readonly ArrayBufferView[]) => string;

interface Kept {
  readonly digest: string;
  readonly half: HalfPhase;
}

function encode({ done, vectors, losses, seconds }: HalfPhase, digest: string, hash: Hash) {
  const tensors = [losses, ...vectors].map((values, i) => {
    return { name: `${i}`, shape: [values.length], values };
  });
  const metadata = { ...FORMAT, digest, done: `${done}`, seconds: `${seconds}` };
  return encodeSafetensors({
    tensors,
    metadata: { ...metadata, hash: hash(losses, ...vectors) },
  });
}

/** What was kept; undefined where it is not whole: a phase begun anew costs time alone. */
function decode(bytes: Uint8Array, hash: Hash): Kept | undefined {
  const read = decodeSafetensors(bytes);
  if (!read.ok) return undefined;
  const { tensors, metadata } = read.value;
  const [losses, ...vectors] = tensors.map(({ values }) => Float32Array.from(values));
  const { digest = '', done, seconds } = metadata;
  const half = { done: Number(done), vectors, losses: losses!, seconds: Number(seconds) };
  const isWhole =
    metadata.format === FORMAT.format &&
    metadata.version === FORMAT.version &&
    losses?.length === half.done &&
    half.done > 0 &&
    Number.isFinite(half.seconds) &&
    metadata.hash === hash(losses, ...vectors);
  return isWhole ? { digest, half } : undefined;
}
