/**
 * Records the histories that every later version of the workflow must replay: real runs on a real server, taken at each
 * point at which a run may wait. Without it a deploy that breaks waiting runs is noticed by the people who wait.
 *
 *   node scripts/record-histories.mjs [--only scenario]… [--out folder] [--bundle file]
 *
 * `--out`: by default the folder of the version in package.json. `--bundle`: the workflow as another build has it.
 *
 * Scenes of runs that everybody has are played three times: step by step, in stretches, and encrypted. At the end the
 * list of the files is written with their SHA-256, which nobody writes again.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ensureTemporalCli } from '../../../scripts/temporal-cli.mjs';
import { sha256Hex } from '../../../domain/text/canonical.ts';
import { bundleWorkflows } from '../../../workers/bundle.ts';
import { SCENARIOS } from './scenarios.ts';
import { folderOf, LIST, Recording } from './recording.ts';
import { Scene } from './scene.ts';
import { openStage } from './stage.ts';

// Sound: package.json has a version.
const { version } = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** What everybody's runs do: played in stretches and encrypted, too. */
const EVERYDAY = new Set([
  'pending',
  'two-pending',
  'rejected',
  'expired',
  'signalled',
  'of-two',
  'two-lists',
  'spoken-to',
  'postponed',
  'nobody-there',
  'lapsed',
  'continued',
  'reopened',
  'reset',
  'again',
  'interrupted',
  'server-asks',
  'lost',
  'completed',
  'mid-call',
  'stopped',
  'stopped-in-flight',
  'cancelled',
  'single-call',
]);

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    out: { type: 'string', default: folderOf(version) },
    bundle: { type: 'string' },
  },
});
const unknown = values.only.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
if (unknown.length > 0)
  throw new Error(
    `There is no scenario ${unknown.join(', ')}; there are ${SCENARIOS.map(({ name }) => name).join(', ')}.`,
  );
const chosen = SCENARIOS.filter(({ name }) => values.only.length === 0 || values.only.includes(name));
const scenes = [
  ...chosen.map((played) => ({ played, variant: undefined })),
  ...(['in-stretches', 'encrypted'] as const).flatMap((variant) =>
    chosen.filter(({ name }) => EVERYDAY.has(name)).map((played) => ({ played, variant })),
  ),
];

await mkdir(values.out, { recursive: true });
const recording = new Recording(values.out);
await recording.assertUnlisted();
for (const { played, variant } of scenes)
  for (const point of played.points) await recording.assertNew(variant === undefined ? point : `${point}-${variant}`);
const stage = await openStage(
  await ensureTemporalCli(),
  Object.fromEntries(chosen.map(({ name, script }) => [name, script])),
  values.bundle === undefined
    ? await bundleWorkflows()
    : { code: await readFile(values.bundle, 'utf8'), buildId: 'earlier' },
);
const failed: string[] = [];
const others = { 'in-stretches': stage.stretching, encrypted: async () => stage.encrypted };
try {
  for (const { played, variant } of scenes) {
    const startedAt = Date.now();
    const plain = variant === undefined ? stage.plain : await others[variant]();
    const scene = new Scene({ ...stage, plain }, recording, played, { variant });
    await played.play(scene).catch((error: unknown) => failed.push(`${scene.workflowId}: ${String(error)}`));
    const took = ((Date.now() - startedAt) / 1_000).toFixed(1);
    process.stdout.write(`${played.points.join(', ')}${variant === undefined ? '' : ` ${variant}`} (${took} s)\n`);
  }
} finally {
  await stage.stop();
}
if (failed.length > 0) throw new Error(`These scenes failed, and no list was written:\n${failed.join('\n')}`);
await writeFile(join(values.out, LIST), await sums(values.out), { flag: 'wx' });
process.stdout.write(`${recording.written.length} files in ${values.out}\n`);

async function sums(folder: string): Promise<string> {
  const files = (await readdir(folder)).filter((name) => name !== LIST).sort();
  const lines = files.map(async (name) => `${sha256Hex(await readFile(join(folder, name), 'utf8'))}  ${name}\n`);
  return (await Promise.all(lines)).join('');
}

// The process is ended explicitly, since Temporal's native runtime would keep it alive.
process.exit(0);
