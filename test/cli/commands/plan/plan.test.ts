import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { runCommand } from '../../../support/command-line.ts';
import { startPlainRelay } from '../../../support/plain-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start(options: RelayOptions): Promise<string> {
  const relay = await createRelay(options);
  stops.push(relay.close);
  return relay.url;
}

const HUNDRED = ['plan', '--payload-bytes', '100000', '--heartbeat-interval', '60'];

const planned = async (...argv: readonly string[]) => {
  const { stdout, exitCode, stderr } = await runCommand('plan', ...argv, '--json');
  // trying relays tells how far it is when the machine is slow
  if (!argv.includes('--check')) expect(stderr).toBe('');
  return { exitCode, ...JSON.parse(stdout) };
};

describe('the numbers', () => {
  it('of a payload given as a number', async () => {
    const plan = await planned(
      ...HUNDRED.slice(1),
      ...['--workers', '4', '--workers-per-ip', '2', '--rounds', '10', '--round-seconds', '120'],
    );
    expect(plan).toMatchObject({
      exitCode: 0,
      payloadBytes: 100_000,
      workers: 4,
      cost: {
        form: 'chunks',
        chunks: { events: 3 },
        heartbeats: { events: 2 },
        toEachRelay: { events: 6 },
        received: { events: 3 * 6 },
        fixedEvents: 4,
      },
      total: { events: 6 * 4 * 10 },
    });
    // 24 s for each of 4 events and of the heartbeats: x = 24 * (4 + x / 60)
    expect(plan.floorSeconds).toBeCloseTo(160, 6);
  });

  it('of a model, which is laid out and not trained', async () => {
    const plan = await planned('--model', 'linear', '--sync', 'strict:3');
    expect(plan).toMatchObject({ model: 'linear', parameters: 4, workers: 3, roundSeconds: 60 });
    expect(plan.payloadBytes).toBeGreaterThan(50);
    expect(plan.payloadBytes).toBeLessThan(200);
    expect(plan.cost).toMatchObject({ form: 'inside', checkpoint: { events: 0 } });
  });

  it('of a GPT, with what its workers send: another share of a larger one', async () => {
    const asked = ['--model', 'char-gpt', '--workers', '4'];
    const small = await planned(...asked);
    expect(small.sharing).toEqual({
      ...{ owners: 4, fragments: 1, packing: 'trellis', outerLearningRate: 0.6, momentum: 0.5 },
    });
    expect(small).toMatchObject({ payloadBytes: 51_696, cost: { form: 'inside' } });
    const { stdout } = await runCommand('plan', ...asked);
    expect(stdout).toContain(
      'a round: the full model, each value from 4 workers, packing trellis; outer step 0.6, momentum 0.5',
    );
    expect(small.adaptations).toEqual([]);
    const larger = ['--set', 'width=384', '--set', 'layers=6', '--set', 'ffn=1536'];
    const large = await planned(...asked, ...larger);
    expect(large.adaptations).toMatchObject([
      { because: '10,616,832 parameters', changed: { fragments: 2 } },
    ]);
    const words = (await runCommand('plan', ...asked, ...larger)).stdout.replace(/\s+/g, ' ');
    expect(words).toContain('10,616,832 parameters → fragments 2: ');
    expect(large.sharing).toEqual({ ...small.sharing, fragments: 2 });
    expect((await planned(...HUNDRED.slice(1))).sharing).toBeUndefined();
  });

  it('of the reference wire, which publishes small states too', async () => {
    const plan = await planned(
      '--model',
      'linear',
      '--set',
      'profile=nostrain/0',
      '--shard',
      '1/2',
    );
    expect(plan).toMatchObject({ workers: 2, cost: { checkpoint: { events: 1 }, fixedEvents: 2 } });
    const large = await planned(
      '--model',
      'mlp',
      '--set',
      'hidden=900',
      '--set',
      'profile=nostrain/0',
    );
    expect(large.cost.checkpoint).toEqual({ events: 0, bytes: 0 });
  });

  it('of a striped payload, a part for each relay', async () => {
    const plan = await planned(...HUNDRED.slice(1), '--set', 'stripe=2/3');
    expect(plan.cost).toMatchObject({ form: 'shards', chunks: { events: 2 }, fixedEvents: 3 });
  });

  it('of a settings file, flags winning', async () => {
    await writeFile(file('s.json'), '{"model": "linear", "rounds": 7, "heartbeatInterval": 30}');
    const plan = await planned('--settings', file('s.json'), '--rounds', '3');
    expect(plan).toMatchObject({ rounds: 3, heartbeatSeconds: 30 });
  });
});

