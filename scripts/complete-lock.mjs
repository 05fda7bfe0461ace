// Adds to package-lock.json the platform packages that npm left out, without which `npm ci` refuses the lockfile and
// other platforms get no binaries.
//   node scripts/complete-lock.mjs [FOLDER of another package-lock.json]
// npm drops an optional package that its registry does not have, and a mirror may hold those of one platform only. Run
// after `npm install`.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './bootstrap.mjs';

const SYSTEMS = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32'];
const PROCESSORS = ['arm', 'arm64', 'ia32', 'loong64', 'ppc64', 'riscv64', 's390x', 'x64'];

/**
 * @typedef {object} Locked
 * @property {string} version
 * @property {Record<string, string>} [optionalDependencies]
 * @property {boolean} [optional]
 * @property {boolean} [dev]
 * @property {string[]} [os]
 * @property {string[]} [cpu]
 * @property {string[]} [libc]
 */

const path = join(process.argv[2] ?? ROOT, 'package-lock.json');
const lockfile = /** @type {{packages: Record<string, Locked>}} */ (JSON.parse(readFileSync(path, 'utf8')));
const known = new Set(Object.keys(lockfile.packages));

/** @type {string[]} */
const added = [];
for (const { dev, optionalDependencies = {} } of Object.values(lockfile.packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    const key = `node_modules/${name}`;
    if ([...known].some((it) => it === key || it.endsWith(`/${key}`))) continue;
    const platform = platformOf(name);
    if (platform === undefined || !/^\d+\.\d+\.\d+/.test(version)) {
      throw new Error(
        `${name}@${version} is missing from the lockfile, and neither its platform nor its version can be told from that`,
      );
    }
    lockfile.packages[key] = { version, ...(dev ? { dev } : {}), optional: true, ...platform };
    known.add(key);
    added.push(name);
  }
}
lockfile.packages = Object.fromEntries(Object.entries(lockfile.packages).sort(([a], [b]) => a.localeCompare(b, 'en')));
writeFileSync(path, `${JSON.stringify(lockfile, null, 2)}\n`);
console.log(`${added.length} added`);

/** From a name like `@oxlint/binding-linux-arm-gnueabihf`. @param {string} name */
function platformOf(name) {
  const words = name.split(/[-/]/);
  const os = words.find((word) => SYSTEMS.includes(word));
  const cpu = words.find((word) => PROCESSORS.includes(word));
  if (os === undefined || cpu === undefined) return undefined;
  const libc = os !== 'linux' ? undefined : words.some((word) => word.startsWith('musl')) ? 'musl' : 'glibc';
  return { os: [os], cpu: [cpu], ...(libc ? { libc: [libc] } : {}) };
}
