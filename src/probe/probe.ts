/** Tries one relay, from its description of itself to the deletion of what the trial left there. */

import { readSkew } from '../cli/doctor/relays.ts';
import type { RelayReport } from '../cli/relays-check/report.ts';
import { fetchRelayInfo } from '../node/relay-info.ts';
import { Conversation } from './conversation.ts';
import { createSamples } from './samples.ts';
import { type ProbeOptions, Sender } from './sender.ts';
import { Trial } from './trial.ts';

type About = Pick<RelayReport, 'stated' | 'skewSeconds'>;

/** Rejects only when aborted; a relay that cannot be reached has a `problem`. */
export async function probeRelay(url: string, options: ProbeOptions): Promise<RelayReport> {
  const { clock, signal, signer, onStep } = options;
  const startMs = clock.now();
  onStep('asking what it says of itself');
  const [info, skewSeconds] = await Promise.all([fetchRelayInfo(url, { signal }), readSkew(url)]);
  const about: About = {
    ...(info.ok ? { stated: info.value } : {}),
    ...(skewSeconds === undefined ? {} : { skewSeconds }),
  };
  const openingMs = clock.now();
  const writer = await Conversation.open(url, options);
  const openedMs = clock.now() - openingMs;
  if (typeof writer === 'string') return unreachable(url, writer, about);
  const reader = await Conversation.open(url, options);
  if (typeof reader === 'string') {
    writer.close();
    return unreachable(url, `a second connection: ${reader}`, about);
  }
  const { minPowDifficulty, maxMessageLength } = about.stated?.limitation ?? {};
  const sender = new Sender(url, [writer, reader], options, minPowDifficulty);
  try {
    const samples = createSamples(signer.publicKey, () => Math.floor(clock.now() / 1000));
    const found = await new Trial(sender, samples, options, maxMessageLength).run();
    return {
      ...{ url, openedMs, ...about, ...found },
      auth: sender.auth,
      rate: sender.rate,
      ...(sender.work === undefined ? {} : { work: sender.work }),
      ...(sender.clockWords === undefined ? {} : { clockWords: sender.clockWords }),
      spent: { ...sender.spent, seconds: (clock.now() - startMs) / 1000 },
    };
  } finally {
    sender.close();
  }
}

const unreachable = (url: string, problem: string, about: About): RelayReport => ({
  ...{ url, problem, ...about },
  auth: { write: false, read: false },
  size: { keptBytes: 0 },
  rate: { accepted: 0, seconds: 0 },
  kinds: {},
  filters: { s: 'unknown', c: 'unknown' },
  spent: { events: 0, bytes: 0, seconds: 0 },
});
