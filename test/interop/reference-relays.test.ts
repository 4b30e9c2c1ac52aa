/** The commands that ask relays, beside the Python reference: the same argv at the same relay, JSON and exit codes equal. */
import { readFile, writeFile } from 'node:fs/promises';
import { systemClock } from 'nostrain/base';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { python, pythonMissing } from '../python/support/python.ts';
import {
  checkpointEvent,
  gradientEvent,
  heartbeatEvent,
} from '../python/support/reference-events.ts';
import { runCommand } from '../support/command-line.ts';
import { describeWith } from '../support/needs.ts';
import { signerOf } from '../support/signers.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const DOWN = 'ws://127.0.0.1:9';
/** Members that only ours has, and words that are each side's own. */
const OWN = ['agreement', 'stale_workers', 'invalid_reasons'];

const now = Math.floor(Date.now() / 1000);
const signers = [1, 2, 3].map(signerOf);
const KEY = signers[0]!.publicKey;
let relay: Relay;
let other: Relay;

async function publish(url: string, events: readonly SignedEvent[]): Promise<void> {
  const relays = createRelaySet([url], { openSocket, clock: systemClock });
  for (const event of events) await relays.publish(event);
  await relays.close();
}

beforeAll(async () => {
  [relay, other] = await Promise.all([createRelay(), createRelay()]);
  const at = { createdAt: now };
  const gradients = signers.map((signer, i) => gradientEvent(signer, at, { examples: i + 1 }));
  const heartbeats = signers.map((signer) => heartbeatEvent(signer, at));
  const late = heartbeatEvent(signerOf(4), { createdAt: now - 400 });
  const ahead = heartbeatEvent(signerOf(5), { ...at, round: 3 });
  const elsewhere = gradientEvent(signerOf(6), { ...at, run: 'elsewhere' });
  const checkpoints = signers.flatMap((signer) =>
    [0, 1].map((round) => checkpointEvent(signer, { ...at, round })),
  );
  const broken = signerOf(7).sign({ ...gradients[0]!, content: 'AAAA' });
  await publish(relay.url, [
    ...gradients,
    ...heartbeats,
    late,
    ahead,
    elsewhere,
    ...checkpoints,
    broken,
  ]);
  await publish(other.url, [gradients[0]!, heartbeats[1]!, checkpoints[3]!]);
});
afterAll(() => Promise.all([relay?.close(), other?.close()]));

/** Every argv with the relays put in. */
const round = '--relay A --run demo --round 0 --idle-timeout 0.4';
const both = '--relay A --relay B --run demo';
type ReferenceCommand = readonly [command: string, words: string];
const ASKED: readonly ReferenceCommand[] = [
  ['collect-events', `${round} --json`],
  ['collect-events', round],
  ['collect-events', `${round} --json --discover-workers`],
  ['collect-events', `${round} --discover-workers`],
  ...['strict', 'quorum', 'async'].map(
    (sync): ReferenceCommand => ['collect-events', `${round} --json --sync ${sync}`],
  ),
  ['collect-events', `${round} --json --sync strict --max-missed-heartbeats 10`],
  ['collect-events', `${round} --json --since ${now + 100}`],
  ['collect-events', `${round} --json --heartbeat-since ${now + 100} --sync quorum`],
  ['collect-events', '--relay B --run demo --round 5 --idle-timeout 0.3 --json --sync strict'],
  ['collect-events', `${both} --round 0 --idle-timeout 0.4 --json`],
  ...['strict', 'quorum', 'async'].map(
    (sync): ReferenceCommand => [
      'collect-events',
      `${both} --relay ${DOWN} --round 0 --idle-timeout 0.4 --json --sync ${sync} --relay-retries 2 --relay-retry-backoff 0.01`,
    ],
  ),
  ['collect-events', `--relay ${DOWN} --relay ws://127.0.0.1:10 --run demo --round 0 --json`],
  ['aggregate-round', round],
  ['aggregate-round', `${both} --round 0 --idle-timeout 0.4`],
  ['aggregate-round', '--relay A --run elsewhere --round 0 --idle-timeout 0.3'],
  ['discover-workers', '--relay A --run demo --json'],
  ['discover-workers', '--relay B --run demo'],
  ['discover-workers', '--relay A --run demo --json --round 2'],
  ['discover-workers', '--relay A --run demo --json --max-missed-heartbeats 7'],
  ['discover-workers', `${both} --json`],
  ['discover-workers', `${both} --relay ${DOWN} --json --relay-retries 1 --relay-retry-backoff 0`],
  ['discover-checkpoints', '--relay A --run demo --json'],
  ['discover-checkpoints', `--relay A --run demo --json --worker ${KEY}`],
  ['discover-checkpoints', '--relay A --run demo --json --min-round 1'],
  ['discover-checkpoints', `${both} --json`],
  ['discover-checkpoints', '--relay A --run nobody --json'],
];

