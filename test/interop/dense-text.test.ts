/** Relays serialize an event again: they neither escape nor trim the letters of a payload inside a manifest. */
import { createSigner } from 'nostrain/network';
import { afterAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { DENSE_LETTERS } from '../../kinds/_dense.ts';
import { INSIDE_BYTES } from '../../kinds/manifest.ts';
import { buildManifest } from '../../src/network/wire/native-profile.ts';
import { drawnBytes } from '../support/drawn-bytes.ts';
import { itWith } from '../support/needs.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { thirdParties } from './third-parties.ts';

/** Returns the EVENT message, as text, with which a relay answers a query. */
async function rawAnswer(url: string, id: string): Promise<string> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await new Promise((resolve) => socket.once('open', resolve));
  try {
    return await new Promise((resolve) => {
      socket.on('message', (data) => {
        const text = String(data);
        if (text.startsWith('["EVENT"')) resolve(text);
      });
      socket.send(JSON.stringify(['REQ', 's', { ids: [id] }]));
    });
  } finally {
    socket.terminate();
  }
}

for (const { name, version, install, isInstalled, start } of thirdParties) {
  if (!isInstalled()) {
    itWith(`not installed; that takes: ${install}`)(name, async () => undefined);
    continue;
  }
  describe(`${name} ${version}`, () => {
    const started = start();
    afterAll(async () => (await started).close());

    it('serves a full manifest in as many bytes as it was sent', async () => {
      const { url } = await started;
      const now = Math.floor(Date.now() / 1000);
      const lifetime = { createdAt: now, expiresAt: now + 3600 };
      const hash = '0'.repeat(64);
      const fields = {
        run: 'r',
        round: 1,
        base: hash,
        codec: 'trellis-251',
        examples: 1,
        steps: 1,
      };
      const { draft } = buildManifest(fields, drawnBytes(INSIDE_BYTES), lifetime);
      const event = createSigner(new Uint8Array(32).fill(6)).sign(draft);
      for (const letter of DENSE_LETTERS) expect(event.content).toContain(letter);
      await publishRaw(url, [event]);
      const answer = await rawAnswer(url, event.id);
      expect(JSON.parse(answer)[2]).toMatchObject({ id: event.id, content: event.content });
      // a relay may end its messages with a line break
      expect(answer.trim().length).toBeLessThanOrEqual(
        JSON.stringify(['EVENT', 's', event]).length,
      );
      expect(answer.length).toBeLessThanOrEqual(65_536);
    });
  });
}
