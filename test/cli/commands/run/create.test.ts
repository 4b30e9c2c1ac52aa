import { readFile, rm, writeFile } from 'node:fs/promises';
import { sha256Hex } from 'nostrain/base';
import { shardSettings } from 'nostrain/certified/parts';
import { toNpub } from 'nostrain/node/parts';
import { parseRunSpec, runIdOf } from 'nostrain/run';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { assertAdmitted } from '../../../../src/certified/make-spec.ts';
import { securityReportOf } from '../../../../src/certified/security-report.ts';
import { describeReport } from '../../../../src/cli/commands/run/inspect.ts';
import { measurePayload } from '../../../../src/cli/shared/estimate.ts';
import { runCommand } from '../../../support/command-line.ts';
import { sampleSpec } from '../../../support/run-spec.ts';
import { signerOf } from '../../../support/signers.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { writeTinyLlama } from '../../../support/tiny-llama.ts';

const file = temporaryFolder();
const [alice, bob, carol] = [1, 2, 3].map((number) => signerOf(number).publicKey);
const KEY = '01'.repeat(32);
const TEXT = 'the cat sat on the mat\n'.repeat(500);

beforeEach(() => vi.stubEnv('NOSTRAIN_HOME', file('home')));
afterEach(() => vi.unstubAllEnvs());

const create = (...flags: readonly string[]) =>
  runCommand('run', 'create', '--sec-key', KEY, '-o', file('run.json'), ...flags);
const listOf = async (...keys: readonly string[]) => {
  await writeFile(file('stakes.txt'), keys.map((key) => `${toNpub(key)} 100\n`).join(''));
  return file('stakes.txt');
};
const written = async () => parseRunSpec(await readFile(file('run.json'), 'utf8'));

