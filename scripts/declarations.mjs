// Makes declarations name files that are packed. The compiler rewrites `.ts` in JavaScript alone, and older compilers
// do not resolve what it leaves.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** @param {string} dist what the compiler made */
export function nameDeclarations(dist) {
  for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.d.ts')) continue;
    const path = join(dist, name);
    const text = readFileSync(path, 'utf8');
    const named = text.replaceAll(/((?:from |import\(|^import )['"]\.{1,2}\/[^'"\n]+)\.ts(['"])/gm, '$1.js$2');
    if (named !== text) writeFileSync(path, named);
  }
}
