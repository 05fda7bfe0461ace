// Installs the npm packages of a folder with a lockfile into the per-user cache: heavy ones that few tests need.
import { createHash } from 'node:crypto';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { npm } from './bootstrap.mjs';
import { runLong } from './long-command.mjs';
import { cached, makeOnce } from './programs.mjs';

const FILES = ['package.json', 'package-lock.json'];

/**
 * Finds the folder with exactly these packages, and makes it once. No package runs a script while it is installed.
 *
 * @param {string} name of the folder in the cache
 * @param {string} folder with `package.json` and `package-lock.json`
 * @returns {Promise<string>} path of the folder that has `node_modules`
 */
export async function ensureNpmFolder(name, folder) {
  const contents = FILES.map((file) => readFileSync(join(folder, file), 'utf8'));
  // Other packages, another Node and another platform make another folder: none is ever changed.
  const key = createHash('sha256')
    .update([process.version, process.platform, process.arch, ...contents].join('\n'))
    .digest('hex')
    .slice(0, 16);
  const made = cached('npm', name, key);
  await makeOnce(made, `the npm packages of ${name}`, async () => {
    rmSync(join(made, 'node_modules'), { recursive: true, force: true });
    for (const file of FILES) copyFileSync(join(folder, file), join(made, file));
    const [command, ...prefix] = npm();
    const args = [...prefix, 'ci', '--ignore-scripts', '--no-audit', '--no-fund'];
    const { ok, tail } = await runLong(command, args, { cwd: made });
    if (!ok) throw new Error(`npm packages for tests could not be installed:\n${tail}\nLet npm reach your registry.`);
  });
  return made;
}
