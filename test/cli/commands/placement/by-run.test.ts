/** Holders among the members of a real run: by its spec and what its relays have. */
import { writeFile } from 'node:fs/promises';
import { gather, openingOf, pathOf } from 'nostrain/certified/parts';
import { buildHolder, createSigner } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { toNpub } from 'nostrain/node/parts';
import { createRelay, type Relay } from 'nostrain/relay';
import { canonicalSpec } from 'nostrain/run';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateRun } from '../../../support/certified-run.ts';
import { runCommand } from '../../../support/command-line.ts';
import { publishRaw } from '../../../support/publish-raw.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const made = generateRun();
const inFolder = temporaryFolder();
const stranger = createSigner(new Uint8Array(32).fill(9), nativeCrypto);
let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
  const now = Math.floor(Date.now() / 1000);
  const offer = {
    ...{ region: 'asia', tier: 'known', weight: 1, classes: [], freeBytes: 1, held: [] },
    contacts: ['https://holder.example.org'],
  };
  const holder = stranger.sign(buildHolder(offer, now, 3600));
  await publishRaw(relay.url, [holder, ...made.events]);
});
afterAll(() => relay.close());

describe('placement check --run', () => {
  it('draws among members of the run alone, and lists those that announce no capacity', async () => {
    const { ledger } = pathOf(openingOf(made.spec, {}), gather(made.events, made)).tip.chain;
    const members = ledger.members.map(({ key }) => key);
    const [silent, ...holding] = members;
    const rows = [...holding, stranger.publicKey].map(
      (key) => `[[holders]]\nkey = "${key}"\nregion = "asia"\ntier = "known"\n`,
    );
    const rules = `[objects.checkpoint]\nreplicas = ${holding.length}\n${rows.join('')}`;
    await writeFile(inFolder('rules.toml'), rules);
    await writeFile(inFolder('run.json'), canonicalSpec(made.spec));
    const asked = [inFolder('rules.toml'), '--run', inFolder('run.json'), '--relay', relay.url];
    const { exitCode, stdout, stderr } = await runCommand('placement', 'check', ...asked);
    expect(exitCode, stderr).toBe(0);
    for (const key of holding) expect(stdout).toContain(`${toNpub(key)}  region asia`);
    expect(stdout).not.toContain(toNpub(stranger.publicKey));
    expect(stdout).toContain(`${toNpub(silent!)}: a member of the run that announces no capacity`);
  });

  it('draws among all who announce themselves without it', async () => {
    await writeFile(inFolder('one.toml'), '[objects.checkpoint]\nreplicas = 1\n');
    const asked = [inFolder('one.toml'), '--relay', relay.url];
    const { exitCode, stdout } = await runCommand('placement', 'check', ...asked);
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`${toNpub(stranger.publicKey)}  region asia`);
  });

  it('refuses flags about runs without one', async () => {
    await writeFile(inFolder('one.toml'), '[objects.checkpoint]\nreplicas = 1\n');
    const { exitCode } = await runCommand(
      'placement',
      'check',
      inFolder('one.toml'),
      '--stake',
      'x',
    );
    expect(exitCode).toBe(2);
  });
});
