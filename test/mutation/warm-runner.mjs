/**
 * A test runner for Stryker that keeps the program loaded between changes. Stryker's own runner ends vitest's thread
 * after each change, and loading all modules again takes ten times as long as the tests. All changes are in the loaded
 * code, and one is switched on at a time. If a test that notices a change fails without it too, an earlier change has
 * left something behind in memory: the thread starts again, and the tests run once more.
 */
import { ThreadsPoolWorker } from 'vitest/node';

const { VitestTestRunner } = await import(
  new URL(
    '../../.bench/stryker/node_modules/@stryker-mutator/vitest-runner/dist/src/vitest-test-runner.js',
    import.meta.url,
  ).href
);

/** A vitest pool with one thread, which runs until `restart` is called. */
class WarmPool {
  name = 'warm';
  #thread;
  #isStarted = false;
  #listeners = [];
  #config;

  createPoolWorker(options) {
    this.#thread ??= new ThreadsPoolWorker(options);
    const answer = (type) => {
      const message = { type, __vitest_worker_response__: true };
      for (const [event, listener] of this.#listeners) if (event === 'message') listener(message);
    };
    return {
      name: this.name,
      deserialize: (data) => data,
      start: async () => {
        if (!this.#isStarted) await this.#thread.start();
      },
      stop: async () => {
        if (this.#isStarted)
          for (const [event, listener] of this.#listeners) this.#thread.off(event, listener);
        this.#listeners = [];
      },
      on: (event, listener) => {
        this.#listeners.push([event, listener]);
        this.#thread.on(event, listener);
      },
      off: (event, listener) => {
        this.#listeners = this.#listeners.filter(([, each]) => each !== listener);
        if (this.#isStarted) this.#thread.off(event, listener);
      },
      send: (message) => {
        const { type, context } = message;
        if (type === 'stop') return answer('stopped');
        if (type === 'start') {
          this.#config = context.config;
          if (this.#isStarted) return answer('started');
          this.#isStarted = true;
        }
        // vitest sends the names of the tests to run only when a thread starts
        const config = this.#config;
        return this.#thread.send(
          context ? { ...message, context: { config, ...context } } : message,
        );
      },
    };
  }

  get isStarted() {
    return this.#isStarted;
  }

  async restart() {
    if (!this.#isStarted) return;
    this.#isStarted = false;
    await this.#thread.stop();
  }
}

/** Processor time, in milliseconds, that the tests of a change may take beyond their usual time. */
const EXTRA_MS = 1500;
const POLL_MS = 200;
/**
 * A run that uses less processor time than `BUSY_MS` during so many polls waits for something that does not come. Polls
 * that are late do not count: others have the processor.
 */
const IDLE_POLLS = 75;
const BUSY_MS = 100;
/** Visits of the changed place, as a multiple of those without the change, that make an endless loop. Stryker has 100. */
const ENDLESS = 10;
/** How long a run may take to end after its thread was stopped. If it takes longer, the next change gets a new process. */
const END_MS = 20_000;

function millisecondsSince(before) {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

class WarmTestRunner extends VitestTestRunner {
  #pool = new WarmPool();
  /** Milliseconds by test file and by test, and the file that noticed the last change. */
  #durations = new Map();
  #lastToFail = '';
  /** Processor time of the first run, which loads all modules. */
  #loadMs = 0;
  #isStuck = false;

  async init() {
    await super.init();
    const rank = ({ moduleId }) =>
      moduleId === this.#lastToFail ? -1 : (this.#durations.get(moduleId) ?? 0);
    const sort = async (files) => [...files].sort((a, b) => rank(a) - rank(b));
    this.ctx.config.sequence.sequencer = class {
      sort = sort;
    };
    for (const { config } of this.ctx.projects)
      Object.assign(config, { pool: this.#pool.name, poolRunner: this.#pool });
  }

  async dryRun(options) {
    const [before, started] = [process.cpuUsage(), performance.now()];
    const result = await super.dryRun(options);
    this.#loadMs = millisecondsSince(before);
    // a busy machine takes longer for the same work
    const share = Math.min(1, this.#loadMs / (performance.now() - started));
    for (const { filepath, result } of this.ctx.state.getFiles())
      this.#durations.set(filepath, result?.duration ?? 0);
    for (const { id, timeSpentMs } of result.tests ?? [])
      this.#durations.set(id, share * timeSpentMs);
    return result;
  }

  async mutantRun(options) {
    const every = Number(process.env.NOSTRAIN_MUTATION_EVERY);
    if (options.activeMutant.id % every > 0)
      return { status: 'error', errorMessage: 'not in the sample' };
    // Stryker starts a new process, which tries this change again
    if (this.#isStuck) process.exit(1);
    // a process that replaces another does not know yet how long the tests take
    if (this.#loadMs === 0) await this.dryRun({});
    const result = await this.#limited(options);
    if (result.status !== 'killed') return result;
    const failed = this.ctx.state.getFiles().find(({ result }) => result?.state === 'fail');
    this.#lastToFail = failed?.filepath;
    const without = { ...options, activeMutant: { id: '' }, testFilter: result.killedBy };
    if ((await super.mutantRun(without)).status === 'survived') return result;
    await this.#pool.restart();
    return this.#limited(options);
  }

  /** Runs the tests, and ends them after too much processor time or if they wait for ever; a busy machine is no reason. */
  async #limited(options) {
    const tests = options.testFilter ?? [];
    const usual = tests.reduce((sum, id) => sum + (this.#durations.get(id) ?? 0), 0);
    const mostMs = EXTRA_MS + usual + (this.#pool.isStarted ? 0 : this.#loadMs);
    const before = process.cpuUsage();
    let isOver = false;
    let giveUp = () => {};
    const stuck = new Promise((resolve) => {
      giveUp = resolve;
    });
    let [idle, usedMs, atMs] = [0, 0, performance.now()];
    const poll = setInterval(() => {
      const ms = millisecondsSince(before);
      const isOnTime = performance.now() - atMs < 2 * POLL_MS;
      if (ms - usedMs > BUSY_MS) [idle, usedMs] = [0, ms];
      else if (isOnTime) idle++;
      atMs = performance.now();
      if (isOver || (ms < mostMs && idle < IDLE_POLLS)) return;
      isOver = true;
      void this.#pool.restart();
      setTimeout(() => giveUp('stuck'), END_MS).unref();
    }, POLL_MS);
    const hitLimit = options.hitLimit && (options.hitLimit * ENDLESS) / 100;
    const result = await Promise.race([super.mutantRun({ ...options, hitLimit }), stuck]);
    clearInterval(poll);
    this.#isStuck = result === 'stuck';
    return isOver ? { status: 'timeout', reason: 'too much processor time, or none' } : result;
  }

  async dispose() {
    await super.dispose();
    await this.#pool.restart();
  }
}

const inject = ['options', 'logger'];
const create = (options, log) => new WarmTestRunner(options, log, '__stryker__');
export const strykerPlugins = [
  { kind: 'TestRunner', name: 'warm', factory: Object.assign(create, { inject }) },
];
