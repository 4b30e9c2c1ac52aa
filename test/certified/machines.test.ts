/** T-16: a run on sealed data lists a join only if the machine of the joiner is one that its spec accepts. */
import type { CertifiedState } from 'nostrain/certified/parts';
import { describe, expect, it } from 'vitest';
import { userDataOf, writeEvidence } from '../../src/attest/evidence.ts';
import { simulateEvidence } from '../../src/attest/vendors.ts';
import { refuseMachine, userDataFor } from '../../src/certified/decisions/machines.ts';
import { type MachineReport, seekCredentials } from '../../src/certified/invitations.ts';
import { type RunSpec, runIdOf, tierName } from '../../src/run/spec/run-spec.ts';
import { certifiedSpec, keyOf } from '../support/certified-swarm.ts';
import { sampleSpec } from '../support/run-spec.ts';
import { createTimedSwarm, type TimedSwarm } from '../support/timed-swarm.ts';

const FOUNDERS = [0, 1, 2];
const code = new Uint8Array(48).fill(0xaa);
const otherCode = new Uint8Array(48).fill(0xbb);
const sealKeyOf = (index: number) => `${index}e`.repeat(32);
const document = {
  tier: 'confidential',
  joinsPerRound: 4,
  data: { kind: 'own' },
  sealed: {
    manifest: `tee://${'5e'.repeat(32)}`,
    id: '1d'.repeat(32),
    recipients: [0, 1, 2, 3, 4].map((index) => `${keyOf(index)}:${sealKeyOf(index)}`),
  },
  machines: { vendors: ['simulated'], measurements: ['aa'.repeat(48)], leastStatus: 'UpToDate' },
};
const plain = certifiedSpec({
  ...{ founders: FOUNDERS, rounds: 8, document: { joinsPerRound: 4 } },
  timing: { graceMinMs: 2000, graceMaxMs: 20_000 },
});
const { sealed } = document;
/** The swarm trains a linear model, which takes no data of its own: the rules of specs would refuse it. */
const spec: RunSpec = {
  ...plain,
  features: [...plain.features, 'machines' as const, 'sealed' as const].sort(),
  machines: { ...plain.machines, vendors: ['simulated'], measurements: ['aa'.repeat(48)] },
  sealed,
};
const run = runIdOf(spec);
const firstRound = { parent: run, recent: [run] };
const NOW = 1_790_000_000;

/** A simulated machine with this code. */
const machineOf = (index: number, measurement = code): MachineReport => ({
  sealKey: sealKeyOf(index),
  evidence: async (userData) =>
    writeEvidence(simulateEvidence(measurement, Buffer.from(userData, 'hex'))),
});

describe('T-16 the join of a worker', () => {
  const [key, after] = [keyOf(3), 'af'.repeat(32)];
  const bound = userDataFor(run, { key, after }, sealKeyOf(3));
  const joinWith = (userData: string, measurement = code, sealKey = sealKeyOf(3)) => {
    const evidence = writeEvidence(simulateEvidence(measurement, Buffer.from(userData, 'hex')));
    return { key, after, features: { machines: { evidence, sealKey } } };
  };
  const good = joinWith(bound);
  const judge = (join: Parameters<typeof refuseMachine>[2], at = NOW, of = spec) =>
    refuseMachine(of, run, join, at);

  it('is accepted with evidence of the machine that the spec names', () => {
    expect(judge(good)).toBeUndefined();
  });

  it.each([
    [
      'another key than in its envelope',
      joinWith(bound, code, '00'.repeat(32)),
      'machines.sealKey',
    ],
    ['other code', joinWith(bound, otherCode), 'measurement'],
    ['no envelope', { ...good, key: keyOf(9) }, 'sealed.recipients'],
    [
      'a vendor that this version does not know',
      { ...good, features: { machines: { evidence: '{"vendor":"acme"}', sealKey: sealKeyOf(3) } } },
      'vendor',
    ],
    ['no evidence', { key, after }, 'machines.sealKey'],
    ['evidence of an earlier outcome', { ...good, after: 'ae'.repeat(32) }, 'userData'],
    [
      'evidence of another run',
      joinWith(
        userDataOf({ run: '77'.repeat(32), worker: key, sealKey: sealKeyOf(3), entropy: after }),
      ),
      'userData',
    ],
    [
      'evidence of another worker',
      joinWith(userDataFor(run, { key: keyOf(4), after }, sealKeyOf(3))),
      'userData',
    ],
    [
      'ten megabytes',
      {
        ...good,
        features: { machines: { evidence: ' '.repeat(1e7), sealKey: sealKeyOf(3) } },
      },
      '',
    ],
  ])('with %s is refused by the field', (_, join, field) => {
    expect(judge(join)).toMatchObject({ at: field });
  });

  it('is refused by a run that accepts other vendors', () => {
    const machines = { ...spec.machines, vendors: ['intel-tdx'] as const };
    expect(judge(good, NOW, { ...spec, machines })).toMatchObject({ at: 'vendor' });
  });
});

