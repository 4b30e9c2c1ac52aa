import { readFile, writeFile } from 'node:fs/promises';
import { toHex } from 'nostrain/base';
import { type DeployedRegistry, requestExit } from 'nostrain/chain';
import { toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { formatStakeJson, parseStakeJson, type StakeSnapshot } from 'nostrain/run';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anvilMissing, startAnvil, type TestChain } from '../../support/anvil.ts';
import { runCommand } from '../../support/command-line.ts';
import { describeWith } from '../../support/needs.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const file = temporaryFolder();
const [ALICE, BOB] = ['aa', 'bb'].map((part) => part.repeat(32)) as [string, string];

const idOf = async (name: string): Promise<string> =>
  (JSON.parse(await readFile(file(name), 'utf8')) as { id: string }).id;

/** A document of a list that a person typed. */
async function typed(name: string, text = `# friends\n${toNpub(ALICE)} 300\n${BOB}, 100\n`) {
  await writeFile(file('list'), text);
  return runCommand(
    'stake',
    'snapshot',
    '--from',
    'file',
    '--list',
    file('list'),
    '-o',
    file(name),
  );
}

describe('of a list', () => {
  test('a document is made, shown and checked', async () => {
    const made = await typed('typed.json');
    expect(made).toMatchObject({ exitCode: 0, stdout: '' });
    const id = await idOf('typed.json');
    expect(made.stderr).toBe(`snapshot ${id}: 2 keys at block 0\n`);
    const shown = await runCommand('stake', 'show', file('typed.json'));
    expect(shown.stdout).toMatch(/2 keys, 400 stake in total/);
    expect(shown.stdout).toMatch(new RegExp(`${toNpub(ALICE)} +300 +75\\.00 % +█{18}░{6}\n`));
    const checked = await runCommand('stake', 'verify', file('typed.json'), '--id', id);
    expect(checked).toMatchObject({ exitCode: 0 });
    expect(checked.stdout).toContain('the numbers were not verified: it is not from a chain');
  });

  test.each([
    ['nobody 5', 'line 1: nobody is neither an npub nor a hex key'],
    [`${ALICE} -5`, 'line 1: the key must be followed by one whole number'],
    [`${ALICE} 5\n\n${ALICE} 5`, 'line 3'],
  ])('%j is refused with its line', async (text, message) => {
    const made = await typed('wrong.json', text);
    expect(made).toMatchObject({ exitCode: 1 });
    expect(made.stderr).toContain(message);
  });

  test('an edited document is refused', async () => {
    await typed('edited.json');
    const text = await readFile(file('edited.json'), 'utf8');
    await writeFile(file('edited.json'), text.replace('"300"', '"310"').replace('"400"', '"410"'));
    const checked = await runCommand('stake', 'verify', file('edited.json'));
    expect(checked).toMatchObject({ exitCode: 1, stdout: '' });
    expect(checked.stderr).toContain('id is not');
    await typed('typed.json');
    const other = await runCommand('stake', 'verify', file('typed.json'), '--id', '00'.repeat(32));
    expect(other.stderr).toContain('stake/other');
  });

  test('what is missing is named', async () => {
    const made = await runCommand(
      'stake',
      'snapshot',
      '--from',
      'registry',
      '--contract',
      `0x${'00'.repeat(20)}`,
    );
    expect(made).toMatchObject({ exitCode: 2 });
    expect(made.stderr).toContain('add --rpc URL');
    expect((await runCommand('stake', 'snapshot', '--from', 'event')).stderr).toContain(
      'needs --id',
    );
    expect((await runCommand('stake', 'snapshot', '--from', 'moon')).exitCode).toBe(2);
  });
});

/** Makes a snapshot of a list, sends it to a relay and writes it. */
const publishList = (list: string, relay: string, out: string) =>
  runCommand(
    ...['stake', 'snapshot', '--from', 'file', '--list', file(list)],
    ...['--publish', '--relay', relay, '-o', file(out)],
  );

test('a document travels as an event', async () => {
  const relay = await createRelay({ port: 0 });
  try {
    await typed('sent.json');
    const sent = await publishList('list', relay.url, 'sent.json');
    expect(sent.exitCode).toBe(0);
    const id = await idOf('sent.json');
    const find = ['stake', 'snapshot', '--from', 'event', '--relay', relay.url, '--id'];
    const found = await runCommand(...find, id);
    expect(found).toMatchObject({ exitCode: 0, stdout: await readFile(file('sent.json'), 'utf8') });
    const missing = await runCommand(...find, '00'.repeat(32));
    expect(missing).toMatchObject({ exitCode: 1, stdout: '' });
    expect(missing.stderr).toContain('chain/no-event');
  } finally {
    await relay.close();
  }
});

