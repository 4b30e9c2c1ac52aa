/** What of a certified run is larger than one event, over relays that take 64 KiB. */
import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../relay/server.ts';
import { philox, unit } from '../../src/base/rng.ts';
import { encodeNstr } from '../../src/network/codec/nstr.ts';
import { createSigner, type SignedEvent } from '../../src/network/event.ts';
import { buildManifest } from '../../src/network/wire/manifests.ts';
import { type RunSpec, runIdOf } from '../../src/run/run-spec.ts';
import { createLayout } from '../../src/tensor/params.ts';
import { genesisOf } from '../../src/worker/certified/history.ts';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { secretOf } from '../support/swarm.ts';

const open: Relay[] = [];
const started: CertifiedMember[] = [];
async function strictRelay(): Promise<string> {
  const one = await createRelay({ strict: 'strfry' });
  open.push(one);
  return one.url;
}
function start(options: CertifiedOptions): CertifiedMember {
  const member = startCertified(options);
  started.push(member);
  return member;
}
afterEach(async () => {
  for (const member of started.splice(0)) member.stop();
  for (const one of open.splice(0)) await one.close();
});

/** Its deltas make payloads of about 42 kB, which ride inside their manifests. */
const layout = createLayout([{ name: 'w', shape: [17_500] }]);

function manifest(spec: RunSpec, index: number, seed: number): SignedEvent {
  const run = runIdOf(spec);
  const params = { layout, values: new Float32Array(layout.size) };
  const { modelRoot: base } = genesisOf(spec, params);
  const values = Float64Array.from({ length: layout.size }, (_, i) => {
    return unit(philox([seed, 5], i, 0, 0, 0)[0]) - 0.5;
  });
  const own = { run, round: 0, parent: run, base, codec: 'nstr', examples: 1, steps: 1 };
  const { container } = encodeNstr({ layout, values }, { ratio: 1 });
  const createdAt = Math.floor(Date.now() / 1000);
  const life = { createdAt, expiresAt: createdAt + 86_400 };
  return createSigner(secretOf(index)).sign(buildManifest(own, container, life).draft);
}

describe('a worker that sends two manifests with payloads of 42 kB inside', () => {
  it('is named by a proof that relays take, out of the roster, and a replay finds the same', async () => {
    const url = await strictRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2, timing: { graceMaxMs: 3000 } },
      document: { committee: { quorum: 'cft' } },
    });
    const twins = [manifest(spec, 2, 1), manifest(spec, 2, 2)];
    for (const twin of twins) expect(JSON.stringify(twin).length).toBeGreaterThan(55_000);
    await publishRaw(url, twins);
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, layout }));
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      const [fault] = member.events.filter((event) => event.type === 'fault');
      expect(fault).toMatchObject({ worker: keyOf(2), kind: 'equivocation' });
      expect(member.disk.state!.standing!.ledger.faulted).toEqual([keyOf(2)]);
    }
    const { rounds, end } = replayed(spec, layout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full']);
    expect(end.state.ledger.faulted).toEqual([keyOf(2)]);
    expect(end.state.modelRoot).toBe(certifiedRounds(members[0]!)[1]!.certified!.root);
  }, 60_000);
});
