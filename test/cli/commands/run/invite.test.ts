/** Who may join a new run, and `run invite`, by which a founder lets others in. */
import { readFile, rm } from 'node:fs/promises';
import { systemClock } from 'nostrain/base';
import { createRelaySet } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { parseRunSpec } from 'nostrain/run';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { signerOf } from '../../../support/signers.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const [alice, bob, carol] = [1, 2, 3].map((number) => signerOf(number).publicKey);
const keyFlags = (number: number) => ['--sec-key', `0${number}`.repeat(32)];

beforeEach(() => vi.stubEnv('NOSTRAIN_HOME', file('home')));
afterEach(() => vi.unstubAllEnvs());

const create = (...flags: readonly string[]) =>
  runCommand('run', 'create', ...keyFlags(1), '-o', file('run.json'), ...flags);
const written = async () => parseRunSpec(await readFile(file('run.json'), 'utf8'));

describe('a new run', () => {
  it('admits invited keys unless told otherwise, and says who may join', async () => {
    const madeWith = async (...flags: readonly string[]) => {
      await rm(file('run.json'), { force: true });
      const made = await create('--model', 'linear', '--founder', bob!, ...flags);
      expect(made.stderr).not.toContain('error');
      const { admission, foundersDecide } = await written();
      return { admission, foundersDecide, stdout: made.stdout };
    };
    const invited = await madeWith();
    expect(invited).toMatchObject({
      admission: { kind: 'trust', anchors: [alice, bob].sort(), by: 'assertions', rank: 100 },
      foundersDecide: false,
    });
    expect(invited.stdout).toContain(
      'keys that a founder invites may join: nostrain run invite RUN NPUB',
    );
    const open = await madeWith('--set', 'admission.kind=open');
    expect(open).toMatchObject({ admission: { kind: 'open' }, foundersDecide: true });
    expect(open.stdout).toContain('anyone may join, so the 2 founders decide');
    const worked = await madeWith('--set', 'admission.bits=8');
    expect(worked).toMatchObject({ admission: { kind: 'work' }, foundersDecide: true });
    const unguarded = ['--set', 'admission.kind=open', '--set', 'foundersDecide=false'];
    expect((await madeWith(...unguarded)).stdout).toContain('the run stalls for good when');
    const named = await madeWith('--invite', carol!);
    expect(named).toMatchObject({ admission: { kind: 'list' }, foundersDecide: false });
    expect(named.stdout).toContain('only 3 named keys may join, and no other later');
  });
});

it('says what strangers can do to those who join an open run', async () => {
  const joining = async (...flags: readonly string[]) => {
    await rm(file('run.json'), { force: true });
    // a run whose beacon no source is named for ends before it connects
    await create('--model', 'linear', '--set', 'beacon.kind=drand', ...flags);
    const place = [file('run.json'), '--relay', 'ws://127.0.0.1:9', ...keyFlags(1)];
    return (await runCommand('run', 'join', ...place)).stderr;
  };
  const open = ['--set', 'admission.kind=open'];
  expect(await joining(...open)).toContain('warning: anyone may join, so the founder decides');
  expect(await joining()).not.toContain('anyone may join');
});

describe('nostrain run invite', () => {
  it('publishes an invitation on the relays of the run, with the key of a founder', async () => {
    const relay = await createRelay();
    onTestFinished(() => relay.close());
    const made = await create('--model', 'linear', '--relay', relay.url, '--json');
    const { naddr } = JSON.parse(made.stdout);
    const invite = (...rest: readonly string[]) =>
      runCommand('run', 'invite', naddr, '--allow-private-relays', ...rest);
    const invited = await invite(toNpub(bob!), carol!, ...keyFlags(1));
    expect(invited.exitCode).toBe(0);
    expect(invited.stdout).toBe(
      `invited ${toNpub(bob!)} to linear\ninvited ${toNpub(carol!)} to linear\n`,
    );
    const relays = createRelaySet([relay.url], {
      ...{ openSocket, clock: systemClock, crypto: nativeCrypto },
    });
    onTestFinished(() => relays.close());
    await relays.ready();
    const { events } = await relays.query([{ kinds: [30_382], authors: [alice!] }], {
      waitMs: 5000,
    });
    const subjects = events.map(({ tags }) => tags.find(([name]) => name === 'd')![1]);
    expect(subjects.sort()).toEqual([bob, carol].sort());

    expect((await invite(bob!, ...keyFlags(3))).stderr).toContain('(run/not-an-anchor)');
    expect((await invite('bob', ...keyFlags(1))).stderr).toContain('bob is not a public key');
    const without = await runCommand('run', 'invite', file('run.json'), bob!, ...keyFlags(1));
    expect(without.stderr).toContain('the spec file names no relay');
  });
});
