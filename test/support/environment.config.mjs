// Jest's environment of Node.js, which takes back what a test file leaves in its process.
//
// Each file loads its modules anew, and with them the async contexts of Temporal's SDK. Node.js keeps a context that
// was used once, and tells it of each promise of the process: after some files that is much of what a test costs.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { TestEnvironment } from 'jest-environment-node';

const require = createRequire(import.meta.url);

/** More workers at once are rare, and each thread has a hundred megabytes. */
const MOST_KEPT = 2;

/** Oldest first. @type {Set<{kind: string, thread: import('node:worker_threads').Worker}>} */
const kept = new Set();

/**
 * A process keeps threads from one file to the next (`kept-threads.ts`). What they call lies here, or they would hold
 * on to the file that they come from.
 *
 * @type {import('./kept-threads.ts').KeptThreads}
 */
const keptThreads = {
  take: (kind) => {
    const taken = [...kept].find((each) => each.kind === kind);
    if (taken === undefined) return undefined;
    kept.delete(taken);
    taken.thread.removeAllListeners('error').removeAllListeners('exit').ref();
    return taken.thread;
  },
  keep: async (kind, thread) => {
    const own = { kind, thread };
    // One that fails or ends by itself is nobody's.
    const drop = () => void kept.delete(own);
    thread.on('error', drop).on('exit', drop).unref();
    kept.add(own);
    const [oldest] = kept;
    if (kept.size <= MOST_KEPT || oldest === undefined) return;
    // Nobody takes a thread that is ending.
    kept.delete(oldest);
    await oldest.thread.terminate();
  },
};

/** Modules without state, which test files share (`loaded-once/`, by the names in `jest.config.mjs`). */
const loadedOnce = {
  /** @returns {unknown} */
  proto: () => require('@temporalio/proto'),
  /** @returns {unknown} */
  protojson: () => require('protobufjs/ext/protojson'),
};

/** @type {Set<AsyncLocalStorage<unknown>>} */
const used = new Set();
const { run, enterWith } = AsyncLocalStorage.prototype;
AsyncLocalStorage.prototype.run = function (...args) {
  used.add(this);
  return run.apply(this, args);
};
AsyncLocalStorage.prototype.enterWith = function (...args) {
  used.add(this);
  return enterWith.apply(this, args);
};

export default class extends TestEnvironment {
  /** @param {ConstructorParameters<typeof TestEnvironment>} args */
  constructor(...args) {
    super(...args);
    this.global['keptThreads'] = keptThreads;
    this.global['loadedOnce'] = loadedOnce;
  }

  async teardown() {
    await super.teardown();
    for (const context of used) context.disable();
    used.clear();
  }
}
