// `npm run build`: dist/ as it is packed. Plain JavaScript with source maps, declarations, the workflow bundle, and the
// bundles of commands.
//   node scripts/build.mjs [folder]
import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { bootstrap, ROOT } from './bootstrap.mjs';
import { nameDeclarations } from './declarations.mjs';

const dist = resolve(ROOT, process.argv[2] ?? 'dist');

await bootstrap();
rmSync(dist, { recursive: true, force: true });
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', dist);
nameDeclarations(dist);
cpSync(join(ROOT, 'gateway/page/assets'), join(dist, 'gateway/page/assets'), { recursive: true });
run(join(dist, 'workers/build-bundle.js'));
// Loaded only now: bootstrap may just have installed its packages.
await (await import('./bundle-commands.mjs')).bundleCommands(dist);

/** @param {...string} args */
function run(...args) {
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) process.exit(status ?? 1);
}
