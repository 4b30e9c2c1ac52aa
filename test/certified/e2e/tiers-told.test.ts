/**
 * Reports about a finished certified run with tiers: explanations, receipts, archives, folders, and views for
 * observers.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from 'nostrain/base';
import { explainRound, readArchive, replayRun } from 'nostrain/certified';
import { buildRun } from 'nostrain/certified/parts';
import { createRelaySet } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { runIdOf } from 'nostrain/run';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { securityReportOf } from '../../../src/certified/security-report.ts';
import { measurePayload } from '../../../src/cli/shared/estimate.ts';
import { followRun, type OpenRun, openArchive } from '../../../src/dashboard/follow-run.ts';
import type { RunPicture } from '../../../src/dashboard/run-picture.ts';
import { agreementOf, createView, fold } from '../../../src/dashboard/view.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  keyOf,
  startCertified,
} from '../../support/certified-swarm.ts';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { signerOf } from '../../support/swarm.ts';
import { tieredSpec, tierOfModel } from '../../support/tiers.ts';

const TIERS = [0, 0, 1, 2];
const spec = tieredSpec([0, 1], { rounds: 5 });
const run = runIdOf(spec);
const place = temporaryFolder();
const inFolder = (name: string): string => join(place, name);
const file = inFolder('run.jsonl');
let relay: Relay;
let members: readonly CertifiedMember[];
let root: string;
const fromRelay = (): readonly string[] => ['--run', run, '--relay', relay.url];

beforeAll(async () => {
  relay = await createRelay();
  const createdAt = Math.floor(Date.now() / 1000);
  const life = { createdAt, expiresAt: createdAt + 86_400 };
  await publishRaw(relay.url, [signerOf(0).sign(buildRun(spec, life))]);
  members = TIERS.map((tier, index) =>
    startCertified({ index, relays: [relay.url], spec, ...tierOfModel(spec, tier) }),
  );
  const ends = await Promise.all(members.map(({ finished }) => finished));
  root = ends[0]!.head.modelRoot;
  const { exitCode, stderr } = await runCommand('archive', ...fromRelay(), '--out', file);
  expect(exitCode, stderr).toBe(0);
});
afterAll(async () => {
  await relay.close();
  await rm(place, { recursive: true, force: true });
});

it('is replayed from its archive', async () => {
  const { exitCode, stdout } = await runCommand('replay', '--events', file);
  expect(exitCode, stdout).toBe(0);
  expect(stdout).toContain('ok: 5 rounds, all recomputed in full');
  expect(stdout).toContain(root);
});

it('explanations cover workers of small tiers', async () => {
  const archive = await readArchive((await readFile(file, 'utf8')).split('\n'));
  for (const index of TIERS.keys()) {
    for (const { index: round, accepted } of certifiedRounds(members[0]!)) {
      const told = await explainRound(archive, { worker: keyOf(index), round });
      expect(told!.counted).toBe(accepted.includes(keyOf(index)));
    }
  }
});

it('a receipt lists contributions of small tiers, and verifies against the events', async () => {
  const out = inFolder('receipt.json');
  const signing = ['--sign', '--sec-key', '01'.repeat(32), '-o', out, '--json'];
  const { exitCode, stdout, stderr } = await runCommand('receipt', '--events', file, ...signing);
  expect(exitCode, stderr).toBe(0);
  const { rows, complete } = JSON.parse(stdout);
  expect(complete).toBe(true);
  for (const index of TIERS.keys()) {
    const row = rows.find(({ worker }: { readonly worker: string }) => worker === keyOf(index));
    const counted = certifiedRounds(members[0]!).flatMap(({ index: round, accepted }) =>
      accepted.includes(keyOf(index)) ? [round] : [],
    );
    expect(counted).not.toEqual([]);
    expect(row.counted).toEqual(counted);
    expect(row.voted.length > 0).toBe(TIERS[index] === 0);
  }
  const checked = await runCommand('receipt', ...fromRelay(), '--verify', out);
  expect(checked.stdout).toContain('true: signed by');
  expect(checked.exitCode).toBe(0);
});

it('a folder stores its states slice by slice, and a replay continues from them if payloads are lost', async () => {
  const folder = inFolder('folder');
  const made = await runCommand('archive', ...fromRelay(), '--folder', folder, '--every', '2');
  expect(made.exitCode, made.stderr).toBe(0);
  expect(made.stdout).toContain('states after rounds 2, 4, 5');
  expect((await readdir(`${folder}/states`)).sort()).toEqual(
    [2, 4, 5].flatMap((round) => [0, 1, 2].map((slice) => `${round}.ring${slice}.state`)),
  );
  const whole = await runCommand('replay', '--events', folder);
  expect(whole.exitCode, whole.stderr).toBe(0);

  const events = `${folder}/run.jsonl`;
  const lines = (await readFile(events, 'utf8')).split('\n');
  const isEarly = (line: string) => /"kind":7810/.test(line) && /\\"round\\":0,/.test(line);
  await writeFile(events, lines.filter((line) => !isEarly(line)).join('\n'));
  const { stdout } = await runCommand('replay', '--events', folder);
  expect(stdout).toMatch(/round +1 +chain/);
  expect(stdout).toMatch(/round +3 +full/);
  expect(stdout).toContain(root);
});

it('observers see its rounds from relays and from a file, and their events replay', async () => {
  const watched = await runCommand('watch', run, '--relay', relay.url, '--once');
  expect(watched.exitCode, watched.stderr).toBe(0);
  expect(watched.stdout.match(/^round +\d+ {2}(?:final|void)/gm)).toHaveLength(5);

  const relays = createRelaySet([relay.url], {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
  });
  await relays.ready();
  const { signal } = new AbortController();
  let follow: Promise<OpenRun>;
  const followed = await new Promise<RunPicture>((resolve, reject) => {
    follow = followRun(run, {
      ...{ relays, clock: systemClock, signal, onFailed: reject },
      onPicture: (picture) => picture.isCaughtUp && resolve(picture),
    });
    follow.catch(reject);
  });
  const open = await follow!;
  const report = await replayRun(await open.archive(), { run, spec });
  open.close();
  await relays.close();
  const archive = await readArchive((await readFile(file, 'utf8')).split('\n'));
  const { picture } = await openArchive(archive, { nowSeconds: Math.floor(Date.now() / 1000) });
  expect(picture.rounds).toEqual(followed.rounds);
  expect(picture.rounds.at(-1)!.modelRoot).toBe(root);
  for (const { round, accepted } of picture.rounds) {
    const isCounted = accepted.some(({ worker }) => worker === keyOf(3));
    expect(open.explain(keyOf(3), round)!.counted).toBe(isCounted);
  }
  expect(report).toMatchObject({ ok: true, modelRoot: root });
});

it('the workers’ reports fold into one view without differences', () => {
  const events = members.flatMap((member, i) =>
    member.events.map((event) => [`${i}`, event] as const),
  );
  const view = events.reduce(
    (before, [name, event]) => fold(before, name, event),
    createView(members.map((_, i) => `${i}`)),
  );
  expect(view.finished).toHaveLength(5);
  expect(view.finished.map((round) => agreementOf(view, round))).not.toContain('differ');
  expect(view.workers.map(({ failure }) => failure)).toEqual(members.map(() => undefined));
});

it('its security report measures the payload of the full model', async () => {
  const measure = measurePayload;
  const report = securityReportOf(spec, { workersPerIp: 1, relays: [relay.url], measure });
  const archive = await readArchive((await readFile(file, 'utf8')).split('\n'));
  const { picture } = await openArchive(archive, { nowSeconds: Math.floor(Date.now() / 1000) });
  const sent = picture.rounds.flatMap(({ sent: rows }) => rows.map(({ bytes }) => bytes));
  const most = Math.max(...sent);
  expect(report.payloadBytes).toBeGreaterThanOrEqual(most);
  expect(report.payloadBytes).toBeLessThan(1.5 * most);
});
