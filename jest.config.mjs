// Jest over ESM TypeScript: swc strips the types, `tsc -b` checks them. Run through `npm test`, or `node
// --experimental-vm-modules node_modules/jest/bin/jest.js`.
import { SUITES } from './scripts/suites.mjs';

const shared = {
  testEnvironment: '<rootDir>/test/support/environment.config.mjs',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    '^@temporalio/proto$': '<rootDir>/test/support/loaded-once/proto.cjs',
    '^protobufjs/ext/protojson$': '<rootDir>/test/support/loaded-once/protojson.cjs',
  },
  modulePathIgnorePatterns: ['<rootDir>/.build/', '<rootDir>/dist/'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        swcrc: false,
        isModule: true,
        sourceMaps: 'inline',
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript' },
          // As in tsconfig: what is not marked `type` is loaded, so that tests see the imports production has.
          transform: { verbatimModuleSyntax: true },
        },
      },
    ],
  },
};

export default {
  // On two cores, which the fast suites then keep busy (94 %): a test waits for timers and its server some of the time.
  maxWorkers: 4,
  // Node keeps the modules of every file that a process has run: by gigabytes, of which each collection takes seconds.
  workerIdleMemoryLimit: '800MB',
  // The native Temporal runtime keeps a thread-safe function open for as long as the process lives: without this jest
  // never ends.
  forceExit: true,
  // A global limit: jest ignores the time limit of a project. A workflow test with a server needs it on a busy machine.
  testTimeout: 60_000,
  // Instrumented, not V8's own counters: those miss the branch of an `if` that is never not taken, and count files of
  // types as unrun.
  coverageProvider: 'babel',
  coverageReporters: [['text', { skipFull: true }]],
  coverageThreshold: { global: { branches: 100, functions: 100, lines: 100, statements: 100 } },
  collectCoverageFrom: ['domain/**/*.ts'],
  projects: SUITES.map(({ name, match }) => ({
    ...shared,
    displayName: name,
    testMatch: [`<rootDir>/${match}`],
    collectCoverageFrom: ['domain/**/*.ts'],
  })),
};
