import { mkdir, writeFile } from 'node:fs/promises';
import { buildFault } from 'nostrain/certified/parts';
import { toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { formatKeptRound } from '../../../src/certified/rounds/keep-round.ts';
import { anvilMissing, startAnvil, type TestChain } from '../../support/anvil.ts';
import { runCommand } from '../../support/command-line.ts';
import { faults, RUN } from '../../support/contradictions.ts';
import { describeWith } from '../../support/needs.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { signerOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const file = temporaryFolder();
const witness = signerOf(9);
const now = Math.floor(Date.now() / 1000);
/** A proof against a key, as any member publishes it. */
function proofAgainst(number: number) {
  const [a, b] = faults['two commits']!.map((draft) => signerOf(number).sign(draft));
  return witness.sign(buildFault(RUN, [a!, b!], { createdAt: now, expiresAt: now + 600 }));
}

describeWith(anvilMissing)('nostrain stake slash', () => {
  let chain: TestChain;
  let contract: string;
  const slash = (...argv: readonly string[]) =>
    runCommand('stake', 'slash', '--contract', contract, '--rpc', chain.url, ...argv);

  beforeAll(async () => {
    chain = await startAnvil();
    const deploy = ['stake', 'deploy', '--rpc', chain.url, '--slash-permille', '400'];
    const made = await runCommand(...deploy);
    expect(made.stderr).toContain('it is not audited');
    contract = /registry (0x[0-9a-f]{40})/.exec(made.stdout)![1]!;
    for (const number of [1, 2, 3]) {
      const key = toNpub(signerOf(number).publicKey);
      await runCommand('stake', 'bond', key, '1000', '--contract', contract, '--rpc', chain.url);
    }
  });
  afterAll(() => chain?.stop());

  test('hands in the proof of an archive, once', async () => {
    const lines = [proofAgainst(1), proofAgainst(4)].map((event) => `${JSON.stringify(event)}\n`);
    await writeFile(file('run.ndjson'), lines.join(''));
    const [taken, again] = [
      await slash('--events', file('run.ndjson')),
      await slash('--events', file('run.ndjson')),
    ];
    const [one, four] = [1, 4].map((number) => toNpub(signerOf(number).publicKey));
    expect(taken.stdout).toMatch(
      new RegExp(`^${one} lost its stake in block \\d+, for \\d+ gas\\n$`),
    );
    expect(taken.stderr).toContain(`${four}: it has no stake in this registry`);
    expect(again).toMatchObject({ exitCode: 1, stdout: '' });
    expect(again.stderr).toContain(`${one}: it was slashed before`);
  });

  test('hands in the proof that a worker keeps', async () => {
    const dir = file('worker');
    await mkdir(`${dir}/past`, { recursive: true });
    const past = { round: 3, by: [witness.publicKey], events: [proofAgainst(2)], bodies: [] };
    await writeFile(`${dir}/past/3.json`, formatKeptRound(past));
    expect((await slash('--dir', dir)).stdout).toMatch(/lost its stake/);
  });

  test('hands in the proof that a relay has, of the key that is asked for', async () => {
    const relay = await createRelay();
    await publishRaw(relay.url, [proofAgainst(3)]);
    const found = ['--run', RUN, '--relay', relay.url, '--worker'];
    const [three, five] = [3, 5].map((number) => signerOf(number).publicKey);
    expect((await slash(...found, five!)).stderr).toContain('stake/no-proof');
    expect((await slash(...found, three!)).stdout).toMatch(/lost its stake/);
    await relay.close();
  });

  test('says what is missing', async () => {
    expect((await slash()).stderr).toContain('use --events FILE, --dir DIR, or --run RUN');
    expect((await slash('--dir', file('none'))).stderr).toContain('has no events of past rounds');
    const share = await runCommand('stake', 'deploy', '--reporter-permille', '5');
    expect(share.stderr).toContain('--slash-permille');
  });

  test('a plain registry takes no proofs', async () => {
    await writeFile(file('one.ndjson'), `${JSON.stringify(proofAgainst(6))}\n`);
    const { contract: plain } = await chain.deploy();
    const argv = ['--contract', `0x${Buffer.from(plain).toString('hex')}`, '--rpc', chain.url];
    const said = await runCommand('stake', 'slash', ...argv, '--events', file('one.ndjson'));
    expect(said.stderr).toContain('deployed with --slash-permille');
  });
});
