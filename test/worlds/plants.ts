/** Bugs to plant in the program, one at a time: worlds have to find each of them. */

/** A change of one file: text that occurs once in it, and what replaces it. */
export interface Edit {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export interface Plant {
  readonly name: string;
  /** More than one where the program has a second defence. */
  readonly edits: readonly Edit[];
}

const edit = (file: string, from: string, to: string): Edit => ({ file: `src/${file}`, from, to });

const plant = (name: string, ...change: Parameters<typeof edit>): Plant => ({
  name,
  edits: [edit(...change)],
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
  {
    name: 'votes-after-lost-disk',
    edits: [
      edit('certified/rounds/journal.ts', 'voteFrom: hasForgotten ? 1 : 0', 'voteFrom: 0'),
      edit(
        'certified/rounds/journal.ts',
        'if (isReturning) this.#isSittingOut ||= isForgotten || !this.#isClean;',
        'if (isReturning) this.#isSittingOut = false;',
      ),
    ],
  },
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
  plant(
    'reveal-reused',
    'consensus/committee/randomness.ts',
    'toHex(advance(start, rounds - round))',
    'toHex(advance(start, rounds - 1))',
  ),
  plant(
    'proofs-not-listed',
    'certified/rounds/compose.ts',
    'const faults = faultsOf(chain, evidence, roster);',
    'const faults = faultsOf(chain, evidence, roster).slice(1);',
  ),
  plant(
    'update-sent-before-saved',
    'worker/train.ts',
    'await session.ports.store.save(sealed);',
    'void Promise.resolve().then(() => session.ports.clock.sleep(1)).then(() => session.ports.store.save(sealed));',
  ),
  plant(
    'records-without-votes',
    'certified/rounds/keep-round.ts',
    '[proposal, ...commits, ...ballots, ...outcome.ballots, ...outcome.faults]',
    '[proposal, ...ballots, ...outcome.ballots, ...outcome.faults]',
  ),
  plant(
    'closes-at-once',
    'consensus/round/timing.ts',
    'beginning.begun + graceOf(context.delays, context.timing),',
    'beginning.begun,',
  ),
  plant(
    'void-at-any-time',
    'consensus/round/phases.ts',
    'state.view >= context.timing.voidView || state.closed?.empty === true',
    'true',
  ),
  plant(
    'milliseconds-for-seconds',
    'certified/rounds/compose.ts',
    'time: Math.floor(nowMs / 1000),',
    'time: Math.floor(nowMs),',
  ),
  plant(
    'rows-in-order-of-arrival',
    'certified/rounds/compose.ts',
    'accepted: rows.sort((a, b) => a.index - b.index || Number(a.late) - Number(b.late)),',
    'accepted: rows,',
  ),
  plant(
    'prepares-twice',
    'consensus/round/phases.ts',
    "  // a member that committed in this view has already seen a quorum of prepares\n  if (!isVoting(activation) || hasSigned(state, 'prepare') || hasSigned(state, 'commit'))\n    return false;",
    "  if (!isVoting(activation) || hasSigned(state, 'commit')) return false;",
  ),
  plant(
    'chain-not-checked',
    'consensus/round/receive.ts',
    'if (message.run !== context.run || message.parent !== context.parent) {',
    'if (message.run !== context.run) {',
  ),
];
