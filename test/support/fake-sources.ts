/** Chunk sources in memory, each with a bandwidth, a latency and faults, on a clock that the test moves. */
import { type Clock, sha256Hex } from 'nostrain/base';
import type { ChunkSource, Piece } from 'nostrain/network';
import type { ChunkSink } from '../../src/network/chunks/fetch-options.ts';
import { type Blob, SourceError } from '../../src/network/chunks/source.ts';
import { drawnBytes } from './drawn-bytes.ts';
import type { ManualClock } from './manual-clock.ts';

/** Chunks of a file that is nowhere on a disk. */
export function drawnChunks(count: number, bytes: number) {
  const contents = new Map<string, Uint8Array>();
  const wanted = Array.from({ length: count }, (_, index) => {
    const content = drawnBytes(bytes, index + 1);
    const sha256 = sha256Hex(content);
    contents.set(sha256, content);
    const piece: Piece = {
      ...{ sha256, blake3: sha256, name: `chunk ${index}`, bytes },
      ...{ group: index, row: 0, offset: index * bytes },
    };
    return { piece, index };
  });
  return { contents, wanted, total: count * bytes };
}

export interface FakeSourceOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly contents: ReadonlyMap<string, Uint8Array>;
  readonly isNear?: boolean;
  /** Bytes a second, to all together. */
  readonly rate?: number;
  readonly latencyMs?: number;
  /** Which chunks it has, as it tells whoever asks; without it all, and it tells nobody. */
  readonly have?: () => Uint8Array;
  has?(sha256: string): boolean;
  /** What it does instead with the answer. */
  readonly fault?: 'garbage' | 'short' | 'long' | 'stops' | 'fails';
  /** From when on its line is dead. */
  readonly diesMs?: number;
  /** How often one chunk is given, one after the other; more are told to come back. */
  readonly copies?: number;
}

const SLICE = 32_768;

export interface FakeSource extends ChunkSource {
  readonly sent: { bytes: number; answers: number };
}

export function createFakeSource(options: FakeSourceOptions): FakeSource {
  const { name, clock, contents, isNear, latencyMs = 0, diesMs = Number.POSITIVE_INFINITY } = options; // biome-ignore format: one line
  const sent = { bytes: 0, answers: 0 };
  const given = new Map<string, number>();
  const going = new Set<string>();
  const line = lineOf(options);
  const assertAlive = () => {
    if (clock.now() >= diesMs) throw new SourceError(`${name} is gone`);
  };
  async function* body(
    content: Uint8Array,
    sha256: string,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    // biome-ignore format: one line
    going.add(sha256);
    try {
      yield* slices(content, signal);
    } finally {
      going.delete(sha256);
    }
  }
  async function* slices(content: Uint8Array, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < content.length; at += SLICE) {
      const slice = content.slice(at, at + SLICE);
      await clock.sleep(line(slice.length), signal);
      assertAlive();
      if (options.fault === 'stops' && at > 0) await clock.sleep(1e9, signal);
      if (options.fault === 'short' && at > 0) return;
      sent.bytes += slice.length;
      if (options.fault === 'garbage') slice[0]! ^= 1;
      yield slice;
    }
    if (options.fault === 'long') yield new Uint8Array(SLICE);
  }
  return {
    ...{ name, isNear, sent },
    async read({ sha256 }: Blob, signal: AbortSignal) {
      await clock.sleep(latencyMs, signal);
      assertAlive();
      if (options.fault === 'fails') throw new SourceError(`${name} answers 403`);
      const content = contents.get(sha256);
      if (!content || options.has?.(sha256) === false) return undefined;
      const times = given.get(sha256) ?? 0;
      const isBusy = options.copies !== undefined && going.has(sha256);
      if (isBusy || times >= (options.copies ?? Number.POSITIVE_INFINITY)) throw new SourceError('429', { retryMs: 1000 }); // biome-ignore format: one line
      given.set(sha256, times + 1);
      sent.answers++;
      return body(content, sha256, signal);
    },
    ...(options.have && {
      holds: async () => {
        await clock.sleep(latencyMs);
        assertAlive();
        return options.have!().slice();
      },
    }),
  };
}

/** When the next bytes are through, one after the other. */
function lineOf({ clock, rate = Number.POSITIVE_INFINITY }: FakeSourceOptions) {
  let freeMs = 0;
  return (bytes: number): number => {
    freeMs = Math.max(clock.now(), freeMs) + (1000 * bytes) / rate;
    return freeMs - clock.now();
  };
}

/** Keeps what is right in memory. */
export function createMemoryStore() {
  const held = new Map<string, Uint8Array>();
  const openSink = async ({ sha256 }: Piece): Promise<ChunkSink> => {
    const parts: Uint8Array[] = [];
    return {
      write: (bytes) => void parts.push(bytes),
      finish: async () => {
        const whole = Uint8Array.from(Buffer.concat(parts));
        if (sha256Hex(whole) !== sha256) return false;
        held.set(sha256, whole);
        return true;
      },
      discard: async () => undefined,
    };
  };
  return { held, openSink };
}

/** Moves the clock until the work is done. */
export async function whileMoving<T>(
  clock: ManualClock,
  work: Promise<T>,
  stepMs = 50,
): Promise<T> {
  let isDone = false;
  const end = () => {
    isDone = true;
  };
  work.then(end, end);
  while (!isDone) await clock.advance(stepMs);
  return work;
}
