/** The base model of a run in a tab: its download from untrusted sources, and what is refused in one sentence. */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from 'nostrain/base';
import { sha256Hex, systemClock } from 'nostrain/base';
import { makeSpec } from 'nostrain/certified';
import { modelLayout } from 'nostrain/model';
import { createRelaySet, type RelaySet } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import type { RunSpec } from 'nostrain/run';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import {
  memoryOfTab,
  memoryOfTraining,
  modelInTab,
  offerBase,
  openTabBase,
} from '../../src/browser/base.ts';
import { type BaseCache, storageFull } from '../../src/browser/base-cache.ts';
import { fetchByChunks } from '../../src/browser/base-chunks.ts';
import type { BaseOptions, Reach } from '../../src/browser/base-files.ts';
import { packFile } from '../../src/node/checkpoint/pack.ts';
import { openBase, startFrom } from '../../src/node/pretrained/base-model.ts';
import { sourceOf } from '../../src/pretrained/weights.ts';
import { decoderIn, type Start } from '../../src/run/spec/start.ts';
import { frozenOf } from '../../src/trainer/setup.ts';
import { runCommand } from '../support/command-line.ts';
import { temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const CONTEXT = 32;
const folder = join(temporaryFolder(), 'tiny');
const noRelays = {
  relays: [],
  subscribe: () => ({ close: () => undefined }),
  query: async () => ({ events: [] }),
} as unknown as RelaySet;
const none = { onNotice: () => undefined, signal: new AbortController().signal };
const settings = { base: folder, context: CONTEXT, rank: 4, alpha: 8, targets: 'qv', seed: 3 };
const PAGE = 'https://page.example/tab-worker.js';
const MIRROR = 'https://mirror.example/files';

let spec: RunSpec & { readonly start: Start };
/** Files of the base by their SHA-256. */
const stored = new Map<string, Uint8Array>();

beforeAll(async () => {
  await writeTinyLlama(folder);
  const start = await startFrom(await openBase(settings, none), settings, [MIRROR]);
  for (const { name, sha256 } of start.files)
    stored.set(sha256, new Uint8Array(await readFile(join(folder, name))));
  const me = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
  const made = await makeSpec({ me, training: { model: 'linear', rounds: 2 } });
  spec = { ...made.spec, start };
});

/** Shapes of SmolLM2. */
const smolLm2 = (width: number, layers: number, heads: number, keyValueHeads: number) => {
  return { vocabulary: 49152, headSize: 64, width, layers, heads, keyValueHeads };
};
const SMOLLM2_135M = { ...smolLm2(576, 30, 9, 3), ffn: 1536 };
const SMOLLM2_360M = { ...smolLm2(960, 32, 15, 5), ffn: 2560 };
const SMOLLM2_1700M = { ...smolLm2(2048, 24, 32, 32), ffn: 8192 };

/** A cache in memory; `quota` bytes fit into it. */
function memoryCache(quota = Number.POSITIVE_INFINITY): BaseCache & { used(): number } {
  const files = new Map<string, Uint8Array>();
  const used = () => [...files.values()].reduce((sum, { length }) => sum + length, 0);
  return {
    used,
    free: async () => (quota === Number.POSITIVE_INFINITY ? undefined : quota - used()),
    alone: (_, work) => work(),
    file: ({ sha256, bytes }) => ({
      size: async () => files.get(sha256)?.length ?? 0,
      open: async (name) => sourceOf(name, files.get(sha256)!),
      remove: async () => void files.delete(sha256),
      async write(from, pieces) {
        let all = (files.get(sha256) ?? new Uint8Array()).slice(0, from);
        for await (const piece of pieces) {
          all = Uint8Array.from([...all, ...piece]);
          files.set(sha256, all);
          if (used() > quota) throw storageFull(all.length, bytes);
        }
      },
    }),
  };
}

/** Time that passes only while somebody waits to try again. */
function impatientClock(): Clock {
  let nowMs = 0;
  return {
    now: () => nowMs,
    sleep: async (ms, signal) => {
      if (ms === 5000) nowMs += ms;
      else await new Promise((_, reject) => signal?.addEventListener('abort', reject));
    },
  };
}

type Serve = (url: string, from: number) => Response | Promise<Response>;

const sha256In = (url: string): string => url.slice(url.lastIndexOf('/') + 1);
const missing = () => new Response('', { status: 404 });

/** Serves stored files at the mirror, from a byte on. */
const mirror: Serve = (url, from) => {
  const bytes = url.startsWith(MIRROR) ? stored.get(sha256In(url)) : undefined;
  if (!bytes) return missing();
  return new Response(bytes.slice(from), { status: from > 0 ? 206 : 200 });
};

/** Opens the base and returns what it took. */
async function open(serve: Serve = mirror, more: Partial<BaseOptions> = {}, run = spec) {
  const asked: { readonly url: string; readonly from: number }[] = [];
  const notices: string[] = [];
  const model = modelInTab(spec, CONTEXT, 'q4');
  const base = await openTabBase(run, model, CONTEXT, {
    cache: memoryCache(),
    page: PAGE,
    allowsPrivate: false,
    clock: impatientClock(),
    signal: none.signal,
    relays: noRelays,
    onProgress: () => undefined,
    onNotice: (message) => notices.push(message),
    fetch: async (url, { headers }) => {
      const range = (headers as Record<string, string> | undefined)?.range ?? '';
      const from = Number(/^bytes=(\d+)-$/.exec(range)?.[1] ?? 0);
      asked.push({ url, from });
      return serve(url, from);
    },
    ...more,
  });
  return { base, asked, notices };
}

/** Returns a body that ends with an error after `length` bytes. */
const broken = (bytes: Uint8Array, length: number): ReadableStream =>
  new ReadableStream({
    start: (stream) => stream.enqueue(bytes.slice(0, length)),
    pull: (stream) => stream.error(new TypeError('network error')),
  });

const weights = () => spec.start.files.find(({ name }) => name === 'model.safetensors')!;

describe('the base of a tab', () => {
  it('has the numbers and tokens that a process has', async () => {
    const { base } = await open();
    const process = await openBase({ ...settings, basePrecision: 'q4' }, none);
    expect(modelLayout(base.model)).toEqual(modelLayout(process.model));
    expect(await frozenOf(base)).toEqual(await frozenOf(process));
    expect(base.tokenizer.ids('To be')).toEqual(process.tokenizer.ids('To be'));
  });

  it('is downloaded once: another opening asks for small files alone', async () => {
    const cache = memoryCache();
    await open(mirror, { cache });
    const again = await open(mirror, { cache });
    expect(again.asked.map(({ url }) => url).filter((url) => stored.has(sha256In(url)))).toEqual(
      [],
    );
  });

  it('resumes where the connection ended, without losing what arrived', async () => {
    let isBroken = false;
    const { asked, notices } = await open((url, from) => {
      if (sha256In(url) !== weights().sha256 || isBroken || !url.startsWith(MIRROR)) {
        return mirror(url, from);
      }
      isBroken = true;
      return new Response(broken(stored.get(weights().sha256)!, 1000));
    });
    expect(asked.filter(({ url }) => url === `${MIRROR}/${weights().sha256}`)).toEqual([
      expect.objectContaining({ from: 0 }),
      expect.objectContaining({ from: 1000 }),
    ]);
    expect(notices.join()).toMatch(/network error.*resumes when the connection is back/);
  });

  it('comes from the next source when one serves another file, or a part of it', async () => {
    const lie: Serve = (url, from) => {
      const bytes = stored.get(sha256In(url));
      if (!url.startsWith('https://page.example/base/') || !bytes) return mirror(url, from);
      const changed = bytes.slice();
      changed[500]! ^= 1;
      return sha256In(url) === weights().sha256
        ? new Response(broken(changed, 1000))
        : new Response(changed);
    };
    const { base } = await open(lie);
    expect(base.tokenizer.ids('a')).toHaveLength(1);
  });

  it('is refused in one sentence when every source serves another file', async () => {
    const zeros: Serve = (url) => {
      const bytes = stored.get(sha256In(url));
      return bytes ? new Response(new Uint8Array(bytes.length)) : missing();
    };
    await expect(open(zeros)).rejects.toMatchObject({
      code: 'tab/base',
      message: expect.stringMatching(/no source has config.json: .*it serves another file/),
      hint: expect.stringContaining('press the button again'),
    });
  });

  it('ends an endless answer at the length in the spec', async () => {
    const cache = memoryCache();
    const endless: Serve = () => {
      const body = new ReadableStream({
        pull: (stream) => stream.enqueue(new Uint8Array(1 << 16)),
      });
      return new Response(body);
    };
    const clock = impatientClock();
    await expect(open(endless, { cache, clock })).rejects.toMatchObject({ code: 'tab/base' });
    expect(cache.used()).toBe(0);
  });

  it('is given up in one sentence after ten minutes without a connection, and keeps what it has', async () => {
    const cache = memoryCache();
    let isOnline = true;
    const failing: Serve = (url, from) => {
      if (!isOnline) throw new TypeError('Failed to fetch');
      if (sha256In(url) !== weights().sha256 || !url.startsWith(MIRROR)) return mirror(url, from);
      isOnline = false;
      return new Response(broken(stored.get(weights().sha256)!, 1000));
    };
    await expect(open(failing, { cache })).rejects.toMatchObject({
      code: 'tab/base',
      message: expect.stringMatching(/no source has model.safetensors: .*Failed to fetch/),
      hint: expect.stringContaining('check the connection and press the button again'),
    });
    expect(await cache.file(weights()).size()).toBe(1000);
  });

  it('says what to do when the storage is full, and keeps what it has', async () => {
    const cache = memoryCache(20_000);
    const full = { code: 'tab/quota', hint: expect.stringContaining('the download resumes') };
    await expect(open(mirror, { cache })).rejects.toMatchObject(full);
    const browser = { ...memoryCache(20_000), free: async () => undefined };
    await expect(open(mirror, { cache: browser })).rejects.toMatchObject(full);
  });

  it('asks no server of a private network unless this machine serves the page', async () => {
    const hidden = { ...spec, start: { ...spec.start, from: ['http://192.168.0.1/files'] } };
    const urls: string[] = [];
    const ask = (allowsPrivate: boolean) =>
      openTabBase(hidden, modelInTab(spec, CONTEXT, 'q4'), CONTEXT, {
        cache: memoryCache(),
        page: PAGE,
        allowsPrivate,
        clock: impatientClock(),
        ...none,
        relays: noRelays,
        onProgress: () => undefined,
        fetch: async (url) => {
          urls.push(url);
          return missing();
        },
      });
    await expect(ask(false)).rejects.toThrow(/it lacks the file/);
    expect(urls.filter((url) => url.includes('192.168'))).toEqual([]);
    await expect(ask(true)).rejects.toThrow(/it lacks the file/);
    expect(urls.filter((url) => url.includes('192.168'))).toHaveLength(1);
  });
});

describe('a base that sources have in chunks', () => {
  const out = join(temporaryFolder(), 'chunks');
  let chunked: typeof spec;

  beforeAll(async () => {
    const { name, sha256, bytes } = weights();
    const packing = { chunkBytes: 2 ** 14, erasure: null };
    const { blake3 } = await packFile(join(folder, name), out, packing);
    const text = await readFile(join(out, 'manifest.json'));
    const manifest = createHash('sha256').update(text).digest('hex');
    await writeFile(join(out, manifest), text);
    const each = [{ name, sha256, bytes, blake3, manifest }];
    chunked = { ...spec, files: { at: [MIRROR], each } };
  });

  /** Serves small files whole, and chunks of the weights. */
  const inChunks: Serve = async (url, from) => {
    const name = sha256In(url);
    if (name !== weights().sha256 && stored.has(name)) return mirror(url, from);
    const isMirror = url.startsWith(MIRROR) && /^[0-9a-f]{64}$/.test(name);
    const bytes = isMirror ? await readFile(join(out, name)).catch(() => undefined) : undefined;
    return bytes ? new Response(bytes) : missing();
  };

  it('is fetched chunk by chunk, and resumes at a chunk', async () => {
    let requested = 0;
    const cache = memoryCache();
    const stop = new AbortController();
    const interrupted: Serve = async (url, from) => {
      const answer = await inChunks(url, from);
      // the manifest and the first four chunks arrive
      if (answer.ok && !stored.has(sha256In(url)) && ++requested > 5) stop.abort();
      return answer;
    };
    const clock = systemClock;
    const first = open(interrupted, { cache, clock, signal: stop.signal }, chunked);
    await expect(first).rejects.toThrow();
    const kept = await cache.file(weights()).size();
    expect(kept).toBe(4 * 2 ** 14);
    const { base, asked } = await open(inChunks, { cache, clock }, chunked);
    const whole = await open();
    expect(await frozenOf(base)).toEqual(await frozenOf(whole.base));
    const chunks = Math.ceil((weights().bytes - kept) / 2 ** 14);
    const names = asked.map(({ url }) => sha256In(url)).filter((name) => !stored.has(name));
    // its manifest and the list of a holder come on top
    expect(names.filter((name) => name.length === 64).length).toBeLessThan(chunks + 3);
  });

  it('may be data of the run, which is in memory alone', async () => {
    const reach: Reach = {
      allowsPrivate: false,
      fetch: async (url) => inChunks(url, 0),
      clock: systemClock,
      signal: none.signal,
      relays: noRelays,
    };
    const { sha256, bytes } = weights();
    const served = await fetchByChunks(chunked, sha256, bytes, reach);
    expect(sha256Hex(served!)).toBe(sha256);
    expect(await fetchByChunks(chunked, sha256, bytes - 1, reach)).toBeUndefined();
    expect(await fetchByChunks(spec, sha256, bytes, reach)).toBeUndefined();
    const nothing = { ...reach, fetch: async () => missing() };
    expect(await fetchByChunks(chunked, sha256, bytes, nothing)).toBeUndefined();
  });

  it('is refused in one sentence when a chunk has other bytes everywhere', async () => {
    const spoilt: Serve = async (url, from) => {
      const answer = await inChunks(url, from);
      const bytes = new Uint8Array(await answer.clone().arrayBuffer());
      return bytes.length === 2 ** 14 ? new Response(bytes.fill(0)) : answer;
    };
    const clock = impatientClock();
    const message = expect.stringContaining('chunks: no source has chunk');
    const ended = open(spoilt, { clock }, chunked);
    await expect(ended).rejects.toMatchObject({ code: 'tab/base', message });
  });

  it('is fetched from the relays of the run', async () => {
    const relay = await createRelay();
    const key = ['--sec-key', '01'.repeat(32)];
    await runCommand('checkpoint', 'push', out, '--to', relay.url, ...key);
    const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
    await relays.ready();
    const smallFiles: Serve = (url, from) =>
      sha256In(url) === weights().sha256 ? missing() : mirror(url, from);
    const { base } = await open(smallFiles, { relays, clock: systemClock }, chunked);
    expect(await frozenOf(base)).toEqual(await frozenOf((await open()).base));
    await relays.close();
    await relay.close();
  });
});

describe('before the download', () => {
  it('says how much is left and what training takes', async () => {
    const model = modelInTab(spec, CONTEXT, 'q4');
    const memory = memoryOfTraining(model, decoderIn(spec.start, CONTEXT), 2 * CONTEXT);
    const cache = memoryCache();
    const bytes = spec.start.files.reduce((sum, file) => sum + file.bytes, 0);
    const offer = await offerBase(spec.start, memory, cache, 4 * 2 ** 30);
    expect(offer).toMatchObject({ bytes, have: 0, memory });
    await open(mirror, { cache });
    expect(await offerBase(spec.start, memory, cache, 2 ** 31)).toMatchObject({ have: bytes });
  });

  it.each([
    ['SmolLM2-135M', SMOLLM2_135M, 1, 2],
    ['SmolLM2-360M', SMOLLM2_360M, 1, 2],
    // WebAssembly addresses 4 GiB, whatever the device has
    ['SmolLM2-1.7B', SMOLLM2_1700M, 8, undefined],
  ])('refuses %s on a device with too little memory', async (_, shape, few, enough) => {
    const start = { ...spec.start, model: { ...spec.start.model, ...shape } } as Start;
    const model = modelInTab({ ...spec, start }, 128, 'q4');
    const memory = memoryOfTraining(model, decoderIn(start, 128), 256);
    vi.stubGlobal('navigator', { deviceMemory: few });
    const refused = offerBase(start, memory, memoryCache());
    await expect(refused).rejects.toMatchObject({ code: 'tab/memory' });
    vi.stubGlobal('navigator', { deviceMemory: enough ?? 8 });
    expect(memory < memoryOfTab()).toBe(enough !== undefined);
    vi.unstubAllGlobals();
  });

  it('refuses a device with 1 GB, and runs that train more than adapters', async () => {
    await expect(offerBase(spec.start, 1.3e9, memoryCache(), 2 ** 30)).rejects.toMatchObject({
      code: 'tab/memory',
      message: 'training takes about 1.3 GB of memory, and a tab here has at most 1.1 GB',
      hint: expect.stringContaining('nostrain run join'),
    });
    const full = { ...spec.start, adapter: { ...spec.start.adapter, rank: 0 } };
    for (const each of [
      { ...spec, start: full },
      { ...spec, tiers: 2 },
    ]) {
      expect(() => modelInTab(each, CONTEXT, 'q4')).toThrow(/and a tab trains adapters/);
    }
  });
});
