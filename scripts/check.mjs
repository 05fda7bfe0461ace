// `npm run check`: everything that can be known without a server, in under half a minute; prints only what failed.
// With `--no-tests` the tests among it are left out, for whoever runs `npm test` next.
import { spawn } from 'node:child_process';
import { ROOT, bootstrap } from './bootstrap.mjs';
import { JEST } from './jest.mjs';

/** As many steps at once as the smallest machine we expect has cores. */
const AT_ONCE = 2;

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {readonly string[]} args of node
 * @property {true} [isTest] `npm test` runs it, too
 */

/** Longest first, so that none is left alone at the end. @type {readonly Step[]} */
const STEPS = [
  { name: 'architecture, pins', args: [...JEST, '--selectProjects', 'architecture', 'pins'], isTest: true },
  { name: 'types', args: ['node_modules/typescript/bin/tsc', '-b'] },
  { name: 'lint', args: ['node_modules/oxlint/bin/oxlint', '--deny-warnings'] },
  {
    name: 'unused code (knip)',
    args: ['node_modules/knip/bin/knip.js', '--no-progress', '--cache', '--cache-location', '.build/knip'],
  },
  { name: 'format', args: ['node_modules/oxfmt/bin/oxfmt', '--check'] },
  { name: 'package (publint, attw)', args: ['scripts/check-package.mjs'] },
  script('schemas are current', 'scripts/check-schemas.ts'),
  script('every error has its page', 'scripts/check-error-docs.ts'),
];

/** @param {string} name @param {string} path @returns {Step} */
function script(name, path) {
  return { name, args: ['--import', 'tsx', path] };
}

await bootstrap();
const leavesTests = process.argv.includes('--no-tests');
const queue = STEPS.filter(({ isTest }) => !(leavesTests && isTest === true));
/** @type {{name: string, output: string}[]} */
const failures = [];
await Promise.all(Array.from({ length: AT_ONCE }, work));

for (const { name, output } of failures) console.error(`\n--- ${name}\n${output.trimEnd()}`);
console.log(failures.length === 0 ? 'check: ok' : `\ncheck: failed: ${failures.map(({ name }) => name).join('; ')}`);
process.exit(failures.length === 0 ? 0 : 1);

async function work() {
  for (let step = queue.shift(); step !== undefined; step = queue.shift()) {
    const startedAt = Date.now();
    const { ok, output } = await run(step);
    console.log(
      `${ok ? 'ok    ' : 'FAILED'} ${((Date.now() - startedAt) / 1000).toFixed(1).padStart(5)} s  ${step.name}`,
    );
    if (!ok) failures.push({ name: step.name, output });
  }
}

/** @param {Step} step @returns {Promise<{ok: boolean, output: string}>} */
function run({ args }) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
    /** @type {string[]} */
    const output = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (/** @type {string} */ chunk) => output.push(chunk));
    }
    child.on('error', (error) => resolve({ ok: false, output: error.message }));
    child.on('close', (code) => resolve({ ok: code === 0, output: output.join('') }));
  });
}
