// Cuts a release: packs the package of this version into `releases/`, with its SHA-256. Refuses a version that is
// there, and a tree with changes that are not committed: a release can never be replaced.
//   node scripts/cut-release.mjs [folder]
import { execFileSync } from 'node:child_process';
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
  const changes = execFileSync('git', ['status', '--porcelain'], { cwd: ROOT, encoding: 'utf8' }).trim();
  if (changes !== '') throw new Error(`Commit or put away what has changed, then cut the release:\n${changes}`);
  const packed = pack();
  try {
    const path = keepRelease(packed.tarball, version, folder);
    process.stdout.write(`${relative(process.cwd(), path)}\n`);
  } finally {
    packed.remove();
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
