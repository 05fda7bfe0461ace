/**
 * `npm run drill`: moves runs that wait from a release to a new build, and back, with workers killed in between
 * (docs/operations/drill.md). It ends with 0 only if no run was lost, doubled or stuck.
 *
 *   npm run drill -- [--runs 200] [--release FILE] [--next FILE] [--only KIND]… [--spoil]
 *
 * `--release`: a tarball of `releases/`; by default the newest one. `--next`: the tarball of the new build; by default
 * the present source is packed. `--only`: this pause alone, by its name in the table. `--spoil`: makes one call twice,
 * to see the drill fail.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from '../../scripts/bootstrap.mjs';
import { pack } from '../../scripts/pack.mjs';
import { newestRelease } from '../../scripts/releases.mjs';
import { harmlesslyChanged, releasedBuild } from '../support/package/packed.ts';
import { drill } from './drill.ts';
import { KINDS } from './kinds.ts';
import { tableOf } from './table.ts';

/** A drill that takes longer has failed. */
const MOST_MS = 900_000;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '200' },
    release: { type: 'string', default: newestRelease(join(ROOT, 'releases')) },
    next: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    spoil: { type: 'boolean', default: false },
  },
});
const tell = (line: string): void => void process.stdout.write(`${line}\n`);
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set: run the drill through `npm run drill`');
const runs = Number(values.runs);
if (!Number.isInteger(runs) || runs < 1) throw new Error(`--runs ${values.runs} is no number of runs`);
const kinds = KINDS.filter(({ name }) => values.only.length === 0 || values.only.includes(name));
if (kinds.length < Math.max(1, values.only.length))
  throw new Error(`--only takes ${KINDS.map(({ name }) => name).join(', ')}`);
// What was started ends with this process.
for (const [signal, status] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => process.exit(status));
setTimeout(() => {
  tell(`the drill did not end within ${MOST_MS / 60_000} minutes`);
  process.exit(1);
}, MOST_MS).unref();

const tarball = values.next ?? packed();
if (values.release === undefined) tell('no release is there: the present source takes its place');
const old = releasedBuild(values.release ?? tarball);
const given = releasedBuild(tarball);
// Builds with the same workflows are one build to Temporal.
const next = given.buildId === old.buildId ? harmlesslyChanged(tarball) : given;
tell(`old: build ${old.buildId} of ${old.version}; new: build ${next.buildId} of ${next.version}`);
const verdict = await drill({ executable, old, new: next, runs, kinds, spoil: values.spoil, tell });
tell(`\n${tableOf(verdict)}`);
for (const fault of verdict.faults) tell(fault);
process.exit(verdict.faults.length === 0 ? 0 : 1);

/** Packs the present source. What is packed is kept as long as it is unpacked. */
function packed(): string {
  tell('packing the present source …');
  const made = pack();
  process.once('exit', () => made.remove());
  return made.tarball;
}
