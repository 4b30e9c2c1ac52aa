/** A lobby over one relay in memory: who is there, who has gone, who may come in, and a host that starts again. */
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Invitation } from '../../src/friends/line.ts';
import { buildAttendee, type Lobby, lockOf, proofOf } from '../../src/friends/lobby.ts';
import { OpenLobby } from '../../src/friends/open-lobby.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createMemoryRelay } from '../support/memory-relays.ts';
import { keyOf, signerOf } from '../support/swarm.ts';

const HOST = 0;
const secret = '0f'.repeat(16);
const invitation: Invitation = { host: keyOf(HOST), name: 'winter', relays: [], secret };
const lobby: Lobby = {
  host: keyOf(HOST),
  name: 'winter',
  people: 3,
  by: 'Anna',
  lock: lockOf(secret, invitation),
  what: 'char-gpt',
  names: new Map(),
};
const AWAY_SECONDS = 80;

function createScene() {
  const clock = createManualClock();
  const relay = createMemoryRelay('ws://memory.test');
  /** Opens the lobby for a person; returns it with a function that ends it like a crash. */
  const open = async (index: number, name?: string, as: Invitation = invitation) => {
    const stop = new AbortController();
    const { signal } = stop;
    const ports = { relays: relay.connect(), signer: signerOf(index), clock, signal };
    const opened = new OpenLobby(as, ports, name);
    const end = () => {
      stop.abort(new Error('ended'));
      opened.close();
    };
    onTestFinished(end);
    if (index === HOST) await opened.describe(lobby);
    void opened.stay(signal);
    await clock.advance(0);
    return Object.assign(opened, { end });
  };
  const at = () => Math.floor(clock.now() / 1000);
  return { clock, relay, open, at };
}

const names = (opened: OpenLobby) => opened.present().map(({ name, key }) => name ?? key);

describe('a lobby', () => {
  it('shows everybody to everybody, the host first, by name', async () => {
    const { open } = createScene();
    const host = await open(HOST, 'Anna');
    const bea = await open(1, 'Bea');
    const cid = await open(2, 'Cid');
    expect(names(host)).toEqual(['Anna', 'Bea', 'Cid']);
    expect(names(bea)).toEqual(['Anna', 'Cid', 'Bea']);
    expect(names(cid)).toEqual(['Anna', 'Bea', 'Cid']);
    expect(cid.present().map(({ isHost, isMe }) => [isHost, isMe])).toEqual([
      [true, false],
      [false, false],
      [false, true],
    ]);
    expect(cid.lobby).toMatchObject({ people: 3, what: 'char-gpt' });
  });

  it('forgets an attendee that leaves at once, and one that crashes after two announcements', async () => {
    const { clock, open } = createScene();
    const host = await open(HOST, 'Anna');
    const bea = await open(1, 'Bea');
    const cid = await open(2, 'Cid');
    await bea.announce(true);
    bea.end();
    await clock.advance(0);
    expect(names(host)).toEqual(['Anna', 'Cid']);
    cid.end();
    await clock.advance(1000 * (AWAY_SECONDS / 4));
    expect(names(host)).toEqual(['Anna', 'Cid']);
    await clock.advance(1000 * AWAY_SECONDS);
    expect(names(host)).toEqual(['Anna']);
  });

  it('takes attendees that know the secret, and no others', async () => {
    const { relay, open, at } = createScene();
    const host = await open(HOST, 'Anna');
    const { secret: _, ...withoutSecret } = invitation;
    const stranger = await open(3, 'Eve', withoutSecret);
    expect(names(host)).toEqual(['Anna']);
    expect(stranger.isOpenToMe).toBe(false);
    // the proof of another attendee
    const proof = proofOf(secret, invitation, keyOf(1));
    const copied = buildAttendee(invitation, { name: 'Eve', proof, isLeaving: false }, at() + 1);
    relay.put(signerOf(3).sign(copied));
    expect(names(host)).toEqual(['Anna']);
    expect((await open(4, 'Dan', { ...invitation, secret: 'aa'.repeat(16) })).isOpenToMe).toBe(
      false,
    );
    expect((await open(1, 'Bea')).isOpenToMe).toBe(true);
    expect(names(host)).toEqual(['Anna', 'Bea']);
  });

  it('is described by its host alone', async () => {
    const { open } = createScene();
    await open(HOST, 'Anna');
    const attendee = await open(1, 'Bea');
    const imposter = { ...lobby, host: keyOf(3), by: 'Eve', run: 'ab'.repeat(32) };
    const other = await open(3, undefined, { ...invitation, host: keyOf(3) });
    await other.describe(imposter);
    expect(attendee.lobby).toMatchObject({ by: 'Anna', run: undefined });
  });

  it('is the same, with the same people, when its host starts again', async () => {
    const { clock, open } = createScene();
    const first = await open(HOST, 'Anna');
    const bea = await open(1, 'Bea');
    first.end();
    await clock.advance(1000 * AWAY_SECONDS);
    expect(bea.isHostPresent).toBe(false);
    expect(names(bea)).toEqual(['Bea']);
    const again = await open(HOST, 'Anna');
    expect(names(again)).toEqual(['Anna', 'Bea']);
    expect(bea.isHostPresent).toBe(true);
    await again.describe({ ...lobby, run: 'ab'.repeat(32), names: new Map([[keyOf(1), 'Bea']]) });
    await clock.advance(0);
    expect(bea.lobby?.run).toBe('ab'.repeat(32));
    expect((await open(2, 'Cid')).nameOf(keyOf(1))).toBe('Bea');
  });

  it('believes no event from the future, and none that is older than the last', async () => {
    const { relay, open, at } = createScene();
    const host = await open(HOST, 'Anna');
    const proof = proofOf(secret, invitation, keyOf(1));
    const attendee = (createdAt: number, isLeaving: boolean) =>
      signerOf(1).sign(buildAttendee(invitation, { name: 'Bea', proof, isLeaving }, createdAt));
    relay.put(attendee(at() + 3600, false));
    expect(names(host)).toEqual(['Anna']);
    relay.events.splice(1);
    relay.put(attendee(at() + 5, true));
    relay.events.splice(1);
    relay.put(attendee(at(), false));
    expect(names(host)).toEqual(['Anna']);
  });

  it('remembers at most 256 attendees', async () => {
    const { relay, open, at } = createScene();
    const host = await open(HOST, 'Anna');
    for (let index = 1; index <= 300; index++) {
      const proof = proofOf(secret, invitation, keyOf(index));
      relay.put(signerOf(index).sign(buildAttendee(invitation, { proof, isLeaving: false }, at())));
    }
    expect(host.attendees().length).toBe(256);
  });
});
