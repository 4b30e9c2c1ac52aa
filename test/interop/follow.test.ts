/**
 * A follower in Python, written from docs/nip.md (follow.py): it finds the same model and outcome in archived runs as
 * this program, and refuses archives in which anything is changed.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatArchive, makeSpec } from 'nostrain/certified';
import { buildMessage } from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import { completeSettings, presets, sharedNames, writeSettings } from 'nostrain/run';
import { expect } from 'vitest';
import { canonicalJson, type Json, type JsonObject } from '../../src/base/canonical-json.ts';
import type { ListedJoin } from '../../src/run/listed.ts';
import { bodyDigest, type Outcome } from '../../src/run/outcome.ts';
import { listedJoin } from '../support/certified-messages.ts';
import {
  certifiedSpec,
  foundersOf,
  type GeneratedRun,
  generateRun,
  type Round,
  signerOf,
} from '../support/certified-run.ts';
import { invitation } from '../support/delegated.ts';
import { describeWith, installed, itWith } from '../support/needs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const pathOf = (path: string) => join(import.meta.dirname, path);
const program = pathOf('follow/follow.py');
const python = pathOf('../../.interop/follow/bin/python');
const missing = installed(python, 'follow');

const ROUNDS: readonly Round[] = [
  {},
  { absent: [4], joins: [5] },
  { result: 'void', view: 4, silent: [2] },
  { empty: [3] },
  { view: 2, ignored: [2] },
  { leaves: [4] },
  { elsewhere: [5], joins: [6] },
];

/** Plays a run of a small transformer, which has events of each kind that the page describes. */
function play(changes: object, rounds = ROUNDS): GeneratedRun {
  const sizes = { width: 16, layers: 1, heads: 2, context: 16, ffn: 32 } as const;
  const settings = { ...sizes, model: 'gpt', relay: [], run: 'followed', ...changes } as const;
  const all = writeSettings(completeSettings(presets.gpt, settings));
  const isShared = ([name]: readonly [string, unknown]) =>
    sharedNames.some((each) => each === name);
  const training = Object.fromEntries(Object.entries(all).filter(isShared));
  const limits = { payloadBytes: 200_000, weightCap: 25 * 32 };
  const data = { kind: 'own' };
  return generateRun(rounds, certifiedSpec({ founders: foundersOf(4), data, limits, training }));
}

/** Plays the run that `nostrain run create` makes if its user sets nothing: one founder, who invites two people. */
async function playDefault(): Promise<GeneratedRun> {
  const corpus = async () => ({ sha256: 'c'.repeat(64), bytes: 1_000_000 });
  const { spec } = await makeSpec({ me: signerOf(1).publicKey, isGuarded: true, corpus });
  return generateRun([{}, { joins: [2] }, {}, {}, { joins: [3] }], spec);
}

const inFolder = temporaryFolder();
function follow(archives: readonly (readonly SignedEvent[])[]): readonly Json[] {
  const paths = archives.map((events, i) => {
    const path = inFolder(`${i}.jsonl`);
    writeFileSync(path, formatArchive({ events, beacons: [] }));
    return path;
  });
  const { stdout, stderr } = spawnSync(python, [program, ...paths], { encoding: 'utf8' });
  expect(stderr).toBe('');
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Json);
}

const signerBy = (key: string) =>
  [1, 2, 3, 4, 5, 6].map(signerOf).find(({ publicKey }) => publicKey === key)!;

type Body = { -readonly [K in keyof Outcome]: Json };

/** Returns the events of a run whose members all sign another last outcome. */
function forged({ events, rounds }: GeneratedRun, change: (body: Body) => void) {
  const { digest } = rounds.at(-1)!;
  const isOfLast = ({ tags }: SignedEvent) =>
    tags.some(([name, x]) => name === 'x' && x === digest);
  const proposal = events.find((event) => event.kind === 7814 && isOfLast(event))!;
  const outcome = JSON.parse(JSON.parse(proposal.content).body as string) as Body;
  change(outcome);
  const body = canonicalJson(outcome);
  const other = bodyDigest(body);
  return events.map((event) => {
    if (!isOfLast(event)) return event;
    const content = JSON.parse(event.content) as Record<string, Json>;
    const moved = { ...content, digest: other, ...(event.kind === 7814 && { body }) };
    const tags = event.tags.map(([name, x]) => [name!, x === digest ? other : x!]);
    const { kind, created_at } = event;
    return signerBy(event.pubkey).sign({ kind, created_at, tags, content: canonicalJson(moved) });
  });
}

/** Returns the last join as another key or invitation would have it, signed by its author. */
function joinWith(body: Body, number: number, proof: readonly Json[]): void {
  const [join] = body.joins as unknown as ListedJoin[];
  const { after, tip, createdAt, expiration } = join!;
  const run = String(body.run);
  const features = { trust: { proof: proof as readonly JsonObject[] } };
  const asked = { type: 'join', run, after, tip, evidence: '', features } as const;
  const draft = buildMessage(asked, { createdAt, expiresAt: expiration });
  body.joins = [listedJoin(signerOf(number).sign(draft), run)] as unknown as Json;
}

