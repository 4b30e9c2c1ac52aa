/** Starts relays and workers for a test, and stops them when the test ends. */

import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { afterEach } from 'vitest';

export interface Stage<Options, Member> {
  /** Opens a relay. */
  relay(options?: RelayOptions): Promise<Relay>;
  /** Starts a worker. */
  start(options: Options): Member;
}

/** Registers the cleanup, so call it while tests are declared. Workers stop before their relays close. */
export function createStage<Options, Member extends { stop(): void }>(
  startMember: (options: Options) => Member,
): Stage<Options, Member> {
  const open: Relay[] = [];
  const started: Member[] = [];
  afterEach(async () => {
    for (const member of started.splice(0)) member.stop();
    for (const one of open.splice(0)) await one.close();
  });
  return {
    async relay(options) {
      const one = await createRelay(options);
      open.push(one);
      return one;
    },
    start(options) {
      const member = startMember(options);
      started.push(member);
      return member;
    },
  };
}
