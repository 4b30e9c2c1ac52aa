/** Bugs to plant in the program, one at a time: worlds have to find each of them. */

export interface Plant {
  readonly name: string;
  readonly file: string;
  /** Text of the file, which occurs once, and what replaces it. */
  readonly from: string;
  readonly to: string;
}

const plant = (name: string, file: string, from: string, to: string): Plant => ({
  ...{ name, from, to },
  file: `src/${file}`,
});

export const plants: readonly Plant[] = [
  plant(
    'quorum-off-by-one',
    'consensus/committee/quorum.ts',
    'Math.floor((2 * seats) / 3) + 1',
    'Math.floor((2 * seats) / 3)',
  ),
  plant(
    'lock-forgotten',
    'consensus/round/phases.ts',
    'if (lock !== null) return prepared !== undefined && !isAfter(lock, prepared);',
    '',
  ),
  plant(
    'prepares-decide',
    'consensus/round/phases.ts',
    "counts(activation.state.votes, 'commit')",
    "counts(activation.state.votes, 'prepare')",
  ),
  plant(
    'first-vote-saved-only',
    'certified/rounds/round-driver.ts',
    'return this.#options.ports.journal.save(this.entry);',
    'if (this.#machine.sent.length < 2) return this.#options.ports.journal.save(this.entry); return Promise.resolve();',
  ),
  plant(
    'votes-after-lost-disk',
    'certified/rounds/journal.ts',
    'voteFrom: hasForgotten ? 1 : 0',
    'voteFrom: 0',
  ),
  plant(
    'returns-without-memory',
    'certified/rounds/journal.ts',
    'if (isReturning) this.#isSittingOut ||= isForgotten || !this.#isClean;',
    'if (isReturning) this.#isSittingOut = false;',
  ),
  plant(
    'grace-never-ends',
    'consensus/round/machine.ts',
    'if (remainingMs > 0 && !hasAll(context, state))',
    'if (!hasAll(context, state))',
  ),
  plant(
    'no-skew-allowed',
    'consensus/round/timing.ts',
    'viewAfter(timing.viewMs, now + timing.skewMs - since)',
    'viewAfter(timing.viewMs, now - since)',
  ),
  plant(
    'signatures-unchecked',
    'network/transport/inbox.ts',
    'if (!verified.ok) return refusedBy(verified, claimed);',
    '',
  ),
  plant(
    'epoch-never-ends',
    'consensus/round/machine.ts',
    'attemptEnds: recoveryMs === 0 ? Number.MAX_SAFE_INTEGER : at + recoveryMs',
    'attemptEnds: Number.MAX_SAFE_INTEGER',
  ),
];
