import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ChainError } from 'nostrain/base';
import { createEndpoint, createPost, type Endpoint } from 'nostrain/chain';
import { afterEach, describe, expect, test } from 'vitest';
import { agree, firstProved } from '../../src/chain/endpoints.ts';
import { createManualClock } from '../support/manual-clock.ts';

const never = new AbortController().signal;
const stops: (() => unknown)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** An endpoint whose every answer is written by the test. */
async function answering(write: (response: ServerResponse) => void, path = '/secret-key') {
  const server = createServer((request, response) => {
    request.resume().on('end', () => write(response));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const clock = createManualClock();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
  const post = createPost(fetch);
  return { clock, endpoint: createEndpoint(url, { post, clock, timeoutMs: 5000, maxBytes: 1000 }) };
}

describe('an endpoint', () => {
  test.each<[string, (response: ServerResponse) => void, string, RegExp]>([
    ['another status', (r) => r.writeHead(503).end('busy'), 'chain/unreachable', /status 503/],
    [
      'a redirect',
      (r) => r.writeHead(302, { location: '/' }).end(),
      'chain/unreachable',
      /no answer/,
    ],
    ['no JSON', (r) => r.end('<html>'), 'chain/answer', /not a JSON-RPC result/],
    ['null', (r) => r.end('null'), 'chain/answer', /not a JSON-RPC result/],
    [
      'the answer to another call',
      (r) => r.end('{"id":9,"result":1}'),
      'chain/answer',
      /not a JSON-RPC/,
    ],
    ['too much', (r) => r.end('x'.repeat(1001)), 'chain/answer', /larger than 1000 bytes/],
    [
      'half of it',
      (r) => r.writeHead(200, { 'content-length': '50' }).write('{"id":1,', () => r.destroy()),
      'chain/unreachable',
      /no answer/,
    ],
    [
      'an error',
      (r) => r.writeHead(400).end('{"id":1,"error":{"message":"no\\n such  block"}}'),
      'chain/refused',
      /no such block/,
    ],
  ])('that gives %s gives no result', async (_, write, code, message) => {
    const { endpoint } = await answering(write);
    const called = endpoint.call('eth_chainId', [], never);
    await expect(called).rejects.toMatchObject({ code });
    await expect(called).rejects.toThrow(message);
    await expect(called).rejects.not.toThrow(/secret-key/);
  });

  test('that is silent is given up when its time is over; whoever stops need not wait', async () => {
    const { endpoint, clock } = await answering(() => {});
    const called = endpoint.call('eth_chainId', [], never);
    const given = expect(called).rejects.toThrow(/no answer in 5 s/);
    await clock.advance(5000);
    await given;
    const stop = new AbortController();
    const stopped = endpoint.call('eth_chainId', [], stop.signal);
    stop.abort(new Error('enough'));
    await expect(stopped).rejects.toThrow('enough');
  });
});

describe('several endpoints', () => {
  const saying = (name: string, value: unknown): Endpoint => ({
    name,
    call: async () => {
      if (value instanceof Error) throw value;
      return value;
    },
  });
  const ask = (endpoint: Endpoint) => endpoint.call('x', [], never);
  const gone = new ChainError('chain/unreachable', 'c: gone');

  test.each<[readonly unknown[], number, unknown]>([
    [[1, 1, 2], 2, 1],
    [[2, 1, 1], 2, 1],
    [[1, gone, 1], 2, 1],
    [[1], 1, 1],
    [[1, 2, 3], 2, /endpoints do not agree on it \(2 needed\): e0: 1; e1: 2; e2: 3/],
    [[1, 1, 2, 2], 2, /do not agree/],
    [[1, gone, gone], 2, /c: gone/],
    [[gone], 1, /^The chain endpoint does not answer: c: gone$/],
    [[gone, gone], 2, /^No chain endpoint answers: c: gone; c: gone$/],
    [
      [new ChainError('chain/refused', 'c: no such method')],
      1,
      /endpoints do not agree on .* \(1 needed\)/,
    ],
  ])('%j of which %i must agree', async (values, need, expected) => {
    const all = values.map((value, i) => saying(`e${i}`, value));
    const agreed = agree({ all, need }, 'it', ask, String);
    if (expected instanceof RegExp) await expect(agreed).rejects.toThrow(expected);
    else expect(await agreed).toBe(expected);
  });

  test('one that proves is enough; a bug of ours is no answer', async () => {
    const endpoints = { all: [saying('a', gone), saying('b', 7)], need: 1 };
    expect(await firstProved(endpoints, 'it', ask, 'hint')).toBe(7);
    const broken = { all: [saying('a', new TypeError('bug'))], need: 1 };
    await expect(firstProved(broken, 'it', ask, 'hint')).rejects.toThrow(TypeError);
    await expect(agree(broken, 'it', ask, String)).rejects.toThrow(TypeError);
  });
});
