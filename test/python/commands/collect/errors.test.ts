/** Ten wrong uses of each command: exit codes as in the reference, one line that names the value, no output. */
import { writeFile } from 'node:fs/promises';
import { systemClock } from 'nostrain/base';
import { createRelaySet } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { createLayout } from 'nostrain/tensor';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { startPlainRelay } from '../../../support/plain-relay.ts';
import { signerOf } from '../../../support/signers.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { gradientEvent, heartbeatEvent } from '../../support/reference-events.ts';

const DOWN = 'ws://127.0.0.1:9';
const file = temporaryFolder();
let relay: Relay;
let strict: { readonly url: string; close(): Promise<void> };
beforeAll(async () => {
  relay = await createRelay();
  strict = await startPlainRelay({ answer: () => [false, 'blocked: not here\u001b[2J'] });
  const relays = createRelaySet([relay.url], {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
  });
  const other = createLayout([{ name: 'v', shape: [1] }]);
  const delta = { layout: other, values: Float64Array.of(1) };
  await relays.publish(gradientEvent(signerOf(1), { run: 'one' }));
  await relays.publish(gradientEvent(signerOf(1), { run: 'mixed' }));
  await relays.publish(gradientEvent(signerOf(2), { run: 'mixed' }, { delta }));
  await relays.close();
});
afterAll(() => Promise.all([relay.close(), strict.close()]));
beforeEach(async () => {
  const event = gradientEvent(signerOf(1));
  const { id: _, sig: __, ...unsigned } = event;
  await writeFile(file('good.json'), JSON.stringify(event));
  await writeFile(file('text.json'), 'not json');
  await writeFile(file('unsigned.json'), JSON.stringify(unsigned));
  await writeFile(
    file('forged.json'),
    JSON.stringify({ ...event, content: `${event.content}AAAA` }),
  );
  await writeFile(file('note.json'), JSON.stringify(signerOf(1).sign({ ...event, kind: 1 })));
  await writeFile(file('heartbeat.json'), JSON.stringify(heartbeatEvent(signerOf(1))));
});

/** Exit code, arguments (URL is a running relay), text of the error. */
type Case = readonly [exit: 1 | 2, words: string, says: string];

const wrongNumbers: readonly Case[] = [
  [2, '--relay URL --timeout soon', '--timeout is "soon"; it must be a number'],
  [1, '--relay URL --relay-retries -1', '--relay-retries is -1; it must be at least 0'],
  [1, '--relay URL --relay-retry-backoff 3', '--relay-retry-backoff-max 2 is below'],
];
const wrongQueries: readonly Case[] = [
  [2, '--run r', "required option '--relay <url>' not specified"],
  [2, '--relay URL', "required option '--run <name>' not specified"],
  [
    1,
    `--relay ${DOWN} --run r`,
    'failed at ws://127.0.0.1:9 after 1 attempt: connect ECONNREFUSED',
  ],
  [1, '--relay http://a.test --run r', 'not a relay address: "http://a.test"'],
  [1, '--relay URL --run r --idle-timeout 0', '--idle-timeout is 0; it must be above 0'],
  [
    1,
    '--relay URL --run one --idle-timeout 0.1 -o /no/such/folder/x',
    'cannot write /no/such/folder/x',
  ],
  ...wrongNumbers.map(([exit, words, says]): Case => [exit, `${words} --run r`, says]),
];
const wrongRounds: readonly Case[] = [
  ...wrongQueries.map(([exit, words, says]): Case => [exit, `${words} --round 0`, says]),
  [2, '--relay URL --run r', "required option '--round <n>' not specified"],
  [2, '--relay URL --run r --round first', '--round is "first"; it must be a whole number'],
  [1, '--relay URL --run r --round -1', '--round is -1; it must be at least 0'],
  [1, '--relay URL --run r --round 0 --limit 0', '--limit is 0; it must be at least 1'],
  [2, '--relay URL --run r --round 0 --sync soon', 'Allowed choices are timeout, strict, quorum'],
];
const table: Readonly<Record<string, readonly Case[]>> = {
  'publish-event': [
    [2, '--relay URL', "missing required argument 'event'"],
    [2, 'good.json', "required option '--relay <url>' not specified"],
    [1, 'missing.json --relay URL', 'missing.json'],
    [1, 'text.json --relay URL', 'text.json is not JSON'],
    [1, 'forged.json --relay URL', 'forged.json is not a valid event, id: it is not the hash'],
    [1, 'note.json --relay URL', 'kind 1 is not 33333, 33334 or 33335'],
    [1, 'unsigned.json --relay URL', 'is not signed, so no relay accepts it'],
    [1, `good.json --relay ${DOWN}`, 'could not be reached (connect ECONNREFUSED 127.0.0.1:9)'],
    [1, 'good.json --relay STRICT', 'does not accept this kind of event (blocked: not here [2J)'],
    [1, `good.json --relay STRICT --relay ${DOWN}`, 'no relay accepted the event'],
    ...wrongNumbers.map(([exit, words, says]): Case => [exit, `good.json ${words}`, says]),
  ],
  'collect-events': wrongRounds,
  'aggregate-round': [
    ...wrongRounds,
    [1, '--relay URL --run nobody --round 3 --sync async', 'no gradient of run nobody, round 3'],
    [1, '--relay URL --run mixed --round 0 --sync async', 'has no tensor'],
  ],
  'discover-workers': [
    ...wrongQueries,
    [1, '--relay URL --run r --max-missed-heartbeats 0', '--max-missed-heartbeats is 0'],
    [2, '--relay URL --run r --round x', '--round is "x"; it must be a whole number'],
  ],
  'discover-checkpoints': [
    ...wrongQueries,
    [1, '--relay URL --run r --min-round -1', '--min-round is -1; it must be at least 0'],
    [2, '--relay URL --run r --since today', '--since is "today"; it must be a whole number'],
  ],
};

describe.each(Object.entries(table))('%s', (command, cases) => {
  it('has ten of them', () => expect(cases.length).toBeGreaterThanOrEqual(10));

  it.each(cases)('exits %d: %s', async (exitCode, words, says) => {
    const place = (word: string) => (word.endsWith('.json') ? file(word) : word);
    const argv = words.replaceAll('URL', relay.url).replaceAll('STRICT', strict.url).split(' ');
    const printed = await runCommand(command, ...argv.map(place));
    expect(printed).toMatchObject({ exitCode, stdout: '' });
    expect(printed.stderr).toContain(says);
    expect(printed.stderr).not.toContain('\u001b');
    if (exitCode === 1) expect(printed.stderr.trimEnd().split('\n').length).toBeLessThanOrEqual(2);
  });
});

it('several relays that are all down are told of, and the collection is empty, as in the reference', async () => {
  const both = ['--relay', DOWN, '--relay', 'ws://127.0.0.1:10', '--run', 'r'];
  const printed = await runCommand('discover-workers', ...both);
  expect(printed).toMatchObject({ exitCode: 0, stderr: '' });
  expect(printed.stdout).toContain('events: 0\n');
  expect(printed.stdout.match(/^failed_relay: .*ECONNREFUSED.*$/gm)).toHaveLength(2);
});
