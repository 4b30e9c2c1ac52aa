/** Certified rounds as a protocol that a worker on this machine plays. */

import type { CertifiedState } from '../../../certified/events.ts';
import {
  type CertifiedOptions,
  createMember,
  firstCertified,
} from '../../../certified/join-run.ts';
import { certifiedMembers } from '../../../certified/saved-state.ts';
import { createCertifiedStrategy } from '../../../certified/strategy.ts';
import { createWire } from '../../../network/wire/create-wire.ts';
import type { Protocol } from '../../../node/protocol.ts';
import { runWorker } from '../../../worker/loop.ts';

type Members = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

export const certifiedProtocol = (options: CertifiedOptions): Protocol<Members> => ({
  members: certifiedMembers,
  maxPayloadBytes: options.spec.limits.payloadBytes,
  first: ({ lossBefore }, parts) => firstCertified(options, lossBefore, parts),
  open: async (wireOptions) => ({
    wire: createWire(wireOptions),
    async play(start, session, surroundings) {
      const { ports, signal } = session;
      const member = createMember(options, { ...surroundings, ports, signal });
      try {
        return await runWorker(start, session, createCertifiedStrategy(member, session));
      } finally {
        member.close();
      }
    },
  }),
});
