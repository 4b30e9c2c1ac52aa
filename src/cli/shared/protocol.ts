/** Chooses the protocol of a run without a spec: plain averaging, validators, or that of the Python reference. */
import { mergingProtocol } from '../../node/merging.ts';
import { averagingProtocol, type Protocol } from '../../node/protocol.ts';
import { pythonProtocol } from '../../python/node/protocol.ts';
import type { Settings } from '../../run/settings.ts';

export function protocolOf(settings: Settings): Protocol {
  const { profile, codec, topk, validators } = settings;
  if (profile === 'nostrain/0') return pythonProtocol({ codec, ratio: topk });
  return validators.length > 0 ? mergingProtocol(settings) : averagingProtocol;
}
