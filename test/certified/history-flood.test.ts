/** Limits on what strangers and members can make a newcomer or an archive read, store and decode of a run's history. */

import { sha256 } from 'nostrain/base';
import {
  buildMessage,
  decisionsOf,
  fetchHistory,
  genesisOf,
  pathOf,
  startOf,
} from 'nostrain/certified/parts';
import { chunk } from 'nostrain/kinds';
import { createSigner, planChunks, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import type { Join, Message } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { collectChunks, KeptHistory } from '../../src/certified/history/from-relays.ts';
import { buildArchivedVotes } from '../../src/certified/wire/archived-votes.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { outcomeWith, proposalOf } from '../support/large-bodies.ts';
import { createMemoryRelay } from '../support/memory-relays.ts';

const made = generateRun([{}, { joins: [5] }, {}, {}, {}, {}, {}], certifiedSpec());
const { spec, run } = made;
const start = genesisOf(spec, startOf(spec));
const digests = made.rounds.map(({ digest }) => digest);
const life = { createdAt: 1_790_000_000, expiresAt: 2_500_000_000 };
const stranger = (number: number) =>
  createSigner(
    new Uint8Array(32)
      .fill(77)
      .fill(number, 20)
      .fill(number >> 8, 25),
    nativeCrypto,
  );

/** Events that a reader receives, by author, from a relay with the run and these events. */
function reading(
  more: readonly SignedEvent[],
  hidden: (event: SignedEvent) => boolean = () => false,
) {
  const relay = createMemoryRelay('ws://memory.test');
  for (const event of [...made.events, ...more]) if (!hidden(event)) relay.put(event);
  const handed = new Map<string, number>();
  const relays = relay.connect(({ pubkey }) => {
    handed.set(pubkey, (handed.get(pubkey) ?? 0) + 1);
    return true;
  });
  return { handed, asked: { relays, signal: new AbortController().signal, crypto: nativeCrypto } };
}

const vote = (view: number, round = 3): Message => ({
  ...{ type: 'vote', step: 'prepare', justify: -1, run, round, attempt: 0 },
  ...{ parent: digests[round - 1]!, ctx: 'a'.repeat(64), view, digest: 'b'.repeat(64) },
});

const bytesOf = (events: Iterable<SignedEvent>) =>
  [...events].reduce((sum, event) => sum + JSON.stringify(event).length, 0);

describe('a flood of the history of a run', () => {
  it('strangers: newcomers and archives read none of their rounds, joins and proposals', async () => {
    const junk = Array.from({ length: 1200 }, (_, i) => {
      const key = stranger(i % 40);
      const join: Join = { type: 'join', run, after: run, tip: key.publicKey, evidence: `${i}` };
      return key.sign(buildMessage(i % 2 ? vote(i) : join, life));
    });
    for (const kind of ['newcomer', 'archive']) {
      const { handed, asked } = reading(junk);
      if (kind === 'newcomer') {
        const { gathered } = await decisionsOf(spec, start, asked);
        expect(pathOf(start, gathered).tip.chain.parent).toBe(digests.at(-1));
      } else {
        const events = await fetchHistory(run, { ...asked, start: () => start });
        expect(new Set(events.map(({ id }) => id))).toEqual(
          new Set(made.events.map(({ id }) => id)),
        );
      }
      const members = [1, 2, 3, 4, 5].map((number) => signerOf(number).publicKey);
      expect([...handed.keys()].filter((key) => !members.includes(key))).toEqual([]);
    }
  });

  it('one member: it fills only its own limits per round, per key and in total', async () => {
    const flooder = signerOf(4);
    const flood = [2, 3, 4, 5].flatMap((round) =>
      Array.from({ length: 250 }, (_, i) => flooder.sign(buildMessage(vote(i, round), life))),
    );
    // its own events may be evicted with its flood: others have archived them
    const copied = made.rounds.flatMap((_, round) => {
      const decided = made.events.filter(
        ({ kind, tags }) => kind !== 7810 && tags.some(([, value]) => value === `${run}/${round}`),
      );
      return buildArchivedVotes({ run, round }, decided, life, sha256).map(({ draft }) =>
        signerOf(1).sign(draft),
      );
    });
    const { asked } = reading([...flood, ...copied]);
    const limits = { perRound: 48_000, perKey: 150_000, inAll: 700_000 };
    expect(bytesOf(flood)).toBeGreaterThan(800_000);
    const { gathered } = await decisionsOf(spec, start, { ...asked, limits });
    expect(pathOf(start, gathered).tip.chain.parent).toBe(digests.at(-1));
    const own = [...gathered.messages.values()].filter(({ key }) => key === flooder.publicKey);
    expect(own.length).toBeGreaterThan(50);
    expect(own.length).toBeLessThan(250);
  });

  it('one member invents members: keys that no certified outcome lists are not queried', async () => {
    const keys = Array.from({ length: 60 }, (_, i) => stranger(i));
    const joins = keys
      .map(({ publicKey: key }) => ({
        ...{ key, after: run, tip: key, evidence: '', features: {} },
        ...{ createdAt: 1_790_000_000, expiration: 2_500_000_000, sig: '0'.repeat(128) },
      }))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    const parent = digests[2]!;
    const outcome = { ...outcomeWith(0), run, parent, proposer: signerOf(4).publicKey, joins };
    const proposal = { ...proposalOf(outcome), run, parent };
    const junk = [
      signerOf(4).sign(buildMessage(proposal, life)),
      ...keys.flatMap((key) => [key.sign(buildMessage(vote(1), life))]),
    ];
    const { handed, asked } = reading(junk);
    const { gathered } = await decisionsOf(spec, start, asked);
    expect(gathered.message(junk[0]!.id)?.type).toBe('proposal');
    expect(keys.filter(({ publicKey }) => handed.has(publicKey))).toEqual([]);
    expect(pathOf(start, gathered).tip.chain.parent).toBe(digests.at(-1));
  });

  it('archives are charged to their author, and a member that archives junk hides nothing', async () => {
    const lost = made.events.filter(({ kind, tags }) =>
      tags.some(([, value]) => value === `${run}/3` && (kind === 7813 || kind === 7814)),
    );
    const copied = [1, 2].flatMap((number) =>
      buildArchivedVotes({ run, round: 3 }, lost, life, sha256).map(({ draft, payload }) => {
        expect(payload).toBeUndefined();
        return signerOf(number).sign(draft);
      }),
    );
    const junk = Array.from({ length: 120 }, (_, i) =>
      stranger(1).sign(buildMessage(vote(i), life)),
    );
    const copiedJunk = Array.from({ length: 40 }, (_, i) => {
      const some = junk.slice(3 * i, 3 * i + 3);
      return signerOf(4).sign(buildArchivedVotes({ run, round: 3 }, some, life, sha256)[0]!.draft);
    });
    const { asked } = reading([...copied, ...copiedJunk], (event) => lost.includes(event));
    const limits = { perRound: 60_000, perKey: 300_000, inAll: 1_000_000 };
    const { gathered } = await decisionsOf(spec, start, { ...asked, limits });
    expect(pathOf(start, gathered).tip.chain.parent).toBe(digests.at(-1));
    expect(junk.filter(({ id }) => gathered.message(id)).length).toBeLessThan(60);
  });

  it('invalid chunks under a genuine root are dropped, and each genuine chunk is stored once', async () => {
    const payload = new Uint8Array(100_000).map((_, i) => i);
    const { root, bytes, count, draft } = planChunks(payload, life, sha256);
    const genuine = Array.from({ length: count }, (_, i) => signerOf(1).sign(draft(i)));
    const again = Array.from({ length: count }, (_, i) => signerOf(2).sign(draft(i)));
    const junk = Array.from({ length: 100 }, (_, i) => {
      const { content, tags, ...rest } = draft(i % count);
      const wrong = `${content.slice(0, -8)}AAAA${content.slice(-4)}`;
      return stranger(i).sign({ ...rest, tags, content: i % 2 ? wrong : content.slice(0, 400) });
    });
    expect(junk[0]!.kind).toBe(chunk.kind);
    const { asked } = reading([...junk, ...genuine, ...again]);
    const kept: SignedEvent[] = [];
    await collectChunks([{ root, bytes }], asked, (event) => kept.push(event));
    expect(kept).toHaveLength(count);
    expect(kept.map(({ pubkey }) => pubkey)).not.toContain(stranger(1).publicKey);
  });

  it('at the total limit the key with most bytes loses its oldest events, and later rounds are not stored', () => {
    const kept = new KeptHistory(run, 8, { perRound: 20_000, perKey: 60_000, inAll: 100_000 });
    const honest = [2, 3, 4, 5].map((round) =>
      signerOf(1).sign(buildMessage(vote(0, round), life)),
    );
    for (const event of honest) expect(kept.keep(event)).toBe(true);
    for (let i = 0; i < 600; i++) {
      kept.keep(stranger(i % 3).sign(buildMessage(vote(i, 1 + (i % 6)), life)));
    }
    for (const event of honest) expect(kept.has(event.id)).toBe(true);
    expect(kept.bytes).toBeLessThanOrEqual(100_000);
    expect(kept.left).toBeGreaterThan(0);
    const later = { ...vote(0), round: 8 };
    expect(kept.keep(signerOf(1).sign(buildMessage(later as Message, life)))).toBe(false);
  });
});
