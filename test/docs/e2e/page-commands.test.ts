/**
 * N-22: commands on pages run as they stand, in a folder that has the files they name, with servers of this machine in
 * place of others. README and the pages that go on from it are played by test/e2e/readme.test.ts. A command that is not
 * run has its reason here; a new one without either fails. Blocks with the word `online` need the internet.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BlossomServer, startBlossomServer } from '../../support/blossom-server.ts';
import { runCommand } from '../../support/command-line.ts';
import { drawnBytes } from '../../support/drawn-bytes.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { readmePages, wordsOf } from '../../support/readme.ts';
import { signerOf } from '../../support/signers.ts';
import { livingPages } from '../pages.ts';

const root = join(import.meta.dirname, '../../..');

/** Beginnings of commands that this test does not run, with the reason, or the test that runs them. */
const notRun: readonly (readonly [beginning: string, reason: string])[] = [
  ['demo', 'test/long and test/e2e play the demos'],
  ['run-training', 'test/e2e/readme.test.ts trains'],
  ['run join', 'test/e2e/readme.test.ts trains'],
  ['run leave', 'test/e2e/readme.test.ts'],
  ['sample', 'needs a trained model: test/e2e/readme.test.ts'],
  ['model', 'needs a published or trained model: test/e2e/readme.test.ts'],
  ['tiers', 'needs a model with tiers: test/cli/commands/model'],
  ['watch', 'runs until it is stopped: test/cli/commands/watch.test.ts'],
  ['page', 'runs until it is stopped: test/page'],
  ['relay ', 'runs until it is stopped: test/relay'],
  ['serve', 'runs until it is stopped: test/cli/serve'],
  ['checkpoint seed', 'runs until it is stopped: test/cli/commands/checkpoint'],
  ['directory', 'needs holders that are running: test/cli/commands/directory'],
  ['checkpoint fetch DIGEST --directory', 'needs holders that are running'],
  ['checkpoint fetch https', 'needs a model with tiers: test/cli/commands/checkpoint'],
  ['placement', 'needs holders enough for its example: test/cli/commands/placement'],
  ['run create --placement', 'needs holders: test/cli/commands/placement'],
  ['run announce naddr1… --page', 'needs a remote signer: test/social'],
  ['doctor', 'depends on the machine: test/cli/commands/doctor'],
  ['attest verify', 'needs evidence of a machine: test/cli/attest.test.ts'],
  ['handler', 'signs for a site: test/social'],
  ['corpus', 'needs notes of others: test/social'],
  ['receipt', 'needs notes of others: test/certified/receipt.test.ts'],
  ['relays', 'measures relays of others: test/cli/commands/relays'],
  ['run create --base', 'needs a published model: test/e2e/fine-tuning.test.ts'],
  ['run create --model vit', 'needs pictures: test/cli/commands/run'],
  ['run create --model forecaster', 'needs series: test/cli/commands/run'],
  ['run create --sealed', 'test/cli/shard.test.ts'],
  ['replay --run naddr1… --base', 'needs a published model: test/e2e/fine-tuning.test.ts'],
  ['replay --run naddr1… --note', 'needs contributors with a Lightning address: test/social'],
  ['stake deploy', 'needs a chain: test/cli/process/stake.test.ts'],
  ['stake bond', 'needs a chain: test/cli/process/stake.test.ts'],
  ['stake slash', 'needs a chain: test/cli/process/stake.test.ts'],
  ['stake link', 'needs an account of a chain: test/cli/commands/stake'],
  ['stake snapshot --from registry', 'needs a chain: test/cli/process/stake.test.ts'],
  ['stake snapshot --from psyche', 'needs a chain: test/chain'],
  ['stake verify stakes.json --rpc', 'needs a chain: test/cli/process/stake.test.ts'],
  ['train', 'needs a server: test/cli/serve'],
];

interface Line {
  readonly page: string;
  readonly line: string;
  /** The file that its output goes to. */
  readonly to?: string | undefined;
}

