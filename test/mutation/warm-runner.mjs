/**
 * A test runner of Stryker that keeps the program loaded between changes. Stryker's own ends the thread of vitest after
 * each change and loads all modules again, which costs ten times as much as the tests. A change is only switched on, so
 * the same modules serve all of them. If a test that noticed a change also fails without it, the change before has left
 * something behind: then the thread starts anew.
 */
import { ThreadsPoolWorker } from 'vitest/node';

const { VitestTestRunner } = await import(
  new URL(
    '../../.bench/stryker/node_modules/@stryker-mutator/vitest-runner/dist/src/vitest-test-runner.js',
    import.meta.url,
  ).href
);

/** A pool of vitest with one thread, which runs on until `restart` is called. */
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
        for (const [event, listener] of this.#listeners) this.#thread.off(event, listener);
        this.#listeners = [];
      },
      on: (event, listener) => {
        this.#listeners.push([event, listener]);
        this.#thread.on(event, listener);
      },
      off: (event, listener) => {
        this.#listeners = this.#listeners.filter(([, each]) => each !== listener);
        this.#thread.off(event, listener);
      },
      send: (message) => {
        const { type, context } = message;
        if (type === 'stop') return answer('stopped');
        if (type === 'start') {
          this.#config = context.config;
          if (this.#isStarted) return answer('started');
          this.#isStarted = true;
        }
        // the configuration names the tests to run
        const config = this.#config;
        return this.#thread.send(
          context ? { ...message, context: { config, ...context } } : message,
        );
      },
    };
  }

  async restart() {
    await this.#thread?.stop();
    this.#isStarted = false;
  }
}

/** Stryker allows a hundred times as many visits to the changed place as without the change. */
const ALLOWED = 1 / 5;

class WarmTestRunner extends VitestTestRunner {
  #pool = new WarmPool();
  /** Milliseconds by test file, and the file that noticed the last change. */
  #durations = new Map();
  #lastToFail = '';

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
    const result = await super.dryRun(options);
    for (const { filepath, result } of this.ctx.state.getFiles())
      this.#durations.set(filepath, result?.duration ?? 0);
    return result;
  }

  async mutantRun(options) {
    const limited = { ...options, hitLimit: options.hitLimit && options.hitLimit * ALLOWED };
    const result = await super.mutantRun(limited);
    if (result.status !== 'killed') return result;
    this.#lastToFail = this.ctx.state
      .getFiles()
      .find((file) => file.result?.state === 'fail')?.filepath;
    const without = { ...options, activeMutant: { id: '' }, testFilter: result.killedBy };
    if ((await super.mutantRun(without)).status === 'survived') return result;
    await this.#pool.restart();
    return super.mutantRun(limited);
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
