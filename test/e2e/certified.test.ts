import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay, type RelayOptions } from '../../relay/server.ts';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  startCertified,
} from '../support/certified-swarm.ts';

const open: Relay[] = [];
const started: CertifiedMember[] = [];
async function relay(options: RelayOptions = {}): Promise<Relay> {
  const one = await createRelay(options);
  open.push(one);
  return one;
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

const rootsOf = (member: CertifiedMember) =>
  certifiedRounds(member).map(({ certified }) => certified!.root);

describe('certified rounds', () => {
  it('end in one root for everybody', async () => {
    const { url } = await relay();
    const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 3 });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec }));
    const states = await Promise.all(members.map(({ finished }) => finished));
    expect(states.map(({ round }) => round)).toEqual([3, 3, 3]);
    for (const member of members) {
      expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
      for (const { certified, accepted } of certifiedRounds(member)) {
        expect(certified!.result).toBe('final');
        expect(accepted).toHaveLength(3);
      }
    }
  });
});
