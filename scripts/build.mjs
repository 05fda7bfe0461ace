// `npm run build`: dist/ as it is packed. Plain JavaScript with source maps, declarations, the workflow bundle, and the
// bundles of commands.
//   node scripts/build.mjs [folder]
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { bootstrap, ROOT } from './bootstrap.mjs';

const dist = resolve(ROOT, process.argv[2] ?? 'dist');

await bootstrap();
rmSync(dist, { recursive: true, force: true });
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', dist);
for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' }))
  if (name.endsWith('.d.ts')) nameDeclarations(join(dist, name));
cpSync(join(ROOT, 'gateway/page/assets'), join(dist, 'gateway/page/assets'), { recursive: true });
run(join(dist, 'workers/build-bundle.js'));
// Loaded only now: bootstrap may just have installed its packages.
await (await import('./bundle-commands.mjs')).bundleCommands(dist);

/**
 * The compiler rewrites `.ts` in JavaScript alone. In declarations it would name files that are not packed, which older
 * compilers do not resolve.
 *
 * @param {string} path
 */
function nameDeclarations(path) {
  const text = readFileSync(path, 'utf8');
  const named = text.replaceAll(/((?:from |import\(|^import )['"]\.{1,2}\/[^'"\n]+)\.ts(['"])/gm, '$1.js$2');
  if (named !== text) writeFileSync(path, named);
}

/** @param {...string} args */
function run(...args) {
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) process.exit(status ?? 1);
}