/** Commands of blocks without a language, of a shell, or indented; comments and pipes cut. */
const commandsOf = (page: string): readonly Line[] => {
  const text = readFileSync(join(root, page), 'utf8').replace(/\\\n\s*/g, ' ');
  const fenced = [...text.matchAll(/^```([^\n]*)\n(.*?)^```/gms)]
    .filter(([, words]) => words === '' || words === 'sh')
    .flatMap(([, , block]) => block!.split('\n'));
  const indented = text.replace(/^```.*?^```/gms, '').match(/^ {4}nostrain .*$/gm) ?? [];
  return [...fenced, ...indented]
    .flatMap((line) => line.replace(/\s#.*$/, '').split(' && '))
    .map((line) => /^\s*nostrain (.+?)(?: > (.*))?$/.exec(line))
    .filter((match) => match !== null)
    .map(([, line, to]) => ({ page, line: line!.trim(), to }));
};

const lines = livingPages.filter((page) => !readmePages.includes(page)).flatMap(commandsOf);
const isRun = ({ line }: Line) => !notRun.some(([beginning]) => line.startsWith(beginning));
const played = [
  ...new Map(lines.filter(isRun).map((each) => [`${each.line} ${each.to}`, each])).values(),
];

const home = temporaryFolder();
const cwd = temporaryFolder();
const before = { cwd: process.cwd(), home: process.env.NOSTRAIN_HOME };
let relay: Relay;
let blossom: BlossomServer;
const made = { naddr: '', run: '', digest: '', id: 'ab'.repeat(32) };

/** Commands that ask relays of this machine need a flag, and run specs a file of their own. */
const added = (line: string): readonly string[] => [
  ...(line.includes('naddr1…') ? ['--allow-private-relays'] : []),
  ...(line.startsWith('run create') ? ['-o', join(temporaryFolder(), 'run.json')] : []),
];

const placed = (line: string): readonly string[] =>
  wordsOf(line).map((word) =>
    word
      .replace(/^wss:\/\/.*$/, relay.url)
      .replace(/^https:\/\/blossom.*$/, blossom.url)
      .replace(/^http:\/\/holder\.example\.org:8790$/, blossom.url)
      .replace(/^npub1…$/, signerOf(1).publicKey)
      .replace(/^naddr1…$/, made.naddr)
      .replace(/^DIGEST$/, made.digest)
      .replace(/^12$/, '1')
      .replace(/^RUN$/, made.run)
      .replace(/^(notes=)?HEX$/, `$1${made.id}`),
  );

async function runs(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await runCommand(...args);
  expect(exitCode, `nostrain ${args.join(' ')}\n${stdout.slice(-1000)}${stderr.slice(-2000)}`).toBe(
    0,
  );
  return stdout;
}

beforeAll(async () => {
  process.chdir(cwd);
  [relay, blossom] = [await createRelay(), await startBlossomServer()];
  writeFileSync('friends.safetensors', drawnBytes(300_000));
  for (const name of ['corpus.txt', 'notes.txt', 'public.txt', 'shakespeare.txt'])
    writeFileSync(name, 'to be or not to be, that is the question\n'.repeat(400));
  const note = JSON.stringify({ text: 'to be or not to be, that is the question' });
  writeFileSync('notes.jsonl', `${note}\n`.repeat(400));
  const evidence = readFileSync(join(root, 'test/vectors/attestation/amd.json'));
  writeFileSync('evidence.json', evidence);
  process.env.NOSTRAIN_HOME = temporaryFolder();
  writeFileSync('bob.json', await runs('shard', 'key'));
  process.env.NOSTRAIN_HOME = home;
  const spec = [
    '--name',
    'friends',
    '--model',
    'linear',
    '--rounds',
    '2',
    '--relay',
    relay.url,
    '--json',
  ];
  const document = JSON.parse(await runs('run', 'create', ...spec, '-o', 'played.json'));
  [made.naddr, made.run] = [document.naddr, document.run];
  const { author } = JSON.parse(readFileSync('played.json', 'utf8'));
  writeFileSync('stakes.txt', `${author} 5\n${signerOf(2).publicKey} 7\n`);
  writeFileSync('stakes.jsonl', `${JSON.stringify({ key: author, stake: '5' })}\n`);
  await runs('run', 'join', made.naddr, '--allow-private-relays', '--report', 'ndjson');
}, 120_000);

afterAll(async () => {
  process.chdir(before.cwd);
  if (before.home === undefined) delete process.env.NOSTRAIN_HOME;
  else process.env.NOSTRAIN_HOME = before.home;
  await relay.close();
  await blossom.close();
});

describe('N-22 commands on other pages', () => {
  it.each(played)('$page: $line', { timeout: 60_000 }, async ({ line, to }) => {
    const stdout = await runs(...placed(line), ...added(line));
    const printed = (before: string) => new RegExp(`${before} *([0-9a-f]{64})`).exec(stdout)?.[1];
    made.digest = printed('(?:digest|chunks/run: manifest)') ?? made.digest;
    if (line.startsWith('stake show')) made.id = printed('') ?? made.id;
    if (to !== undefined) writeFileSync(to.trim(), stdout);
  });

  it('that are not run exist', () => {
    const unused = notRun.filter(
      ([beginning]) => !lines.some(({ line }) => line.startsWith(beginning)),
    );
    expect(unused).toEqual([]);
  });
});
