// Runs jest over some suites and reads the real totals from its report: an exit code alone cannot tell "all passed"
// from "nothing ran".
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { ROOT } from './bootstrap.mjs';

/**
 * ES modules in jest need Node's vm modules, whose warning would come once per worker. Its processes keep hundreds of
 * megabytes of modules: each collects its garbage less often and on its own thread, since all together have two cores.
 */
export const JEST = [
  '--experimental-vm-modules',
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=32',
  '--single-threaded-gc',
  'node_modules/jest/bin/jest.js',
];

/** @typedef {{passed: number, failed: number, skipped: number, failures: readonly string[]}} Totals */

/** How much of a failure's message is repeated after all suites: its first lines say what was expected. */
const LINES_OF_A_FAILURE = 20;

/**
 * @param {readonly string[]} suites
 * @param {readonly string[]} args
 * @returns {Promise<Totals>}
 */
export async function runJest(suites, args) {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-test-'));
  const report = join(folder, 'report.json');
  try {
    /** @type {number | null} */
    const exitCode = await new Promise((resolve) => {
      const jestArgs = [...args, '--json', `--outputFile=${report}`, '--selectProjects', ...suites];
      // jest's report goes to the file. People read stderr, and there what a coverage run says is not covered.
      const stdout = args.includes('--coverage') ? 2 : 'ignore';
      spawn(process.execPath, [...JEST, ...jestArgs], { cwd: ROOT, stdio: ['inherit', stdout, 'inherit'] })
        .on('error', () => resolve(1))
        .on('close', resolve);
    });
    return totalsOf(report, exitCode === 0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} path
 * @param {boolean} jestIsContent
 * @returns {Totals}
 */
function totalsOf(path, jestIsContent) {
  /** @typedef {{status: string, fullName: string, failureMessages: string[] | null}} TestResult */
  /** @typedef {{status: string, name: string, message: string, assertionResults: TestResult[]}} FileResult */
  /** @typedef {{numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests: number, testResults: FileResult[]}} Report */
  // No report: jest itself died, or found no test.
  if (!existsSync(path)) {
    const failures = jestIsContent ? [] : ['jest ended without a report'];
    return { passed: 0, failed: failures.length, skipped: 0, failures };
  }
  const report = /** @type {Report} */ (JSON.parse(readFileSync(path, 'utf8')));
  const failures = report.testResults.flatMap((file) => {
    const failedTests = file.assertionResults.filter(({ status }) => status === 'failed');
    // A file that could not be loaded, or whose hooks failed, has no failed test of its own: it counts as one.
    if (failedTests.length === 0) return file.status === 'failed' ? [failureOf(file.name, '', file.message)] : [];
    return failedTests.map((test) => failureOf(file.name, test.fullName, (test.failureMessages ?? []).join('\n')));
  });
  if (failures.length === 0 && !jestIsContent) failures.push('jest ended badly and names no test: see its output');
  return {
    passed: report.numPassedTests,
    failed: failures.length,
    skipped: report.numPendingTests + report.numTodoTests,
    failures,
  };
}

/**
 * @param {string} file
 * @param {string} test
 * @param {string} message
 */
function failureOf(file, test, message) {
  const lines = stripVTControlCharacters(message)
    .split('\n')
    .filter((line) => !/^\s+at .*\/node_modules\//.test(line))
    .slice(0, LINES_OF_A_FAILURE);
  return [`${relative(ROOT, file)} ${test}`.trimEnd(), ...lines.map((line) => `  ${line}`)].join('\n');
}
