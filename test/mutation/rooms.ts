/** The rooms that `npm run mutate` changes, with the unit tests that must notice. Paths are relative to the repository. */

export interface MutationRoom {
  readonly sources: readonly string[];
  readonly tests: readonly string[];
  /** Test files that play whole runs: they would run for every change. */
  readonly without?: readonly string[];
  /** Names of tests that sample for a second or more, left out for the same reason. */
  readonly slow?: RegExp;
  /** Percent of the changes that the tests must notice. */
  readonly target: number;
}

export const mutationRooms: Readonly<Record<string, MutationRoom>> = {
  consensus: {
    sources: ['src/consensus/*.ts', 'src/consensus/{aggregate,outer}/*.ts'],
    tests: ['test/consensus/*.test.ts', 'test/consensus/{aggregate,outer}/*.test.ts'],
    // each part of these combinations is compared with NumPy in a quicker one too
    slow: /(nnm \+ (coordinate-median|geometric-median|trimmed-mean)|bucketing \+ centered-clip) T-02/,
    target: 85,
  },
  committee: {
    sources: ['src/consensus/committee/*.ts'],
    tests: ['test/consensus/committee/*.test.ts'],
    slow: /R-04|R-05|ten thousand|1,000 committees/,
    target: 85,
  },
  placement: {
    sources: ['src/consensus/placement/*.ts'],
    tests: ['test/consensus/placement/*.test.ts'],
    slow: /R-12|gives more to/,
    target: 85,
  },
  rounds: {
    sources: ['src/consensus/round/*.ts'],
    tests: ['test/consensus/round/*.test.ts'],
    without: ['model-check', 'many-joins'].map((name) => `**/${name}.test.ts`),
    slow: /R-07|sampled recovery (45|30|grind)|live no outcome|silent newcomers \d/,
    target: 85,
  },
  certified: {
    sources: [
      'src/certified/{decisions,records}/*.ts',
      'src/certified/features/{scores,screening}.ts',
    ],
    tests: [
      'test/certified/{admission*,archives,certificate,chain,coming-late,contributions,counted,delegation,ejected}.test.ts',
      'test/certified/{evidence*,expert-chunks,fork-run,founders,late,leave-holds,machines,messages}.test.ts',
      'test/certified/{model-step,opinion,outcome-checks,reports,screen,sliced-run,verdicts}.test.ts',
      'test/certified/{judging,receipt,records,refresh,replay,rules,scoring,screening,senders,slices}.test.ts',
    ],
    slow: /lose no view|lose none|detects any changed byte|larger than their|any run replays|owners and moves|across a restart|the old join of|lists it is invalid|marks a worker below|waited for in each|every round changes|owns no chunk|a confidential run l|refuses its own worker|nostrain run fork|eight generations/,
    target: 85,
  },
  worker: {
    sources: ['src/worker/**/*.ts'],
    tests: [
      'test/worker/*.test.ts',
      'test/consensus/scores.test.ts',
      'test/certified/{removed-packing,scoring}.test.ts',
    ],
    // whole runs: of every payload, over throttled or faulty relays, against the result of one worker
    without: [
      ...['chunked-payloads', 'error-feedback', 'fragments', 'hostile-relays'],
      ...['owned-chunks', 'proof-of-work', 'shared-address'],
    ].map((name) => `**/${name}.test.ts`),
    slow: /middle of its inner phase|T-02|a budget of seconds|same bits for all|E-08|killed after any save|N-08|zstd/,
    target: 75,
  },
  slices: {
    sources: ['src/model/architectures/slices.ts', 'src/certified/decisions/slices.ts'],
    tests: [
      'test/model/architectures/slice*.test.ts',
      'test/certified/{model-step,slices}.test.ts',
    ],
    target: 75,
  },
  directory: {
    sources: ['src/network/directory/**/*.ts'],
    tests: ['test/network/directory/**/*.test.ts'],
    slow: /R-16: (does so among|finds every chunk|accomplices|a liar)|at most 60 announcements/,
    target: 75,
  },
  chunks: {
    sources: ['src/network/chunks/**/*.ts'],
    tests: ['test/network/chunks/**/*.test.ts'],
    slow: /R-17|R-18|R-15|every chunk of every shape|overtaken/,
    target: 75,
  },
};
