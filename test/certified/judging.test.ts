/** How often an outcome with missing evidence is judged. */
import { expect, it } from 'vitest';
import { lacking } from '../../src/certified/decisions/evidence.ts';
import { ASK_MS, Judge } from '../../src/certified/rounds/judging.ts';

/** A judge of an outcome that lists `count` contributions, all of them missing. */
function stage(listed: readonly string[]) {
  const here = new Set<string>();
  const asked: (readonly string[])[] = [];
  let [reads, nowMs] = [0, 1_000_000];
  const apply = () => {
    reads++;
    const away = listed.filter((id) => !here.has(id));
    return away.length === 0
      ? { ok: true, value: {} }
      : lacking(...away.map((id) => ({ what: 'event', id }) as const));
  };
  const ports = {
    ...{ apply, clock: { now: () => nowMs }, reporter: { lacking: () => undefined } },
    evidence: { message: (id: string) => (here.has(id) ? { type: 'manifest' } : undefined) },
    branches: { stuck: () => undefined },
    features: [],
  };
  const host = { fetch: (ids: readonly string[]) => void asked.push(ids) };
  const judge = new Judge({ ports, state: {}, context: { round: 0 } } as never, host as never);
  const outcome = { accepted: [], round: 0 };
  return {
    ...{ here, asked },
    reads: () => reads,
    pass: (ms: number) => {
      nowMs += ms;
    },
    isDone: () => judge.finish(outcome as never, { digest: 'd' } as never) !== undefined,
  };
}

it('judges an outcome again when some of its missing evidence arrives, not on every arrival', () => {
  const ids = Array.from({ length: 64 }, (_, i) => `manifest ${i}`);
  const { here, asked, reads, pass, isDone } = stage(ids);
  for (let seconds = 0; seconds < 60; seconds++) {
    for (let events = 0; events < 10; events++) expect(isDone()).toBe(false);
    pass(ASK_MS);
  }
  expect(reads()).toBe(1);
  // the evidence is requested all the same
  expect(asked).toHaveLength(60);
  expect(asked.every((missing) => missing.length === 64)).toBe(true);

  // one after the other, ten per second
  for (const [i, id] of ids.entries()) {
    here.add(id);
    expect(isDone()).toBe(i === 63);
    if (i % 10 === 9) pass(ASK_MS);
  }
  expect(reads()).toBeLessThanOrEqual(9);
});

it('judges again within a second if only some evidence arrived: it may already be invalid', () => {
  const { here, reads, pass, isDone } = stage(['first', 'second']);
  expect(isDone()).toBe(false);
  here.add('first');
  pass(ASK_MS);
  expect(isDone()).toBe(false);
  expect(reads()).toBe(2);
});
