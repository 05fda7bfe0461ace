/**
 * This script is the last step of `npm run build`, run from `dist/`. It leaves the workflow bundle beside the code, so
 * that workers start without making it.
 */
import { writeBuiltBundle } from './bundle.ts';

const { buildId } = await writeBuiltBundle();
process.stderr.write(`workflow bundle of build ${buildId}\n`);
