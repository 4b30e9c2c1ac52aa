import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { CertifiedDocument } from '../../demos/certified/document.ts';
import { runProgram, temporaryFolder } from '../support/processes.ts';

it('demo certified: honest workers agree, the guilty are named, the run replays and an altered one does not', async () => {
  const dir = join(temporaryFolder(), 'demo');
  const { code, stdout, stderr } = await runProgram([
    ...['demo', 'certified', '--quick', '--json', '--dir', dir],
  ]);
  expect(code, stderr.slice(-4000)).toBe(0);
  const document: CertifiedDocument = JSON.parse(stdout);
  const { agreed, workers, faults, rounds, replay, eventsFile } = document;
  expect(agreed).toBe(true);
  expect(workers).toHaveLength(7);
  const honest = workers.filter(({ hostile }) => !hostile);
  expect(new Set(honest.map(({ root }) => root))).toEqual(new Set([rounds.at(-1)!.root]));
  const guilty = workers.filter(({ hostile }) => hostile).map(({ name }) => name);
  expect(guilty).toEqual(['erin', 'grace']);
  expect(faults).toContainEqual(expect.objectContaining({ kind: 'equivocation', worker: 'grace' }));
  expect(faults.filter(({ kind }) => kind === 'bad-score').map(({ worker }) => worker)).toEqual([
    'erin',
  ]);
  expect(document.weights.map(({ worker }) => worker)).not.toContain('erin');
  const sum = document.weights.reduce((total, { weight }) => total + weight, 0);
  expect(Math.abs(sum - 1)).toBeLessThan(1e-9);
  expect(faults).toContainEqual(expect.objectContaining({ kind: 'silent', worker: 'dave' }));
  expect(replay).toEqual({ ok: true, rounds: rounds.length });

  expect((await runProgram(['replay', '--events', eventsFile])).code).toBe(0);
  const signed = join(dir, 'receipt.json');
  const asked = ['receipt', '--events', eventsFile];
  const key = ['--key-file', join(dir, 'alice', 'key')];
  expect((await runProgram([...asked, '--sign', ...key, '-o', signed])).code).toBe(0);
  expect((await runProgram([...asked, '--verify', signed])).stdout).toMatch(/^true: /);

  const lines = readFileSync(eventsFile, 'utf8').trim().split('\n');
  const at = lines.findIndex((line) => line.includes('\\"step\\":\\"commit\\"'));
  const altered = join(dir, 'altered.jsonl');
  const other = lines[at]!.replace(
    /"sig":"(.)/,
    (_, digit) => `"sig":"${digit === '0' ? '1' : '0'}`,
  );
  writeFileSync(altered, `${lines.with(at, other).join('\n')}\n`);
  const bad = await runProgram(['replay', '--events', altered]);
  expect(bad.code).not.toBe(0);
  expect(bad.stdout + bad.stderr).toMatch(/round +\d/);
}, 600_000);
