/** Measurements of one relay that was tried, what it can carry of a run, why not more, and what to do next. */
import { chunk } from '../../kinds/chunk.ts';
import { heartbeat } from '../../kinds/heartbeat.ts';
import { manifest } from '../../kinds/manifest.ts';
import { presence } from '../../kinds/presence.ts';
import { MAX_WORK_BITS, MAX_WORK_BYTES } from '../network/proof-of-work.ts';
import type { RelayInfo } from '../network/transport/limits.ts';

/** `yes`: accepted and found again. `lost`: accepted and not found. `unknown`: not tried, or no verdict. */
export type KindVerdict = 'yes' | 'lost' | 'refused' | 'unknown';

/** Whether a relay takes one kind of event, and in which words it refused. */
export interface KindReport {
  readonly verdict: KindVerdict;
  readonly words: string;
}

/** Whether a tag filter brings exactly the events it should. */
export type FilterVerdict = 'works' | 'brings too much' | 'finds nothing' | 'refused' | 'unknown';

/** How many events a relay took before it asked for slower ones. */
export interface RateReport {
  /** Events accepted before the first `rate-limited`, or in all when there was none. */
  readonly accepted: number;
  readonly seconds: number;
  readonly throttled?: string;
  /** Seconds after the refusal until the relay accepted another event; the probe retries at fixed intervals. */
  readonly againAfterSeconds?: number;
}

/** The largest event that a relay took and brought back. */
export interface SizeReport {
  /** The largest event accepted and read back; 0 when there was none. */
  readonly keptBytes: number;
  /** The smallest that was too large. */
  readonly refusedBytes?: number;
  readonly words?: string;
}

/** What a relay says of itself (NIP-11), and how far its clock is off. */
export interface RelayDescription {
  readonly stated?: RelayInfo;
  /** This machine's clock minus the relay's. */
  readonly skewSeconds?: number;
}

/** Everything that a trial found out about a relay. */
export interface RelayReport extends RelayDescription {
  readonly url: string;
  /** Why there is nothing else. */
  readonly problem?: string;
  readonly openedMs?: number;
  /** The relay's words when it refused an event dated now. */
  readonly clockWords?: string;
  readonly auth: {
    readonly write: boolean;
    readonly read: boolean;
    /** Whether it then let a key in that it has never seen. */
    readonly letIn?: boolean;
  };
  /** Present when proof of work was asked for. */
  readonly work?: { readonly bits?: number; readonly words: string };
  /** Present when the relay ended the connection after most messages. */
  readonly hangUps?: { readonly times: number; readonly messages: number };
  readonly size: SizeReport;
  readonly rate: RateReport;
  readonly kinds: Readonly<Record<number, KindReport>>;
  readonly filters: { readonly s: FilterVerdict; readonly c: FilterVerdict };
  /** Whether the events are gone after their deletion; absent when that was not seen. */
  readonly deletes?: boolean;
  readonly spent: { readonly events: number; readonly bytes: number; readonly seconds: number };
}

/** The most that a relay can carry of a run. */
export type Carries = 'chunks' | 'manifests' | 'heartbeats' | 'nothing';

/** What follows from a trial for a run. */
export interface Verdict {
  readonly carries: Carries;
  /** Why it carries no more than that; empty for one that carries chunks. */
  readonly why: readonly string[];
  readonly next?: string;
}

/** What a worker does to be let in: a relay that asks for more is of no use to it. */
export interface Abilities {
  readonly authenticates: boolean;
  /** Most bits of proof of work, and the largest event it is done for. */
  readonly workBits: number;
  readonly workBytes: number;
}

export const workerAbilities: Abilities = {
  authenticates: true,
  workBits: MAX_WORK_BITS,
  workBytes: MAX_WORK_BYTES,
};

/** The largest event a worker can give a relay that asks for so many bits of work. */
export const workLimit = (
  bits: number,
  { workBits, workBytes }: Abilities = workerAbilities,
): number => (bits === 0 ? Number.POSITIVE_INFINITY : bits <= workBits ? workBytes : 0);

/** Less than a manifest or a chunk of 44 KiB needs; what was measured is either clearly more or clearly less. */
const FULL_BYTES = 60_000;
const OWN_RELAY = 'use a relay you run: nostrain relay --host 0.0.0.0';

