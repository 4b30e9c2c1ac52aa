/** Runs with payloads larger than one event, over relays with the limits of public ones, some of them failing. */

import { buildManifest, createRelaySet, createSigner } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import type { CoreOptions } from 'nostrain/relay';
import { stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { expectWhole } from '../support/expect-whole.ts';
import {
  largeLayout,
  type Member,
  type MemberOptions,
  roundsOf,
  secretOf,
  startMember,
} from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const relay = (options: CoreOptions = {}) => stage.relay({ strict: 'strfry', ...options });
const rounds = 3;
const common = { sync: { strategy: 'strict', workers: 3 } as const, waitFor: 3, rounds };
const start = (
  index: number,
  relays: readonly string[],
  more: Partial<MemberOptions> = {},
): Member => stage.start({ index, relays, layout: largeLayout, plan: common, ...more });

describe('payloads in chunks', () => {
  it('go over one relay that accepts 64 KiB', async () => {
    const { url } = relay();
    const members = [0, 1, 2].map((index) => start(index, [url]));
    await expectWhole(members, rounds);
    const [first] = roundsOf(members[0]!);
    expect(first!.payloadBytes).toBeGreaterThan(45_056);
    expect(first!.eventBytes).toBeGreaterThan(first!.payloadBytes);
  });

  it('N-08: go over three relays of which one dies mid-round and one drops half of everything', async () => {
    const good = relay();
    const lossy = relay({ seed: 5, faults: { drop: 0.25, swallow: 0.25 } });
    const dying = relay();
    const relays = [dying.url, lossy.url, good.url];
    const members = [0, 1, 2].map((index) => start(index, relays));
    await stage.until(() => dying.stats().eventsAccepted >= 5);
    await dying.close();
    await expectWhole(members, rounds);
  });

  it('striped 2/3 over three relays, each with a part, of which one dies mid-round', async () => {
    const relays = [relay(), relay(), relay()];
    const urls = relays.map(({ url }) => url);
    const erasure = { data: 2, parity: 1 };
    const members = [0, 1, 2].map((index) => start(index, urls, { erasure }));
    await stage.until(() => relays[0]!.stats().eventsAccepted >= 5);
    await relays[0]!.close();
    await expectWhole(members, rounds);
  });

  it('a worker killed after any save sends the same bytes again', async () => {
    const { url } = relay();
    const plan = { ...common, sync: { strategy: 'strict', workers: 2 } as const, waitFor: 2 };
    const steady = start(0, [url], { plan });
    const first = start(1, [url], { plan });
    await stage.until(() => first.saved[0]?.sent !== undefined);
    first.stop();
    await first.finished.catch(() => undefined);
    const state = first.saved.find(({ sent }) => sent)!;
    const again = start(1, [url], { plan, start: state });
    await Promise.all([steady.finished, again.finished]);
    expect(roundsOf(again).map(({ digest }) => digest)).toEqual(
      roundsOf(steady).map(({ digest }) => digest),
    );
  });

  it('a payload whose chunks never arrive is refused by name at the deadline', async () => {
    const { url } = relay();
    const timeout = { sync: { strategy: 'timeout' } as const, roundTimeoutMs: 1500 };
    const mute = createSigner(secretOf(7));
    const createdAt = Math.floor(stage.clock.now() / 1000);
    const { draft } = buildManifest(
      {
        ...{ run: 'swarm', round: 0, codec: 'nstr', examples: 8, steps: 3 },
        base: stateDigest({ layout: largeLayout, values: new Float32Array(largeLayout.size) }),
      },
      new Uint8Array(100_000),
      { createdAt, expiresAt: createdAt + 600 },
    );
    const set = createRelaySet([url], {
      openSocket: stage.openSocket,
      clock: stage.clock,
      crypto: nativeCrypto,
    });
    expect((await set.publish(mute.sign(draft)))[0]!.status).toBe('accepted');
    await set.close();

    const honest = start(0, [url], { plan: { ...timeout, rounds: 1, waitFor: 1 } });
    await honest.finished;
    expect(roundsOf(honest)[0]).toMatchObject({
      accepted: [honest.id],
      refused: [{ reason: 'payload-missing', worker: mute.publicKey }],
    });
    const refused = honest.events.filter((event) => event.type === 'refused');
    expect(refused.map(({ detail }) => detail)).toEqual(['0 of 3 chunks arrived']);
  });
});