const FAILING: readonly ReferenceCommand[] = [
  ['publish-event', 'missing.json --relay A'],
  ['publish-event', 'good.json'],
  ['publish-event', '--relay A'],
  ['publish-event', 'text.json --relay A'],
  ['publish-event', 'note.json --relay A'],
  ['publish-event', 'forged.json --relay A'],
  ['publish-event', `good.json --relay ${DOWN}`],
  ['publish-event', `good.json --relay ${DOWN} --relay ws://127.0.0.1:10`],
  ['publish-event', 'good.json --relay A --timeout soon'],
  ['publish-event', 'good.json --relay A --relay-retries -1'],
  ['publish-event', 'good.json --relay http://127.0.0.1:9'],
  ...['collect-events', 'aggregate-round'].flatMap((command): ReferenceCommand[] => [
    [command, '--run demo --round 0'],
    [command, '--relay A --round 0'],
    [command, '--relay A --run demo'],
    [command, '--relay A --run demo --round first'],
    [command, '--relay A --run demo --round -1'],
    [command, '--relay A --run demo --round 0 --sync soon'],
    [command, '--relay A --run demo --round 0 --limit 0'],
    [command, '--relay A --run demo --round 0 --idle-timeout 0'],
    [command, '--relay A --run demo --round 0 --relay-retry-backoff 3'],
    [command, `--relay ${DOWN} --run demo --round 0`],
    [command, '--relay A --run demo --round 0 --discover-workers --max-missed-heartbeats 0'],
  ]),
  ['aggregate-round', '--relay A --run nobody --round 0 --idle-timeout 0.2'],
  ...['discover-workers', 'discover-checkpoints'].flatMap((command): ReferenceCommand[] => [
    [command, '--run demo'],
    [command, '--relay A'],
    [command, '--relay A --run demo --idle-timeout soon'],
    [command, '--relay A --run demo --idle-timeout 0'],
    [command, '--relay A --run demo --since today'],
    [command, '--relay A --run demo --relay-retries 0.5'],
    [command, '--relay A --run demo --relay-retries -1'],
    [command, '--relay A --run demo --relay-retry-backoff-multiplier 0.5 --relay-retries 1'],
    [command, '--relay A --run demo --colour'],
    [command, `--relay ${DOWN} --run demo`],
  ]),
  ['discover-workers', '--relay A --run demo --round -1'],
  ['discover-checkpoints', '--relay A --run demo --min-round -1'],
];

