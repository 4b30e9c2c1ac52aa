/**
 * Three workers whose own keys nobody invited take part in the names of keys that were: a tab by the signer of its browser (NIP-07), a tab and a process
 * by a remote signer (NIP-46). Each owner signs once, and no page ever has an owner's key.
 */
import { join } from 'node:path';
import { npubEncode } from 'nostr-tools/nip19';
import { systemClock, toHex } from 'nostrain/base';
import { createRelaySet, type EventDraft } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { readTab, servePage } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { startBunker } from '../../support/bunker.ts';
import { itInChromium } from '../../support/chromium.ts';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const secretOf = (number: number) => new Uint8Array(32).fill(number);
const key = (number: number) => ['--sec-key', toHex(secretOf(number))];
const [FOUNDER, GUEST] = [1, 2];
const [IN_BROWSER, REMOTE, OF_GUEST] = [21, 22, 23];

/** How the first tab is told: its browser has a signer. */
async function signInBrowser(page: Page, signed: EventDraft[]): Promise<void> {
  await page.exposeFunction('signAsOwner', (draft: EventDraft) => {
    signed.push(draft);
    return signerOf(IN_BROWSER).sign(draft);
  });
  await page.addInitScript('window.nostr = { signEvent: (draft) => window.signAsOwner(draft) }');
}

itInChromium(
  'N-25: tabs and processes take part in the name of whoever delegated to them, by one signature each',
  async () => {
    const relay = await createRelay();
    const invited = [IN_BROWSER, REMOTE, OF_GUEST].map((each) => signerOf(each).publicKey);
    const made = await runProgram([
      ...['run', 'create', '--relay', relay.url, '-o', join(temporaryFolder(), 'run.json')],
      ...[
        '--json',
        '--model',
        'linear',
        '--rounds',
        '4',
        '--set',
        'sessions=true',
        '--set',
        'joinsPerRound=4',
      ],
      ...[...key(FOUNDER), ...invited.flatMap((each) => ['--invite', each])],
    ]);
    const { naddr } = JSON.parse(made.stdout);
    const [remote, ofGuest] = await Promise.all(
      [REMOTE, OF_GUEST].map((each) => startBunker(relay.url, { owner: secretOf(each) })),
    );
    const joining = ['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson'];
    const quick = ['--set', 'waitFor=4', '--heartbeat-interval', '5'];
    const founder = startProgram([...joining, ...quick, ...key(FOUNDER)]);
    const guest = startProgram([...joining, ...key(GUEST), '--bunker', ofGuest!.address]);
    const server = await servePage(await readTab(new Map()), {
      ...{ host: '127.0.0.1', port: 0, isolated: true },
    });
    const browser = await chromium.launch({
      executablePath: '/usr/bin/chromium',
      args: ['--no-sandbox'],
    });
    const signed: EventDraft[] = [];
    const open = async (slot: string, prepare?: (page: Page) => Promise<void>) => {
      const page = await (await browser.newContext()).newPage();
      await prepare?.(page);
      await page.goto(`${server.url}tab.html#${naddr}&device=wasm&threads=1&slot=${slot}`);
      await page.waitForSelector('#name:not([hidden])');
      return page;
    };
    try {
      const first = await open('first', (page) => signInBrowser(page, signed));
      await first.click('#sign');
      const second = await open('second');
      expect(await second.isHidden('#sign')).toBe(true);
      await second.fill('#bunker', `nsec1${'q'.repeat(58)}`);
      await second.click('#name [type=submit]');
      await second.locator('#status', { hasText: 'secret key' }).waitFor();
      expect(await second.inputValue('#bunker')).toBe('');
      await second.fill('#bunker', remote!.address);
      await second.click('#name [type=submit]');
      // what was said is kept: nobody is asked again
      await first.locator('#worker', { hasText: /[0-9a-f]{64}/ }).waitFor();
      await first.reload();
      const third = await open('third');
      await third.click('#own');
      const whom = npubEncode(signerOf(FOUNDER).publicKey);
      await third.locator('#status', { hasText: `ask ${whom} for a new run` }).waitFor();
      const over = { hasText: 'the run is over' };
      for (const page of [first, second]) {
        await page.locator('#status', over).waitFor({ timeout: 120_000 });
      }
      const sessions = [
        (await first.textContent('#worker'))!,
        (await second.textContent('#worker'))!,
        signerOf(GUEST).publicKey,
      ];
      expect(await Promise.all([founder.exit, guest.exit])).toEqual([0, 0]);
      // an outcome lists who was let in; whether slow ones are on time in so few rounds is another matter
      const joined = founder.events.flatMap((event) =>
        event.type === 'round' ? (event.certified?.joined ?? []) : [],
      );
      for (const session of sessions) expect(joined).toContain(session);
      expect(await principalsOf(relay.url)).toEqual(
        new Map(sessions.map((session, i) => [session, invited[i]])),
      );
      expect([signed, remote!.signed, ofGuest!.signed].map(({ length }) => length)).toEqual([
        1, 1, 1,
      ]);
    } finally {
      for (const { child } of [founder, guest]) child.kill('SIGKILL');
      await browser.close();
      await server.close();
      for (const bunker of [remote!, ofGuest!]) await bunker.close();
      await relay.close();
    }
  },
  300_000,
);

/** By whom each session key says that it was delegated. */
async function principalsOf(url: string): Promise<ReadonlyMap<string, string>> {
  const relays = createRelaySet([url], { openSocket, clock: systemClock });
  await relays.ready();
  const { signal } = new AbortController();
  const { events } = await relays.query([{ kinds: [7818] }], { waitMs: 10_000, signal });
  await relays.close();
  const said = events.map(({ pubkey, content }) => ({ pubkey, ...JSON.parse(content) }));
  return new Map(
    said.flatMap(({ pubkey, features }) => {
      const by = features?.sessions?.by;
      return by ? [[pubkey, by.key] as const] : [];
    }),
  );
}
