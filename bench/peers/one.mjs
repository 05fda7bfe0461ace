// One peer in a process of its own: opens it, puts it under load, and tells its parent what came of it.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { measure } from './load.mjs';

const { peer, lane, toolUrl, root, runs, at, warmup } = JSON.parse(process.argv[2] ?? '{}');
const require = createRequire(import.meta.url);

/** The version that is installed, which a range does not say. @param {string} name */
function versionOf(name) {
  if (name === 'countersign') return JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).version;
  for (const folder of require.resolve.paths(name) ?? []) {
    try {
      return JSON.parse(readFileSync(`${folder}/${name}/package.json`, 'utf8')).version;
    } catch {
      // The next folder up may have it.
    }
  }
  throw new Error(`${name} is not installed`);
}

const { open } = await import(`./${peer}.mjs`);
const opened = await open({ toolUrl, lane, root, versionOf });
const report = await measure(opened, { toolUrl, runs, at, warmup });
process.send?.(report);
await opened.close();
process.disconnect?.();
process.exit(0);
