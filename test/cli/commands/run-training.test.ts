/** `run-training STATE DATASET` over a relay of ours: what the reference's command line gives, and what it does not guard against. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { fromHex, systemClock } from 'nostrain/base';
import { createRelaySet, createSigner } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { parseStateJson } from 'nostrain/python';
import { buildCheckpoint } from 'nostrain/python/parts';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { readVectors } from '../../support/vectors.ts';

interface Invocation {
  readonly argv: readonly string[];
  readonly exit: number;
  readonly stdout: string;
}

const { fixtures, invocations } = readVectors<{
  fixtures: Record<string, unknown>;
  invocations: Invocation[];
}>('cli.json');
const recorded = invocations.filter(({ argv }) => argv[0] === 'run-training');

const KEY = '0000000000000000000000000000000000000000000000000000000000000003';
const STRANGER = '0000000000000000000000000000000000000000000000000000000000000007';

const file = temporaryFolder();
let relay: Relay;
beforeEach(async () => {
  relay = await createRelay();
  for (const [name, json] of Object.entries(fixtures)) {
    await writeFile(file(name), JSON.stringify(json));
  }
});
afterEach(() => relay.close());

/** Files go to the folder of the test, the recorded relay is ours, and nothing is waited for longer than it takes. */
const placed = (argv: readonly string[]) =>
  argv.map((word) => {
    if (/\.json$/.test(word) || word === 'art') return file(word);
    return word === 'ws://127.0.0.1:18766' ? relay.url : word;
  });

const train = (...more: readonly string[]) =>
  runCommand(
    ...['run-training', file('linear_initial_state.json'), file('linear_dataset_worker_a.json')],
    ...['--relay', relay.url, '--run', 'r', '--sec-key', KEY],
    ...['--inner-steps', '5', '--round-timeout', '0.2', ...more],
  );

const read = async (name: string) => JSON.parse(await readFile(file(name), 'utf8'));

