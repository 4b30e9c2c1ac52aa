/** Certified rounds as a protocol that a worker on this machine plays. */

import type { CertifiedState } from '../../../certified/events.ts';
import { type CertifiedOptions, firstCertified, playCertified } from '../../../certified/join.ts';
import { certifiedMembers } from '../../../certified/saved-state.ts';
import { createWire } from '../../../network/wire/create-wire.ts';
import type { Protocol } from '../../../node/protocol.ts';

type Members = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

export const certifiedProtocol = (options: CertifiedOptions): Protocol<Members> => ({
  members: certifiedMembers,
  maxPayloadBytes: options.spec.limits.payloadBytes,
  first: ({ lossBefore }, parts) => firstCertified(options, lossBefore, parts),
  open: async (wireOptions) => ({
    wire: createWire(wireOptions),
    play: (start, session, parts) => playCertified(start, session, options, parts),
  }),
});
