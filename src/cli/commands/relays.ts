/** `nostrain relays check`: tests what relays accept and return. */

import { systemClock } from '../../base/async.ts';
import { safeLine } from '../../base/errors.ts';
import { formatSeconds } from '../../base/numbers.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { describeRelay, openSocket } from '../../node/net/relays.ts';
import {
  type CheckedRelay,
  type CheckOptions,
  checkRelays,
  type KindVerdict,
  type RelayReport,
  type Verdict,
} from '../../probe/index.ts';
import { defineCommand } from '../../terminal/command.ts';
import { toggle, whole, withDefault } from '../../terminal/flag-table.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import { alignColumns, bullets, clip } from '../../terminal/render/text.ts';

export const check = defineCommand({
  name: 'check',
  help:
    'test what each relay allows, with about 30 marked events under a throwaway key, deleted ' +
    'afterwards',
  args: [['<url...>', 'relays, as ws:// or wss://']],
  flags: {
    seconds: withDefault(
      whole('<n>', 'maximum seconds per relay; slow relays are tested less thoroughly', 1, 600),
      60,
    ),
    json: toggle('print JSON'),
  },
  async run({ seconds, json }, { args: [urls], signal }) {
    const judged = await checkRelaysWithPorts(urls, { timeLimitMs: 1000 * seconds, signal });
    const flat = judged.map(({ report, verdict }) => ({ ...report, ...verdict }));
    writeOut(json ? asJson(flat) : formatReports(judged));
    const isUsable = judged.some(
      ({ verdict: { carries } }) => carries === 'chunks' || carries === 'manifests',
    );
    if (!isUsable) process.exitCode = exitCodes.failed.code;
  },
});

/** Returns the milliseconds until a WebSocket to the relay is open, or why it is not. */
export async function timeToOpen(url: string, mostMs: number): Promise<number | string> {
  const startedMs = performance.now();
  const socket = openSocket(url);
  const opened = await new Promise<number | string>((resolve) => {
    const timer = setTimeout(() => resolve(`no answer in ${mostMs / 1000} s`), mostMs);
    const settle = (result: number | string) => {
      clearTimeout(timer);
      resolve(result);
    };
    socket.onopen = () => settle(performance.now() - startedMs);
    socket.onerror = settle;
    socket.onclose = () => settle('closed immediately');
  });
  socket.close();
  return opened;
}

const PROGRESS_INTERVAL_MS = 2000;

export async function checkRelaysWithPorts(
  urls: readonly string[],
  options: Pick<CheckOptions, 'timeLimitMs' | 'signal'>,
): Promise<readonly CheckedRelay[]> {
  const progress = createProgress();
  const ports = { openSocket, clock: systemClock, crypto: nativeCrypto, describe: describeRelay };
  try {
    return await checkRelays(urls, { ...ports, ...options, onStep: progress.step });
  } finally {
    progress.close();
  }
}

/** Prints a line for each relay whose step has changed, every PROGRESS_INTERVAL_MS. */
function createProgress() {
  const steps = new Map<string, string>();
  const printed = new Map<string, string>();
  const timer = setInterval(() => {
    for (const [url, step] of steps) {
      if (printed.get(url) === step) continue;
      printed.set(url, step);
      writeNote(`${safeLine(url)}: ${safeLine(step)}`);
    }
  }, PROGRESS_INTERVAL_MS);
  return {
    step(url: string, step: string | undefined) {
      if (step === undefined) steps.delete(url);
      else steps.set(url, step);
    },
    close: () => clearInterval(timer),
  };
}

const WIDTH = 100;
const NOTED_NIPS = [40, 67, 77] as const;
/** HTTP dates are whole seconds. */
const NOTED_SKEW_SECONDS = 5;
const CARRIES: Readonly<Record<Verdict['carries'], string>> = {
  chunks: 'chunks',
  manifests: 'manifests',
  heartbeats: 'heartbeats only',
  nothing: 'UNUSABLE',
};

const HEAD = ['relay', 'ms', 'largest', 'at once', 'auth', 'work', 'refused', 'clock', 'carries'];

/** Formats the table and the notes, at most WIDTH columns wide; text from relays is sanitized. */
export function formatReports(judged: readonly CheckedRelay[]): string {
  const rows = [HEAD, ...judged.map(rowOf)];
  const notes = judged.flatMap((each) => ['', ...notesOf(each)]);
  return `${[...alignColumns(rows, WIDTH), ...notes].join('\n')}\n`;
}

function rowOf({ report, verdict }: CheckedRelay): readonly string[] {
  const { url, openedMs, skewSeconds, auth, work, kinds, problem } = report;
  const carries = CARRIES[verdict.carries];
  const name = safeLine(url);
  if (problem !== undefined) return [name, '-', '-', '-', '-', '-', '-', '-', carries];
  const asks = [auth.write ? 'write' : '', auth.read ? 'read' : ''].filter((word) => word !== '');
  const refused = kindsThat(kinds, 'refused');
  const skew = skewSeconds === undefined ? '-' : wordSkew(skewSeconds);
  return [
    name,
    openedMs === undefined ? '-' : openedMs.toFixed(0),
    wordSize(report),
    wordRate(report),
    asks.join('+') || 'no',
    work === undefined ? 'no' : `${work.bits ?? '?'} bits`,
    refused.length === 0 ? '-' : clip(refused.join(','), 11),
    skew,
    carries,
  ];
}

