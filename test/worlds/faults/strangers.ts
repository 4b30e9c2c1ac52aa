/** Keys of strangers, who send votes, proposals and contributions as if they were members. */
import {
  manifest as manifestKind,
  proposal as proposalKind,
  vote as voteKind,
} from 'nostrain/kinds';
import { drawMoment, drawSeconds, type Fault, numberOf } from './fault.ts';

const kinds = [voteKind.kind, proposalKind.kind, manifestKind.kind];

/** Each signs what it hears from members again, with a key of its own. */
export const strangersFlood: Fault = {
  name: 'strangers-flood',
  isCertified: true,
  draw: (draws, world) => ({
    keys: draws.whole(2, 6),
    at: drawMoment(draws, world),
    seconds: drawSeconds(draws, 20, 120),
  }),
  begin(parameters, stage) {
    const from = numberOf(parameters, 'at');
    const to = from + numberOf(parameters, 'seconds');
    stage.visit(from, to, numberOf(parameters, 'keys'), (relays, signers) => {
      const own = new Set(signers.map(({ publicKey }) => publicKey));
      relays.subscribe([{ kinds }], {
        onEvent({ kind, tags, content, created_at, pubkey }) {
          if (own.has(pubkey)) return;
          for (const signer of signers) {
            const copy = signer.sign({ kind, tags, content, created_at });
            for (const sent of relays.send(copy, { skipWhenBusy: true })) sent.catch(() => {});
          }
        },
      });
    });
  },
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
};
