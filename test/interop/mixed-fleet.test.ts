/**
 * N-02, live: one worker of the Python reference and one of ours in one run over our relay, five rounds, the same model hash
 * after each. NOSTRAIN_PYTHON names an interpreter with the reference's dependencies, NOSTRAIN_REFERENCE its checkout.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { pythonMissing } from '../python/support/python.ts';
import { describeWith } from '../support/needs.ts';
import { startProgram } from '../support/processes.ts';
import { readVectors } from '../support/vectors.ts';

const { NOSTRAIN_PYTHON: python, NOSTRAIN_REFERENCE: reference } = process.env;

const OURS = '0000000000000000000000000000000000000000000000000000000000000003';
const THEIRS = '0000000000000000000000000000000000000000000000000000000000000004';
const ROUNDS = 5;

/** The reference's command line, to its end or until `killed` resolves. */
function runPython(
  args: readonly string[],
  killed?: Promise<unknown>,
): Promise<{ code: number | null; stderr: string }> {
  const env = { ...process.env, PYTHONPATH: join(reference!, 'src') };
  const child = spawn(python!, ['-m', 'nostrain', ...args], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  void killed?.then(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })));
}

interface Summary {
  readonly final_model_hash: string;
  readonly rounds: readonly {
    readonly model_hash_after: string;
    readonly collected_workers: readonly string[];
    readonly total_aggregation_weight: number;
  }[];
}

const { fixtures } = readVectors<{ fixtures: Record<string, object> }>('cli.json');

describeWith(pythonMissing)('N-02: a Python worker and ours', () => {
  it.each([
    ['linear', 'linear_initial_state.json', [], false],
    ['mlp', 'mlp_initial_state.json', [], false],
    ['linear, a named worker', 'linear_initial_state.json', ['--worker', 'alice'], false],
    ['linear, killed and restarted in round 3', 'linear_initial_state.json', [], true],
  ])(
    '%s',
    async (_, state, named, isKilled) => {
      const dir = mkdtempSync(join(tmpdir(), 'nostrain-mixed-'));
      const file = (name: string) => join(dir, name);
      const relay = await createRelay();
      try {
        writeFileSync(file('state.json'), JSON.stringify(fixtures[state]));
        const { examples } = fixtures['linear_dataset_worker_a.json'] as { examples: object[] };
        const task = state.startsWith('mlp') ? 'mlp-regression' : 'linear-regression';
        const data = (rows: readonly object[]) => JSON.stringify({ task, examples: rows });
        writeFileSync(file('ours.json'), data(examples));
        // one example fewer: the weights differ
        writeFileSync(file('theirs.json'), data(examples.slice(1)));
        const shared = [
          '--relay',
          relay.url,
          '--run',
          'mixed',
          '--inner-steps',
          '20',
          '--topk',
          '0.6',
        ];
        const ours = startProgram([
          ...['run-training', file('state.json'), file('ours.json'), ...shared, '--sec-key', OURS],
          ...['--rounds', `${ROUNDS}`],
          ...[
            '--reference-compatible',
            '--sync',
            'strict:2',
            '--round-timeout',
            isKilled ? '90' : '30',
          ],
          ...['--report', 'ndjson', '-o', file('end.json'), '--summary-out', file('a.json')],
        ]);
        await ours.event(({ type }) => type === 'waiting');
        const command = [
          ...['run-training', file('state.json'), file('theirs.json'), ...shared],
          ...['--sec-key', THEIRS, '--round-timeout', '1.5', ...named],
          ...['--summary-out', file('b.json'), '-o', file('end-b.json')],
        ];
        let rounds = ['--rounds', `${ROUNDS}`];
        if (isKilled) {
          // ours has sent its gradient of the round, which the restarted worker would not see
          const sent = ours.event((event) => event.type === 'published' && event.round === 2);
          await runPython([...command, ...rounds], sent);
          await new Promise((resolve) => setTimeout(resolve, 2500));
          rounds = ['--rounds', `${ROUNDS - 2}`, '--resume-latest-checkpoint'];
        }
        const theirs = await runPython([...command, ...rounds]);
        expect(theirs).toEqual({ code: 0, stderr: '' });
        expect(await ours.exit).toBe(0);
        const [a, b] = ['a.json', 'b.json'].map(
          (name): Summary => JSON.parse(readFileSync(file(name), 'utf8')),
        );
        const hashes = (summary: Summary) => summary.rounds.map((round) => round.model_hash_after);
        expect(hashes(a!)).toHaveLength(ROUNDS);
        expect(hashes(a!)).toEqual(hashes(b!));
        for (const round of [...a!.rounds, ...b!.rounds]) {
          expect(round.collected_workers).toHaveLength(2);
          expect(round.total_aggregation_weight).toBe(2 * examples.length - 1);
        }
        expect(readFileSync(file('end.json'), 'utf8')).toBe(
          readFileSync(file('end-b.json'), 'utf8'),
        );
      } finally {
        await relay.close();
      }
    },
    180_000,
  );
});
