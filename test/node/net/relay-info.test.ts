import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { fetchRelayInfo } from 'nostrain/node';
import { parseRelayInfo } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { afterEach, expect, test } from 'vitest';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** A web server that answers every request with this body, or not at all. */
async function serve(body: string | undefined, status = 200): Promise<string> {
  const server = createServer((_, response) => {
    if (body !== undefined) response.writeHead(status, { Location: '/' }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const codeOf = (result: Awaited<ReturnType<typeof fetchRelayInfo>>) =>
  result.ok ? 'ok' : result.issue.code;

test('reads what our relay says of itself', async () => {
  const relay = await createRelay({ name: 'mine', maxEventBytes: 65_536 });
  stops.push(relay.close);
  expect(await fetchRelayInfo(relay.url)).toEqual({
    ok: true,
    value: {
      name: 'mine',
      software: 'nostrain-relay',
      supportedNips: expect.arrayContaining([1, 11, 40]),
      limitation: expect.objectContaining({ maxMessageLength: 65_600, authRequired: false }),
    },
  });
});

test('refuses what is too long, too slow, elsewhere or no document', async () => {
  expect(codeOf(await fetchRelayInfo(await serve('x'.repeat(70_000))))).toBe('too-large');
  expect(codeOf(await fetchRelayInfo(await serve(undefined), { timeoutMs: 50 }))).toBe(
    'unreachable',
  );
  expect(codeOf(await fetchRelayInfo(await serve('', 302)))).toBe('unreachable');
  expect(codeOf(await fetchRelayInfo(await serve('{}', 404)))).toBe('http-status');
  expect(codeOf(await fetchRelayInfo(await serve('[1]')))).toBe('malformed');
  expect(codeOf(await fetchRelayInfo(await serve('{')))).toBe('malformed');
});

test('an abort goes through', async () => {
  const stop = new AbortController();
  const fetching = fetchRelayInfo(await serve(undefined), { signal: stop.signal });
  stop.abort(new Error('enough'));
  await expect(fetching).rejects.toThrow('enough');
});

test('fields of the wrong type are as if absent', () => {
  const json = { name: 7, supported_nips: [1, 'x'], limitation: { max_limit: -1, max_filters: 3 } };
  expect(parseRelayInfo(json)).toEqual({
    ok: true,
    value: { supportedNips: [1], limitation: { maxFilters: 3 } },
  });
  fc.assert(fc.property(fc.jsonValue(), (any) => void parseRelayInfo(any)));
});
