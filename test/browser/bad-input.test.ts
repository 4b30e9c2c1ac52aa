/** A tab without threads, WebGPU, memory, storage or plain text, or suspended: one sentence each, and nothing is lost. */
import { createHash } from 'node:crypto';
import { makeSpec } from 'nostrain/certified';
import { shardSettings } from 'nostrain/certified/parts';
import { settingsOf } from 'nostrain/run';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Reach } from '../../src/browser/base-files.ts';
import { prepareTabTask } from '../../src/browser/data.ts';
import { watchSuspension } from '../../src/browser/session.ts';
import { openStorage, type TabStorage } from '../../src/browser/storage.ts';
import { createTabTrainer, threadNotice } from '../../src/browser/trainer.ts';
import { optimizerOf } from '../../src/model/from-settings.ts';
import { nodeRuntime } from '../../src/node/engine/sessions.ts';
import { serveTrainer } from '../../src/trainer/serve.ts';

const me = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const { signal } = new AbortController();
/** Reaches nothing: the runs of these tests name no chunks. */
const reach = { signal } as unknown as Reach;

afterEach(() => vi.unstubAllGlobals());

/** Storage that has nothing. */
const noStorage = {
  get: async () => undefined,
  put: async () => undefined,
} as unknown as TabStorage;

/** Makes the setup of a small run on the data of its spec. */
async function setupFor(fields: Parameters<typeof makeSpec>[0]['training'], document = {}) {
  const { spec } = await makeSpec({ me, training: { rounds: 2, ...fields }, document });
  const settings = settingsOf(spec, { relay: [], ...shardSettings(spec, me, {}) });
  return { spec, settings };
}

/** A Web Worker that trains on the engine of this machine, and whose page has no GPU. */
class FakeWorker {
  onmessage?: (message: { readonly data: unknown }) => void;
  readonly #serve: ReturnType<typeof serveTrainer>;

  constructor(url: URL) {
    const openStored = () => {
      throw new TypeError('this page has no files');
    };
    const ort: typeof nodeRuntime = {
      ...nodeRuntime,
      createSession: (...session) => {
        if (url.href.includes('webgpu')) throw new Error('no GPU adapter was found');
        return nodeRuntime.createSession(...session);
      },
    };
    this.#serve = serveTrainer({ ort, openStored }, (data) =>
      this.onmessage?.({ data: structuredClone(data) }),
    );
  }

  postMessage = (data: Parameters<ReturnType<typeof serveTrainer>>[0]): void =>
    void this.#serve(structuredClone(data));
  terminate = (): void => undefined;
}

/** Opens the trainer of a tab in a browser with these abilities. */
async function openIn(isolated: boolean, gpu: boolean) {
  vi.stubGlobal('Worker', FakeWorker);
  vi.stubGlobal('crossOriginIsolated', isolated);
  vi.stubGlobal('navigator', { hardwareConcurrency: 8, ...(gpu ? { gpu: {} } : {}) });
  const { spec, settings } = await setupFor({ model: 'linear' });
  const task = await prepareTabTask(spec, settings, { storage: noStorage, prefix: 'a', reach });
  return await createTabTrainer({
    model: task.model,
    data: task.data,
    optimizer: optimizerOf(settings),
    batch: settings.batchSize,
    device: 'auto',
    threads: 4,
  });
}

describe('a tab in a browser that lacks something', () => {
  it('trains with one thread where the page is not isolated, and says how to get more', async () => {
    const trainer = await openIn(false, false);
    expect(trainer.device.threads).toBe(1);
    expect(threadNotice()).toMatch(/^training with one thread: .*`nostrain page --tab`/);
    vi.stubGlobal('crossOriginIsolated', true);
    expect(threadNotice()).toBeUndefined();
    await trainer.close();
  });

  it.each([
    [false, 'training on the CPU: this browser has no WebGPU'],
    [true, expect.stringMatching(/^training on the CPU: webgpu does not work here: no GPU/)],
  ])('trains on the CPU without a GPU (WebGPU %s)', async (gpu, notice) => {
    const trainer = await openIn(true, gpu);
    expect(trainer.device).toMatchObject({ device: 'cpu', notice });
    await trainer.close();
  });
});

describe('a suspended tab', () => {
  it('says for how long, once, and not for a busy machine', async () => {
    let [nowMs, jumpMs] = [0, 0];
    const waits: (() => void)[] = [];
    const clock = {
      now: () => nowMs,
      sleep: async (ms: number) => {
        await new Promise<void>((resolve) => waits.push(resolve));
        nowMs += ms + jumpMs;
        jumpMs = 0;
      },
    };
    const notices: string[] = [];
    void watchSuspension(clock, signal, (message) => notices.push(message));
    for (const ms of [0, 20_000, 3_600_000, 0]) {
      jumpMs = ms;
      waits.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(notices).toEqual([expect.stringMatching(/for 3600 s .*nothing is lost/)]);
  });
});

describe('a tab whose storage is full', () => {
  it('says so in one sentence when it cannot write', async () => {
    vi.stubGlobal('IDBKeyRange', {});
    vi.stubGlobal('indexedDB', { open: () => answering(fullDatabase) });
    const storage = await openStorage();
    await expect(storage.put('a', 'b')).rejects.toMatchObject({
      code: 'tab/storage',
      message: 'the browser cannot write to its storage',
      hint: expect.stringContaining('free disk space'),
      cause: { name: 'QuotaExceededError' },
    });
  });
});

/** A database whose transactions abort, since the quota is exceeded. */
const fullDatabase = {
  transaction: () => {
    const work = {
      error: new DOMException('full', 'QuotaExceededError'),
      objectStore: () => ({ put: () => undefined }),
      onabort: () => undefined,
    };
    setImmediate(() => work.onabort());
    return work;
  },
};

function answering<T>(result: T) {
  const request = { result, onsuccess: () => undefined };
  setImmediate(() => request.onsuccess());
  return request;
}

describe('documents', () => {
  const lines = '{"text": "To be, or not to be"}\n{"text": "that is the question"}\n';
  const sha256 = createHash('sha256').update(lines).digest('hex');

  it('are refused, from the server of the page as from a chosen file', async () => {
    const data = { kind: 'corpus', sha256, bytes: lines.length, form: 'interleaved' };
    const { spec, settings } = await setupFor({ model: 'char-gpt' }, { data });
    const refused = { code: 'tab/corpus', message: expect.stringContaining('is documents') };
    const sources = { storage: noStorage, prefix: 'a', reach };
    vi.stubGlobal('fetch', async () => new Response(lines));
    await expect(prepareTabTask(spec, settings, sources)).rejects.toMatchObject(refused);
    const file = new File([lines], 'data.jsonl');
    const chosen = { kind: 'file', file } as const;
    await expect(prepareTabTask(spec, settings, { ...sources, chosen })).rejects.toMatchObject(
      refused,
    );
  });
});
