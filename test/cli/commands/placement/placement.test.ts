import { writeFile } from 'node:fs/promises';
import { buildHolder, createSigner } from 'nostrain/network';
import { toNpub } from 'nostrain/node/parts';
import { describe, expect, it } from 'vitest';
import { buildAttestation } from '../../../../src/network/wire/holders.ts';
import { runCommand } from '../../../support/command-line.ts';
import { keyOf } from '../../../support/members.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const regions = ['africa', 'asia', 'europe'];
const tiers = ['known', 'open'];

const policy = (more = '') => `
regions = ["africa", "asia", "europe"]
tiers = ["known", "open"]
${more}
[objects.result]
replicas = 3
min_distinct = { regions = 2, tiers = 2 }

[objects.checkpoint]
replicas = 5
min_distinct = { regions = 3 }
`;
const holders = (count: number, regionsUsed = regions) =>
  Array.from(
    { length: count },
    (_, i) => `
[[holders]]
key = "${keyOf(i)}"
region = "${regionsUsed[i % regionsUsed.length]}"
tier = "${tiers[Math.floor(i / 3) % 2]}"
weight = ${1 + (i % 4)}
`,
  ).join('');

async function written(name: string, text: string): Promise<string> {
  await writeFile(file(name), text);
  return file(name);
}
const check = (...args: readonly string[]) => runCommand('placement', 'check', ...args);

describe('placement check', () => {
  it('R-10: prints the holders of an object of each class and why each rule holds, from any order of files', async () => {
    const [rules, list] = [
      await written('rules.toml', policy()),
      await written('holders.toml', holders(12)),
    ];
    const { exitCode, stdout, stderr } = await check(rules, list, '--object', 'step 100');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toContain('holds  objects.result.replicas = 3: 3 holders');
    expect(stdout).toContain('holds  objects.result.min_distinct.tiers = 2: 2: known, open');
    expect(stdout).toContain('holds  objects.checkpoint.replicas = 5: 5 holders');
    expect(stdout).toContain(
      'holds  objects.checkpoint.min_distinct.regions = 3: 3: africa, asia, europe',
    );
    const reordered = await check(list, rules, '--object', 'step 100');
    expect(reordered.stdout).toBe(stdout);
  });

  it('R-11: ends with 1 and names rule, need, what there is and the nearest relaxation', async () => {
    const rules = await written('rules.toml', policy());
    const list = await written('two.toml', holders(12, ['asia', 'europe']));
    const { exitCode, stderr, stdout } = await check(rules, list, '--class', 'checkpoint');
    expect(exitCode).toBe(1);
    expect(stderr).toContain(
      'error (placement/unsatisfied): objects.checkpoint.min_distinct.regions needs 3, 2 are available',
    );
    expect(stderr).toContain('no object of class checkpoint is placed: on_unsatisfiable is "fail"');
    expect(stderr).toContain('objects.checkpoint.min_distinct.regions = 2 (is 3)');
    expect(stdout).not.toContain(keyOf(0));
    const json = await check(rules, list, '--class', 'checkpoint', '--json');
    expect(json.exitCode).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({
      classes: [{ placed: false, holders: [], objects: [], unsatisfied: { needed: 3 } }],
    });
  });

  it('R-11: degrades with an alert where the document says so', async () => {
    const rules = await written('degrade.toml', policy('on_unsatisfiable = "degrade-with-alert"'));
    const list = await written('two.toml', holders(12, ['asia', 'europe']));
    const { exitCode, stderr, stdout } = await check(rules, list, '--class', 'checkpoint');
    expect(exitCode).toBe(0);
    expect(stderr).toContain('ALERT (placement/unsatisfied)');
    expect(stdout).toContain('objects.checkpoint.min_distinct.regions = 2: 2: asia, europe');
  });

  it('R-13: attestations in events count when the document names their author, self-reports do not', async () => {
    const signer = (n: number) => createSigner(new Uint8Array(32).fill(n));
    const now = Math.floor(Date.now() / 1000);
    const [one, two, attestor] = [signer(1), signer(2), signer(3)];
    const offer = {
      ...{ region: 'asia', tier: 'known', weight: 1, classes: [], freeBytes: 1 },
      ...{ contacts: ['https://holder.example.org'], held: [] },
    };
    const events = [
      one.sign(buildHolder(offer, now, 3600)),
      two.sign(buildHolder(offer, now, 3600)),
      attestor.sign(buildAttestation({ holder: one.publicKey, region: 'asia' }, now, 3600)),
      // another region than the holder says, and nobody's attestor
      attestor.sign(buildAttestation({ holder: two.publicKey, region: 'europe' }, now, 3600)),
      one.sign(buildAttestation({ holder: two.publicKey, region: 'asia' }, now, 3600)),
    ];
    const lines = events.map((event) => JSON.stringify(event)).join('\n');
    const list = await written('holders.jsonl', lines);
    const demanding = `attestors = ["${attestor.publicKey}"]\n[objects.chunk]\nreplicas = 1\nattested = ["region"]\n`;
    const rules = await written('attested.toml', demanding);
    const { exitCode, stdout } = await check(rules, list);
    expect(exitCode).toBe(0);
    const by = toNpub(attestor.publicKey).slice(0, 12);
    expect(stdout).toContain(
      `${toNpub(one.publicKey)}  region asia (attested by ${by}), tier known (self-reported)`,
    );
    expect(stdout).toContain(
      `not drawn  ${toNpub(two.publicKey)}: its region is self-reported, not attested`,
    );
    const forged = lines.replace('asia', 'oslo');
    const refused = await check(rules, await written('forged.jsonl', forged));
    expect(refused.stderr).toContain('placement/event');
  });

  it('places many objects and counts them by holder', async () => {
    const file = await written('all.toml', policy() + holders(8));
    const { stdout } = await check(file, '--class', 'result', '--count', '100', '--json');
    const [{ objects, holders: shown }] = JSON.parse(stdout).classes;
    expect(objects).toHaveLength(100);
    const loads = shown.map((each: { objects: number }) => each.objects);
    expect(loads.reduce((a: number, b: number) => a + b)).toBe(300);
  });

  it.each([
    ['replicas', 'replcas', 'objects.result.replcas is unknown; the nearest is "replicas"'],
    ['[objects.result]', '[object.result]', 'object is unknown; the nearest is "objects"'],
  ])('refuses %s written %s by name', async (from, to, message) => {
    const { exitCode, stderr } = await check(
      await written('typo.toml', policy().replace(from, to) + holders(8)),
    );
    expect(exitCode).toBe(1);
    expect(stderr).toContain(message);
  });

  it('says which file is missing or says nothing', async () => {
    const missing = await check(file('none.toml'));
    expect(missing.stderr).toContain('cannot read the placement document');
    const none = await check(await written('only.toml', holders(2)));
    expect(none.stderr).toContain('no file has [objects.<class>]');
    const rules = await written('rules.toml', policy());
    expect((await check(rules, rules)).stderr).toContain('two files have [objects.<class>]');
    expect((await check(rules, '--class', 'chekpoint')).stderr).toContain('has no class chekpoint');
  });
});
