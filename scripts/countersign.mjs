#!/usr/bin/env node
// `countersign …`: in the package what `npm run build` made, in a clone the sources, with all they need installed
// first.
import { existsSync } from 'node:fs';

const { argv } = process;
if (existsSync(new URL('run.mjs', import.meta.url))) {
  // Only the embedded server needs the Temporal CLI.
  argv.splice(2, 0, ...(argv[2] === 'dev' ? ['--engine'] : []), 'cli/main.ts');
  await import('./run.mjs');
} else {
  await import(new URL('../dist/cli/main.js', import.meta.url).href);
}
