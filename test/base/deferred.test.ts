import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { deferred, firstOf } from '../../src/base/deferred.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

describe('the first of some promises', () => {
  it('is the one that settles first, with its value or its reason', async () => {
    const [a, b] = [deferred<string>(), deferred<string>()];
    const first = firstOf([a.promise, b.promise]);
    b.settle('b');
    a.settle('a');
    expect(await first).toBe('b');
    expect(await firstOf([a.promise, b.promise])).toBe('a');
    const broken = Promise.reject(new Error('no'));
    await expect(firstOf([deferred().promise, broken])).rejects.toThrow('no');
    await expect(firstOf([deferred().promise, broken])).rejects.toThrow('no');
  });

  it('ends several races that wait for the same one', async () => {
    const { promise, settle } = deferred<number>();
    const races = [1, 2, 3].map(() => firstOf([promise, deferred<number>().promise]));
    settle(7);
    expect(await Promise.all(races)).toEqual([7, 7, 7]);
  });

  it('does not stay in memory with a promise that never settles', async () => {
    const never = deferred<object>();
    const values = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const value = new WeakRef({ large: true });
        await firstOf<object>([never.promise, Promise.resolve(value.deref()!)]);
        return value;
      }),
    );
    await new Promise((resolve) => setTimeout(resolve));
    collect();
    expect(values.filter((value) => value.deref())).toEqual([]);
    never.settle({});
  });
});