test('one too large for an event travels in chunks', async () => {
  const relay = await createRelay({ port: 0 });
  try {
    const keys = Array.from({ length: 2500 }, (_, i) => (i + 1).toString(16).padStart(64, '0'));
    await writeFile(file('many'), keys.map((key, i) => `${key} ${i + 1}\n`).join(''));
    const sent = await publishList('many', relay.url, 'many.json');
    expect(sent.exitCode, sent.stderr).toBe(0);
    const find = ['stake', 'snapshot', '--from', 'event', '--relay', relay.url, '--id'];
    const found = await runCommand(...find, await idOf('many.json'), '-o', file('found.json'));
    expect(found.exitCode, found.stderr).toBe(0);
    expect(await readFile(file('found.json'), 'utf8')).toBe(
      await readFile(file('many.json'), 'utf8'),
    );
  } finally {
    await relay.close();
  }
});

describeWith(anvilMissing)('of a registry', () => {
  let chain: TestChain;
  let registry: DeployedRegistry;
  beforeAll(async () => {
    chain = await startAnvil();
    registry = await chain.deploy();
    await chain.bond(registry, 0, ALICE, 5n);
    await chain.bond(registry, 1, BOB, 15n);
    await chain.mine(2);
  });
  afterAll(() => chain.stop());

  test('a document is derived, and derived again by whoever doubts it', async () => {
    const contract = `0x${toHex(registry.contract)}`;
    const rpc = ['--rpc', chain.url, '--rpc', `${chain.url}/`];
    const derive = ['stake', 'snapshot', '--from', 'registry', '--contract', contract, ...rpc];
    const made = await runCommand(...derive, '-o', file('chain.json'));
    expect(made).toMatchObject({ exitCode: 0 });
    expect(made.stderr).toContain('2 keys at block 3');
    await chain.send(requestExit(registry, chain.accounts[0]!, ALICE));
    await chain.mine(2);
    const same = await runCommand('stake', 'verify', file('chain.json'), ...rpc);
    expect(same).toMatchObject({ exitCode: 0, stderr: '' });
    expect(same.stdout).toContain('gives the same stakes at block 3');
    const later = await runCommand(...derive, '--height', '6');
    expect(later.stdout).toContain('"total": "15"');

    // a document that is whole and says something else than the chain
    const parsed = parseStakeJson(await readFile(file('chain.json'), 'utf8'));
    if (!parsed.ok) throw new Error(parsed.issue.message);
    const forge = async (changes: Partial<StakeSnapshot>) => {
      await writeFile(file('forged.json'), formatStakeJson({ ...parsed.value, ...changes }));
      return runCommand('stake', 'verify', file('forged.json'), '--rpc', chain.url);
    };
    const rows = parsed.value.rows.map((row) => ({ ...row, stake: row.stake + 1n }));
    const generous = await forge({ rows });
    expect(generous).toMatchObject({ exitCode: 1 });
    expect(generous.stderr).toContain(`rows.${ALICE} is 6 in the document, 5 by registry`);
    const blockHash = '11'.repeat(32);
    expect((await forge({ blockHash })).stderr).toContain(`blockHash is ${blockHash} in the doc`);
    expect((await forge({ chain: 'eip155:1' })).stderr).toContain('chain/wrong-chain');
    expect((await forge({ height: 99 })).stderr).toContain('chain/not-final');
  });

  test('all of it by commands: deploy, bond, a table, a run by it', async () => {
    const at = ['--rpc', chain.url];
    const deployed = await runCommand('stake', 'deploy', ...at, '--unbonding-seconds', '0');
    expect(deployed).toMatchObject({ exitCode: 0 });
    const contract = /registry (0x[0-9a-f]{40}), deployed in block/.exec(deployed.stdout)![1]!;
    const place = ['--contract', contract, ...at];
    const bonded = await runCommand('stake', 'bond', toNpub(ALICE), '300', ...place);
    expect(bonded.stdout).toMatch(/^bonded 300 wei for npub1\w+ in block \d+\n$/);
    const payer = ['--from', chain.accounts[1]!];
    expect((await runCommand('stake', 'bond', BOB, '100', ...place, ...payer)).exitCode).toBe(0);
    await chain.mine(2);
    const line = /read with: {2}nostrain (.*)\n/.exec(deployed.stdout)![1]!.split(' ');
    const out = file('commands.json');
    expect(await runCommand(...line.slice(0, -1), out)).toMatchObject({ exitCode: 0 });
    expect((await runCommand('stake', 'show', out)).stdout).toContain('2 keys, 400 wei in total');
    const spec = ['-o', file('run.json'), '--sec-key', '01'.repeat(32), '--founder', ALICE];
    const made = await runCommand('run', 'create', '--model', 'linear', '--stake', out, ...spec);
    expect(made.exitCode, made.stderr).toBe(0);
    expect(JSON.parse(await readFile(file('run.json'), 'utf8')).stake.source).toBe('evm');

    expect((await runCommand('stake', 'exit', ALICE, ...place)).exitCode).toBe(0);
    expect((await runCommand('stake', 'withdraw', ALICE, ...place)).stdout).toContain('paid out');
    const none = await runCommand('stake', 'bond', ALICE, '0', ...place);
    expect(none.stderr).toContain('stake/amount');
    const nobody = await runCommand('stake', 'exit', ALICE, ...place, ...payer);
    expect(nobody).toMatchObject({ exitCode: 1, stdout: '' });
  });
});
