/** Statements N-08, N-09 and the discovery of N-20, for the commands that publish and collect. */
import { writeFile } from 'node:fs/promises';
import type { SignedEvent } from 'nostrain/network';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import { collectEvents, discoverWorkers } from '../../../../src/python/commands/collect.ts';
import { publishEvent } from '../../../../src/python/commands/events.ts';
import { runCommand } from '../../../support/command-line.ts';
import { openLine } from '../../../support/cuttable-line.ts';
import type { FakeSocket } from '../../../support/fake-sockets.ts';
import { signerOf } from '../../../support/signers.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { gradientEvent, heartbeatEvent } from '../../support/reference-events.ts';
import { createBench } from '../../support/run-with-ports.ts';

const file = temporaryFolder();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const RETRIES = ['--relay-retries', '3', '--relay-retry-backoff', '0.25'];
const EXACT = [...RETRIES, '--relay-retry-backoff-multiplier', '2', '--relay-retry-backoff-max', '2']; // biome-ignore format: one line
const URL_A = 'ws://a.test';
const round = ['--relay', URL_A, '--run', 'demo', '--round', '0'];

/** A relay that has these events once it accepts a connection. */
function serve(socket: FakeSocket, events: readonly SignedEvent[]): void {
  const { send } = socket;
  socket.send = (text) => {
    send(text);
    const [verb, first, filter] = JSON.parse(text);
    if (verb === 'EVENT') socket.hear('OK', first.id, true, '');
    if (verb !== 'REQ') return;
    for (const event of events) {
      if (filter.kinds?.includes(event.kind)) socket.hear('EVENT', first, event);
    }
    socket.hear('EOSE', first);
  };
  socket.accept();
}

const telemetry = {
  attempt_count: 3,
  retry_count: 2,
  retry_delays: [0.25, 0.5],
  recovered_after_retry: true,
};

describe('N-09: a relay that refuses two connections is reached at the third, after 0.25 and 0.5 s', () => {
  const events = [gradientEvent(signerOf(1)), heartbeatEvent(signerOf(1))];
  const refuseTwice = (socket: FakeSocket, index: number) =>
    index < 2 ? socket.refuse('connect ECONNREFUSED') : serve(socket, events);

  it('publish-event', async () => {
    await writeFile(file('event.json'), JSON.stringify(events[0]));
    const bench = createBench(file(), refuseTwice);
    const argv = [file('event.json'), '--relay', URL_A, '--json', ...EXACT];
    const printed = await bench.finish(bench.run(publishEvent, ...argv), 5000);
    expect(bench.triedAtMs).toEqual([0, 250, 750]);
    expect(JSON.parse(printed)).toMatchObject({ accepted: true, ...telemetry });
  });

  it('discover-workers', async () => {
    const bench = createBench(file(), refuseTwice);
    const argv = ['--relay', URL_A, '--run', 'demo', '--json', ...EXACT];
    const printed = await bench.finish(bench.run(discoverWorkers, ...argv), 5000);
    expect(bench.triedAtMs).toEqual([0, 250, 750]);
    expect(JSON.parse(printed)).toMatchObject({ event_count: 1, ...telemetry });
  });

  it('collect-events', async () => {
    const bench = createBench(file(), refuseTwice);
    const running = bench.run(collectEvents, ...round, '--sync', 'strict', '--json', ...EXACT);
    const printed = await bench.finish(running, 5000);
    const { heartbeat_discovery: discovery, ...found } = JSON.parse(printed);
    expect(bench.triedAtMs.slice(0, 4)).toEqual([0, 250, 750, expect.any(Number)]);
    expect(discovery).toMatchObject({ event_count: 1, ...telemetry });
    expect(found).toMatchObject({
      completion_reason: 'strict',
      ...{ retried_relays: [URL_A], total_retry_count: 2, max_attempt_count: 3 },
      ...{ attempt_count: 1, retry_count: 0, retry_delays: [], recovered_after_retry: false },
    });
  });

  it('gives up after the last one, and says how often it tried', async () => {
    const bench = createBench(file(), (socket) => socket.refuse('connect ECONNREFUSED'));
    const argv = ['--relay-retries', '4', '--relay-retry-backoff', '1'];
    const running = bench.run(collectEvents, ...round, ...argv);
    await expect(bench.finish(running, 20_000)).rejects.toThrow(
      'collect-gradients failed at ws://a.test after 5 attempts: connect ECONNREFUSED',
    );
    expect(bench.triedAtMs).toEqual([0, 1000, 3000, 5000, 7000]);
  });

  it('continues after a lost connection, and counts no event twice', async () => {
    const others = [2, 3].map((number) => gradientEvent(signerOf(number)));
    const bench = createBench(file(), (socket, index) => {
      serve(socket, index === 0 ? [events[0]!] : [events[0]!, ...others]);
      if (index === 0) void bench.clock.sleep(1000).then(() => socket.drop());
    });
    const printed = await bench.finish(
      bench.run(collectEvents, ...round, '--json', ...EXACT),
      9000,
    );
    expect(bench.triedAtMs).toEqual([0, 1250]);
    expect(JSON.parse(printed)).toMatchObject({
      ...{ event_count: 3, duplicates_discarded: 0, completion_reason: 'idle-timeout' },
      ...{ attempt_count: 2, retry_delays: [0.25], recovered_after_retry: true },
    });
  });
});