describe('relays', () => {
  it('are judged by what they say of themselves', async () => {
    const silent = await startPlainRelay({});
    const paid = await startPlainRelay({ info: { limitation: { payment_required: true } } });
    stops.push(silent.close, paid.close);
    const urls = [
      await start({}),
      await start({ strict: 'strfry' }),
      await start({ maxEventBytes: 40_000 }),
      silent.url,
      paid.url,
      'ws://127.0.0.1:9',
    ];
    const { relays, exitCode, advice } = await planned(
      ...[...HUNDRED.slice(1), '--round-seconds', '50'],
      ...urls.flatMap((url) => ['--relay', url]),
    );
    expect(exitCode).toBe(0);
    const fits = (manifests: boolean, chunks: boolean, carries: boolean) => ({
      manifests,
      chunks,
      carries,
    });
    expect(relays).toMatchObject([
      { ...fits(true, true, true), sizeBasis: 'stated', rateBasis: 'stated', floorSeconds: 0 },
      { ...fits(true, true, false), rateBasis: 'assumed' },
      fits(true, false, false),
      { ...fits(true, true, false), sizeBasis: 'assumed' },
      fits(false, false, false),
      fits(false, false, false),
    ]);
    // x = 12 * (4 + x / 60)
    expect(relays[1].why).toEqual([expect.stringContaining('rounds of 60 s, not 50 s')]);
    expect(relays[2].why).toEqual(['carries no chunks']);
    expect(relays[4].why).toEqual(['requires payment']);
    expect(relays[5].why).toEqual([expect.stringContaining('cannot be reached')]);
    expect(advice.join('\n')).toContain('longer rounds: at least 60 s');
    expect(advice.join('\n')).toContain('nostrain relay');
  });

  it('without a document are there all the same, as long as a WebSocket opens', async () => {
    const server = createServer((request) => request.socket.destroy());
    const sockets = new WebSocketServer({ server });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    stops.push(
      () => sockets.close(),
      () => server.close(),
    );
    const { port } = server.address() as AddressInfo;
    const { relays } = await planned(
      ...[...HUNDRED.slice(1), '--round-seconds', '60', '--relay', `ws://127.0.0.1:${port}`],
    );
    expect(relays).toMatchObject([
      { manifests: true, carries: true, rateBasis: 'assumed', why: [] },
    ]);
  });

  it('are tried with --check', async () => {
    const url = await start({ limits: { kinds: [5, 7810, 37_811, 33_334] } });
    const payload = ['--payload-bytes', '40000', '--heartbeat-interval', '60'];
    const inside = await planned(...payload, '--relay', url, '--check');
    expect(inside.relays).toMatchObject([{ manifests: true, carries: true, rateBasis: 'tried' }]);
    expect(inside.advice).toEqual([]);
    const chunked = await planned(...HUNDRED.slice(1), '--relay', url, '--check');
    expect(chunked).toMatchObject({ exitCode: 1, relays: [{ manifests: true, chunks: false }] });
  });

  it('that are too slow make the exit code 1 and the advice long', async () => {
    const url = await start({ strict: 'strfry' });
    const { exitCode, stdout } = await runCommand(
      ...['plan', '--model', 'gpt', '--set', 'width=64', '--set', 'layers=2', '--set', 'heads=2'],
      ...[
        '--set',
        'packing=int8',
        '--set',
        'owners=0',
        '--set',
        'fragments=1',
        '--relay',
        url,
        '--sync',
        'strict:3',
        '--heartbeat-interval',
        '30',
      ],
    );
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^relay +manifests +chunks +floor +carries the run$/m);
    expect(stdout).toMatch(/ yes +yes +\d+ s \(assumed\) +NO$/m);
    for (const words of [
      /longer rounds: at least \d+ s, with more --inner-steps/,
      /--heartbeat-interval 120: rounds of \d+ s/,
      /--set packing=trellis --set eventBudget=65536: one event per worker and round/,
      /--set stripe=\d\/\d over \d relays/,
      /run your own relay, which accepts any rate/,
    ]) {
      expect(stdout).toMatch(words);
    }
    expect(Math.max(...stdout.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('that are fewer than the parts are refused as a run refuses them', async () => {
    const argv = [...HUNDRED, '--set', 'stripe=2/3', '--relay', 'ws://127.0.0.1:9'];
    const { exitCode, stderr } = await runCommand(...argv);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('--set stripe=2/3 needs 3 relays');
  });
});

it('heartbeats that are all a public relay takes are named', async () => {
  const { stdout } = await runCommand(...HUNDRED, '--workers-per-ip', '5');
  expect(stdout).toContain('floor: none on a public relay');
  expect(stdout).toContain('heartbeats every 60 s use up the rate');
});

it('docs/with-friends.md and docs/public-relays.md tell the numbers of the plan', async () => {
  const four = ['--model', 'char-gpt', '--workers', '4', '--round-seconds', '60'];
  const { cost, floorSeconds } = await planned(...four);
  const many = await planned(...four, '--workers', '64');
  const own = ['--heartbeat-interval', '120', '--workers-per-ip', '4'];
  const calm = await planned(...four, ...own);
  const kB = (bytes: number) => `${Math.round(bytes / 1000)} kB`;
  const read = async (file: string) =>
    (await readFile(file, 'utf8')).replaceAll(/\s+/g, ' ').replaceAll('` `', ' ');
  const readme = await read('docs/with-friends.md');
  const page = await read('docs/public-relays.md');
  expect(cost.toEachRelay.events).toBe(2);
  const event = `one event of ${kB(cost.commit.bytes)}`;
  expect(readme).toMatch(new RegExp(`${event} and at most one heartbeat a minute`));
  expect(readme).toContain(`no less than ${floorSeconds} s`);
  expect(page).toContain(`one event of ${kB(cost.commit.bytes)} per round`);
  expect(page).toContain(`of 64 it is ${kB(many.cost.commit.bytes)}`);
  expect(page).toContain(`or ${calm.floorSeconds} s with`);
});

it('workers behind one address are told the share of each', async () => {
  const { stdout } = await runCommand(
    ...['plan', '--payload-bytes', '30000', '--workers-per-ip', '4', '--heartbeat-interval', '60'],
  );
  const floor = stdout.slice(stdout.indexOf('floor:')).replaceAll(/\s+/g, ' ');
  expect(floor).toContain('floor: rounds of 240 s');
  expect(floor).toContain('which 4 workers share: each with --set relayRate=1.25)');
  expect(floor).toContain('an event waits up to 48 s of that in the queue');
});

it('a small run on a public relay needs no advice', async () => {
  const { stdout } = await runCommand(
    ...['plan', '--payload-bytes', '30000', '--heartbeat-interval', '60'],
  );
  expect(stdout).toContain('floor: rounds of 15 s');
  expect(stdout).not.toContain('what would help');
});