it('a run that accepts simulated machines is labelled by its tier', () => {
  expect(tierName(spec)).toContain('SIMULATED');
  expect(tierName(plain)).toBe(plain.tier);
});

describe('a confidential run', () => {
  const made = (changes: object) => () =>
    sampleSpec({ ...document, training: { model: 'char-gpt' }, ...changes });

  it('T-01 T-15 needs sealed data, by a tee:// hash, and machines', () => {
    expect(made({ sealed: undefined, machines: undefined })).toThrow('sealed.manifest is empty');
    expect(made({ machines: undefined })).toThrow('machines.vendors is empty');
    const manifest = `https://${'5e'.repeat(32)}`;
    expect(made({ sealed: { ...document.sealed, manifest } })).toThrow('sealed.manifest');
    expect(made({ machines: { ...document.machines, vendors: ['acme'] } })).toThrow(
      /vendors.*acme/,
    );
  });

  it('T-01 allows every rule, as a verified one does', () => {
    expect(made({ aggregation: { rule: 'krum', hostile: 1 } })).not.toThrow();
  });

  it('lists the joins of accepted machines, and no others', async () => {
    const swarm = createTimedSwarm(spec, 5);
    const admissions = await Promise.all(
      [...FOUNDERS, 3].map((index) => searching(swarm, index, machineOf(index))),
    );
    const bad = (await searching(swarm, 4, machineOf(4)))(firstRound)!;
    const evidence = await machineOf(4, otherCode).evidence(
      userDataFor(run, { key: keyOf(4), after: run }, sealKeyOf(4)),
    );
    const machines = { evidence, sealKey: sealKeyOf(4) };
    const members = [
      ...[...FOUNDERS, 3].map((index, i) => swarm.start({ index, admission: admissions[i]! })),
      swarm.start({ index: 4, admission: { ...bad, features: { ...bad.features, machines } } }),
    ];
    await swarm.finish(members.slice(0, 4), 600);
    const { members: roster } = (members[0]!.disk.state as CertifiedState).head.ledger;
    expect(roster.map(({ key }) => key)).toEqual([0, 1, 2, 3].map(keyOf).sort());
    await Promise.all(members.map(({ stop }) => stop?.()));
  });

  it('lists a member that was dropped again, with evidence of a recent outcome', async () => {
    const swarm = createTimedSwarm(spec, 5);
    const founders = await Promise.all(
      FOUNDERS.map((index) => searching(swarm, index, machineOf(index))),
    );
    const notices: string[] = [];
    let isBroken = true;
    const good = machineOf(3);
    const machine: MachineReport = {
      ...good,
      evidence: (userData) =>
        isBroken ? Promise.reject(new Error('the driver is busy')) : good.evidence(userData),
    };
    // a member when it started, it has made no evidence yet
    const admission = await searching(swarm, 3, machine, { isMember: true, notices });
    const first = admission(firstRound);
    await expect.poll(() => notices).toEqual(['cannot join again yet: the driver is busy']);
    isBroken = false;
    const members = FOUNDERS.map((index, i) => swarm.start({ index, admission: founders[i]! }));
    const dropped = swarm.start({ index: 3, admission });
    await swarm.finish([...members, dropped], 600);
    expect(first).toBeUndefined();
    const { members: roster } = (members[0]!.disk.state as CertifiedState).head.ledger;
    expect(roster.map(({ key }) => key)).toContain(keyOf(3));
    const later = { parent: 'ee'.repeat(32), recent: ['ee'.repeat(32)] };
    expect(admission(later)).toBeUndefined();
    await expect.poll(() => admission(later)?.after).toBe(later.parent);
  });

  it('refuses its own worker on another machine before it joins, with the field', async () => {
    const swarm = createTimedSwarm(spec, 1);
    await expect(searching(swarm, 3, machineOf(3, otherCode))).rejects.toMatchObject({
      code: 'run/machine',
      data: { at: 'measurement' },
    });
    await expect(searching(swarm, 3, undefined)).rejects.toMatchObject({
      data: { at: 'machines.sealKey' },
    });
  });
});

const searching = (
  { connect, clock }: TimedSwarm,
  index: number,
  machine: MachineReport | undefined,
  { isMember = false, notices = [] }: { isMember?: boolean; notices?: string[] } = {},
) =>
  seekCredentials(spec, {
    ...{ key: keyOf(index), isMember, after: run, machine, relays: connect(), clock },
    signal: new AbortController().signal,
    onNotice: (notice) => notices.push(notice),
  });
