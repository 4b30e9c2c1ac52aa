/** Recorded output of the Python reference for relays, compared on a relay with the same behaviour and on ours. */
import { readFile, writeFile } from 'node:fs/promises';
import { systemClock } from 'nostrain/base';
import { createRelaySet, createSigner } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { startPlainRelay } from '../../../support/plain-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { readVectors } from '../../../support/vectors.ts';
import { checkpointEvent } from '../../support/reference-events.ts';

interface Invocation {
  readonly argv: readonly string[];
  readonly exit: number;
  readonly stdout: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly note?: string;
}

const { invocations } = readVectors<{ invocations: Invocation[] }>('cli.json');
const OURS = [
  'publish-event',
  'collect-events',
  'aggregate-round',
  'discover-workers',
  'discover-checkpoints',
];
const cases = invocations.filter(({ argv }) => OURS.includes(argv[0] ?? ''));
const isBug = ({ note }: Invocation) => note?.startsWith('reference bug') ?? false;

/** The relay of the recording stored every copy of an event and acknowledged each. */
const startRecorder = () =>
  startPlainRelay({
    answer: () => [true, 'stored'],
    brings: ({ kind }, filter) => (filter.kinds as number[] | undefined)?.includes(kind) ?? false,
  });

const file = temporaryFolder();
beforeEach(async () => {
  for (const { files = {} } of invocations) {
    for (const [name, text] of Object.entries(files)) await writeFile(file(name), text);
  }
});

describe.each([
  ['a relay like the one it was recorded at', startRecorder],
  ['our relay', () => createRelay()],
])('at %s', (name, start) => {
  const isOurs = name === 'our relay';
  let relay: { readonly url: string; close(): Promise<void> };
  beforeAll(async () => {
    relay = await start();
    const signer = createSigner(Uint8Array.from({ length: 32 }, (_, i) => (i === 31 ? 3 : 0)));
    const relays = createRelaySet([relay.url], {
      openSocket,
      clock: systemClock,
      crypto: nativeCrypto,
    });
    for (const round of [0, 1]) {
      await relays.publish(checkpointEvent(signer, { run: 'cli-run', round }));
    }
    await relays.close();
  });
  afterAll(() => relay.close());

  /** The recorded output, adapted to this program: addresses, failure messages, and improvements of our relay. */
  function expected(text: string): string {
    const port = new URL(relay.url).port;
    const here = text
      .replaceAll('18766', port)
      .replace(/ConnectionRefusedError.*?\('([\d.]+)', (\d+)\)/g, 'connect ECONNREFUSED $1:$2');
    if (!isOurs) return here;
    return here
      .replaceAll('"message": "stored"', '"message": "duplicate: already have this event"')
      .replace(/("?duplicates_discarded"?: )3/g, '$10');
  }

  it.each(cases)('$argv', async (recorded) => {
    const argv = recorded.argv.map((word) =>
      word.endsWith('.json') ? file(word) : word.replace('18766', new URL(relay.url).port),
    );
    const printed = await runCommand(...argv);
    expect(printed.exitCode).toBe(isBug(recorded) ? 0 : recorded.exit);
    if (printed.exitCode === 0) expect(printed.stderr).toBe('');
    else expect(printed.stderr).toMatch(/^error \([a-z/-]+\): .*\n {2}try: .*\n$/);
    if (!isBug(recorded)) {
      const wanted = expected(recorded.stdout);
      if (wanted.startsWith('relays: ')) expect(printed.stdout.startsWith(wanted)).toBe(true);
      else if (argv[0] === 'discover-checkpoints') expect(printed.stdout).toContain(wanted);
      else expect(printed.stdout.replace(/,\n {2}"stale_workers"[^\]]*\]/, '')).toBe(wanted);
    }
    for (const [written, text] of Object.entries(recorded.files ?? {})) {
      expect(await readFile(file(written), 'utf8')).toBe(expected(text));
    }
  });

  it('prints text for several relays, where the reference crashes', async () => {
    const other = relay.url.replace('127.0.0.1', 'localhost');
    const both = ['--relay', relay.url, '--relay', other, '--run', 'demo-run'];
    const collected = await runCommand('collect-events', ...both, '--round', '7', '--idle-timeout', '0.3'); // biome-ignore format: one line
    expect(collected.exitCode).toBe(0);
    expect(collected.stdout.replaceAll(/f9308a\w+/g, 'KEY')).toBe(
      [
        `relays: ${relay.url}, ${other}`,
        'run: demo-run',
        'round: 7',
        'events: 1',
        'workers: KEY',
        'known_workers: -',
        `duplicates_discarded: ${isOurs ? 1 : 7}`,
        'invalid_events: 0',
        'sync_strategy: timeout',
        'completion_reason: idle-timeout',
        'aggregation: weighted-by-examples',
        'total_aggregation_weight: 11',
        'total_retry_count: 0',
        'max_attempt_count: 1',
        'retried_relays: -',
        '',
      ].join('\n'),
    );
    const found = await runCommand('discover-checkpoints', ...both.slice(0, 4), '--run', 'cli-run');
    expect(found.stdout.replaceAll(/f9308a\w+/g, 'KEY')).toContain(
      'latest: round 1 (slot 1) -> next 2\nduplicates_discarded: 2\n',
    );
    expect(found.stdout).toContain('latest_equal_hashes: 1 of 2 needed\nnewest_agreed: -\n');
  });
});
