import { type PageServer, servePage } from 'nostrain/node/parts';
import { afterEach, describe, expect, it } from 'vitest';
import type { PageServerOptions } from '../../../src/node/net/http-server.ts';

let server: PageServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});
const files = new Map([
  ['tab.html', Buffer.from('<!doctype html>')],
  ['ort/a.wasm', Buffer.from('wasm')],
]);
const open = async (options: Partial<PageServerOptions> = {}) => {
  server = await servePage(files, { host: '127.0.0.1', port: 0, ...options });
  return server.url;
};

describe('the server of pages', () => {
  it('isolates its pages where it is told to', async () => {
    const { headers } = await fetch(`${await open({ isolated: true })}tab.html`);
    expect(headers.get('cross-origin-opener-policy')).toBe('same-origin');
    expect(headers.get('cross-origin-embedder-policy')).toBe('require-corp');
    await server?.close();
    const plain = await fetch(`${await open()}tab.html`);
    expect(plain.headers.get('cross-origin-opener-policy')).toBeNull();
  });

  it('answers with its own files and no others', async () => {
    const url = await open();
    const wasm = await fetch(`${url}ort/a.wasm`);
    expect(wasm.headers.get('content-type')).toBe('application/wasm');
    for (const path of ['../package.json', '..%2fpackage.json', 'ort/../../package.json', 'told']) {
      expect((await fetch(url + path)).status, path).toBe(404);
    }
    expect((await fetch(`${url}told`, { method: 'POST', body: 'x' })).status).toBe(404);
  });

  it('hears its own pages, in few words', async () => {
    const heard: string[] = [];
    const url = await open({
      onMessage: (text) => {
        heard.push(text);
        return 'reload';
      },
    });
    const tell = (origin: string, body: string) =>
      fetch(`${url}told`, { method: 'POST', body, headers: { origin } });
    const said = await tell(url.slice(0, -1), 'hello');
    expect(await said.text()).toBe('reload');
    expect((await tell('https://example.org', 'hello')).status).toBe(403);
    await expect(tell(url.slice(0, -1), 'x'.repeat(2 << 20))).rejects.toThrow();
    expect(heard).toEqual(['hello']);
  });

  it('says that the port is taken', async () => {
    const port = Number(new URL(await open()).port);
    await expect(open({ port })).rejects.toThrow(/cannot listen/);
  });
});