const kindsThat = (kinds: RelayReport['kinds'], verdict: KindVerdict): readonly string[] =>
  Object.keys(kinds).filter((kind) => kinds[Number(kind)]?.verdict === verdict);

const kib = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KiB`;

const wordSize = ({ size: { keptBytes, refusedBytes, words } }: RelayReport): string =>
  keptBytes === 0
    ? '-'
    : `${kib(keptBytes)}${refusedBytes === undefined && words === undefined ? '+' : ''}`;

const wordRate = ({ rate: { accepted, throttled } }: RelayReport): string =>
  accepted === 0 && throttled === undefined
    ? '-'
    : `${accepted}${throttled === undefined ? '+' : ''}`;

const wordSkew = (seconds: number): string =>
  Math.abs(seconds) < NOTED_SKEW_SECONDS
    ? 'ok'
    : `${seconds > 0 ? '+' : '-'}${Math.abs(seconds).toFixed(0)} s`;

/** Returns the notes on a relay: problems, observations, and what to do. */
function notesOf({ report, verdict }: CheckedRelay): readonly string[] {
  const { url, problem } = report;
  const notes = [
    ...verdict.why,
    ...(problem === undefined ? noticed(report, verdict) : []),
    ...(verdict.next === undefined ? [] : [`try: ${verdict.next}`]),
  ];
  return [clip(`${safeLine(url)}: ${wordCarries(verdict)}`, WIDTH), ...bullets(notes, WIDTH)];
}

const wordCarries = ({ carries }: Verdict): string =>
  carries === 'nothing' ? 'unusable' : `carries ${CARRIES[carries]}`;

function noticed(report: RelayReport, verdict: Verdict): readonly string[] {
  const { stated, size, kinds, filters, deletes, skewSeconds, spent, auth, work } = report;
  const isSizeReported = verdict.why.some((why) => why.startsWith('takes events'));
  const refusals = Object.entries(kinds).filter(
    ([kind, { verdict: each }]) => each === 'refused' && !verdict.why.join().includes(kind),
  );
  const lost = kindsThat(kinds, 'lost').filter(() => verdict.carries !== 'nothing');
  return [
    stated === undefined ? 'serves no information document (NIP-11)' : wordStated(stated),
    ...(size.words === undefined || isSizeReported ? [] : [wordLimit(size)]),
    ...describeRate(report),
    ...(auth.letIn && verdict.carries !== 'nothing' ? ['accepts new keys after AUTH'] : []),
    ...(work !== undefined && verdict.carries !== 'nothing' ? [`work: ${work.words}`] : []),
    ...refusals.map(([kind, { words }]) => `refuses kind ${kind}: ${words}`),
    ...lost.map((kind) => `accepts kind ${kind} but does not return it`),
    ...(['s', 'c'] as const)
      .filter((name) => filters[name] === 'brings too much')
      .map((name) => `its #${name} filter returns events that do not match`),
    ...(deletes === false
      ? ['does not delete events on request; the test events expire in 5 minutes']
      : []),
    ...(skewSeconds !== undefined && Math.abs(skewSeconds) >= NOTED_SKEW_SECONDS
      ? [wordClock(skewSeconds)]
      : []),
    `tested with ${spent.events} events, ${(spent.bytes / 1000).toFixed(0)} kB, in ` +
      `${formatSeconds(spent.seconds)}`,
  ];
}

function wordStated(stated: NonNullable<RelayReport['stated']>): string {
  const { name, software, version, supportedNips, limitation } = stated;
  const nips = NOTED_NIPS.filter((nip) => supportedNips.includes(nip));
  const limits = [
    limitation.maxMessageLength === undefined ? '' : `messages ${limitation.maxMessageLength}`,
    limitation.maxContentLength === undefined ? '' : `content ${limitation.maxContentLength}`,
    limitation.maxSubscriptions === undefined ? '' : `subscriptions ${limitation.maxSubscriptions}`,
    limitation.paymentRequired ? 'payment' : '',
    limitation.restrictedWrites ? 'restricted writes' : '',
  ].filter((word) => word !== '');
  const made = [software, version].filter((word) => word !== undefined).join(' ');
  const parts = [
    name ?? 'unnamed',
    made,
    nips.length === 0 ? 'none of NIP 40, 67, 77' : `NIP ${nips.join(', ')}`,
    limits.length === 0 ? 'no limits stated' : `states ${limits.join(', ')}`,
  ];
  return `describes itself as: ${parts.filter((part) => part !== '').join('; ')}`;
}

const wordLimit = ({ refusedBytes, words }: RelayReport['size']): string =>
  refusedBytes === undefined
    ? `size: ${words}`
    : `refuses an event of ${kib(refusedBytes)}: ${words}`;

function describeRate({ rate }: RelayReport): readonly string[] {
  const { accepted, seconds, throttled, againAfterSeconds } = rate;
  if (throttled === undefined) return [];
  const nextEvent =
    againAfterSeconds === undefined
      ? 'accepted no more within the time limit'
      : `accepted another one after ${againAfterSeconds.toFixed(0)} s`;
  return [
    `rate-limited after ${accepted} events in ${formatSeconds(seconds)} ` +
      `(${throttled}); ${nextEvent}`,
  ];
}

const wordClock = (skewSeconds: number): string =>
  `this machine is ${Math.abs(skewSeconds).toFixed(0)} s ` +
  `${skewSeconds > 0 ? 'ahead of' : 'behind'} its clock`;
