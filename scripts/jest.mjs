// Runs jest over some suites and reads the real totals from its report: an exit code alone cannot tell "all passed"
// from "nothing ran".
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

/** @typedef {{passed: number, failed: number, skipped: number}} Totals */

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
  /** @typedef {{status: string, assertionResults: {status: string}[]}} FileResult */
  /** @typedef {{numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests: number, testResults: FileResult[]}} Report */
  // No report: jest itself died, or found no test.
  if (!existsSync(path)) return { passed: 0, failed: jestIsContent ? 0 : 1, skipped: 0 };
  const report = /** @type {Report} */ (JSON.parse(readFileSync(path, 'utf8')));
  // A file that could not be loaded, or whose hooks failed, has no failed test of its own: it counts as one.
  const brokenFiles = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  ).length;
  const failed = report.numFailedTests + brokenFiles;
  return {
    passed: report.numPassedTests,
    failed: failed === 0 && !jestIsContent ? 1 : failed,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}