const flip = (hex: string) => (hex.startsWith('0') ? '1' : '0') + hex.slice(1);

const wordOf = (reason: string) => reason.split(/[ :]/)[0];
const reasonOf = (report: Json) => wordOf(String((report as { refused?: string }).refused));

describeWith(missing)('a follower in Python that was written from docs/nip.md', () => {
  itWith(missing)(
    'finds the same outcome and model, of runs with either payload code and with owners of chunks or without',
    async () => {
      const runs = [
        play({ packing: 'trellis', owners: 2 }),
        play({ packing: 'int8', owners: 0, fragments: 2 }),
      ];
      const found = follow(runs.map(({ events }) => events));
      expect(found).toEqual(
        runs.map(({ run, rounds }) => {
          const { digest: outcome, modelRoot } = rounds.at(-1)!;
          return { run, rounds: rounds.length, outcome, modelRoot };
        }),
      );
    },
    { timeout: 120_000 },
  );

  itWith(missing)(
    'follows a run that nostrain run create makes by default, and refuses its members without a true invitation',
    async () => {
      const played = await playDefault();
      const { run, rounds, events } = played;
      const { digest: outcome, modelRoot } = rounds.at(-1)!;
      const key = signerOf(3).publicKey;
      const { sig, ...invited } = invitation(signerOf(1), key);
      const altered: Readonly<Record<string, readonly SignedEvent[]>> = {
        'join-not-admitted: no invitation': forged(played, (body) => joinWith(body, 3, [])),
        'bad-signature of an invitation': forged(played, (body) =>
          joinWith(body, 3, [{ ...invited, sig: flip(sig) }]),
        ),
        'join-not-admitted: invited by a member': forged(played, (body) =>
          joinWith(body, 3, [invitation(signerOf(2), key)]),
        ),
        'join-not-admitted: the invitation of another key': forged(played, (body) =>
          joinWith(body, 4, [{ ...invited, sig }]),
        ),
      };
      const [followed, ...refused] = follow([events, ...Object.values(altered)]);
      expect(followed).toEqual({ run, rounds: rounds.length, outcome, modelRoot });
      expect(refused.map(reasonOf)).toEqual(Object.keys(altered).map(wordOf));
    },
    { timeout: 240_000 },
  );

  itWith(missing)(
    'refuses altered archives, each with its reason',
    async () => {
      const played = play({ packing: 'trellis', owners: 2 });
      const { events, rounds } = played;
      const first = (kind: number, of = events) => of.find((event) => event.kind === kind)!;
      const without = (one: SignedEvent) => events.filter((event) => event !== one);
      const instead = (one: SignedEvent, other: SignedEvent) =>
        events.map((event) => (event === one ? other : event));
      const [spec, manifest] = [first(37_810), first(7810)];
      const ofRound = (digest: string) => (event: SignedEvent) =>
        event.kind === 7814 && event.content.includes(`"digest":"${digest}"`);
      const altered: Readonly<Record<string, readonly SignedEvent[]>> = {
        'bad-signature of an event': instead(manifest, { ...manifest, sig: flip(manifest.sig) }),
        'bad-id': instead(manifest, { ...manifest, created_at: manifest.created_at + 1 }),
        'other-run': instead(
          spec,
          signerOf(1).sign({ ...spec, content: spec.content.replace('"seed":1', '"seed":2') }),
        ),
        missing: without(manifest),
        'not-certified': without(events.find(ofRound(rounds[3]!.digest))!),
        'wrong-modelRoot': play({ packing: 'trellis', owners: 2 }, [{}, { forgeModelRoot: true }])
          .events,
        'wrong-ledgerRoot': forged(played, (body) => {
          body.ledgerRoot = flip(String(body.ledgerRoot));
        }),
        'wrong-rowSize': forged(played, (body) => {
          body.rowSize = Number(body.rowSize) * 2;
        }),
        'wrong-reveal': forged(played, (body) => {
          body.reveal = flip(String(body.reveal));
        }),
        'not-a-member': forged(played, (body) => {
          body.proposer = signerOf(6).publicKey;
        }),
        'no-quorum': forged(played, ({ votes }) => {
          (votes as unknown as { rows: Json[] }).rows.splice(0, 2);
        }),
        'bad-signature of a join': forged(played, ({ joins }) => {
          const [join] = joins as unknown as { sig: string }[];
          join!.sig = flip(join!.sig);
        }),
        'untrue-reason': forged(played, ({ rejected }) => {
          (rejected as unknown as Json[][])[0]![2] = 'too-large';
        }),
        'wrong-result': forged(played, (body) => {
          body.result = 'void';
        }),
      };
      const found = follow(Object.values(altered)).map(reasonOf);
      expect(found).toEqual(Object.keys(altered).map(wordOf));
    },
    { timeout: 240_000 },
  );
});
