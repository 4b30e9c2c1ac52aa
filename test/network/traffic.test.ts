/** Runs that share a relay do not pay for each other's traffic. */

import { createSigner, type OpenSocket, type Socket } from 'nostrain/network';
import { expect, it } from 'vitest';
import { largeLayout, type Member, secretOf, smallLayout, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const { relay, start } = stage;

/** Sockets that count the bytes of messages in which one of these words occurs. */
function countWords(words: readonly string[]): {
  readonly open: OpenSocket;
  readonly bytes: () => number;
} {
  let bytes = 0;
  const open: OpenSocket = (url) => {
    const inner = stage.openSocket(url);
    const outer: Socket = {
      get bufferedAmount() {
        return inner.bufferedAmount;
      },
      onopen: undefined,
      onmessage: undefined,
      onerror: undefined,
      onclose: undefined,
      send: (text) => inner.send(text),
      close: () => inner.close(),
    };
    inner.onopen = () => outer.onopen?.();
    inner.onerror = (message) => outer.onerror?.(message);
    inner.onclose = (code, reason) => outer.onclose?.(code, reason);
    inner.onmessage = (text, length) => {
      if (words.some((word) => text?.includes(word))) bytes += length;
      outer.onmessage?.(text, length);
    };
    return outer;
  };
  return { open, bytes: () => bytes };
}

it('N-21: a worker downloads next to nothing of a run with ten times the traffic on its relay', async () => {
  const { url } = relay();
  const plan = { sync: { strategy: 'strict', workers: 2 }, waitFor: 2, rounds: 3 } as const;
  const theirKeys = [2, 3].map((index) => createSigner(secretOf(index)).publicKey);
  const [overheard, heard] = [countWords(theirKeys), countWords(theirKeys)];
  const common = { relays: [url] };
  const ours = [0, 1].map(
    (index) =>
    start({ ...common, index, layout: smallLayout, plan: { ...plan, run: 'quiet-run' }, openSocket: overheard.open }), // biome-ignore format: one worker
  );
  const theirs = [2, 3].map((index) =>
    start({
      ...common,
      index,
      layout: largeLayout,
      plan: { ...plan, run: 'busy-run' },
      openSocket: heard.open,
    }),
  );
  await Promise.all([...ours, ...theirs].map(({ finished }) => finished));
  const sent = (members: readonly Member[]) =>
    members.reduce((sum, { wire }) => sum + wire.traffic().bytesSent, 0);
  expect(sent(theirs)).toBeGreaterThan(10 * sent(ours));
  expect(heard.bytes()).toBeGreaterThan(sent(theirs)); // the count sees what it is for: each hears both
  expect(overheard.bytes()).toBeLessThan(0.05 * sent(theirs));
});
