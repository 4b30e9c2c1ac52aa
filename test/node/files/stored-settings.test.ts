import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from 'nostrain/base';
import { createLayout } from 'nostrain/tensor';
import { encodeState, genesis, noMembers } from 'nostrain/worker';
import { beforeEach, describe, expect, it } from 'vitest';
import { agreeOnSettings, keptSettings } from '../../../src/node/files/stored-settings.ts';
import { temporaryFolder } from '../../support/processes.ts';

let dir: string;
beforeEach(() => {
  dir = temporaryFolder();
});

const before = { run: 'r', rounds: 5, shard: '1/2', relay: ['ws://a'], roundTimeout: 60 };
const kept = async () => JSON.parse(await readFile(join(dir, 'settings.json'), 'utf8'));

/** A run with these settings that has played so many rounds. */
async function begun(round = 0): Promise<void> {
  await mkdir(dir, { recursive: true });
  await agreeOnSettings(dir, before);
  const layout = createLayout([{ name: 'w', shape: [2] }]);
  const state = { ...genesis({ layout, values: new Float32Array(2) }, 1), round };
  await writeFile(join(dir, 'state.safetensors'), encodeState(state, noMembers));
}

describe('the settings', () => {
  it('are kept, and may be repeated', async () => {
    await begun();
    expect(await kept()).toEqual(before);
    await agreeOnSettings(dir, before);
  });

  it('that matter cannot change: both values are named, and what to leave out', async () => {
    await begun();
    const changed = agreeOnSettings(dir, { ...before, rounds: 6, shard: '2/2' });
    await expect(changed).rejects.toThrow(ConfigError);
    await expect(changed).rejects.toThrow('rounds 5 -> 6, shard "1/2" -> "2/2"');
    await expect(changed).rejects.toMatchObject({
      hint: expect.stringContaining('leave out --rounds, --shard to resume that run'),
    });
    expect(await kept()).toEqual(before);
  });

  it('that an earlier version did not store have their defaults', async () => {
    await begun();
    const changed = agreeOnSettings(dir, { ...before, topk: 0.5 });
    await expect(changed).rejects.toThrow('topk 1 -> 0.5');
    await agreeOnSettings(dir, { ...before, topk: 1, experts: 0, groups: [] });
  });

  it('that no longer exist are left out; a run that they changed is refused', async () => {
    await begun();
    const older = (adapterTrain: string) =>
      writeFile(join(dir, 'settings.json'), JSON.stringify({ ...before, adapterTrain }));
    await older('b');
    await expect(keptSettings(dir)).rejects.toMatchObject({
      code: 'settings/unknown',
      hint: expect.stringContaining('adapters train both matrices'),
    });
    await expect(agreeOnSettings(dir, before)).rejects.toThrow(
      'there is no setting "adapterTrain"',
    );
    await older('both');
    expect(await keptSettings(dir)).not.toHaveProperty('adapterTrain');
    await agreeOnSettings(dir, before);
    expect(await kept()).toEqual(before);
  });

  it('of the surroundings may change, and when a round closes', async () => {
    await begun();
    const now = { ...before, relay: ['ws://b'], roundTimeout: 5, sync: 'strict:3' };
    await agreeOnSettings(dir, now);
    expect(await kept()).toEqual(now);
  });

  it('of a start that failed bind nobody', async () => {
    await agreeOnSettings(dir, before);
    expect(await keptSettings(dir)).toEqual({});
    await agreeOnSettings(dir, { ...before, shard: '2/2' });
    expect(await kept()).toMatchObject({ shard: '2/2' });
  });

  it('go on as they were where nothing else is asked for', async () => {
    await begun(2);
    expect(await keptSettings(dir)).toEqual({
      ...before,
      shard: { index: 1, count: 2 },
    });
  });

  it('more rounds extend the run; fewer than were played cannot be', async () => {
    await begun(3);
    const extend = (rounds: number) => {
      return agreeOnSettings(dir, { ...before, rounds }, { mayExtend: true });
    };
    await extend(9);
    expect(await kept()).toMatchObject({ rounds: 9 });
    await expect(extend(2)).rejects.toThrow('has played 3 rounds, and --rounds is 2');
    expect(await kept()).toMatchObject({ rounds: 9 });
  });

  it.each(['', '{"run":', '[]', 'null'])('in a broken file (%j) are named', async (text) => {
    await writeFile(join(dir, 'settings.json'), text);
    await expect(agreeOnSettings(dir, before)).rejects.toMatchObject({
      name: 'CheckpointError',
      message: expect.stringContaining('settings.json does not hold'),
    });
  });
});
