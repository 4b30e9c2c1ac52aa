/** Decisions of validators that merge, without I/O. */
import { philox, unit } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import {
  agreeOn,
  Gate,
  nextMove,
  phasesOf,
  roundAt,
  selectBest,
  type Timing,
} from '../../src/merging/decide.ts';
import { MOST_SCORE } from '../../src/run/spec/feature-fields.ts';

const timing: Timing = {
  ...{ startMs: 1_000_000, trainMs: 60_000, scoreMs: 10_000, timeoutMs: 60_000, retries: 2 },
};

describe('the phases of a round', () => {
  it('C-12 follow each other without gaps, and clocks 3 s apart are in the same phase except at its ends', () => {
    for (const round of [0, 1, 17]) {
      const { beginMs, trainedMs, scoredMs, mergedMs, endMs } = phasesOf(timing, round);
      const lengths = [trainedMs - beginMs, scoredMs - trainedMs, mergedMs - scoredMs];
      expect([...lengths, endMs - mergedMs]).toEqual([60_000, 10_000, 120_000, 60_000]);
      expect(phasesOf(timing, round + 1).beginMs).toBe(endMs);
      for (const skewMs of [-3000, 0, 3000]) {
        // the comparison of states before a round belongs to it
        expect(roundAt(timing, beginMs - 30_000 + skewMs)).toBe(round);
        expect(roundAt(timing, beginMs + skewMs)).toBe(round);
        expect(roundAt(timing, mergedMs - 4000 + skewMs)).toBe(round);
      }
    }
    expect(roundAt(timing, 0)).toBe(0);
  });
});

describe('a merge', () => {
  it('C-04 takes the best M above the cutoff, and names those that it skips and why', () => {
    const scored = [
      { worker: 'a', score: 5 },
      { worker: 'b', score: -MOST_SCORE },
      { worker: 'c', score: 9 },
      { worker: 'd', score: 2 },
      { worker: 'e', score: 7 },
      { worker: 'f', score: 5 },
    ];
    const { merged, skipped } = selectBest(scored, { most: 3, cutoff: 2 });
    expect(merged).toEqual(['c', 'e', 'a']);
    expect(skipped.map(({ worker, reason }) => [worker, reason])).toEqual([
      ['f', 'low-score'],
      ['d', 'low-score'],
      ['b', 'not-finite'],
    ]);
    expect(selectBest([], { most: 3, cutoff: 0 }).merged).toEqual([]);
    expect(selectBest(scored, { most: 9, cutoff: -MOST_SCORE }).merged).not.toContain('b');
  });
});

interface Peer {
  readonly skewMs: number;
  readonly isOffline: boolean;
  readonly mergedAtMs: number;
  readonly arrivals: number[];
  asked: number;
  endedMs: number | undefined;
}

const MOST_DELAY_MS = 100_000;

const TICK_MS = 1000;

/** Plays the exchange of one to five validators over a network that delays and loses messages. */
function playExchange(seed: number) {
  let at = 0;
  const draw = () => unit(philox([seed, 38], at++, 0, 0, 0)[0]);
  const phases = phasesOf(timing, 0);
  const count = 1 + Math.floor(5 * draw());
  const peers: Peer[] = Array.from({ length: count }, () => ({
    skewMs: 6000 * draw() - 3000,
    isOffline: draw() < 0.2,
    mergedAtMs: phases.trainedMs + draw() * timing.scoreMs,
    ...{ arrivals: [], asked: 0, endedMs: undefined },
  }));
  const due: { readonly atMs: number; run(): void }[] = [];
  const send = (nowMs: number, run: () => void) => {
    if (draw() < 0.7) due.push({ atMs: nowMs + MOST_DELAY_MS * draw() ** 4, run });
  };
  const online = peers.filter(({ isOffline }) => !isOffline);
  const sendMerge = (from: Peer, to: Peer, nowMs: number) => {
    send(nowMs, () => {
      const index = peers.indexOf(from);
      if (!to.arrivals.includes(index)) to.arrivals.push(index);
    });
  };
  for (const from of online) {
    for (const to of online) {
      if (to !== from)
        due.push({ atMs: from.mergedAtMs, run: () => sendMerge(from, to, from.mergedAtMs) });
    }
  }
  for (let nowMs = phases.trainedMs; nowMs < phases.endMs; nowMs += TICK_MS) {
    for (const each of due.splice(0)) each.atMs <= nowMs ? each.run() : due.push(each);
    for (const peer of online) {
      const localMs = nowMs + peer.skewMs;
      if (peer.endedMs !== undefined || nowMs < peer.mergedAtMs) continue;
      const counts = {
        arrived: peer.arrivals.length,
        expected: count - 1,
        requests: peer.asked,
      };
      const move = nextMove(counts, phases, timing, localMs);
      if (move.type === 'step') peer.endedMs = localMs;
      if (move.type !== 'ask') continue;
      peer.asked++;
      for (const from of online) if (from !== peer) send(nowMs, () => sendMerge(from, peer, nowMs));
    }
  }
  return { phases, online, count };
}

