// Jest's environment of Node.js, which takes back what a test file leaves in its process.
//
// Each file loads its modules anew, and with them the async contexts of Temporal's SDK. Node.js keeps a context that
// was used once, and tells it of each promise of the process: after some files that is much of what a test costs.
import { AsyncLocalStorage } from 'node:async_hooks';
import { TestEnvironment } from 'jest-environment-node';

/**
 * Threads of workflows that no worker has (`kept-threads.ts`): a process keeps them from one file to the next.
 *
 * @type {import('./kept-threads.ts').KeptThread[]}
 */
const keptThreads = [];

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
  }

  async teardown() {
    await super.teardown();
    for (const context of used) context.disable();
    used.clear();
  }
}