describe('N-20: a killed worker is stale after its interval times --max-missed-heartbeats', () => {
  const heartbeat = heartbeatEvent(signerOf(1), {}, { intervalSeconds: 7 });
  const left = heartbeatEvent(signerOf(2), {}, { intervalSeconds: 60, leaving: true });

  /** The workers found this many seconds after the last heartbeat. */
  async function foundAfter(seconds: number, ...argv: readonly string[]) {
    const bench = createBench(file(), (socket) => serve(socket, [heartbeat, left]));
    await bench.clock.advance(seconds * 1000);
    const base = ['--relay', URL_A, '--run', 'demo', '--json'];
    return JSON.parse(await bench.finish(bench.run(discoverWorkers, ...base, ...argv), 3000));
  }

  it.each([
    [21, 22, []],
    [7, 8, ['--max-missed-heartbeats', '1']],
  ] as const)('alive at %d s, stale at %d s %j', async (alive, stale, argv) => {
    const one = signerOf(1).publicKey;
    expect(await foundAfter(alive, ...argv)).toMatchObject({ workers: [one], stale_events: 1 });
    const late = await foundAfter(stale, ...argv);
    expect(late).toMatchObject({ workers: [], stale_events: 2 });
    expect(late.stale_workers).toContain(one);
  });

  it('a worker that said goodbye is not waited for', async () => {
    expect((await foundAfter(0)).stale_workers).toEqual([signerOf(2).publicKey]);
  });
});

describe('N-08: three relays, one dies, one loses half of what is published', () => {
  it('counts every gradient once and lists what failed and what was retried', async () => {
    const [good, mortal] = await Promise.all([createRelay(), createRelay()]);
    const lossy = await createRelay({ faults: { swallow: 0.5 }, seed: 5 });
    const line = await openLine(mortal.url);
    closing.push(good.close, mortal.close, lossy.close, line.close);
    const relays = [good.url, line.url, lossy.url].flatMap((url) => ['--relay', url]);
    const fast = ['--timeout', '0.4', '--relay-retries', '4', '--relay-retry-backoff', '0'];
    let retries = 0;
    for (const number of [1, 2, 3, 4]) {
      const event = gradientEvent(signerOf(number), {}, { examples: number });
      await writeFile(file(`${number}.json`), JSON.stringify(event));
      if (number === 3) line.cut();
      const printed = await runCommand('publish-event', file(`${number}.json`), ...relays, ...fast, '--json'); // biome-ignore format: one line
      expect(printed.exitCode).toBe(0);
      const report = JSON.parse(printed.stdout);
      expect(report.accepted_relays).toContain(good.url);
      const failed = report.failed_relays.map(({ relay }: { relay: string }) => relay);
      expect(failed.includes(line.url)).toBe(number >= 3);
      retries += report.total_retry_count;
    }
    expect(retries).toBeGreaterThan(0);
    const collect = ['collect-events', ...relays, '--run', 'demo', '--round', '0', '--json'];
    const once = ['--idle-timeout', '0.3', '--relay-retries', '1', '--relay-retry-backoff', '0.01'];
    const { stdout, exitCode } = await runCommand(...collect, ...once);
    const found = JSON.parse(stdout);
    expect(exitCode).toBe(0);
    expect(found).toMatchObject({ event_count: 4, total_aggregation_weight: 10 });
    expect(new Set(found.workers).size).toBe(4);
    expect(found).toMatchObject({
      successful_relays: [good.url, lossy.url],
      failed_relays: [
        { relay: line.url, operation: 'collect-gradients', attempt_count: 2, retry_count: 1 },
      ],
      ...{ retried_relays: [line.url], total_retry_count: 1, max_attempt_count: 2 },
    });
  });

  it('ends when a relay dies in the middle of a collection', async () => {
    const [good, mortal] = await Promise.all([createRelay(), createRelay()]);
    const line = await openLine(mortal.url);
    closing.push(good.close, mortal.close, line.close);
    const relays = [good.url, line.url].flatMap((url) => ['--relay', url]);
    await writeFile(file('event.json'), JSON.stringify(gradientEvent(signerOf(1))));
    await runCommand('publish-event', file('event.json'), ...relays);
    const collecting = runCommand('collect-events', ...relays, '--run', 'demo', '--round', '0', '--idle-timeout', '1', '--json'); // biome-ignore format: one line
    while (mortal.stats().subscriptions === 0) await new Promise((r) => setTimeout(r, 5));
    line.cut();
    const found = JSON.parse((await collecting).stdout);
    expect(found).toMatchObject({ event_count: 1, successful_relays: [good.url] });
    expect(found.failed_relays).toMatchObject([{ relay: line.url, attempt_count: 1 }]);
  });
});