describe('an exchange', () => {
  it('C-06 always ends within its phase: 1,000 seeded runs with delays, losses, absences and skewed clocks', () => {
    let timeouts = 0;
    for (let seed = 1; seed <= 1000; seed++) {
      const { phases, online, count } = playExchange(seed);
      for (const { endedMs, arrivals, asked } of online) {
        expect(endedMs, `seed ${seed}`).toBeLessThan(phases.mergedMs + TICK_MS);
        expect(asked).toBeLessThan(timing.retries);
        const isTimeout = endedMs! >= phases.mergedMs;
        if (!isTimeout) expect(arrivals).toHaveLength(count - 1);
        if (isTimeout) timeouts++;
      }
    }
    expect(timeouts).toBeGreaterThan(300);
  });

  it('C-06 asks after each timeout, and steps at the end of the phase with what it has', () => {
    const phases = phasesOf(timing, 0);
    const at = (ms: number, asked: number, arrived = 1) =>
      nextMove({ arrived, expected: 2, requests: asked }, phases, timing, phases.scoredMs + ms);
    expect(at(0, 0)).toEqual({ type: 'wait', untilMs: phases.scoredMs + 60_000 });
    expect(at(60_000, 0)).toEqual({ type: 'ask' });
    expect(at(60_000, 1)).toEqual({ type: 'wait', untilMs: phases.mergedMs });
    expect(at(120_000, 1)).toEqual({ type: 'step' });
    expect(at(10, 0, 2)).toEqual({ type: 'step' });
  });
});

describe('the state that counts', () => {
  const tie = (worker: string) => worker.charCodeAt(0);
  const states = (...digests: readonly string[]) =>
    new Map(digests.map((digest, i) => ['cba'[i]!, digest]));

  it('C-07 is that of most validators, of equally many the one drawn first, and names the others', () => {
    expect(agreeOn(states('1', '2', '1'), tie)).toEqual({
      digest: '1',
      agreeing: ['c', 'a'],
      lonely: ['b'],
    });
    expect(agreeOn(states('1', '2', '3'), tie)?.digest).toBe('3');
    expect(agreeOn(states('1', '1'), tie)?.lonely).toEqual([]);
    expect(agreeOn(new Map(), tie)).toBeUndefined();
  });
});

describe('messages between validators', () => {
  const gate = () => new Gate(['a', 'b'], ['w']);
  const message = (more: object = {}) => ({
    ...{ key: 'a', step: 'merge', nonce: '1', createdAt: 1000 },
    ...more,
  });

  it('C-11 count only from validators; other workers may only ask for states', () => {
    expect(gate().refusal(message(), 1000)).toBeUndefined();
    expect(gate().refusal(message({ key: 'x' }), 1000)).toContain('not a validator');
    expect(gate().refusal(message({ key: 'w' }), 1000)).toContain('not a validator');
    expect(gate().refusal(message({ key: 'w', step: 'ask-state' }), 1000)).toBeUndefined();
    expect(gate().refusal(message({ key: 'w', step: 'ask-merge' }), 1000)).toBeDefined();
  });

  it('C-11 are refused more than 30 s from the local clock, and an hour', () => {
    for (const seconds of [-30, 30]) {
      expect(gate().refusal(message(), 1000 + seconds)).toBeUndefined();
    }
    for (const seconds of [-31, 31, -3600, 3600]) {
      expect(gate().refusal(message(), 1000 + seconds)).toContain('s from the local clock');
    }
  });

  it('C-11 are refused with a nonce that was used before, as long as their date would count', () => {
    const one = gate();
    expect(one.refusal(message(), 970)).toBeUndefined();
    for (const now of [970, 1000, 1030]) {
      expect(one.refusal(message({ createdAt: now }), now)).toContain('used before');
    }
    expect(one.refusal(message({ nonce: '2' }), 1000)).toBeUndefined();
    expect(one.refusal(message({ key: 'b' }), 1000)).toBeUndefined();
  });

  it('C-11 of one validator are bounded, and do not bound those of another', () => {
    const one = gate();
    const sent = Array.from({ length: 300 }, (_, i) =>
      one.refusal(message({ nonce: `${i}` }), 1000),
    );
    expect(sent.filter((why) => why === undefined)).toHaveLength(256);
    expect(sent.at(-1)).toContain('in a minute');
    expect(one.refusal(message({ key: 'b' }), 1000)).toBeUndefined();
    expect(one.refusal(message({ nonce: 'later', createdAt: 1100 }), 1100)).toBeUndefined();
  });
});
