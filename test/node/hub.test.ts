/** Models from a server that speaks the hub's paths. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fetchModel } from '../../src/node/pretrained/hub.ts';
import { parseHubReference } from '../../src/pretrained/hub-reference.ts';

const COMMIT = 'c'.repeat(40);
const WEIGHTS = Buffer.alloc(200_000, 7);
const FILES: Record<string, Buffer> = {
  'config.json': Buffer.from('{"model_type":"llama"}'),
  'tokenizer.json': Buffer.from('{}'),
  'model.safetensors': WEIGHTS,
};

interface Behaviour {
  /** Bytes after which a body ends. */
  cutAt?: number;
  /** What is sent instead of a file's bytes. */
  alter?: (name: string, bytes: Buffer) => Buffer;
  status?: number;
}

let server: Server;
let home = '';
let behaviour: Behaviour = {};
let asked: {
  method: string;
  path: string;
  range: string | undefined;
  token: string | undefined;
}[] = [];

const hex = (algorithm: string, ...parts: (string | Buffer)[]) => {
  const hash = createHash(algorithm);
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
};

function answer(request: IncomingMessage, response: ServerResponse): void {
  const { method = '', url: path = '', headers } = request;
  asked.push({ method, path, range: headers.range, token: headers.authorization });
  if (behaviour.status !== undefined) return void response.writeHead(behaviour.status).end();
  if (path === '/api/models/some/model/revision/main') {
    return void response.end(JSON.stringify({ sha: COMMIT, siblings: [] }));
  }
  const name = path.replace(`/some/model/resolve/${COMMIT}/`, '');
  const bytes = FILES[name];
  if (!bytes) return void response.writeHead(404).end();
  const isLarge = name.endsWith('.safetensors');
  const etag = isLarge ? hex('sha256', bytes) : hex('sha1', `blob ${bytes.length}\0`, bytes);
  const tag = isLarge ? 'x-linked-etag' : 'etag';
  if (method === 'HEAD') {
    return void response
      .writeHead(200, { [tag]: `"${etag}"`, 'content-length': bytes.length })
      .end();
  }
  const from = Number(headers.range?.match(/bytes=(\d+)-/)?.[1] ?? 0);
  const body = (behaviour.alter?.(name, bytes) ?? bytes).subarray(from);
  response.writeHead(from > 0 ? 206 : 200, { 'content-length': body.length });
  const { cutAt } = behaviour;
  if (cutAt === undefined || body.length <= cutAt) return void response.end(body);
  response.write(body.subarray(0, cutAt), () => response.destroy());
}

beforeEach(async () => {
  behaviour = {};
  asked = [];
  home = await mkdtemp(join(tmpdir(), 'nostrain-hub-'));
  server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(home, { recursive: true });
});

const env = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  NOSTRAIN_HOME: home,
  HF_HOME: join(home, 'hf'),
  HF_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
  ...more,
});

