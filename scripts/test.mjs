// `npm test`: installs what is missing, runs the suites and ends with the plain line `N passed, N failed`.
//   node scripts/test.mjs [--all | --only-slow] [suite …] [jest arguments or path patterns]
import { bootstrap } from './bootstrap.mjs';
import { ensureChromium } from './chromium.mjs';
import { compilePrograms } from './compiled.mjs';
import { runJest } from './jest.mjs';
import { ensureExamplesVenv } from './python-venv.mjs';
import { ensureS3Server } from './s3-server.mjs';
import { SUITES } from './suites.mjs';
import { ensureTemporalCli } from './temporal-cli.mjs';

// For Temporal servers, which live for a minute here: to collect their garbage less often saves processor time.
process.env['GOGC'] ??= '400';

const PACES = { '--all': ['fast', 'slow'], '--only-slow': ['slow'], '': ['fast'] };

const jestArgs = process.argv.slice(2);
const flag = jestArgs[0] === '--all' || jestArgs[0] === '--only-slow' ? jestArgs[0] : '';
if (flag !== '') jestArgs.shift();
const names = new Set();
while (SUITES.some(({ name }) => name === jestArgs[0])) names.add(jestArgs.shift());
const chosen = SUITES.filter(({ name, pace }) => (names.size > 0 ? names.has(name) : PACES[flag].includes(pace)));

await bootstrap();

const suites = new Set(chosen.map(({ name }) => name));
let unavailable = 0;
/** @type {string[]} */
const lacking = [];
if (chosen.some(({ needsEngine }) => needsEngine)) {
  const found = await provide('TEMPORAL_CLI_PATH', ensureTemporalCli);
  if (!found) for (const { name, needsEngine } of chosen) if (needsEngine) unavailable += Number(suites.delete(name));
}
delete process.env['COMPILED_PATH'];
if (chosen.some(({ needsEngine }) => needsEngine) && !(await provide('COMPILED_PATH', compilePrograms)))
  unavailable += 1;
if (suites.has('browser') && !(await provide('CHROMIUM_PATH', ensureChromium)))
  unavailable += Number(suites.delete('browser'));

// One file of the suite needs each of them, and fails where it is not there; the others do not.
if (suites.has('slow')) {
  await provide('S3_SERVER_PATH', ensureS3Server);
  await provide('EXAMPLE_PYTHON', ensureExamplesVenv);
}

// Suites that kill processes and wait for time limits have more room: four of their files at once keep two cores busy.
const saysWorkers = jestArgs.some((arg) => /^(?:-w|-i$|--maxWorkers|--runInBand)/.test(arg));
const room = !saysWorkers && chosen.some(({ pace }) => pace !== 'fast') ? ['--maxWorkers=3'] : [];

/** @type {import('./jest.mjs').Totals} */
let totals = { passed: 0, failed: 0, skipped: 0, failures: [] };
// Coverage counts where the whole suite runs: a single file reaches its own part.
if (jestArgs.length === 0 && suites.delete('domain')) add(await runJest(['domain'], ['--coverage']));
if (suites.size > 0) add(await runJest([...suites], [...room, ...jestArgs]));
const { passed, failed, skipped, failures } = totals;
// Jest tells of a failure where it happens, which may be thousands of lines above.
for (const failure of [...lacking, ...failures]) console.log(`failed: ${failure}`);
const allFailed = failed + unavailable;
if (passed + allFailed === 0) console.error('no test was run');
console.log(`${passed} passed, ${allFailed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exit(allFailed > 0 || passed === 0 ? 1 : 0);

/** @param {import('./jest.mjs').Totals} more */
function add(more) {
  totals = {
    passed: totals.passed + more.passed,
    failed: totals.failed + more.failed,
    skipped: totals.skipped + more.skipped,
    failures: [...totals.failures, ...more.failures],
  };
}

/**
 * Tests read the path from the environment. A suite whose tool cannot be had is reported as failed; the others still
 * run.
 *
 * @param {string} variable
 * @param {() => Promise<string>} ensure
 */
async function provide(variable, ensure) {
  try {
    process.env[variable] = await ensure();
    return true;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    console.error(message);
    lacking.push(`there is no ${variable}: ${message}`);
    return false;
  }
}
