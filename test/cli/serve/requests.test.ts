/** Requests to the API that are refused, batches, the event stream, and methods as commands. */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type ApiServer,
  before,
  made,
  OPEN_ROUND,
  type Reply,
  startApiServer,
  TOKEN,
} from '../../support/api-server.ts';
import { runCommand } from '../../support/command-line.ts';

const { run } = made;
let server: ApiServer;
let post: ApiServer['post'];

beforeAll(async () => {
  server = await startApiServer();
  ({ post } = server);
  return () => server.close();
});

describe('a request', () => {
  it('without the token is refused, whatever it asks', async () => {
    for (const authorization of ['', 'Bearer wrong', TOKEN, `Bearer ${TOKEN} `.repeat(2)]) {
      expect((await post('{}', { authorization })).status).toBe(401);
      expect((await server.stream(run, { headers: { authorization } })).status).toBe(401);
    }
  });

  it('of the wrong form gets the code of JSON-RPC', async () => {
    const codeOf = async (body: string) => {
      const reply = (await (await post(body)).json()) as Reply;
      return reply.error?.code;
    };
    const id = { jsonrpc: '2.0', id: 1 };
    expect(await codeOf('{')).toBe(-32_700);
    expect(await codeOf('[]')).toBe(-32_600);
    expect(await codeOf('{}')).toBe(-32_600);
    expect(await codeOf('"text"')).toBe(-32_600);
    expect(await codeOf(JSON.stringify({ ...id, method: 'getRun', jsonrpc: '1.0' }))).toBe(-32_600);
    expect(await codeOf(JSON.stringify({ ...id, method: 'toString' }))).toBe(-32_601);
    expect(await codeOf(JSON.stringify(Array(101).fill({ ...id, method: 'getRun' })))).toBe(
      -32_600,
    );
    for (const params of [
      [run],
      {},
      { run: 7 },
      { run: '../etc/passwd' },
      { run, more: 1 },
      { run: 'naddr1zzzzzzzzzz' },
    ]) {
      expect(await codeOf(JSON.stringify({ ...id, method: 'getRun', params }))).toBe(-32_602);
    }
    expect((await post(`{"a":${'['.repeat(200)}${']'.repeat(200)}}`)).status).toBe(200);
  });

  it('may be a batch or a notification', async () => {
    const one = { jsonrpc: '2.0', method: 'getRun', params: { run } };
    const reply = await post(JSON.stringify([{ ...one, id: 'a' }, one, { ...one, id: 2 }]));
    expect(((await reply.json()) as readonly Reply[]).map(({ id }) => id)).toEqual(['a', 2]);
    expect((await post(JSON.stringify(one))).status).toBe(204);
  });

  it('that is too large is refused before it is read', async () => {
    expect((await post(' '.repeat(5 << 20))).status).toBe(413);
  });

  it('for a run that no relay has is refused', async () => {
    expect(await server.typeOf('getRun', { run: 'e'.repeat(64) })).toBe('run/not-found');
    const missing = await server.stream('e'.repeat(64));
    expect(missing.status).toBe(404);
  });

  it('gets the events of a run as they happen', async () => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const stop = new AbortController();
    const { body } = await server.stream(run, { headers, signal: stop.signal });
    const { value } = await body!.getReader().read();
    const text = new TextDecoder().decode(value);
    expect(text).toMatch(/^event: run\ndata: \{.*\}\n\n$/);
    expect(JSON.parse(text.slice(text.indexOf('{')))).toMatchObject({ run, decided: OPEN_ROUND });
    stop.abort();
  });

  it('that comes too fast is refused until the rate allows it again', async () => {
    const batch = JSON.stringify(
      Array(20).fill({ jsonrpc: '2.0', id: 1, method: 'listRuns', params: { x: 1 } }),
    );
    const replies = [await post(batch), await post(batch)];
    expect(replies.map(({ status }) => status)).toContain(429);
    const limited = replies.find(({ status }) => status === 429)!;
    expect(limited.headers.get('retry-after')).toBe('1');
  });
});

describe('docs/api.md', () => {
  it('its request gets the answer that the page shows', async () => {
    const page = readFileSync('docs/api.md', 'utf8');
    const request = /-d '(.*)'$/m.exec(page)![1]!.replaceAll('RUN', run);
    const shown = /^```json\n([\s\S]*?)\n```$/m.exec(page)![1]!.replaceAll('RUN', run);
    expect(await (await post(request)).json()).toMatchObject(JSON.parse(shown));
  });
});

it('serve refuses a short token', async () => {
  const token = join(server.home, 'short');
  await writeFile(token, 'guess me\n');
  const flags = ['--listen', '127.0.0.1:0', '--relay', server.relayUrl, '--token-file', token];
  const refused = await runCommand('serve', ...flags);
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('serve/token') });
});

describe('nostrain train', () => {
  it('calls a method with files and rounds from 1', async () => {
    const flags = ['--relay', server.relayUrl, '--run', run];
    const state = await runCommand('train', 'get-run', ...flags);
    expect(JSON.parse(state.stdout)).toMatchObject({ run, decided: OPEN_ROUND });
    const decided = await runCommand('train', 'decide-round', '--round', '1', ...flags);
    expect(JSON.parse(decided.stdout)).toMatchObject({ round: 0, decision: 'closed' });
    const file = join(server.home, 'event.json');
    await writeFile(file, JSON.stringify(before.find(({ kind }) => kind === 7810)));
    const refused = await runCommand('train', 'finalize-round', '--event', file, ...flags);
    expect(refused).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('event/WrongKind'),
    });
  });
});
