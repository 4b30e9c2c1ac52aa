/** Measurements of a relay, and the verdict: what the relay can carry of a run, why no more, and what to do next. */
import { chunk } from '../../kinds/chunk.ts';
import { heartbeat } from '../../kinds/heartbeat.ts';
import { manifest } from '../../kinds/manifest.ts';
import { presence } from '../../kinds/presence.ts';
import { MAX_WORK_BITS, MAX_WORK_BYTES } from '../network/proof-of-work.ts';
import type { RelayInfo } from '../network/transport/limits.ts';

/** `yes`: accepted and read back. `lost`: accepted but not readable. `unknown`: not tried, or inconclusive. */
export type KindVerdict = 'yes' | 'lost' | 'refused' | 'unknown';

/** Whether a relay accepts one kind of event, and its message if it refused. */
export interface KindReport {
  readonly verdict: KindVerdict;
  readonly words: string;
}

/** Whether a tag filter returns exactly the matching events. */
export type FilterVerdict = 'works' | 'brings too much' | 'finds nothing' | 'refused' | 'unknown';

/** How many events a relay accepted before it limited the rate. */
export interface RateReport {
  /** Number of events accepted before the first `rate-limited`, or in total if there was none. */
  readonly accepted: number;
  readonly seconds: number;
  readonly throttled?: string;
  /** Seconds after the refusal until the relay accepted another event; the probe retries at fixed intervals. */
  readonly againAfterSeconds?: number;
}

/** The size limit of a relay, as far as it was measured. */
export interface SizeReport {
  /** Size of the largest event that was accepted and read back; 0 if there was none. */
  readonly keptBytes: number;
  /** Size of the smallest event that was too large. */
  readonly refusedBytes?: number;
  readonly words?: string;
}

/** A relay's self-description (NIP-11) and its clock difference. */
export interface RelayDescription {
  readonly stated?: RelayInfo;
  /** This machine's clock minus the relay's, in seconds. */
  readonly skewSeconds?: number;
}

/** All measurements of a relay. */
export interface RelayReport extends RelayDescription {
  readonly url: string;
  /** Why the relay could not be tested; then there are no measurements. */
  readonly problem?: string;
  readonly openedMs?: number;
  /** The relay's message if it refused an event dated now. */
  readonly clockWords?: string;
  readonly auth: {
    readonly write: boolean;
    readonly read: boolean;
    /** Whether the relay accepted the authentication of an unknown key. */
    readonly letIn?: boolean;
  };
  /** Present if the relay requires proof of work. */
  readonly work?: { readonly bits?: number; readonly words: string };
  /** Present if the relay closed the connection after most messages. */
  readonly hangUps?: { readonly times: number; readonly messages: number };
  readonly size: SizeReport;
  readonly rate: RateReport;
  readonly kinds: Readonly<Record<number, KindReport>>;
  readonly filters: { readonly s: FilterVerdict; readonly c: FilterVerdict };
  /** Present if events that the relay had returned were gone later: the age of the youngest, in seconds. */
  readonly forgets?: { readonly afterSeconds: number };
  /** Whether the events are gone after their deletion; absent if that is unknown. */
  readonly deletes?: boolean;
  readonly spent: { readonly events: number; readonly bytes: number; readonly seconds: number };
}

/** What a relay can carry of a run; each level includes those after it. */
export type Carries = 'chunks' | 'manifests' | 'heartbeats' | 'nothing';

/** What the measurements mean for a run. */
export interface Verdict {
  readonly carries: Carries;
  /** Why it carries no more; empty if it carries chunks. */
  readonly why: readonly string[];
  readonly next?: string;
}

/** What a worker can do to satisfy a relay; a relay that requires more is unusable. */
export interface Abilities {
  readonly authenticates: boolean;
  /** Maximum bits of proof of work, and the largest event for which the work is done. */
  readonly workBits: number;
  readonly workBytes: number;
}

export const workerAbilities: Abilities = {
  authenticates: true,
  workBits: MAX_WORK_BITS,
  workBytes: MAX_WORK_BYTES,
};

/** Returns the size of the largest event a worker can send to a relay that requires `bits` bits of proof of work. */
export const workLimit = (
  bits: number,
  { workBits, workBytes }: Abilities = workerAbilities,
): number => (bits === 0 ? Number.POSITIVE_INFINITY : bits <= workBits ? workBytes : 0);

