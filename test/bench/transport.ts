/**
 * How fast the transport is, in sections. `receive`: verified events per second of CPU time, from the text of a frame to an
 * event that is parsed, matches the filter, and has the right id and signature; beside nostr-tools (JSON.parse, then its
 * verifyEvent with its own hashing) and beside our pure JavaScript, in turns over the same frames. `move`: seconds that a
 * payload in chunks takes over a relay on loopback, sent and pulled.
 *
 *   npm run bench:transport -- [receive] [move] [--turns 5] [--seconds 1] [--megabytes 50]
 */
import { parseArgs } from 'node:util';
import { verifyEvent } from 'nostr-tools/pure';
import { fromHex, systemClock } from 'nostrain/base';
import {
  createSigner,
  type EventCrypto,
  Handed,
  Inbox,
  parseFrame,
  pureCrypto,
  type SignedEvent,
} from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { movePayload, type Progress } from './transport/move.ts';

interface Options {
  readonly turns: number;
  readonly seconds: number;
  readonly megabytes: number;
}

const sections: Readonly<Record<string, (options: Options) => void | Promise<void>>> = {
  receive: benchReceive,
  move: benchMove,
};

/** Takes as many frames as fit the time; returns how many per second of CPU time. */
type Contestant = (frames: readonly string[]) => void;

const filters = [{ kinds: [7811], '#s': ['bench'] }];

/** Frames of distinct events with so much content, base64 as in chunks. */
function makeFrames(contentBytes: number, count: number): readonly string[] {
  const signer = createSigner(new Uint8Array(32).fill(1), nativeCrypto);
  const draft = (content: string, i: number) => ({
    kind: 7811,
    created_at: 1_700_000_000 + i,
    tags: [['s', 'bench']],
    content,
  });
  return Array.from({ length: count }, (_, i) => {
    const bytes = Buffer.alloc(contentBytes, `${i} `).map((byte, at) => byte ^ (at * 31));
    const content = Buffer.from(bytes).toString('base64').slice(0, contentBytes);
    return JSON.stringify(['EVENT', 'n1', signer.sign(draft(content, i))]);
  });
}

const ours = (crypto: EventCrypto): Contestant => {
  return (frames) => {
    const inbox = new Inbox(crypto, systemClock);
    const handed = new Handed(frames.length, systemClock);
    for (const text of frames) {
      const frame = parseFrame(text);
      if (frame?.type !== 'event') throw new Error('no event');
      const { verdict } = inbox.receive(frame, filters, handed);
      if (verdict !== 'new') throw new Error(verdict);
    }
  };
};

/** How fast the check of one signature is, which bounds all of it. */
const signatureAlone: Contestant = (frames) => {
  for (const event of eventsOf(frames)) {
    const [sig, id, key] = [event.sig, event.id, event.pubkey].map((hex) => fromHex(hex)!);
    if (!nativeCrypto.schnorr.verify(sig!, id!, key!)) throw new Error('bad');
  }
};

const parsed = new Map<readonly string[], readonly SignedEvent[]>();
function eventsOf(frames: readonly string[]): readonly SignedEvent[] {
  const known = parsed.get(frames) ?? frames.map((text) => JSON.parse(text)[2] as SignedEvent);
  parsed.set(frames, known);
  return known;
}

const contestants: Readonly<Record<string, Contestant>> = {
  ours: ours(nativeCrypto),
  'nostr-tools': (frames) => {
    // each parse makes a new object, so no verdict it keeps on an object is used twice
    for (const text of frames) if (!verifyEvent(JSON.parse(text)[2])) throw new Error('bad');
  },
  'ours, pure JavaScript': ours(pureCrypto),
  'our signature check alone': signatureAlone,
};

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function rate(take: Contestant, frames: readonly string[], seconds: number): number {
  const start = cpuSeconds();
  let [count, took] = [0, 0];
  while (took < seconds) {
    take(frames);
    count += frames.length;
    took = cpuSeconds() - start;
  }
  return count / took;
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1]!;

function benchReceive({ turns, seconds }: Options): void {
  for (const [bytes, count] of [
    [300, 400],
    [65_536, 100],
  ] as const) {
    const frames = makeFrames(bytes, count);
    const rates: Record<string, number[]> = {};
    for (const take of Object.values(contestants)) take(frames); // warm up
    for (let turn = 0; turn < turns; turn++) {
      for (const [name, take] of Object.entries(contestants)) {
        rates[name] ??= [];
        rates[name].push(rate(take, frames, seconds));
      }
    }
    console.log(
      `\nreceive: events with ${bytes} bytes of content, verified per second of CPU time`,
    );
    const reference = median(rates['nostr-tools']!);
    for (const [name, values] of Object.entries(rates)) {
      const [low, middle, high] = [Math.min(...values), median(values), Math.max(...values)];
      const numbers = `${middle.toFixed(0).padStart(7)} (${low.toFixed(0)}-${high.toFixed(0)})`;
      console.log(`${name.padEnd(26)}${numbers.padEnd(24)}${(middle / reference).toFixed(1)}x`);
    }
  }
}

async function benchMove({ turns, megabytes }: Options): Promise<void> {
  const moves: Progress[] = [];
  for (let turn = 0; turn < turns; turn++) moves.push(await movePayload(megabytes * 1e6));
  console.log(`\nmove: ${megabytes} MB in chunks over a relay on loopback, median seconds`);
  for (const name of ['sendSeconds', 'pullSeconds', 'bareSeconds'] as const) {
    const all = moves.map((moved) => moved[name]);
    console.log(
      `${name.padEnd(14)}${median(all).toFixed(2)} (${Math.min(...all).toFixed(2)}-${Math.max(...all).toFixed(2)})`,
    );
  }
  const wireBytes = median(moves.map((moved) => moved.wireBytes));
  console.log(`the receiver read ${(wireBytes / (megabytes * 1e6)).toFixed(2)} times the payload`);
}

const { values, positionals } = parseArgs({
  options: {
    turns: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    megabytes: { type: 'string', default: '50' },
  },
  allowPositionals: true,
});
const options: Options = {
  turns: Number(values.turns),
  seconds: Number(values.seconds),
  megabytes: Number(values.megabytes),
};
for (const name of positionals.length > 0 ? positionals : Object.keys(sections)) {
  const section = sections[name];
  if (!section)
    throw new Error(`no section ${name}; there are: ${Object.keys(sections).join(', ')}`);
  await section(options);
}
