// Runs the recorder of histories (`test/replay/recording/record.ts`) with the options that it gets. Without it nobody
// who looks for what can be run would find a recorder among the tests.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const recorder = fileURLToPath(new URL('../test/replay/recording/record.ts', import.meta.url));
const { status } = spawnSync('npx', ['tsx', recorder, ...process.argv.slice(2)], { stdio: 'inherit' });
process.exit(status ?? 1);
