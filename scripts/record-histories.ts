/**
 * Records the histories that every later version of the workflow must replay: real runs on a real server, taken at each
 * point at which a run may wait. Without it a deploy that breaks waiting runs is noticed by the people who wait.
 *
 *   npx tsx scripts/record-histories.ts [--only scenario]… [--version v2] [--out folder] [--bundle file]
 *
 * `--bundle`: the workflow as an earlier build has it, for what workers of both do to one run.
 */
import { mkdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ASKING } from './histories/asking.ts';
import { AWAITING } from './histories/awaiting.ts';
import { CATALOGS } from './histories/catalogs.ts';
import { CROSSING } from './histories/crossing.ts';
import { EDITING } from './histories/editing.ts';
import { ENDING } from './histories/ending.ts';
import { HELD } from './histories/held.ts';
import { HOLDING } from './histories/holding.ts';
import { LINKING } from './histories/linking.ts';
import { MOVING } from './histories/moving.ts';
import { QUESTIONING } from './histories/questioning.ts';
import { Recording } from './histories/recording.ts';
import { Scene } from './histories/scene.ts';
import { RULED } from './histories/ruled.ts';
import { AUTHORIZING } from './histories/authorizing.ts';
import { RESOLVING } from './histories/resolving.ts';
import { RESUMING } from './histories/resuming.ts';
import { SIGNED } from './histories/signed.ts';
import { SIGNED_CATALOG } from './histories/signed-catalog.ts';
import { openStage } from './histories/stage.ts';
import { TALKING } from './histories/talking.ts';
import { UNPROVEN } from './histories/unproven.ts';
import { UNREADABLE } from './histories/unreadable.ts';
import { TASKS } from './histories/tasks.ts';
import { TIMED } from './histories/timed.ts';
import { bundleWorkflows } from '../workers/bundle.ts';
import { ensureTemporalCli } from './temporal-cli.mjs';

const SCENARIOS = [
  ...ASKING,
  ...TIMED,
  ...EDITING,
  ...MOVING,
  ...ENDING,
  ...CROSSING,
  ...RESOLVING,
  ...RESUMING,
  ...QUESTIONING,
  ...LINKING,
  ...HELD,
  ...HOLDING,
  ...TASKS,
  ...AUTHORIZING,
  ...AWAITING,
  ...RULED,
  ...TALKING,
  ...SIGNED,
  ...CATALOGS,
  ...SIGNED_CATALOG,
  ...UNREADABLE,
  ...UNPROVEN,
];
const CORPUS = fileURLToPath(new URL('../test/replay/histories', import.meta.url));

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
    console.log(`${scenario.points.join(', ')} (${((Date.now() - startedAt) / 1_000).toFixed(1)} s)`);
  }
} finally {
  await stage.stop();
}
console.log(`${recording.written.length} files in ${values.out}`);
// The process is ended explicitly, since Temporal's native runtime would keep it alive.
process.exit(0);