describe('nostrain run create', () => {
  it('of a crowd of founders lets an outcome list what fits into one event', async () => {
    const founders = (count: number) =>
      Array.from({ length: count }, (_, i) => signerOf(i + 1).publicKey);
    const limitsOf = async (count: number, ...flags: readonly string[]) => {
      await rm(file('run.json'), { force: true });
      await writeFile(file('founders.json'), JSON.stringify({ founders: founders(count) }));
      const made = await create(file('founders.json'), '--model', 'linear', ...flags);
      expect(made.exitCode).toBe(0);
      const { foundersPerRound, joinsPerRound } = await written();
      return [foundersPerRound, joinsPerRound];
    };
    const open = ['--set', 'admission.kind=open'];
    expect(await limitsOf(84, ...open)).toEqual([0, 0]);
    expect(await limitsOf(85, ...open)).toEqual([84, 16]);
    expect(await limitsOf(85, ...open, '--set', 'joinsPerRound=32')).toEqual([84, 32]);
    expect(await limitsOf(85)).toEqual([84, 16]);
    expect(await limitsOf(84)).toEqual([0, 16]);
  });

  it('fills in everything, and says what it made', async () => {
    const { exitCode, stdout } = await create('--model', 'linear');
    expect(exitCode).toBe(0);
    const spec = await written();
    expect(spec).toMatchObject({
      ...{ version: 2, name: 'linear', author: alice, founders: [alice], late: 'discard' },
      committee: { size: 64, quorum: 'bft', weights: 'equal', minStake: '0' },
      limits: { payloadBytes: 1560, weightCap: 320 },
      ...{ data: { kind: 'made', shards: 1 }, stake: { source: 'none' }, evaluation: null },
    });
    expect(stdout).toContain(`run id   ${runIdOf(spec)}`);
    expect(stdout).toContain('3 events per round');
    expect(stdout).toContain(`nostrain run join ${file('run.json')}`);
    expect((await create('--model', 'linear')).exitCode).toBe(0);
    const again = await create('--model', 'linear', '--rounds', '9');
    expect(again).toMatchObject({ exitCode: 1, stdout: '' });
    expect(again.stderr).toContain('exists and was not overwritten');
  });

  it('names a base by its files, also out of a document, and what is trained of it', async () => {
    const base = await writeTinyLlama(file('tiny'));
    await writeFile(file('text.txt'), TEXT);
    const flags = ['--base', base, '--corpus', file('text.txt'), '--context', '32'];
    expect((await create(...flags)).stderr).not.toContain('error');
    const spec = await written();
    expect(spec).toMatchObject({ name: 'pretrained', features: ['start', 'trust'] });
    expect(spec.start).toMatchObject({
      adapter: { rank: 8, alpha: 16, targets: 'qv', adapterTrain: 'both' },
      ...{ from: [], root: null, model: { architecture: 'llama', width: 32 } },
    });
    const { stdout } = await runCommand('run', 'inspect', file('run.json'));
    expect(stdout).toContain('adapters of rank 8 on qv (both), alpha 16');
    expect(stdout).toContain('start model.safetensors');

    await writeFile(file('part.json'), JSON.stringify({ start: spec.start }));
    const data = ['--corpus', file('text.txt'), '--context', '32'];
    await rm(file('run.json'));
    expect((await create(file('part.json'), ...data, '--rank', '4')).stderr).not.toContain('error');
    expect((await written()).start).toEqual({
      ...spec.start,
      adapter: { ...spec.start!.adapter, rank: 4 },
    });
    await rm(file('run.json'));
    expect((await create(...flags, '--rank', '0')).stderr).not.toContain('error');
    expect((await written()).start?.root).toMatch(/^[0-9a-f]{64}$/);
    expect((await create('--model', 'pretrained', ...data)).stderr).toContain('(base/missing)');
    expect((await create('--model', 'gpt', '--rank', '4', ...data)).stderr).toMatch(
      /--rank goes with --model pretrained/,
    );
    const planned = await runCommand('plan', '--base', base, '--context', '32', '--json');
    expect(JSON.parse(planned.stdout)).toMatchObject({ parameters: 1792 });
  });

  it('prints at most eight lines and the line to send', async () => {
    const noisy = [
      '--set',
      'timing.graceMaxMs=20000',
      '--round-seconds',
      '5',
      '--workers-per-ip',
      '4',
    ];
    const forking = ['--set', 'timing.recoveryFloorPermille=0', '--founder', bob!];
    for (const flags of [[], noisy, [...noisy, ...forking]]) {
      await rm(file('run.json'), { force: true });
      const { exitCode, stdout } = await create('--model', 'linear', ...flags);
      expect(exitCode).toBe(0);
      const lines = stdout.trimEnd().split('\n');
      expect(lines.length).toBeLessThanOrEqual(10);
      expect(lines.at(-2)).toBe(`  nostrain run join ${file('run.json')}`);
      expect(lines.at(-1)).toMatch(/^run it yourself (?:too|last): /);
    }
    const { stdout } = await create('--model', 'linear', ...noisy, ...forking);
    expect(stdout).toMatch(/and \d more warnings: run `nostrain run inspect` to see them/);
  });

  it('with a table of stakes: the spec names it, the line carries it, and who weighs is said', async () => {
    const table = await runCommand(
      ...['stake', 'snapshot', '--from', 'file', '--list', await listOf(alice!), '-o'],
      file('stakes.json'),
    );
    expect(table.exitCode).toBe(0);
    const { stdout } = await create('--model', 'linear', '--stake', file('stakes.json'));
    const { stake } = await written();
    expect(stake).toEqual({ source: 'file', snapshot: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(stdout).toContain('own nothing and count for nothing');
    expect(stdout).toContain('send your friends both files and this command');
    const line = `nostrain run join ${file('run.json')} --stake ${file('stakes.json')}`;
    expect(stdout).toContain(`${line}\n`);
    const other = ['--set', `stake.snapshot=${'c'.repeat(64)}`, '--stake', file('stakes.json')];
    expect((await create('--model', 'linear', ...other)).stderr).toContain('stake/other');
    const without = ['--set', `author=${bob!}`, '--stake', file('stakes.json')];
    expect((await create('--model', 'linear', ...without)).stderr).toContain('run/no-seats');
  });

  it('makes the key that a founder needs, once', async () => {
    const first = await runCommand(
      'run',
      'create',
      '--model',
      'mlp',
      '-o',
      file('a.json'),
      '--json',
    );
    const second = await runCommand(
      'run',
      'create',
      '--model',
      'mlp',
      '-o',
      file('b.json'),
      '--json',
    );
    expect(first.stderr).toContain('created a new key');
    expect(second.stderr).not.toContain('created a new key');
    expect(JSON.parse(first.stdout).run).toBe(JSON.parse(second.stdout).run);
  });

  it('takes TOML, over which flags win', async () => {
    await writeFile(
      file('run.toml'),
      `name = "four friends"\nliveRounds = 5\nfounders = ["${alice}", "${toNpub(bob!)}"]\n[training]\nmodel = "linear"\nrounds = 7\n[committee]\nquorum = "cft"\nsize = 8\n`,
    );
    const made = await create(
      file('run.toml'),
      '--rounds',
      '9',
      '--set',
      'committee.size=16',
      '--invite',
      carol!,
    );
    expect(made.exitCode).toBe(0);
    const spec = await written();
    expect(spec).toMatchObject({
      ...{ name: 'four friends', liveRounds: 5, training: { rounds: 9 } },
      committee: { quorum: 'cft', size: 16 },
      ...{ admission: { kind: 'list', keys: [carol] }, data: { kind: 'made', shards: 2 } },
    });
    expect(spec.founders).toEqual([alice, bob].sort());
  });

  it('names the text by its hash, and the slice by its root', async () => {
    await writeFile(file('text.txt'), TEXT);
    await create('--corpus', file('text.txt'), '--founder', bob!, '--context', '16');
    expect((await written()).data).toEqual({
      ...{ kind: 'corpus', sha256: sha256Hex(Buffer.from(TEXT)), bytes: TEXT.length },
      ...{ form: 'interleaved', shards: 2 },
    });
    await runCommand('run', 'create', '-o', file('own.json'), '--evaluation', file('text.txt'));
    const own = parseRunSpec(await readFile(file('own.json'), 'utf8'));
    expect(own.data).toEqual({ kind: 'own' });
    expect(own.evaluation).toMatchObject({ bytes: TEXT.length });
  });

  it.each([
    [
      ['--set', 'committee.size=0'],
      '--set committee.size is "0"; it must be a whole number from 1 to 1024',
    ],
    [['--founder', 'x'], 'founders is'],
    [
      ['--set', 'late=defer', '--set', 'owners=1'],
      'late is "defer": it must be that it is discard',
    ],
    [['--set', 'stake.source=file'], 'stake.snapshot is missing'],
    [['/none.toml'], 'cannot read the run spec /none.toml'],
    [['--evaluation', '/none.txt'], 'cannot read the evaluation slice /none.txt'],
  ])('%j is refused', async (flags, message) => {
    const { exitCode, stdout, stderr } = await create('--model', 'linear', ...flags);
    expect({ isRefused: exitCode > 0, stdout }).toEqual({ isRefused: true, stdout: '' });
    expect(stderr).toContain(message);
  });

  it("publishes under the author's key only", async () => {
    const author = ['--set', `author=${toNpub(bob!)}`, '--relay', 'ws://127.0.0.1:9'];
    const { stderr } = await create('--model', 'linear', ...author);
    expect(stderr).toContain(`your key is ${toNpub(alice!)}, but the author is ${toNpub(bob!)}`);
  });

  it.each([
    ['speed = 1\n', 'speed is unknown'],
    [
      '[training]\nmodel = "linear"\nrelay = ["ws://a"]\n',
      'training.relay is not shared by the workers',
    ],
    ['[training]\nmodel = "linear"\nrounds = "many"\n', 'training: rounds is "many"'],
    ['[committee\n', 'is not TOML (line 1'],
  ])('TOML %j is refused', async (text, message) => {
    await writeFile(file('run.toml'), text);
    const printed = await create('--model', 'linear', file('run.toml'));
    expect(printed.exitCode).toBeGreaterThan(0);
    expect(printed.stderr).toContain(message);
  });
});

describe('nostrain run inspect and list', () => {
  it('shows a file', async () => {
    await create('--model', 'linear');
    const { stdout } = await runCommand('run', 'inspect', file('run.json'), '--workers', '16');
    expect(stdout).toMatch(/timing\.viewMs +10000 +time for one proposal/);
    expect(stdout).toContain('16 workers: 16 seats, 11 decide');
    expect(stdout).toContain('48 events per round, 3 from each member');
    const shown = await runCommand('run', 'inspect', file('run.json'), '--json');
    expect(JSON.parse(shown.stdout).spec).toEqual(
      JSON.parse(await readFile(file('run.json'), 'utf8')),
    );
  });

  it.each([
    [['inspect', '/none.json'], 'cannot read the run spec /none.json'],
    [['inspect', 'naddr1xyz'], 'cut off or mistyped'],
    [['list'], 'name one with --relay URL'],
    [['list', '--relay', 'ws://127.0.0.1:9'], 'no relay can be reached'],
  ])('%j fails in words', async (argv, message) => {
    const { exitCode, stderr } = await runCommand('run', ...argv);
    expect(exitCode).toBeGreaterThan(0);
    expect(stderr).toContain(message);
  });
});

describe('what to expect of a run', () => {
  const outlook = (change: Parameters<typeof sampleSpec>[0], more = {}) =>
    securityReportOf(sampleSpec(change), {
      workersPerIp: 1,
      relays: [],
      measure: measurePayload,
      ...more,
    });

  it('counts as protocol.md does', () => {
    for (const [workers, events, quorum] of [
      [4, 12, 3],
      [16, 48, 11],
      [64, 192, 43],
      [1000, 1128, 43],
    ] as const) {
      const { eventsPerRound, quorum: decide, eventsPerMember } = outlook({}, { workers });
      expect({ eventsPerRound, decide, eventsPerMember }).toEqual({
        ...{ eventsPerRound: events, decide: quorum, eventsPerMember: 3 },
      });
    }
    expect(outlook({ committee: { quorum: 'cft' } }, { workers: 7 }).quorum).toBe(4);
  });

  it('bears with a model as large as a spec can name', () => {
    const training = {
      width: 1024,
      layers: 450,
      ffn: 1,
      context: 65_536,
      packing: 'int8',
    };
    const data = { kind: 'own' };
    const { payloadBytes } = outlook({ training: { ...training, model: 'gpt', heads: 4 }, data });
    expect(payloadBytes).toBe(1560);
  });

  it('warns of rounds under the floor, of queues, of stalls and of forks', () => {
    const { floorSeconds } = outlook({});
    expect(floorSeconds).toBeGreaterThanOrEqual(36);
    const short = outlook({ timing: { graceMaxMs: 20_000 } }, { roundSeconds: 30 });
    expect(short.warnings.join('\n')).toMatch(
      /graceMaxMs closes a round after 20 s.*rounds would end void/,
    );
    expect(short.warnings.join('\n')).toMatch(/rounds of 30 s are under the floor of \d+ s/);
    expect(outlook({}, { workersPerIp: 4 }).warnings.join('\n')).toMatch(
      /graceMinMs is 5000.*12 events/,
    );
    expect(outlook({}).warnings.join('\n')).toContain(
      '2 of 2 founders decide (bft): a single absence stalls',
    );
    expect(outlook({ timing: { recoveryFloorPermille: 0 } }).warnings.join('\n')).toContain(
      'may fork',
    );
    expect(outlook({}).beaconSeconds).toBe(0);
    const closed = outlook({ admission: { kind: 'list', keys: [carol] } }, { workers: 4 });
    expect(closed.warnings).toEqual([]);
  });
});

describe('a run with stakes says what a contribution weighs (attack: keys without stake join in any number)', () => {
  const stake = { source: 'file', snapshot: 'c'.repeat(64) };
  const reported = (committee: object) =>
    securityReportOf(sampleSpec({ stake, committee }), {
      ...{ workersPerIp: 1, relays: [], measure: measurePayload },
    });

  it('in one line, and warns who trains in vain', () => {
    const byStake = reported({ weights: 'stake' });
    expect(byStake.stakeRule).toBe(
      'contributions are weighted by stake, with the same cap as votes; keys with no stake may join, own nothing and count for nothing',
    );
    expect(reported({ minStake: '50' }).stakeRule).toBe(
      'contributions of all keys with enough stake have the same weight; keys with less than 50 of stake may join, own nothing and count for nothing',
    );
    expect(byStake.warnings.join('\n')).toContain(
      'a key that is not in the stake table takes no part',
    );
    expect(describeReport(byStake).join(' ')).toContain(byStake.stakeRule!);
  });
});

describe('a run with a beacon', () => {
  const outlook = (beacon: object, more = {}) => {
    const change = { beacon, admission: { kind: 'list', keys: [carol] } };
    const options = {
      workers: 4,
      workersPerIp: 1,
      relays: [],
      measure: measurePayload,
      ...more,
    };
    return securityReportOf(sampleSpec({ ...change, timing: { skewMs: 2000 } }), options);
  };

  it('says how long its rounds wait: the lag and a period of drand', () => {
    const { beaconSeconds, warnings } = outlook({
      ...{ kind: 'drand', lagSeconds: 5, periodSeconds: 30 },
    });
    expect(beaconSeconds).toBe(35);
    expect(warnings).toEqual([
      'each round waits 5 to 35 s for its beacon (beacon.lagSeconds, and up to one period of 30 s) before training; with timing.skewMs 2000 the lag must be at least 5 s',
    ]);
    const described = describeReport(outlook({ kind: 'drand', lagSeconds: 150 }));
    expect(described.join('\n')).toContain('warning: each round waits 150 to 153 s');
  });

  it('the lag of blocks, and then until one is final', () => {
    const { beaconSeconds, warnings } = outlook({
      ...{ kind: 'block', chain: 'eip155:1', lagSeconds: 60 },
    });
    expect(beaconSeconds).toBe(60);
    expect(warnings.join('\n')).toMatch(
      /waits at least 60 s for its beacon .* until a block of eip155:1 is final/,
    );
  });

  it('names rounds that are shorter than what they wait for', () => {
    const drand = { kind: 'drand', lagSeconds: 150 };
    const words = 'rounds of 100 s are shorter than the 153 s that they wait for the beacon';
    expect(outlook(drand, { roundSeconds: 100 }).warnings).toContain(words);
    expect(outlook(drand, { roundSeconds: 153 }).warnings).toHaveLength(1);
  });
});

describe('a place in a run', () => {
  it('follows from the founders, or from the key', () => {
    const spec = sampleSpec();
    const [first, second] = spec.founders;
    expect(shardSettings(spec, first!, {})).toEqual({
      shard: { index: 1, count: 2 },
    });
    expect(shardSettings(spec, second!, {}).shard).toEqual({ index: 2, count: 2 });
    const drawn = shardSettings(spec, carol!, {});
    expect(drawn).toEqual(shardSettings(spec, carol!, {}));
    expect(shardSettings(spec, carol!, { shard: { index: 2, count: 2 } }).shard.index).toBe(2);
    expect(() => shardSettings(spec, carol!, { shard: { index: 1, count: 3 } })).toThrow(
      'but the run has 2 parts',
    );
  });

  it('is for those on the list, where there is one', () => {
    const spec = sampleSpec({ admission: { kind: 'list', keys: [carol] } });
    assertAdmitted(spec, carol!);
    assertAdmitted(spec, alice!);
    expect(() => assertAdmitted(spec, signerOf(9).publicKey)).toThrow(
      'the run does not admit the key',
    );
  });
});
