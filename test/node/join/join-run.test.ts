/** Joining a certified run with one call: from a spec, its file or its address, to the end, and on from where it stopped. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from 'nostrain/base';
import { makeSpec, type RunEvent } from 'nostrain/certified';
import { encodeRunAddress } from 'nostrain/certified/parts';
import { createRelaySet, createSigner } from 'nostrain/network';
import { joinRun, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { canonicalSpec, type RunSpec, runIdOf } from 'nostrain/run';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { publishRun } from '../../../src/certified/wire/runs.ts';
import { temporaryFolder } from '../../support/processes.ts';

const secKey = '07'.repeat(32);
const signer = createSigner(new Uint8Array(32).fill(7));
let relay: Relay;
let home: string;

beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());
beforeEach(() => {
  home = temporaryFolder();
  vi.stubEnv('NOSTRAIN_HOME', home);
});
afterEach(() => vi.unstubAllEnvs());

const specOf = async (rounds: number, innerSteps: number): Promise<RunSpec> => {
  const { spec } = await makeSpec({
    me: signer.publicKey,
    training: { model: 'linear', rounds, innerSteps },
  });
  return spec;
};

it('a run is joined by its spec, trained to its end and kept by its id', async () => {
  const events: RunEvent[] = [];
  const spec = await specOf(2, 2);
  const machine = { relays: [relay.url], secKey, device: 'cpu', threads: 1 } as const;
  const state = await joinRun(spec, { ...machine, report: (event) => void events.push(event) });
  expect(state.round).toBe(2);
  const types = events.map(({ type }) => type);
  expect(types).toContain('hello');
  expect(types.at(-1)).toBe('done');
  const folder = join(home, 'runs', runIdOf(spec).slice(0, 16));
  expect(readdirSync(folder)).toEqual(expect.arrayContaining(['run.json', 'state.safetensors']));
  // called again, it is over
  const again: RunEvent[] = [];
  const final = await joinRun(spec, { ...machine, report: (event) => void again.push(event) });
  expect(final.params.values).toEqual(state.params.values);
  const notices = again.flatMap((event) => (event.type === 'notice' ? [event.message] : []));
  expect(notices.join()).toContain('This run is finished (2 rounds');
});

it('a run is joined by its address, which names its relay', async () => {
  const spec = await specOf(1, 3);
  const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
  await relays.ready();
  const { signal } = new AbortController();
  const relaySession = { relays, clock: systemClock, sha256: nativeSha256, signal };
  await publishRun(spec, undefined, { ...relaySession, sign: (draft) => signer.sign(draft) });
  await relays.close();
  const address = { run: runIdOf(spec), author: signer.publicKey, relays: [relay.url] };
  const naddr = encodeRunAddress(address);
  const machine = { secKey, device: 'cpu', threads: 1 } as const;
  await expect(joinRun(naddr, machine)).rejects.toMatchObject({ code: 'relay/private-hint' });
  const { round } = await joinRun(naddr, { ...machine, allowPrivateRelays: true });
  expect(round).toBe(1);
});

it('what the machine lacks is said before anything is trained', async () => {
  const file = join(home, 'some.run.json');
  writeFileSync(file, canonicalSpec(await specOf(1, 4)));
  const machine = { secKey, device: 'cpu' } as const;
  await expect(joinRun(file, machine)).rejects.toMatchObject({ code: 'flag/relay' });
  const other = { relays: [relay.url], settings: { innerSteps: 9 } };
  await expect(joinRun(file, { ...machine, ...other })).rejects.toMatchObject({
    name: 'ConfigError',
  });
  const stopped = AbortSignal.abort(new Error('stopped'));
  const asked = { ...machine, relays: [relay.url], signal: stopped };
  await expect(joinRun(file, asked)).rejects.toThrow('stopped');
});
