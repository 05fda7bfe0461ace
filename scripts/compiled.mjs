// Compiles the programs that tests start as processes. From its sources, such a process takes two seconds longer to
// start.
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './bootstrap.mjs';
import { isAlive } from './lock.mjs';
import { runLong } from './long-command.mjs';

/**
 * Compiles them into a folder in the repository, so that packages are found from it. The folder goes with this process.
 *
 * @returns {Promise<string>} path of the folder, which is laid out like the repository
 */
export async function compilePrograms() {
  const place = join(ROOT, '.build/compiled');
  mkdirSync(place, { recursive: true });
  // A process that was interrupted has left its folder.
  for (const pid of readdirSync(place))
    if (!isAlive(Number(pid))) rmSync(join(place, pid), { recursive: true, force: true });
  const folder = join(place, String(process.pid));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const tsc = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.compiled.json', '--outDir', folder];
  const { ok, tail } = await runLong(process.execPath, tsc, { cwd: ROOT });
  if (!ok) throw new Error(`The programs of tests could not be compiled:\n${tail}`);
  cpSync(join(ROOT, 'gateway/page/assets'), join(folder, 'gateway/page/assets'), { recursive: true });
  return folder;
}