describe('hf:owner/name', () => {
  it('downloads what a model is made of, once, with the token where there is one', async () => {
    const seen: number[] = [];
    const folder = await fetchModel('hf:some/model', {
      env: env({ HF_TOKEN: 'hf_secret' }),
      onProgress: (file, have, of) => {
        if (file === 'model.safetensors') seen.push(have / of);
      },
    });
    expect((await readdir(folder)).sort()).toEqual(Object.keys(FILES).sort());
    expect(await readFile(join(folder, 'model.safetensors'))).toEqual(WEIGHTS);
    expect(seen.at(-1)).toBe(1);
    expect(new Set(asked.map(({ token }) => token))).toEqual(new Set(['Bearer hf_secret']));
    asked = [];
    expect(await fetchModel(`hf:some/model@${COMMIT}`, { env: env() })).toBe(folder);
    expect(asked.filter(({ method }) => method === 'GET')).toEqual([]);
  });

  it('refuses other files than the wanted ones before they are downloaded', async () => {
    const wanted = Object.entries(FILES).map(([name, bytes]) => ({
      ...{ name, bytes: bytes.length, sha256: hex('sha256', bytes) },
    }));
    const larger = wanted.map((file) => ({ ...file, bytes: file.bytes + 1 }));
    const other = wanted.map((file) => ({ ...file, sha256: hex('sha256', 'another') }));
    for (const [files, name] of [
      [larger, 'tokenizer.json'],
      [other, 'model.safetensors'],
    ] as const) {
      asked = [];
      const refused = fetchModel('hf:some/model', { env: env(), wanted: files });
      await expect(refused).rejects.toMatchObject({ code: 'base/other' });
      await expect(refused).rejects.toThrow(name);
      const downloads = asked.filter(({ method, path }) => method === 'GET' && path.endsWith(name));
      expect(downloads).toEqual([]);
    }
    await fetchModel('hf:some/model', { env: env(), wanted });
    const inside = wanted.filter(({ name }) => name !== 'tokenizer.json');
    asked = [];
    await fetchModel('hf:some/model', {
      env: env({ NOSTRAIN_HOME: join(home, '2') }),
      wanted: inside,
    });
    expect(asked.some(({ path }) => path.endsWith('tokenizer.json'))).toBe(false);
  });

  it('goes on where a download was cut off', async () => {
    behaviour = { cutAt: 120_000 };
    const first = fetchModel('hf:some/model', { env: env() });
    await expect(first).rejects.toMatchObject({ code: 'model/hub-away' });
    behaviour = {};
    asked = [];
    const folder = await fetchModel('hf:some/model', { env: env() });
    expect(await readFile(join(folder, 'model.safetensors'))).toEqual(WEIGHTS);
    const weights = asked.find(
      ({ method, path }) => method === 'GET' && path.endsWith('.safetensors'),
    );
    expect(weights?.range).toMatch(/^bytes=[1-9]\d*-$/);
  });

  it('refuses bytes that are not the ones the hub names, and keeps nothing of them', async () => {
    behaviour = { alter: (name, bytes) => (name === 'tokenizer.json' ? Buffer.from('[]') : bytes) };
    await expect(fetchModel('hf:some/model', { env: env() })).rejects.toMatchObject({
      code: 'model/hub',
    });
    behaviour = {};
    const folder = await fetchModel('hf:some/model', { env: env() });
    expect(await readFile(join(folder, 'tokenizer.json'), 'utf8')).toBe('{}');
  });

  it("takes what lies in the Python programs' cache, also while the hub is away", async () => {
    const cached = join(home, 'hf', 'hub', 'models--some--model');
    const snapshot = join(cached, 'snapshots', COMMIT);
    await mkdir(snapshot, { recursive: true });
    await mkdir(join(cached, 'refs'));
    await writeFile(join(cached, 'refs', 'main'), COMMIT);
    for (const [name, bytes] of Object.entries(FILES)) await writeFile(join(snapshot, name), bytes);
    const away = env({ HF_ENDPOINT: 'http://127.0.0.1:1' });
    expect(await fetchModel('hf:some/model', { env: away })).toBe(snapshot);
    await rm(join(snapshot, 'model.safetensors'));
    expect(await fetchModel('hf:some/model', { env: env() })).not.toBe(snapshot);
  });

  it('says what to do about names nobody has, models that want a token, and files that are missing', async () => {
    await expect(fetchModel('hf:some/model@v2', { env: env() })).rejects.toThrow(/404/);
    await expect(fetchModel('hf:some/model/x.gguf', { env: env() })).rejects.toThrow(/no x\.gguf/);
    behaviour = { status: 401 };
    const refused = fetchModel('hf:some/model', { env: env() });
    await expect(refused).rejects.toMatchObject({
      hint: expect.stringContaining('HF_TOKEN') as string,
    });
  });

  it.each(['hf:model', 'hf:../../etc', 'hf:a/b/c', 'hf:a/b@../x', 'hf:a/b?c'])(
    'does not take %s for a name',
    (text) => {
      expect(() => parseHubReference(text)).toThrow(/is not a model/);
    },
  );
});
