/** Putting CUDA's part of onnxruntime in place: what is not known is refused before anything is written. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { encodeZip } from 'nostrain/formats';
import { describe, expect, it } from 'vitest';
import { fixCuda } from '../../../../src/cli/commands/doctor/fix-cuda.ts';
import { cudaProblem } from '../../../../src/node/engine/onnxruntime.ts';
import { runCommand } from '../../../support/command-line.ts';
import { itWith } from '../../../support/needs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const bytes = (text: string) => new TextEncoder().encode(text);
const cuda = 'libonnxruntime_providers_cuda.so';
const shared = 'libonnxruntime_providers_shared.so';

/** A package with these members; its file, and what that hashes to. */
async function packageOf(members: Readonly<Record<string, string>>) {
  const path = file(`${Object.keys(members).length}.whl`);
  const list = Object.entries(members).map(([name, text]) => ({ name, bytes: bytes(text) }));
  await writeFile(path, encodeZip(list));
  const sha256 = createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
  return { from: path, sha256 };
}

const whole = {
  [`onnxruntime/capi/${cuda}`]: 'one',
  [`onnxruntime/capi/${shared}`]: 'other',
  'onnxruntime/__init__.py': '',
};
const empty = () => mkdtemp(file('into-'));

describe('doctor --fix cuda', () => {
  it('puts both files beside the engine when the package is what was asked for', async () => {
    const into = await empty();
    const check = await fixCuda(await packageOf(whole), into);
    expect(check).toMatchObject({ name: 'fix cuda', level: 'ok' });
    expect((await readdir(into)).sort()).toEqual([cuda, shared]);
    expect(await readFile(`${into}/${cuda}`, 'utf8')).toBe('one');
  });

  it.each([
    ['of unknown contents', whole, {}, 'not a known file of version 1.30.0'],
    ['of another hash', whole, { sha256: '00' }, 'has the SHA-256'],
    ['without the provider', { [`a/${shared}`]: 'other' }, { sha256: 'own' }, `has no ${cuda}`],
  ] as const)('refuses a package %s and writes nothing', async (_, members, given, said) => {
    const into = await empty();
    const { from, sha256 } = await packageOf(members);
    const asked = 'sha256' in given && given.sha256 === 'own' ? { sha256 } : given;
    const fixed = fixCuda({ from, ...asked }, into);
    await expect(fixed).rejects.toMatchObject({
      code: 'doctor/fix',
      message: expect.stringContaining(said) as string,
      hint: expect.any(String) as string,
    });
    expect(await readdir(into)).toEqual([]);
  });

  it('refuses what is no package, and a hash of nothing', async () => {
    await writeFile(file('text.whl'), 'no archive');
    for (const from of [file('text.whl'), file('nowhere.whl')]) {
      await expect(fixCuda({ from }, await empty())).rejects.toMatchObject({ code: 'doctor/fix' });
    }
    const { exitCode, stderr } = await runCommand('doctor', '--fix', 'cuda', '--sha256', '00');
    expect(exitCode).toBe(1);
    expect(stderr).toContain('--from');
  });

  const wheel = process.env.NOSTRAIN_CUDA_WHEEL;
  const missing =
    wheel !== undefined && existsSync(wheel)
      ? undefined
      : 'NOSTRAIN_CUDA_WHEEL names no wheel of onnxruntime-gpu 1.30.0';
  itWith(missing)(
    'takes the wheel of the pinned version, which then lacks the driver',
    async () => {
      const into = await empty();
      await fixCuda({ from: wheel! }, into);
      const problem = await cudaProblem(into);
      expect(problem).toContain('libcuda.so.1 (NVIDIA driver)');
      expect(problem).toMatch(/; the provider here is for CUDA 13$/);
    },
  );
});
