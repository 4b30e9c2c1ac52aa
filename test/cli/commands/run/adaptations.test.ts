import { readFile, rm, writeFile } from 'node:fs/promises';
import { parseRunSpec } from 'nostrain/run';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type Adaptation, describeAdaptation } from '../../../../src/run/spec/adaptation.ts';
import { runCommand } from '../../../support/command-line.ts';
import { signerOf } from '../../../support/signers.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();

beforeEach(() => vi.stubEnv('NOSTRAIN_HOME', file('home')));
afterEach(() => vi.unstubAllEnvs());

const keys = (count: number) => Array.from({ length: count }, (_, i) => signerOf(i + 1).publicKey);

/** Creates a run, and returns its spec and what the command says was changed; stderr must say the same. */
async function create(document: object, ...flags: readonly string[]) {
  await rm(file('run.json'), { force: true });
  await writeFile(file('document.json'), JSON.stringify(document));
  await writeFile(file('text.txt'), 'the cat sat on the mat\n'.repeat(500));
  const { stdout, stderr } = await runCommand(
    ...['run', 'create', file('document.json'), '--json', '-o', file('run.json')],
    ...['--sec-key', '01'.repeat(32)],
    ...flags,
  );
  expect(stderr).not.toContain('error (');
  const { adaptations }: { readonly adaptations: readonly Adaptation[] } = JSON.parse(stdout);
  for (const each of adaptations) expect(stderr).toContain(describeAdaptation(each));
  return {
    spec: parseRunSpec(await readFile(file('run.json'), 'utf8')),
    changes: adaptations.map(({ because, changed }) => [because, changed]),
  };
}

it('run create says which settings other ones changed', async () => {
  const ofGpt = (...sets: readonly string[]) =>
    create({}, '--corpus', file('text.txt'), ...sets.flatMap((each) => ['--set', each]));
  const averaged = { outerLearningRate: 1, momentum: 0 };
  expect((await ofGpt()).changes).toEqual([]);
  const large = await ofGpt('width=384', 'layers=6', 'ffn=1536', 'heads=6');
  expect(large.changes).toEqual([['10,616,832 parameters', { fragments: 2 }]]);
  expect(large.spec.training).toMatchObject({ packing: 'trellis', owners: 4, fragments: 2 });
  const mixed = await ofGpt('experts=4', 'groups=a=0,1', 'groups=b=2,3');
  expect(mixed.changes).toEqual([['experts 4', { owners: 0, eventBudget: 32_768 }]]);
  expect(mixed.spec.training).toMatchObject({ owners: 0, fragments: 1 });
  const screened = await create(
    { screening: true, training: { fragments: 1 } },
    '--corpus',
    file('text.txt'),
  );
  expect(screened.changes).toEqual([
    ['screening', { owners: 0, eventBudget: 1_000_000_000, ...averaged }],
  ]);
});

it('run create says which rule a verified run has by default, and the settings that the rule changes', async () => {
  const founders = keys(5);
  const document = { tier: 'verified', founders, admission: { kind: 'list', keys: founders } };
  const { spec, changes } = await create(document, '--model', 'mlp');
  const rule = { rule: 'trimmed-mean', before: 'nnm', hostile: 1 };
  expect(spec.aggregation).toMatchObject(rule);
  expect(changes).toEqual([['tier verified, 5 named keys', rule]]);
  const ofGpt = await create(document, '--corpus', file('text.txt'));
  expect(ofGpt.changes).toContainEqual([
    'aggregation.rule trimmed-mean',
    expect.objectContaining({ owners: 0, eventBudget: 1_000_000_000 }),
  ]);
});

it('run create says how many founders and newcomers a round has if they are many', async () => {
  const crowd = await create({ founders: keys(85) }, '--model', 'linear');
  expect(crowd.changes).toEqual([['85 founders', { foundersPerRound: 84, joinsPerRound: 16 }]]);
  const limited = await create({ founders: keys(85), joinsPerRound: 32 }, '--model', 'linear');
  expect(limited.changes).toEqual([['85 founders', { foundersPerRound: 84 }]]);
});
