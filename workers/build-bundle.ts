/**
 * This script is the last step of `npm run build`, run from `dist/`. It leaves the workflow bundle beside the code, so
 * that workers start without making it.
 */
import { bundleWorkflows, writeBuiltBundle } from './bundle.ts';

const made = await bundleWorkflows();
await writeBuiltBundle(made);
process.stderr.write(`workflow bundle of build ${made.buildId}\n`);
