/** The page replays a run of an ONNX file with its model, which it fetches from the relays. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sha256, systemClock } from 'nostrain/base';
import { makeSpec } from 'nostrain/certified';
import { createRelaySet } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { readManifest } from '../../src/node/checkpoint/folder.ts';
import { pushToRelays } from '../../src/node/checkpoint/push-relays.ts';
import { withPacked } from '../../src/node/data/spec-data.ts';
import { packForRun, startOfSettings } from '../../src/node/pretrained/imported-file.ts';
import { firstOfImported } from '../../src/page/imported-first.ts';
import { linearOnnx } from '../support/imported.ts';
import { temporaryFolder } from '../support/processes.ts';
import { signerOf } from '../support/signers.ts';

it('has the weights of the file', async () => {
  const home = temporaryFolder();
  process.env.NOSTRAIN_HOME = home;
  await mkdir(home, { recursive: true });
  const base = join(home, 'line.onnx');
  await writeFile(base, linearOnnx(0.25));
  const { signal } = new AbortController();
  const made = await makeSpec({
    training: { model: 'onnx-rows', base, rounds: 2 },
    me: signerOf(1).publicKey,
    start: (each) => startOfSettings(each, { onNotice: () => undefined, signal }),
  });
  const folders = await packForRun({ ...made.spec.training, base }, signal);
  const spec = await withPacked(made.spec, { packed: folders }, signal);
  const relay = await createRelay();
  const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
  try {
    await relays.ready(signal);
    const session = { relays, clock: systemClock, sha256, signal };
    const createdAt = Math.floor(Date.now() / 1000);
    const lifetime = { createdAt, expiresAt: createdAt + 1000 };
    const sending = { relays, signer: signerOf(1), lifetime, signal, redundancy: 1 };
    for (const folder of folders) {
      await pushToRelays(folder, await readManifest(folder), sending);
    }
    const first = await firstOfImported(spec, session);
    expect([...first!]).toEqual([0.5, 0.25, Math.fround(0.1), 0]);
  } finally {
    await relays.close();
    await relay.close();
  }
});
