// `node scripts/tools.mjs`: has what only the slow suites need installed and built, so that they find it. For a proof
// that has other things to run meanwhile. What fails here is tried again, and told, by the suites.
import { bootstrap } from './bootstrap.mjs';
import { ensureChromium } from './chromium.mjs';
import { ensureExamplesVenv } from './python-venv.mjs';
import { ensureS3Server } from './s3-server.mjs';

await bootstrap();
for (const ensure of [ensureChromium, ensureExamplesVenv, ensureS3Server]) {
  try {
    await ensure();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
  }
}
