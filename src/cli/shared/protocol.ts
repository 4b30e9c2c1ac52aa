/** Chooses the protocol of a run without a spec: plain averaging, or that of the Python reference. */
import { averagingProtocol, type Protocol } from '../../node/protocol.ts';
import { pythonProtocol } from '../../python/node/protocol.ts';
import type { Settings } from '../../run/settings.ts';

export const protocolOf = ({
  profile,
  codec,
  topk,
}: Pick<Settings, 'profile' | 'codec' | 'topk'>): Protocol =>
  profile === 'nostrain/0' ? pythonProtocol({ codec, ratio: topk }) : averagingProtocol;
