#!/usr/bin/env node
// `npx countersign …` in a clone: the command line from source, with all it needs installed first.
const { argv } = process;
// Only the embedded server needs the Temporal CLI.
argv.splice(2, 0, ...(argv[2] === 'dev' ? ['--engine'] : []), 'cli/main.ts');
await import('./run.mjs');
