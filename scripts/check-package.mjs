// What others import of the package resolves to code and types in every way that TypeScript and Node look for it
// (publint, Are The Types Wrong). Of the build only what they read is made, and of that only what has changed:
// test/workflow/package.slow.test.ts looks at the package as npm packs it.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT } from './bootstrap.mjs';
import { nameDeclarations } from './declarations.mjs';

const PLACE = join(ROOT, '.build/package');
const FOLDER = join(PLACE, 'package');
const dist = join(FOLDER, 'dist');

mkdirSync(FOLDER, { recursive: true });
const incremental = ['--incremental', '--tsBuildInfoFile', join(PLACE, 'tsbuildinfo')];
// Without its output the compiler would believe that all of it is there.
if (!existsSync(dist)) rmSync(join(PLACE, 'tsbuildinfo'), { force: true });
run(ROOT, 'typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', dist, ...incremental);
for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
  const source = join(ROOT, name.replace(/(?:\.d\.ts|\.js|\.js\.map)$/, '.ts'));
  if (/\.(?:ts|js|map)$/.test(name) && !existsSync(source)) rmSync(join(dist, name));
}
nameDeclarations(dist);

const { files } = /** @type {{files: string[]}} */ (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
for (const name of ['package.json', 'README.md', 'LICENSE', ...files.filter((each) => each !== 'dist')]) {
  mkdirSync(dirname(join(FOLDER, name)), { recursive: true });
  cpSync(join(ROOT, name), join(FOLDER, name), { recursive: true });
}
run(FOLDER, 'publint/src/cli.js', '--strict', '--pack', 'false');
const tarball = join(PLACE, 'package.tgz');
const { status } = spawnSync('tar', ['-czf', tarball, '-C', PLACE, 'package'], { stdio: 'inherit' });
if (status !== 0) process.exit(1);
run(ROOT, '@arethetypeswrong/cli/dist/index.js', tarball, '--profile', 'esm-only', '--no-emoji', '--no-color');

/** @param {string} cwd @param {string} tool @param {...string} args */
function run(cwd, tool, ...args) {
  const { status: ended, stdout } = spawnSync(process.execPath, [join(ROOT, 'node_modules', tool), ...args], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (ended === 0) return;
  console.error(stdout);
  process.exit(1);
}
