/** The methods over HTTP, with a run whose last round is open, on a relay in memory. */

import type { SignedEvent } from 'nostrain/network';
import { beforeAll, describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../src/base/canonical-json.ts';
import { methods } from '../../../src/cli/commands/serve/methods.ts';
import { createSealKeys } from '../../../src/sealed/hpke.ts';
import { canonicalManifest, manifestHash, wrapKey } from '../../../src/sealed/manifest.ts';
import {
  type ApiServer,
  before,
  last,
  made,
  OPEN_ROUND as ROUND,
  startApiServer,
} from '../../support/api-server.ts';
import { signerOf } from '../../support/certified-run.ts';
import { runCommand } from '../../support/command-line.ts';
import { publishRaw } from '../../support/publish-raw.ts';

const { run, spec } = made;
const kindIn = (kind: number): SignedEvent => last.find((event) => event.kind === kind)!;
const joinOf = before.find(({ kind }) => kind === 7818)!;

/** The event with other members in its content, signed by a key. */
function change(event: SignedEvent, members: object, number: number): SignedEvent {
  const content = { ...JSON.parse(event.content), ...members };
  const tags = event.tags.map(([name = '', value = '', ...more]) => {
    const scope = value.includes('/') ? `${content.run}/${content.round}` : content.run;
    if (name === 's') return [name, scope];
    return name === 'x' && content.digest ? [name, content.digest] : [name, value, ...more];
  });
  const text = canonicalJson(JSON.parse(JSON.stringify(content)));
  return signerOf(number).sign({
    kind: event.kind,
    created_at: event.created_at,
    tags,
    content: text,
  });
}

/** The manifest of two shards for one worker. */
async function sealedManifest() {
  const { publicKey } = await createSealKeys();
  const id = 'ab'.repeat(32);
  const shards = [0, 1].map((shard) => ({
    shard,
    bytes: 10,
    chunks: 'c'.repeat(64),
    digest: 'cd'.repeat(32),
  }));
  const worker = { worker: signerOf(2).publicKey, sealKey: publicKey, key: new Uint8Array(32) };
  const envelopes = await Promise.all(shards.map((shard) => wrapKey(id, shard, worker)));
  const manifest = { version: 1, id, form: 'text', shards, envelopes } as const;
  return { manifest, reference: `tee://${manifestHash(manifest)}` };
}

let call: ApiServer['call'];
let typeOf: ApiServer['typeOf'];
let relayUrl = '';

beforeAll(async () => {
  const server = await startApiServer();
  ({ call, typeOf, relayUrl } = server);
  return () => server.close();
});

describe('T-19 the methods of a run', () => {
  it('are the eleven names, each with its verb, in the OpenRPC document and on the command line', async () => {
    const names = methods.map(({ name, verb }) => `${name} ${verb}`);
    expect(names.sort()).toEqual([
      'challengeCommitment challenge-commitment',
      'decideRound decide-round',
      'enrollTrainer enroll-trainer',
      'finalizeRound finalize-round',
      'getReceipt get-receipt',
      'getRun get-run',
      'getSealedManifest get-sealed-manifest',
      'installSealedManifest install-sealed-manifest',
      'listRuns list-runs',
      'postTask post-task',
      'submitOuterGradient submit-gradient',
    ]);
    const { result } = await call('rpc.discover');
    expect(result.methods.map(({ name }: { name: string }) => name).sort()).toEqual(
      methods.map(({ name }) => name).sort(),
    );
    const { stdout } = await runCommand('train', '--help');
    for (const { verb } of methods) expect(stdout).toContain(verb);
  });

  it('getRun: state, last outcome and open round', async () => {
    const { result } = await call('getRun', { run });
    expect(result).toMatchObject({ run, decided: ROUND, planned: 8, complete: false });
    expect(result.last.outcome).toBe(made.rounds[ROUND - 1]!.digest);
    expect(result.open).toMatchObject({ round: ROUND, sent: 0 });
    expect(result.open.committee.length).toBeGreaterThan(2);
  });

  it('listRuns: the run is there', async () => {
    const { result } = await call('listRuns');
    expect(result.runs).toMatchObject([{ run, name: spec.name }]);
  });

  it('getReceipt: says that the run is not complete, and is not signed', async () => {
    const { result } = await call('getReceipt', { run });
    expect(result).toMatchObject({ run, complete: false, rounds: ROUND });
    expect(result.event).toBeUndefined();
  });

  it('postTask: publishes a run of its own key, or one that another key signed', async () => {
    const training = { model: 'linear', rounds: 2 };
    const { result } = await call('postTask', { spec: { name: 'posted', training } });
    expect(result.naddr).toMatch(/^naddr1/);
    expect((await call('getRun', { run: result.naddr })).result).toMatchObject({ name: 'posted' });
    const event = before.find(({ kind }) => kind === 37810)!;
    expect((await call('postTask', { event })).result.run).toBe(run);
  });

  it('postTask: T-01 refuses a rule that the tier does not admit, before anything is stored', async () => {
    const training = { model: 'linear', rounds: 2 };
    const { error } = await call('postTask', {
      spec: { name: 'krum', training, tier: 'open', aggregation: { rule: 'krum' } },
    });
    expect(error?.data).toMatchObject({
      type: 'spec/AggregationRuleTierMismatch',
      rule: 'krum',
      required: 'verified',
      actual: 'open',
    });
    const { result } = await call('listRuns');
    expect(result.runs.map(({ name }: { name: string }) => name)).not.toContain('krum');
  });

  it('enrollTrainer: publishes a join, knows members, and invites only where the key may', async () => {
    const event = joinOf;
    expect((await call('enrollTrainer', { run, event })).result.status).toMatch(
      /enrolled|announced/,
    );
    const trainer = signerOf(1).publicKey;
    expect((await call('enrollTrainer', { run, trainer })).result.status).toBe('enrolled');
    const stranger = signerOf(9).publicKey;
    expect(await typeOf('enrollTrainer', { run, trainer: stranger })).toBe('run/no-invitations');
    const posted = await call('postTask', {
      spec: { name: 'mine', training: { model: 'linear' } },
    });
    const invited = await call('enrollTrainer', { run: posted.result.run, trainer: stranger });
    expect(invited.result).toMatchObject({ status: 'invited', event: { kind: 30_382 } });
  });

  it('submitOuterGradient: T-04 typed reasons, and a valid one is published', async () => {
    const event = kindIn(7810);
    const number = [1, 2, 3, 4, 5].find((each) => signerOf(each).publicKey === event.pubkey)!;
    const reasonOf = async (changed: SignedEvent) => {
      const { error } = await call('submitOuterGradient', { run, event: changed });
      return error?.data.reason ?? error?.data.type;
    };
    expect(await reasonOf(change(event, {}, 9))).toBe('not-a-member');
    expect(await reasonOf(change(event, { round: ROUND + 1 }, number))).toBe('wrong-round');
    expect(await reasonOf(change(event, { round: ROUND - 1 }, number))).toBe('wrong-round');
    expect(await reasonOf(change(event, { base: 'e'.repeat(64) }, number))).toBe('base-mismatch');
    expect(await reasonOf(change(event, { parent: undefined }, number))).toBe('uncommitted');
    expect(await reasonOf(change(event, { roster: 'e'.repeat(64) }, number))).toBe('other-roster');
    expect(await reasonOf(change(event, { run: 'e'.repeat(64) }, number))).toBe('other-run');
    expect(await reasonOf(change(event, { codec: 'no-such-codec' }, number))).toBe('unknown-codec');
    expect(await reasonOf(change(event, { steps: -1 }, number))).toBe('malformed');
    expect(await reasonOf({ ...event, sig: 'ab'.repeat(64) })).toBe('event/BadSignature');
    expect(await reasonOf({ ...event, pubkey: signerOf(9).publicKey })).toBe('event/BadSignature');
    const { result } = await call('submitOuterGradient', { run, event });
    expect(result).toEqual({ id: event.id, round: ROUND, trainer: event.pubkey });
    await expect.poll(async () => (await call('getRun', { run })).result.open.sent).toBe(1);
  });

  it('refuses events of the other topic', async () => {
    const [contribution, commit] = [kindIn(7810), kindIn(7813)];
    const submitted = await call('submitOuterGradient', { run, event: commit });
    expect(submitted.error?.data).toMatchObject({
      type: 'event/WrongKind',
      expected: 7810,
      got: 7813,
      topic: 'tenzro/training',
      hint: expect.stringContaining('tenzro/training/syncer'),
    });
    const finalized = await call('finalizeRound', { run, event: contribution });
    expect(finalized.error?.data).toMatchObject({
      expected: 7813,
      topic: 'tenzro/training/syncer',
    });
    expect(await typeOf('decideRound', { run, round: ROUND, event: commit })).toBe(
      'event/WrongKind',
    );
    expect(await typeOf('enrollTrainer', { run, event: commit })).toBe('event/WrongKind');
    expect(await typeOf('postTask', { event: commit })).toBe('event/WrongKind');
  });

  it('decideRound: T-09 says whether a round may be decided, and publishes a proposal', async () => {
    expect((await call('decideRound', { run, round: 0 })).result).toMatchObject({
      decision: 'closed',
      outcome: made.rounds[0]!.digest,
    });
    // the events are dated weeks ago, so the grace is over
    expect((await call('decideRound', { run, round: ROUND })).result.decision).toBe('finalize');
    expect(await typeOf('decideRound', { run, round: 99 })).toBe('round/InvalidRound');
    const event = kindIn(7814);
    expect((await call('decideRound', { run, round: ROUND, event })).error).toBeUndefined();
    const elsewhere = await call('decideRound', { run, round: 0, event });
    expect(elsewhere.error?.data.reason).toBe('wrong-round');
    expect(
      await typeOf('decideRound', { run, round: ROUND, event: { ...event, sig: 'ab'.repeat(64) } }),
    ).toBe('event/BadSignature');
  });

  it('finalizeRound: T-07 the same vote again is fine, T-08 another outcome is a conflict', async () => {
    const past = before.filter(
      ({ kind, content }) => kind === 7813 && content.includes('"commit"'),
    );
    const event = past[0]!;
    const again = await Promise.all(
      [1, 2, 3, 4, 5].map(() => call('finalizeRound', { run, event })),
    );
    const { round, digest } = JSON.parse(event.content);
    for (const { result } of again) {
      expect(result).toMatchObject({ status: 'closed', round, outcome: digest });
    }
    const number = [1, 2, 3, 4, 5].find((each) => signerOf(each).publicKey === event.pubkey)!;
    const other = 'e'.repeat(64);
    const conflict = await call('finalizeRound', {
      run,
      event: change(event, { digest: other }, number),
    });
    expect(conflict.error?.data).toMatchObject({
      type: 'round/ConflictingFinalize',
      round,
      expected: digest,
      got: other,
    });
    const late = change(event, { round: ROUND + 1 }, number);
    expect(await typeOf('finalizeRound', { run, event: late })).toBe('round/InvalidRound');
    const outsider = change(kindIn(7813), {}, 9);
    expect(await typeOf('finalizeRound', { run, event: outsider })).toBe('round/NotInCommittee');
  });

  it('finalizeRound: T-06 waits until a quorum of the committee has signed; then the run is complete', async () => {
    await publishRaw(
      relayUrl,
      last.filter(({ kind }) => kind === 7810 || kind === 7814),
    );
    const commits = last.filter(
      ({ kind, content }) => kind === 7813 && content.includes('"commit"'),
    );
    const [first, ...others] = commits;
    const { result } = await call('finalizeRound', { run, event: first! });
    expect(result).toMatchObject({ status: 'wait', round: ROUND });
    expect(result.quorum).toBeGreaterThan(1);
    expect((await call('getRun', { run })).result.complete).toBe(false);
    for (const event of others) {
      expect((await call('finalizeRound', { run, event })).error).toBeUndefined();
    }
    const isComplete = async () => (await call('getRun', { run })).result.complete;
    await expect.poll(isComplete, { timeout: 20_000 }).toBe(true);
    const receipt = (await call('getReceipt', { run })).result;
    expect(receipt).toMatchObject({ complete: true, rounds: 8, event: { kind: 30_078 } });
    const event = kindIn(7810);
    expect(await typeOf('submitOuterGradient', { run, event })).toBe('run/complete');
  });

  it('challengeCommitment: says that steps of this run cannot be recomputed', async () => {
    const trainer = signerOf(1).publicKey;
    expect(await typeOf('challengeCommitment', { run, round: 0, trainer })).toBe('run/no-rerun');
  });

  it('installSealedManifest, getSealedManifest: the reference is the hash of the content', async () => {
    const { manifest, reference } = await sealedManifest();
    const other = `tee://${'e'.repeat(64)}`;
    expect(await typeOf('getSealedManifest', { reference })).toBe('sealed/unknown');
    for (let i = 0; i < 2; i++) {
      const { result } = await call('installSealedManifest', { reference, manifest });
      expect(result).toEqual({ reference, shards: 2, envelopes: 2 });
    }
    const { result } = await call('getSealedManifest', { reference });
    expect(JSON.stringify(result)).toBe(canonicalManifest(manifest));
    const edited = {
      ...manifest,
      envelopes: manifest.envelopes.map((each) => ({ ...each, worker: signerOf(9).publicKey })),
    };
    const mismatch = await call('installSealedManifest', { reference, manifest: edited });
    expect(mismatch.error?.data).toMatchObject({
      type: 'sealed/SealedManifestHashMismatch',
      expected: reference,
    });
    expect(await typeOf('installSealedManifest', { reference: other, manifest })).toBe(
      'sealed/SealedManifestHashMismatch',
    );
    expect(await typeOf('installSealedManifest', { reference, manifest: {} })).toBe(
      'sealed/malformed',
    );
    const plain = { reference: 'https://example.org/data', manifest };
    expect((await call('installSealedManifest', plain)).error?.code).toBe(-32_602);
  });
});
