/** What relays answer: whether they can be reached, what they say of themselves, and what time they think it is. */

import { safeLine } from '../../../base/errors.ts';
import { MAX_WORK_BITS } from '../../../network/proof-of-work.ts';
import type { RelayInfo } from '../../../network/transport/limits.ts';
import { parseRelayUrls, withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { fetchClockSkew, fetchRelayInfo, kilobytes, openSocket } from '../../../node/net/relays.ts';
import type { Check } from './check.ts';

const TIMEOUT_MS = 5000;
/** Dates of HTTP are whole seconds; a smaller difference says nothing. */
const NOTED_SKEW_SECONDS = 5;
/** Heartbeats dated this far back look like those of a worker that is gone. */
const BROKEN_SKEW_SECONDS = 60;

interface Probe {
  readonly url: string;
  /** Milliseconds until the connection was open, or why it is not. */
  readonly opened: number | string;
  readonly info: RelayInfo | undefined;
  /** This machine's clock minus the relay's; undefined where it gave no time. */
  readonly skewSeconds: number | undefined;
}

/** All relays at once; throws a ConfigError when an address is wrong. */
export async function checkRelays(urls: readonly string[]): Promise<readonly Check[]> {
  if (urls.length === 0) return [];
  const probes = await Promise.all(parseRelayUrls(urls).map(probe));
  const problems = probes.map(problemOf);
  const canMiss = problems.includes(undefined);
  const relays = probes.map((each, i) =>
    wordRelay(each, problems[i], canMiss && isReached(each) ? 'note' : 'broken'),
  );
  return [...relays, checkClock(probes)];
}

async function probe(url: string): Promise<Probe> {
  const [opened, info, skewSeconds] = await Promise.all([
    timeToOpen(url),
    fetchRelayInfo(url, { timeoutMs: TIMEOUT_MS }),
    fetchClockSkew(url),
  ]);
  return { url, opened, info: info.ok ? info.value : undefined, skewSeconds };
}

async function timeToOpen(url: string): Promise<number | string> {
  const startedMs = performance.now();
  const socket = openSocket(url);
  const opened = await new Promise<number | string>((resolve) => {
    const timer = setTimeout(() => resolve(`no answer in ${TIMEOUT_MS / 1000} s`), TIMEOUT_MS);
    const settle = (result: number | string) => {
      clearTimeout(timer);
      resolve(result);
    };
    socket.onopen = () => settle(performance.now() - startedMs);
    socket.onerror = settle;
    socket.onclose = () => settle('closed at once');
  });
  socket.close();
  return opened;
}

const isReached = ({ opened }: Probe): boolean => typeof opened === 'number';

/** Why a run cannot use the relay; undefined when nothing speaks against it. */
function problemOf({ opened, info }: Probe): string | undefined {
  if (typeof opened === 'string') return `cannot be reached: ${opened}`;
  const { paymentRequired, minPowDifficulty = 0 } = info?.limitation ?? {};
  if (paymentRequired) return 'asks for payment';
  return minPowDifficulty > MAX_WORK_BITS
    ? `asks for proof of work of ${minPowDifficulty} bits, more than nostrain does`
    : undefined;
}

function wordRelay(
  { url, opened, info }: Probe,
  problem: string | undefined,
  level: 'note' | 'broken',
): Check {
  const name = `relay ${withoutSecrets(url)}`;
  const reached = typeof opened === 'number' ? [`reached in ${opened.toFixed(0)} ms`] : [];
  const said = reached.length === 0 ? [] : wordInfo(info);
  const words = [...reached, ...(problem === undefined ? [] : [problem]), ...said].join('; ');
  return { name, level: problem === undefined ? 'ok' : level, words };
}

function wordInfo(info: RelayInfo | undefined): readonly string[] {
  if (info === undefined) return ['does not describe itself (NIP-11)'];
  const { name, software, version, limitation } = info;
  const { maxMessageLength, maxContentLength, restrictedWrites } = limitation;
  const made = [software, version].filter((word) => word !== undefined).join(' ');
  const parts = [
    name ?? 'unnamed',
    made,
    maxMessageLength === undefined ? '' : `messages up to ${kilobytes(maxMessageLength)}`,
    maxContentLength === undefined ? '' : `content up to ${kilobytes(maxContentLength)}`,
    restrictedWrites ? 'not everything may be written' : '',
  ];
  const printable = parts.map((part) => safeLine(part).trim());
  return printable.filter((part) => part !== '');
}

/** The middle one of the relays' clocks counts: one wrong relay says nothing about this machine. */
function checkClock(probes: readonly Probe[]): Check {
  const name = 'clock';
  const skews = probes.map(({ skewSeconds }) => skewSeconds).filter((skew) => skew !== undefined);
  skews.sort((a, b) => a - b);
  const skew = skews[Math.floor(skews.length / 2)];
  if (skew === undefined) return { name, level: 'absent', words: 'no relay said what time it is' };
  const size = Math.abs(skew);
  const words = `${size.toFixed(0)} s ${skew < 0 ? 'behind' : 'ahead of'} the relays`;
  if (size < NOTED_SKEW_SECONDS) return { name, level: 'ok', words: 'agrees with the relays' };
  const level = size < BROKEN_SKEW_SECONDS ? 'note' : 'broken';
  return { name, level, words, hint: 'set the clock of this machine, best by NTP' };
}