export function judgeRelay(report: RelayReport, abilities = workerAbilities): Verdict {
  const barred = findBar(report, abilities);
  if (barred) return { carries: 'nothing', ...barred };
  const { kinds, filters, size, work } = report;
  const workBytes = workLimit(work?.bits ?? 0, abilities);
  const isSmall = Math.min(size.keptBytes, workBytes) < FULL_BYTES;
  const takes = (kind: number) => kinds[kind]?.verdict === 'yes';
  const refusal = (kind: number) => `kind ${kind}: ${kinds[kind]?.words ?? 'not tried'}`;
  const isFound = (filter: RelayReport['filters']['s']) =>
    filter === 'works' || filter === 'brings too much' || filter === 'unknown';
  if (!takes(manifest.kind)) {
    const why = [refusal(manifest.kind)];
    const next = 'give a run another relay that carries manifests';
    if (takes(presence.kind) || takes(heartbeat.kind)) return { carries: 'heartbeats', why, next };
    return { carries: 'nothing', why, next: OWN_RELAY };
  }
  if (!isFound(filters.s)) {
    const why = [`manifests cannot be asked for: its #s filter ${wordFilter(filters.s)}`];
    return { carries: 'nothing', why, next: OWN_RELAY };
  }
  const why = [
    ...(size.keptBytes < FULL_BYTES ? [wordSmall(size)] : []),
    ...(workBytes < FULL_BYTES
      ? [`asks for work, done for events of ${workBytes} bytes at most`]
      : []),
    ...(takes(chunk.kind) ? [] : [refusal(chunk.kind)]),
    ...(isFound(filters.c) ? [] : [`its #c filter ${wordFilter(filters.c)}`]),
  ];
  if (why.length === 0) return { carries: 'chunks', why, ...adviceOnRate(report) };
  const next = isSmall
    ? 'lower eventBudget until the payload fits, or add a relay that takes events of 64 KiB'
    : 'keep payloads within 44 KiB (--set eventBudget=65536), or add a relay that carries chunks';
  return { carries: 'manifests', why, next };
}

const adviceOnRate = ({ url, rate: { throttled } }: RelayReport): Pick<Verdict, 'next'> =>
  throttled === undefined ? {} : { next: `nostrain plan --model NAME --relay ${url} --check` };

const wordFilter = (filter: RelayReport['filters']['s']): string =>
  filter === 'refused' ? 'is refused' : filter;

const wordSmall = ({ keptBytes, refusedBytes, words }: RelayReport['size']): string => {
  const most = refusedBytes === undefined ? '' : `, of ${refusedBytes} it says: ${words}`;
  return `takes events of ${keptBytes} bytes${most}`;
};

/** What keeps a worker out altogether. */
function findBar(
  { problem, auth, work, clockWords, kinds, hangUps }: RelayReport,
  abilities: Abilities,
): Omit<Verdict, 'carries'> | undefined {
  const tried = kinds[manifest.kind];
  if (problem !== undefined) {
    return { why: [`cannot be reached: ${problem}`], next: 'check the address and try again' };
  }
  if (hangUps !== undefined) {
    const { times, messages } = hangUps;
    return { why: [`hangs up after ${times} of ${messages} messages`], next: OWN_RELAY };
  }
  if (auth.letIn === false) {
    return { why: ['asks for authentication and does not let new keys in'], next: OWN_RELAY };
  }
  if ((auth.write || auth.read) && !abilities.authenticates) {
    return { why: ['asks for authentication, which nostrain does not do'], next: OWN_RELAY };
  }
  if (work !== undefined && workLimit(work.bits ?? 256, abilities) === 0) {
    const bits = work.bits === undefined ? '' : ` of ${work.bits} bits`;
    return { why: [`asks for proof of work${bits}, more than nostrain does`], next: OWN_RELAY };
  }
  if (clockWords !== undefined) {
    const next = 'set the clock of this machine, best by NTP';
    return { why: [`refuses events dated now: ${clockWords}`], next };
  }
  if (tried?.verdict === 'lost') {
    return { why: ['accepts events and does not have them when asked'], next: OWN_RELAY };
  }
  return undefined;
}
