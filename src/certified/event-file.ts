/** Files of events: JSON lines, one signed event each, and values of the beacon. Whoever reads one must be able to say which line is wrong. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { ConfigError } from '../base/errors.ts';
import { parseEvent, type SignedEvent, verifyEvent } from '../network/event.ts';
import { nativeCrypto } from '../node/native-crypto.ts';
import { type BeaconLine, type BeaconRecord, readBeacon } from './history-beacons.ts';

/** A line that is not a genuine event. */
export interface BadLine {
  /** From 1. */
  readonly line: number;
  readonly reason: string;
  /** What the text itself says of the round it belongs to, if anything. */
  readonly round?: number;
  /** The same of the payload a chunk belongs to. */
  readonly root?: string;
}

export interface EventFile {
  readonly events: readonly SignedEvent[];
  readonly bad: readonly BadLine[];
  /** Values of the run's beacon, not judged yet. */
  readonly beacons: readonly BeaconLine[];
}

/** Longer lines are no events that any relay took. */
const LONGEST_LINE = 32 << 20;
/** Lines between two signs of life. */
const TOLD_EVERY = 500;

/** Reads a file to its end; every id and signature is checked. */
export const readEventFile = (
  file: string,
  tell: (have: number) => void = () => {},
): Promise<EventFile> =>
  readLines(file, tell).catch((cause: unknown) => {
    throw new ConfigError('events/file', `cannot read the events in ${file}`, {
      hint: 'give a file that `nostrain archive` wrote',
      cause,
    });
  });

async function readLines(file: string, tell: (have: number) => void): Promise<EventFile> {
  const events = new Map<string, SignedEvent>();
  const bad: BadLine[] = [];
  const beacons: BeaconLine[] = [];
  const input = createReadStream(file);
  let line = 0;
  for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    line += 1;
    if (line % TOLD_EVERY === 0) tell(line);
    if (text === '') continue;
    const read = readLine(text);
    if (typeof read === 'string') bad.push({ line, reason: read, ...placeOf(text) });
    else if ('proof' in read) beacons.push({ ...read, line });
    else events.set(read.id, read);
  }
  return { events: [...events.values()], bad, beacons };
}

/** The event or beacon value, or why the line is neither. */
function readLine(text: string): SignedEvent | BeaconRecord | string {
  if (text.length > LONGEST_LINE) return `longer than ${LONGEST_LINE} characters`;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return 'not JSON';
  }
  const beacon = readBeacon(json);
  if (beacon !== undefined) return beacon;
  const parsed = parseEvent(json);
  if (!parsed.ok) return `${parsed.issue.at} is ${parsed.issue.message}`;
  const genuine = verifyEvent(parsed.value, nativeCrypto);
  return genuine.ok ? genuine.value : genuine.issue.message;
}

const IN_TAG = /([0-9a-f]{60}\/)(\d{1,9})(?!\d)/;
const IN_CONTENT = /\\*"round\\*":(\d{1,9})/g;

/** Where a broken event seems to belong: what its tags and its content say, and of those what would make it whole. */
function placeOf(text: string): Pick<BadLine, 'round' | 'root'> {
  const tag = IN_TAG.exec(text)?.[2];
  const said = [...text.matchAll(IN_CONTENT)].map(([, round]) => round!);
  const mends = said.find(
    (round) => typeof readLine(text.replace(IN_TAG, `$1${round}`)) !== 'string',
  );
  const round = mends ?? tag ?? said[0];
  if (round !== undefined) return { round: Number(round) };
  const root = /"x","([0-9a-f]{64})"/.exec(text)?.[1];
  return root === undefined ? {} : { root };
}
