import fc from 'fast-check';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { eventOf } from '../support/signers.ts';

let relay: Relay;
let reader: RawReader;
beforeAll(async () => {
  relay = await createRelay();
  reader = await openReader(relay.url);
});
afterAll(async () => {
  await reader.close();
  await relay.close();
});

/** The relay still answers on the same connection. */
async function stillThere(): Promise<void> {
  const name = `z${reader.frames.length}`;
  reader.say('REQ', name, { limit: 0 });
  await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name);
  reader.say('CLOSE', name);
}

const event = eventOf('x', { tags: [['d', 'y']] });
const verb = fc.constantFrom('EVENT', 'REQ', 'CLOSE', 'AUTH', 'COUNT', '', null);
const key = fc.constantFrom('ids', 'authors', 'kinds', 'since', 'until', 'limit', '#d', '#xx', 'x');
const filter = fc.dictionary(key, fc.oneof(fc.jsonValue(), fc.array(fc.integer())));
const bentEvent = fc
  .tuple(fc.constantFrom(...Object.keys(event)), fc.jsonValue())
  .map(([field, value]) => ({ ...event, [field]: value }));
const message = fc.oneof(
  fc.jsonValue(),
  fc.tuple(verb, fc.jsonValue(), fc.jsonValue()),
  fc.tuple(fc.constant('REQ'), fc.constantFrom('a', 'b'), filter, filter),
  fc.tuple(fc.constant('EVENT'), bentEvent),
);

test('any JSON leaves the relay answering', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 20 }), async (messages) => {
      for (const json of messages) reader.sendRaw(JSON.stringify(json) ?? 'null');
      await stillThere();
    }),
    { numRuns: 60 },
  );
});

test('any text and any bytes are answered with a NOTICE', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string(), fc.uint8Array(), async (text, bytes) => {
      reader.sendRaw(`{${text}`);
      reader.sendRaw(bytes);
      await stillThere();
    }),
    { numRuns: 30 },
  );
  expect(reader.frames.filter((frame) => frame[0] === 'NOTICE').length).toBeGreaterThan(30);
});

test('deep nesting and odd names are refused, not followed', async () => {
  reader.sendRaw('['.repeat(200_000));
  reader.sendRaw(`["REQ","deep",${'['.repeat(50_000)}${']'.repeat(50_000)}]`);
  reader.sendRaw('["REQ","proto",{"__proto__":{"kinds":[1]},"constructor":1}]');
  reader.sendRaw(`["REQ","${'n'.repeat(65)}",{}]`);
  await stillThere();
  const closed = reader.frames.filter((frame) => frame[0] === 'CLOSED').map((frame) => frame[1]);
  expect(closed).toEqual(expect.arrayContaining(['deep', 'proto']));
});
