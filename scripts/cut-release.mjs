// Cuts a release: packs the package of this version into `releases/`, with its SHA-256. Refuses a version that is there.
//   node scripts/cut-release.mjs [folder]
import { readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { bootstrap, ROOT } from './bootstrap.mjs';
import { pack } from './pack.mjs';
import { assertNew, keepRelease } from './releases.mjs';

await bootstrap();
try {
  const folder = resolve(ROOT, process.argv[2] ?? 'releases');
  const { version } = /** @type {{ version: string }} */ (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
  // Told before the build, which takes a while.
  assertNew(version, folder);
  const packed = pack();
  const path = keepRelease(packed.tarball, version, folder);
  packed.remove();
  process.stdout.write(`${relative(process.cwd(), path)}\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