/** Event size that a manifest or chunk of 44 KiB needs, rounded down; the sizes tried are well above or well below. */
const FULL_BYTES = 60_000;
const RUN_A_RELAY = 'use a relay you run: nostrain relay --host 0.0.0.0';

/** Returns what a relay can carry of a run, why it carries no more, and what to do next. */
export function judgeRelay(report: RelayReport, abilities = workerAbilities): Verdict {
  const barred = findBar(report, abilities);
  if (barred) return { carries: 'nothing', ...barred };
  const { kinds, filters, size, work } = report;
  const workBytes = workLimit(work?.bits ?? 0, abilities);
  const isSmall = Math.min(size.keptBytes, workBytes) < FULL_BYTES;
  const takes = (kind: number) => kinds[kind]?.verdict === 'yes';
  const refusal = (kind: number) => `kind ${kind}: ${kinds[kind]?.words ?? 'not tried'}`;
  const isUsable = (filter: RelayReport['filters']['s']) =>
    filter === 'works' || filter === 'brings too much' || filter === 'unknown';
  if (!takes(manifest.kind)) {
    const why = [refusal(manifest.kind)];
    const next = 'add another relay that carries manifests';
    if (takes(presence.kind) || takes(heartbeat.kind)) return { carries: 'heartbeats', why, next };
    return { carries: 'nothing', why, next: RUN_A_RELAY };
  }
  if (!isUsable(filters.s)) {
    const why = [`manifests cannot be queried: its #s filter ${wordFilter(filters.s)}`];
    return { carries: 'nothing', why, next: RUN_A_RELAY };
  }
  const why = [
    ...(size.keptBytes < FULL_BYTES ? [wordSmall(size)] : []),
    ...(workBytes < FULL_BYTES
      ? [`asks for proof of work, which nostrain does for at most ${workBytes} bytes per event`]
      : []),
    ...(takes(chunk.kind) ? [] : [refusal(chunk.kind)]),
    ...(isUsable(filters.c) ? [] : [`its #c filter ${wordFilter(filters.c)}`]),
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
  const refused = refusedBytes === undefined ? '' : `, refuses ${refusedBytes} bytes: ${words}`;
  return `accepts events of ${keptBytes} bytes${refused}`;
};

/** Returns why a relay is unusable, if it is. */
function findBar(
  { problem, auth, work, clockWords, kinds, hangUps, forgets }: RelayReport,
  abilities: Abilities,
): Omit<Verdict, 'carries'> | undefined {
  const tried = kinds[manifest.kind];
  if (problem !== undefined) {
    return { why: [`cannot be reached: ${problem}`], next: 'check the address and try again' };
  }
  if (hangUps !== undefined) {
    const { times, messages } = hangUps;
    return { why: [`hangs up after ${times} of ${messages} messages`], next: RUN_A_RELAY };
  }
  if (auth.letIn === false) {
    return { why: ['asks for authentication and does not let new keys in'], next: RUN_A_RELAY };
  }
  if ((auth.write || auth.read) && !abilities.authenticates) {
    return { why: ['asks for authentication, which nostrain does not do'], next: RUN_A_RELAY };
  }
  if (work !== undefined && workLimit(work.bits ?? 256, abilities) === 0) {
    const bits = work.bits === undefined ? '' : ` of ${work.bits} bits`;
    return { why: [`asks for proof of work${bits}, more than nostrain does`], next: RUN_A_RELAY };
  }
  if (clockWords !== undefined) {
    const next = "set this machine's clock, for example with NTP";
    return { why: [`refuses events dated now: ${clockWords}`], next };
  }
  if (tried?.verdict === 'lost') {
    return { why: ['accepts events but does not return them'], next: RUN_A_RELAY };
  }
  if (forgets !== undefined) {
    const seconds = Math.ceil(forgets.afterSeconds);
    const lost =
      `forgets events: what it had stored was gone after ${seconds} s, so a worker that joins, ` +
      'restarts or was cut off cannot get the updates of a round';
    const next =
      'add a relay that keeps events for days, or run one: nostrain relay --host 0.0.0.0';
    return { why: [lost], next };
  }
  return undefined;
}
