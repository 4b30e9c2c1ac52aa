/** `nostrain demo finetune` where there is neither a model nor a network: with a base that it trains itself. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePlay } from 'nostrain/model';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startDemo } from '../support/demo-run.ts';
import { runProgram, temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const MINUTES = 4 * 60_000;
const ONE_EVENT = 65_536;
/** A hub that does not answer, and no model in anybody's cache. */
const elsewhere = { HF_ENDPOINT: 'http://127.0.0.1:9', HF_HOME: temporaryFolder() };
const before = { ...process.env };
let relay: Relay;

beforeAll(async () => {
  Object.assign(process.env, elsewhere);
  relay = await createRelay();
});
afterAll(async () => {
  for (const name of Object.keys(elsewhere)) {
    if (before[name] === undefined) delete process.env[name];
    else process.env[name] = before[name];
  }
  await relay.close();
});

describe('nostrain demo finetune', () => {
  it(
    'trains a base of its own where there is none, tunes it together, and says what one alone gets',
    async () => {
      const few = ['--quick', '--workers', '2', '--rounds', '2'];
      const { document, told } = await startDemo('finetune', [relay.url], few);
      expect(told).toContain('first trains a small Llama on the built-in play');
      expect(told).toContain('one worker alone');
      expect(document).toMatchObject({
        task: 'pretrained',
        corpus: { name: 'built-in logbook' },
        base: { name: 'small-llama', parameters: 623_488 },
        adapter: { rank: 8, targets: 'all-linear', parameters: document.parameters },
      });
      expect(document.base!.sha256).toMatch(/^[0-9a-f]{64}$/);
      const [first, last] = [document.rounds[0]!, document.rounds.at(-1)!];
      expect(last.validationLoss!).toBeLessThan(document.baseValidationLoss!);
      expect(last.sample).toBeTypeOf('string');
      expect(first.eventBytes).toBeLessThan(ONE_EVENT);
      // one token is one byte here
      expect(document.bitsPerByte!).toBeCloseTo(last.validationLoss! / Math.LN2, 2);
      expect(document.aloneValidationLoss!).toBeLessThan(document.baseValidationLoss!);
    },
    MINUTES,
  );

  it.each([
    ['as workers that average', []],
    ['as a certified run', ['--certified']],
  ])(
    'takes the base and the text that are named, %s',
    async (_, more) => {
      const home = temporaryFolder();
      const base = await writeTinyLlama(join(home, 'tiny'));
      const corpus = join(home, 'play.txt');
      writeFileSync(corpus, writePlay({ minimumBytes: 40_000 }));
      const settings = join(home, 'settings.json');
      writeFileSync(settings, JSON.stringify({ context: 32, rank: 4 }));
      const { document, told } = await startDemo(
        'finetune',
        [relay.url],
        [
          ...['--workers', '2', '--rounds', '2', '--inner-steps', '3', ...more],
          ...['--base', base, '--corpus', corpus, '--settings', settings],
        ],
      );
      expect(document.base).toMatchObject({ name: 'tiny' });
      expect(document.adapter).toMatchObject({ rank: 4, targets: 'qv' });
      expect(document.corpus.name).toBe('play.txt');
      expect(/\d of \d signed/.test(told)).toBe(more.length > 0);
    },
    MINUTES,
  );

  it('refuses a base that is none, before anything starts', async () => {
    const { code, stderr } = await runProgram([
      ...['demo', 'finetune', '--base', '/nowhere.gguf', '--dir', temporaryFolder()],
    ]);
    expect(code).toBe(1);
    expect(stderr).toContain('model/files');
  });
});
