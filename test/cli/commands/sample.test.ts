/** `nostrain sample`: text of a published model and of a run that fine-tuned it, a character at a time, and what is refused. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compileTraining } from 'nostrain/model';
import { beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { adamwSpec } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';
import { type TunedRun, writeTunedRun } from '../../support/tuned-run.ts';

const home = temporaryFolder();
const base = join(home, 'tiny');
const LENGTH = 20;
const flags = ['--prompt', 'To be', '--length', `${LENGTH}`, '--temperature', '0'];
let adapters: TunedRun;
let whole: TunedRun;

beforeAll(async () => {
  await writeTinyLlama(base);
  adapters = await writeTunedRun(join(home, 'adapters'), base);
  whole = await writeTunedRun(join(home, 'whole'), base, { rank: 0 });
});

/** The likeliest text by reading the whole window for every token. */
async function expected({ base: { model, frozen, tokenizer }, params }: TunedRun) {
  const run = await load(compileTraining(model, adamwSpec, 1).forward());
  const all = await Promise.all(
    Object.entries(await frozen()).map(async ([name, numbers]) => {
      return [name, typeof numbers === 'function' ? await numbers() : numbers] as const;
    }),
  );
  const shapes = new Map(
    'frozen' in model ? model.frozen?.map(({ name, shape }) => [name, shape]) : [],
  );
  const held = all.map(([name, elements]) => {
    return [name, { dtype: 'f32' as const, shape: shapes.get(name)!, elements }] as const;
  });
  const text = [...tokenizer.ids('To be')];
  for (let count = 0; count < LENGTH; count++) {
    const window = Int32Array.from({ length: 32 }, (_, i) => text[i] ?? 0);
    const { predictions } = await run({
      ...Object.fromEntries(held),
      params: { dtype: 'f32', shape: [params.length], elements: params },
      inputs: { dtype: 'i32', shape: [1, 32], elements: window },
    });
    const logits = predictions!.subarray((text.length - 1) * 260, text.length * 260);
    text.push(logits.indexOf(Math.max(...logits)));
  }
  return `${tokenizer.decode(text)}\n`;
}

/** As terminals are shown it. */
const shown = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  `${text.slice(0, -1).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufffd]/g, '·')}\n`;

describe('nostrain sample', () => {
  it('writes with adapters on a base, and with all parameters trained', async () => {
    const texts = await Promise.all([adapters, whole].map(expected));
    expect((await runCommand('sample', adapters.dir, ...flags)).stdout).toBe(shown(texts[0]!));
    expect((await runCommand('sample', whole.dir, ...flags)).stdout).toBe(shown(texts[1]!));
    expect(texts[0]).not.toBe(texts[1]);
    const output = join(home, 'text.txt');
    const kept = await runCommand('sample', whole.dir, ...flags, '-o', output);
    expect(kept).toMatchObject({ exitCode: 0, stdout: '' });
    expect(await readFile(output, 'utf8')).toBe(texts[1]);
  });

  it.each([
    ['of a tier, in slices', { tiers: 2, tier: '1', rank: 4, targets: 'all-linear' }],
    ['of a tier, all parameters trained', { tiers: 1, tier: '0', rank: 0 }],
  ] as const)('writes with adapters %s', async (name, asked) => {
    const run = await writeTunedRun(join(home, name), base, asked);
    const { stdout } = await runCommand('sample', run.dir, ...flags);
    expect(stdout).toBe(shown(await expected(run)));
  });

  it('writes with a published model alone, the same for the same seed', async () => {
    const draw = (...more: string[]) =>
      runCommand('sample', '--base', base, '--prompt', 'To be', '--length', '40', ...more);
    const first = await draw('--seed', '5', '--top-p', '0.9', '--top-k', '50');
    expect(first).toMatchObject({ exitCode: 0, stderr: '' });
    expect(first.stdout).toMatch(/^To be/);
    expect(await draw('--seed', '5', '--top-p', '0.9', '--top-k', '50')).toEqual(first);
    expect((await draw('--seed', '6')).stdout).not.toBe(first.stdout);
    // nothing that could move the cursor, though the model draws any byte
    expect(first.stdout.slice(0, -1)).toBe(
      // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
      first.stdout.slice(0, -1).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufffd]/g, '·'),
    );
  });

  it('puts a question by the template of the model', async () => {
    const chat = await writeTinyLlama(join(home, 'chat'));
    const template =
      "{% if messages[0].content == 'no' %}{{ raise_exception('not this') }}{% endif %}" +
      'Q: {{ messages[0].content }} A:{% if add_generation_prompt %}>{% endif %}';
    const config = { chat_template: template };
    await writeFile(join(chat, 'tokenizer_config.json'), JSON.stringify(config));
    const ask = (prompt: string, ...more: string[]) => {
      const argv = ['--base', chat, '--prompt', prompt, '--length', '9', '--temperature', '0'];
      return runCommand('sample', ...argv, ...more);
    };
    const answer = await ask('Why?', '--chat');
    expect(answer).toMatchObject({ exitCode: 0, stderr: '' });
    expect(`Q: Why? A:>${answer.stdout}`).toBe((await ask('Q: Why? A:>')).stdout);
    expect((await ask('no', '--chat')).stderr).toMatch(/model\/chat.*not this.*\n {2}try: /);
    const without = await runCommand('sample', '--base', base, '--chat');
    expect(without.stderr).toMatch(/sample\/chat.*no chat template/);
  });

  it('refuses a base that is missing, is another, or does not fit', async () => {
    const other = await writeTinyLlama(join(home, 'other'), { seed: 8 });
    const refused = async (...argv: string[]) => {
      const { exitCode, stderr } = await runCommand('sample', ...argv, ...flags);
      expect(exitCode).toBeGreaterThan(0);
      return stderr;
    };
    expect(await refused()).toMatch(/name a run, or use --base for a published model/);
    expect(await refused(adapters.dir, '--base', other)).toMatch(
      /base\/other.*model\.safetensors differs/,
    );
    expect(await refused(adapters.dir, '--base', join(home, 'none'))).toMatch(/model\/files/);
    expect(await refused(adapters.dir, '--rank', '2')).toMatch(/base\/other.*does not fit/);
  });
});
