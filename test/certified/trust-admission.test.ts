/**
 * A run that admits keys followed by an anchor of its spec: a newcomer with a follow list is admitted, one without is
 * not, and a replay agrees.
 */

import { systemClock } from 'nostrain/base';
import { archiveRun, replayRun } from 'nostrain/certified';
import { createRelaySet } from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { runIdOf } from 'nostrain/run';
import { expect, it } from 'vitest';
import { certifiedSpec } from '../support/certified-swarm.ts';
import { playRerun } from '../support/rerun.ts';
import { keyOf, signerOf } from '../support/swarm.ts';

it('admits keys followed by an anchor, by the proof in the join and not by later events on relays', {
  timeout: 180_000,
}, async () => {
  const relay = await createRelay();
  const relays = createRelaySet([relay.url], {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
  });
  try {
    const anchor = signerOf(50);
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 6 },
      document: {
        ...{ tier: 'verified', joinsPerRound: 4 },
        admission: { kind: 'trust', anchors: [anchor.publicKey] },
      },
    });
    await relays.ready();
    const now = Math.floor(Date.now() / 1000);
    const listOf = (keys: readonly string[], created_at: number) =>
      anchor.sign({ kind: 3, created_at, tags: keys.map((key) => ['p', key]), content: '' });
    await relays.publish(listOf([keyOf(3)], now - 60));
    const ended = await playRerun(spec, relay.url, 5);
    const { ledger, round } = ended[0]!.state.head;
    const roster = ledger.members.map(({ key }) => key);
    expect(round).toBe(6);
    expect(roster).toContain(keyOf(3));
    expect(roster).not.toContain(keyOf(4));

    // later versions of the list do not change what was certified
    await relays.publish(listOf([keyOf(4)], now));
    const asked = { spec, crypto: nativeCrypto, sha256: nativeSha256 };
    const { signal } = new AbortController();
    const archive = await archiveRun(runIdOf(spec), { ...asked, relays, signal });
    const joined: string[] = [];
    const report = await replayRun(archive, {
      ...asked,
      onRound: (one) => joined.push(...(one.joined ?? [])),
    });
    expect(report.rounds).toBe(6);
    expect(report.ok).toBe(true);
    expect(joined).toContain(keyOf(3));
  } finally {
    await relays.close();
    await relay.close();
  }
});
