// Starts a TypeScript entry on a fresh clone: `node scripts/run.mjs [--engine] <entry.ts> [arguments]` installs what is
// missing, then runs it in this process.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT, bootstrap } from './bootstrap.mjs';
import { ensureTemporalCli } from './temporal-cli.mjs';

const given = process.argv.slice(2);
const mayNeedEngine = given[0] === '--engine';
const [entry, ...args] = mayNeedEngine ? given.slice(1) : given;
// Help starts nothing, and must not wait for a build of the Temporal CLI.
const needsEngine = mayNeedEngine && !args.some((arg) => ['--help', '-h', '--version'].includes(arg));
if (entry === undefined || !existsSync(resolve(ROOT, entry))) {
  console.error(
    `usage: node scripts/run.mjs [--engine] <entry.ts> [arguments]${entry === undefined ? '' : `\nno such file: ${entry}`}`,
  );
  process.exit(2);
}

await bootstrap();
if (needsEngine) {
  try {
    // Whoever starts a server below reads it from here, so the order of search is written down once.
    process.env['TEMPORAL_CLI_PATH'] = await ensureTemporalCli();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  }
}

// In this process, not a child: signals, the terminal and the exit code are the entry's own.
// Examples import the package by its name, as whoever copies them: here it means the sources.
const tsconfig = resolve(ROOT, 'tsconfig.node.json');
const { register } = await import('tsx/esm/api');
register({ tsconfig });
// The SDK loads the converters of payloads with `require`.
const { register: registerRequire } = await import('tsx/cjs/api');
registerRequire();
process.setSourceMapsEnabled(true);
const path = resolve(ROOT, entry);
process.argv = [process.argv[0] ?? process.execPath, path, ...args];
await import(pathToFileURL(path).href);