describe('what the Python reference does', () => {
  it('every recorded call, in the order they were made', { timeout: 120_000 }, async () => {
    for (const { argv, exit, stdout } of recorded) {
      const printed = await runCommand(...placed(argv));
      expect([argv, printed.exitCode, printed.stdout]).toEqual([argv, exit, stdout]);
      if (exit !== 0) expect(printed.stderr).toMatch(/^error \(|\nerror \(/);
    }
    const files = (await readdir(file('art'), { recursive: true })).sort();
    expect(files).toContain('checkpoints/slot-0001-publish.json');
    const round = files.filter((name) => name.startsWith('round-0001/'));
    expect(round.map((name) => name.slice('round-0001/'.length))).toEqual(ROUND_FILES);
    expect((await read('art/retention.json')).checkpoint_slots).toHaveLength(2);
    const [next, last] = [await read('art/round-0001/next-state.json'), await read('fin.json')];
    expect(next).toEqual(last);
    expect(await read('art/round-0001/momentum-state.json')).toEqual(await read('mm.json'));
    const summary = await read('sum.json');
    expect(summary.rounds[1].published_checkpoint_relays).toEqual([relay.url]);
    expect((await read('ck.json')).rounds[1].published_checkpoint_event_id).toBe('');
    expect(summary.rounds[0].published_heartbeat_event_id).toMatch(/^[0-9a-f]{64}$/);
  });

  const ROUND_FILES = [
    ...['aggregated-delta.json', 'base-state.json', 'checkpoint-event.json'],
    ...['checkpoint-publish.json', 'checkpoint.json', 'collection.json', 'event-publish.json'],
    ...['event.json', 'heartbeat-publish.json', 'heartbeat.json', 'late-gradients.json'],
    ...['local-delta.json', 'local-state.json', 'local-training.json', 'momentum-state.json'],
    ...['next-state.json', 'payload.json'],
  ];

  it('goes on from a file as from the relays, and from momentum', async () => {
    const whole = await train('--run', 'whole', '--rounds', '3', '-o', file('whole.json'));
    expect(whole.exitCode).toBe(0);
    await train(
      '--rounds',
      '2',
      '--checkpoint-out',
      file('ck.json'),
      '--momentum-out',
      file('m.npz'),
    );
    await train('--rounds', '1', '--resume-from', file('ck.json'), '-o', file('resumed.json'));
    expect(await read('resumed.json')).toEqual(await read('whole.json'));
    const half = (await read('ck.json')).current_state;
    await writeFile(file('half.json'), JSON.stringify(half));
    const again = await runCommand(
      ...[
        'run-training',
        file('half.json'),
        file('linear_dataset_worker_a.json'),
        '--relay',
        relay.url,
      ],
      ...['--run', 'again', '--sec-key', KEY, '--inner-steps', '5', '--round-timeout', '0.2'],
      ...[
        '--momentum-state',
        file('m.npz'),
        '--start-round',
        '2',
        '--summary-out',
        file('sum.json'),
      ],
    );
    expect(JSON.parse(again.stdout)).toEqual(await read('whole.json'));
    expect(await read('sum.json')).toMatchObject({ start_round: 2, rounds_completed: 1 });
  });

  it('keeps the newest artifacts, advertises relays, and trains mlp with zstd', async () => {
    const more = [
      '--rounds',
      '3',
      '--artifact-dir',
      file('art'),
      '--artifact-retention-rounds',
      '1',
    ];
    await runCommand(
      'init-state',
      '--runtime',
      'mlp-regression',
      '--features',
      '2',
      '--hidden-size',
      '3',
      '-o',
      file('s.json'),
    );
    const data = {
      ...(fixtures['linear_dataset_worker_a.json'] as object),
      task: 'mlp-regression',
    };
    await writeFile(file('d.json'), JSON.stringify(data));
    const { exitCode } = await runCommand(
      ...['run-training', file('s.json'), file('d.json'), '--relay', relay.url, '--run', 'r'],
      ...['--sec-key', KEY, '--round-timeout', '0.2', '--inner-steps', '3', '--codec', 'zstd'],
      ...['--advertise-relay', 'wss://other.example', '--runtime', 'mlp-regression', ...more],
    );
    expect(exitCode).toBe(0);
    const kept = (await readdir(file('art'))).filter((name) => name.startsWith('round-'));
    expect(kept).toEqual(['round-0002']);
    expect(await read('art/retention.json')).toMatchObject({
      retained_rounds: [2],
      pruned_rounds: [1],
    });
    const { tags } = await read('art/round-0002/heartbeat.json');
    expect(tags).toContainEqual(['relay', 'wss://other.example']);
    expect(tags).toContainEqual(['capability', 'mlp-regression']);
    expect((await read('art/round-0002/payload.json')).stats.codec).toBe('zstd');
  });

  it('goes on over several relays while one is dead, and tells of it and of the retries', async () => {
    const other = await createRelay();
    const dead = 'ws://127.0.0.1:9';
    const { exitCode, stderr } = await train(
      ...[
        '--relay',
        other.url,
        '--relay',
        dead,
        '--relay-retries',
        '2',
        '--relay-retry-backoff',
        '0.01',
      ],
      ...['--rounds', '2', '--summary-out', file('sum.json'), '-o', file('fin.json')],
    );
    await other.close();
    expect([exitCode, stderr]).toEqual([0, expect.anything()]);
    const summary = await read('sum.json');
    expect(summary.relays).toEqual([relay.url, other.url, dead]);
    const [round] = summary.rounds;
    expect(round).toMatchObject({
      published_gradient_relays: [relay.url, other.url],
      published_checkpoint_relays: [relay.url, other.url],
      collected_from_relays: [relay.url, other.url],
      failed_relays: [dead],
      collected_event_count: 1,
    });
    expect(round.retried_relays).toEqual([dead]);
    expect(round.relay_retry_count).toBeGreaterThan(0);
    expect(summary.max_relay_attempt_count).toBeLessThanOrEqual(3);
  });

  it.each([
    [1, ['--momentum-state', 'm.json', '--resume-from', 'ck.json'], 'has its own momentum'],
    [1, ['--late-gradient-momentum', '1'], '--late-gradient-momentum is "1"'],
    [2, ['--late-gradient-strategy', 'later'], 'Allowed choices are deferred, discard'],
    [2, ['--backend', 'jax'], 'Allowed choices are python, numpy, torch, onnx'],
    [1, ['--runtime', 'mlp-regression'], 'state is linear-regression'],
    [1, ['--artifact-retention-rounds', '0'], '--artifact-retention-rounds is 0'],
    [2, ['--start-round', 'one'], '--start-round is "one"'],
    [1, ['--worker', 'alice'], "--worker alice is not this worker's key"],
    [2, ['--reference-compatible', '--sync', 'async'], 'no async runs'],
    [2, ['--optimizer', 'adamw'], '--optimizer has no effect with STATE and DATASET'],
    [2, ['--set', 'profile=nostrain/1'], 'require --set profile=nostrain/0'],
    [2, ['--dir', 'd', '--resume-from', 'ck.json'], '--dir stores the state'],
  ])('exits %d for %j', async (exitCode, flags, message) => {
    const printed = await train(...flags);
    expect(printed).toMatchObject({ exitCode, stdout: '' });
    expect(printed.stderr).toContain(message);
  });

  it('names a flag of the reference that a run by --model has no use for', async () => {
    const printed = await runCommand(
      'run-training',
      '--model',
      'linear',
      '--resume-latest-checkpoint',
    );
    expect(printed.exitCode).toBe(2);
    expect(printed.stderr).toContain('--resume-latest-checkpoint goes with STATE and DATASET');
  });
});

describe('N-12: --resume-latest-checkpoint', () => {
  /** A stranger's checkpoint of a round far ahead, with weights of its own. */
  async function poison(): Promise<string> {
    const signer = createSigner(fromHex(STRANGER)!);
    const { layout } = parseStateJson(JSON.stringify(fixtures['linear_initial_state.json']));
    const state = { layout, values: Float64Array.of(666, 666, 666) };
    const now = Math.floor(Date.now() / 1000);
    const draft = buildCheckpoint(
      {
        ...{ run: 'r', worker: signer.publicKey, round: 98, nextRound: 99, roundsCompleted: 0 },
        ...{ state, momentum: undefined, runtime: 'linear-regression', relays: [], rounds: [] },
        ...{ lateGradients: [], lateReconciliations: [], lateGradientSince: 0, updatedAt: now },
        roundsCompleted: 1,
        rounds: [{}],
      },
      now,
    );
    const set = createRelaySet([relay.url], {
      openSocket,
      clock: systemClock,
      crypto: nativeCrypto,
    });
    const [outcome] = await set.publish(signer.sign(draft));
    await set.close();
    expect(outcome?.status).toBe('accepted');
    return signer.publicKey;
  }

  it('ignores a stranger that claims a higher round, and says so', async () => {
    await train('--rounds', '3', '-o', file('whole.json'), '--run', 'whole');
    await train('--rounds', '2', '-o', file('half.json'));
    const stranger = await poison();
    const resumed = await train(
      '--rounds',
      '1',
      '--resume-latest-checkpoint',
      '-o',
      file('fin.json'),
    );
    expect(resumed.exitCode).toBe(0);
    expect(resumed.stderr).toContain(
      `not trusted: the checkpoint of round 99 by ${stranger.slice(0, 16)}: 0 of 2 authors needed publish this state`,
    );
    expect(await read('fin.json')).toEqual(await read('whole.json'));
  });

  it('goes on from nothing but what is trusted, or from an author that is named', async () => {
    const stranger = await poison();
    const refused = await train('--resume-latest-checkpoint');
    expect(refused).toMatchObject({ exitCode: 1, stdout: '' });
    expect(refused.stderr).toContain('no trusted checkpoint of run r on the relays (1 refused)');
    expect(refused.stderr).toContain('--checkpoint-worker KEY');
    const named = await train('--resume-latest-checkpoint', '--checkpoint-worker', stranger);
    expect(named.stderr).toContain('cannot be used');
    const faultless = await train('--resume-latest-checkpoint', '--checkpoint-faults', '0');
    expect(faultless.stderr).toContain('cannot be used');
  });
});
