/** What became of one event, for a person: a line per relay with what happened, the relay's own words and what to do next. */
import { MAX_WORK_BITS, MAX_WORK_BYTES } from '../proof-of-work.ts';
import type { PublishOutcome } from './publishing.ts';
import type { RelayStatus } from './relay-set.ts';
import { judgeAnswer, type PublishStatus } from './verdict.ts';

const MAX_WORDS = 160;

const CLOCK_NOTICE = 'your clock seems to be off: set it, best by NTP';

interface Case {
  readonly happened: string;
  readonly next: string;
}

/** Set once two relays refuse the date of our events, or the only one does: one of several may be wrong itself. */
export function clockNotice(statuses: readonly RelayStatus[]): string | undefined {
  const complaints = statuses.filter(({ clockComplaint }) => clockComplaint !== '').length;
  return complaints >= Math.min(2, Math.max(1, statuses.length)) ? CLOCK_NOTICE : undefined;
}

/** One line per outcome, in their order. */
export const diagnosePublish = (
  statuses: readonly RelayStatus[],
  outcomes: readonly PublishOutcome[],
): readonly string[] =>
  outcomes.map((outcome) => `${outcome.relay} ${diagnoseOutcome(outcome, statuses)}`);

/** What happened at one relay, its own words, and what to do next. */
export function diagnoseOutcome(outcome: PublishOutcome, statuses: readonly RelayStatus[]): string {
  const status = statuses.find(({ relay }) => relay === outcome.relay);
  const { happened, next } = caseOf(outcome, status, clockNotice(statuses) !== undefined);
  const words = printable(outcome.message);
  const said = words === '' ? '' : ` (${words})`;
  return `${happened}${said}${next === '' ? '' : `; ${next}`}`;
}

/** What is said of a relay that is not there now. */
export function wordsOfUnreachable(relay: string, statuses: readonly RelayStatus[]): string {
  const message = statuses.find((each) => each.relay === relay)?.lastError ?? '';
  const outcome = { relay, status: 'unreachable', message, attempts: 0, delaysMs: [] } as const;
  return diagnoseOutcome(outcome, statuses);
}

/** A relay may send anything: nothing that moves a cursor or turns text around, and not too much. */
function printable(message: string): string {
  const text = message
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text;
}

const byStatus: Readonly<Record<Exclude<PublishStatus, 'refused' | 'pow-needed'>, Case>> = {
  accepted: { happened: 'took it', next: '' },
  malformed: {
    happened: 'calls it invalid',
    next: 'its rules are stricter than ours: use another relay, and report this line',
  },
  throttled: {
    happened: 'asks us to slow down',
    next: 'send less often, or spread over more relays',
  },
  'auth-needed': {
    happened: 'wants to know who you are',
    next: 'use a key that this relay admits, or another relay',
  },
  unreachable: {
    happened: 'could not be reached',
    next: 'check the address, and that a relay listens there',
  },
  'no-verdict': {
    happened: 'neither took nor refused it',
    next: 'try again later, or add another relay',
  },
};

/** It was there before. */
const cutOff: Case = { happened: 'was cut off', next: 'it is tried again' };

function caseOf(
  { status, message, kept }: PublishOutcome,
  relay: RelayStatus | undefined,
  isClockOff: boolean,
): Case {
  if (kept === false) {
    return {
      happened: 'takes events and loses them',
      next: 'do not rely on it: use another relay',
    };
  }
  if (status === 'refused') return refusalOf(message, isClockOff);
  if (status === 'pow-needed') return workOf(relay?.limits.workBits ?? 0);
  if (status === 'unreachable' && (relay?.opens ?? 0) > 0) return cutOff;
  return byStatus[status];
}

function refusalOf(message: string, isClockOff: boolean): Case {
  const { refuses, blamesClock, transient } = judgeAnswer(false, message);
  if (blamesClock) {
    const next = isClockOff ? CLOCK_NOTICE : 'no other relay says so: its clock may be off';
    return { happened: 'refuses the date of the event', next };
  }
  if (refuses === 'size' || /^too large: /.test(message)) {
    return {
      happened: 'takes no event of this size',
      next: 'send smaller events, or use a relay with a higher limit',
    };
  }
  if (refuses === 'kind') {
    return { happened: 'does not want such events', next: 'use another relay for them' };
  }
  const next = transient ? 'try again later, or add another relay' : 'use another relay';
  return { happened: 'refused it', next };
}

function workOf(bits: number): Case {
  const happened = 'wants proof of work';
  if (bits > MAX_WORK_BITS) {
    return { happened, next: `we do at most ${MAX_WORK_BITS} bits: use another relay` };
  }
  return {
    happened,
    next: `use another relay for events over ${MAX_WORK_BYTES} bytes, work on smaller ones`,
  };
}
