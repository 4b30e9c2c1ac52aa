import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { type PageServer, type PageServerOptions, servePages } from '../../src/node/page-server.ts';
import { describeWith } from '../support/needs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const built = existsSync(fileURLToPath(new URL('../../dist/browser/tab.html', import.meta.url)));
const folder = temporaryFolder();
let server: PageServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});
const open = async (options: Partial<PageServerOptions> = {}) => {
  server = await servePages({ port: 0, ...options });
  return server.url;
};

describeWith(built ? undefined : 'the pages are not built: npm run build')(
  'the server of pages',
  () => {
    it('isolates its pages, unless it is told not to', async () => {
      const { headers } = await fetch(`${await open()}tab.html`);
      expect(headers.get('cross-origin-opener-policy')).toBe('same-origin');
      expect(headers.get('cross-origin-embedder-policy')).toBe('require-corp');
      expect(headers.get('content-security-policy')).toContain("default-src 'none'");
      await server?.close();
      const plain = await fetch(`${await open({ isolated: false })}tab.html`);
      expect(plain.headers.get('cross-origin-opener-policy')).toBeNull();
    });

    it('answers with its own files and no others', async () => {
      const file = folder('text.txt');
      await writeFile(file, 'to be');
      const url = await open({ texts: new Map([['ab', file]]) });
      expect(await (await fetch(`${url}corpus/ab`)).text()).toBe('to be');
      for (const path of ['../package.json', '..%2fpackage.json', 'ort/../../package.json', 'x']) {
        expect((await fetch(url + path)).status, path).toBe(404);
      }
      const posted = await fetch(`${url}tab.html`, { method: 'POST', body: 'x' });
      expect(posted.status).toBe(405);
    });

    it('hears its own pages, in few words', async () => {
      const heard: string[] = [];
      const url = await open({
        onTold: (text) => {
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
  },
);

describe('where something is missing', () => {
  it('says that the port is taken', async () => {
    if (!built) return;
    const port = Number(new URL(await open()).port);
    await expect(servePages({ port })).rejects.toThrow(/cannot listen/);
  });
});
