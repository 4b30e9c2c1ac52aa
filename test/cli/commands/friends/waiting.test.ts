/** The lobby as people see it: who is there, who has gone, and other lobbies of the same name. */
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import {
  createWelcome,
  tellsWaiting,
  warnOfNamesakes,
} from '../../../../src/cli/commands/friends/waiting.ts';
import { buildLobby, type Lobby, lockOf } from '../../../../src/friends/lobby.ts';
import { OpenLobby } from '../../../../src/friends/open-lobby.ts';
import { gather, waitForStart } from '../../../../src/node/friends/waiting.ts';
import { createManualClock } from '../../../support/manual-clock.ts';
import { createMemoryRelay } from '../../../support/memory-relays.ts';
import { keyOf, signerOf } from '../../../support/swarm.ts';

const secret = '0f'.repeat(16);
const invitation = { host: keyOf(0), name: 'winter', relays: [], secret };
const lobby: Lobby = {
  host: keyOf(0),
  name: 'winter',
  people: 3,
  by: 'Anna',
  lock: lockOf(secret, invitation),
  what: 'char-gpt',
  names: new Map(),
};
const NAMES = ['Anna', 'Bea', 'Cid'];

let notes = '';
beforeEach(() => {
  notes = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    notes += text;
    return true;
  });
});
afterEach(() => vi.restoreAllMocks());

function createScene() {
  const clock = createManualClock();
  const relay = createMemoryRelay('ws://memory.test');
  const open = async (index: number) => {
    const stop = new AbortController();
    const { signal } = stop;
    const ports = { relays: relay.connect(), signer: signerOf(index), clock, signal };
    const opened = new OpenLobby(invitation, ports, NAMES[index]);
    const end = () => stop.abort(new Error('ended'));
    onTestFinished(end);
    if (index === 0) await opened.describe(lobby);
    void opened.stay(signal);
    await clock.advance(0);
    return { opened, signal, end };
  };
  return { clock, relay, open };
}

it('an attendee reads that the host has gone, and that the host is back', async () => {
  const { clock, open } = createScene();
  const host = await open(0);
  const bea = await open(1);
  const start = waitForStart(bea.opened, {
    onWait: tellsWaiting(bea.opened),
    clock,
    signal: bea.signal,
  });
  await clock.advance(0);
  expect(notes).toMatch(/2 of 3 are here: Anna .*host; Bea .*you\nwaiting for 1 more/);
  host.end();
  notes = '';
  await clock.advance(120_000);
  expect(notes).toMatch(/Anna .*, the host, is away: the lobby waits until they come back/);
  notes = '';
  const again = await open(0);
  expect(notes).toContain('waiting for 1 more');
  const run = 'ab'.repeat(32);
  await again.opened.describe({ ...lobby, run });
  expect(await start).toBe(run);
});

it('a host starts when enough are there, and not by those who left', async () => {
  const { clock, open } = createScene();
  const host = await open(0);
  const { signal } = host;
  const welcome = createWelcome(host.opened, 3, false);
  const gathered = gather(host.opened, (present) => welcome.isEnough(present), signal);
  const bea = await open(1);
  await bea.opened.announce(true);
  bea.end();
  await clock.advance(0);
  expect(notes).toContain('2 of 3 are here');
  expect(notes.trimEnd().split('\n').at(-1)).toContain('1 of 3 are here');
  await open(2);
  // an event counts only if it is newer than the goodbye
  await clock.advance(2000);
  await open(1);
  expect((await gathered).map(({ name }) => name)).toEqual(['Anna', 'Bea', 'Cid']);
});

it('a host is warned of a lobby of another host with the same name, and not of its own', async () => {
  const { relay, open } = createScene();
  const { signal } = await open(0);
  const relays = relay.connect();
  await warnOfNamesakes({ invitation, relays }, signal);
  expect(notes).toBe('');
  relay.put(signerOf(5).sign(buildLobby({ ...lobby, host: keyOf(5) }, 1_700_000_000)));
  await warnOfNamesakes({ invitation, relays }, signal);
  expect(notes).toContain('another host has a lobby called winter');
});