describeWith(pythonMissing)('beside the Python reference', () => {
  const file = temporaryFolder();
  const place = (words: string) =>
    words
      .split(' ')
      .map((word) => ({ A: relay.url, B: other.url })[word] ?? word)
      .map((word) => (word.endsWith('.json') ? file(word) : word));
  const ofPython = (command: string, words: string) =>
    python('-m', 'nostrain', command, ...place(words));

  it.each(ASKED)('%s %s', async (command, words) => {
    const theirs = await ofPython(command, words);
    const ours = await runCommand(command, ...place(words));
    expect(ours).toMatchObject({ exitCode: 0, stderr: '' });
    if (!theirs.startsWith('{')) expect(ours.stdout.startsWith(theirs)).toBe(true);
    else expect(masked(ours.stdout)).toEqual(masked(theirs));
  });

  it('collect-events --limit stops at so many workers; which ones a relay sends first is its own matter', async () => {
    const words = `${round} --limit 2 --json`;
    const theirs = JSON.parse(await ofPython('collect-events', words));
    const ours = JSON.parse((await runCommand('collect-events', ...place(words))).stdout);
    expect(ours).toMatchObject({ event_count: 2, completion_reason: 'limit' });
    expect(theirs.sync_strategy).toBe(ours.sync_strategy);
  });

  it('aggregate-round --summary-out', async () => {
    const words = `${round} --summary-out`;
    await ofPython('aggregate-round', `${words} theirs.json`);
    await runCommand('aggregate-round', ...place(`${words} ours.json`));
    const [theirs, ours] = await Promise.all(
      ['theirs.json', 'ours.json'].map((name) => readFile(file(name), 'utf8')),
    );
    expect(masked(ours!)).toEqual(masked(theirs!));
  });

  it.each([
    '--relay A',
    '--relay A --json',
    `--relay A --relay B --relay ${DOWN} --json`,
    `--relay A --relay ${DOWN}`,
  ])('publish-event %s', async (words) => {
    await writeFile(file('good.json'), JSON.stringify(gradientEvent(signers[0]!, { run: 'p' })));
    await ofPython('publish-event', 'good.json --relay A --relay B'); // so that both are told of a duplicate
    const theirs = await ofPython('publish-event', `good.json ${words}`);
    const ours = await runCommand('publish-event', ...place(`good.json ${words}`));
    expect(ours).toMatchObject({ exitCode: 0, stderr: '' });
    if (!theirs.startsWith('{')) expect(ours.stdout.startsWith(theirs)).toBe(true);
    else expect(masked(ours.stdout)).toEqual(masked(theirs));
  });

  it.each(FAILING)('exit code: %s %s', async (command, words) => {
    const good = gradientEvent(signers[0]!);
    await writeFile(file('good.json'), JSON.stringify(good));
    await writeFile(file('text.json'), 'no json');
    await writeFile(file('note.json'), JSON.stringify(signers[0]!.sign({ ...good, kind: 1 })));
    await writeFile(file('forged.json'), JSON.stringify({ ...good, content: 'AAAA' }));
    const theirs = await ofPython(command, words).then(
      () => 0,
      ({ code }: { code: number }) => code,
    );
    const ours = await runCommand(command, ...place(words));
    expect(ours.exitCode).toBe(theirs);
    expect(theirs).toBeGreaterThan(0);
  });

  it('finds what a Python worker leaves at the relay', async () => {
    const data = { task: 'linear-regression', examples: [{ inputs: [1, 2], target: 3 }] };
    const state = { 'linear.bias': { shape: [1], values: [0] }, 'linear.weight': { shape: [1, 2], values: [0, 0] } }; // biome-ignore format: one line
    await writeFile(file('state.json'), JSON.stringify({ parameters: state }));
    await writeFile(file('data.json'), JSON.stringify(data));
    const key = '00'.repeat(31).concat('05');
    await ofPython(
      'run-training',
      `state.json data.json --relay B --run py --sec-key ${key} --rounds 2 --inner-steps 5 --round-timeout 0.4 -o out.json`,
    );
    for (const [command, words] of [
      ['discover-checkpoints', '--relay B --run py --json'],
      ['discover-workers', '--relay B --run py --json'],
      [
        'collect-events',
        '--relay B --run py --round 1 --idle-timeout 0.3 --discover-workers --json',
      ],
      ['aggregate-round', '--relay B --run py --round 0 --idle-timeout 0.3'],
    ] as const) {
      const ours = await runCommand(command, ...place(words));
      const theirs = masked(await ofPython(command, words));
      expect(masked(ours.stdout)).toEqual(theirs);
      if (command.startsWith('discover')) expect(theirs).toMatchObject({ event_count: command === 'discover-workers' ? '#1' : '#2' }); // biome-ignore format: one line
    }
  });
});

/** JSON with numbers as they are spelled, without what is each side's own. */
function masked(text: string): unknown {
  const spelled = text.replace(/(?<=[[\s])(-?\d[\d.e+-]*)(?=,?\n)/g, '"#$1"');
  return JSON.parse(spelled, function (this: Record<string, unknown>, name, value) {
    if (OWN.includes(name)) return undefined;
    const isFailure = name === 'message' && this.operation !== undefined;
    return isFailure ? '(each its own words)' : value;
  });
}
