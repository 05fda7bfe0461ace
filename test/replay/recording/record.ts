/**
 * Records the histories that every later version of the workflow must replay: real runs on a real server, taken at each
 * point at which a run may wait. Without it a deploy that breaks waiting runs is noticed by the people who wait.
 *
 *   node scripts/record-histories.mjs [--only scenario]… [--version v2] [--out folder] [--bundle file]
 *
 * `--bundle`: the workflow as an earlier build has it, for what workers of both do to one run.
 */
import { mkdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ensureTemporalCli } from '../../../scripts/temporal-cli.mjs';
import { bundleWorkflows } from '../../../workers/bundle.ts';
import { Recording } from './recording.ts';
import { SCENARIOS } from './scenarios.ts';
import { Scene } from './scene.ts';
import { openStage } from './stage.ts';

const CORPUS = fileURLToPath(new URL('../histories', import.meta.url));

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    version: { type: 'string', default: 'v2' },
    out: { type: 'string', default: CORPUS },
    bundle: { type: 'string' },
  },
});
const unknown = values.only.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
if (unknown.length > 0)
  throw new Error(
    `There is no scenario ${unknown.join(', ')}; there are ${SCENARIOS.map(({ name }) => name).join(', ')}.`,
  );
/** These scenarios need the bundle of an earlier build. */
const OF_EARLIER = ['lost-unasked', 'task-not-waited', 'linked-undenied'];
const chosen = SCENARIOS.filter(({ name }) =>
  values.bundle === undefined && OF_EARLIER.includes(name)
    ? false
    : values.only.length === 0 || values.only.includes(name),
);

await mkdir(values.out, { recursive: true });
const recording = new Recording(values.out, values.version);
for (const { points } of chosen) for (const point of points) await recording.assertNew(point);
const stage = await openStage(
  await ensureTemporalCli(),
  Object.fromEntries(chosen.map(({ name, script }) => [name, script])),
  values.bundle === undefined
    ? await bundleWorkflows()
    : { code: await readFile(values.bundle, 'utf8'), buildId: 'earlier' },
);
try {
  for (const scenario of chosen) {
    const startedAt = Date.now();
    await scenario.play(new Scene(stage, recording, scenario));
    process.stdout.write(`${scenario.points.join(', ')} (${((Date.now() - startedAt) / 1_000).toFixed(1)} s)\n`);
  }
} finally {
  await stage.stop();
}
process.stdout.write(`${recording.written.length} files in ${values.out}\n`);
// The process is ended explicitly, since Temporal's native runtime would keep it alive.
process.exit(0);
