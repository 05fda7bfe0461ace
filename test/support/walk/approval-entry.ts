/**
 * This program plays one approval from `countersign approve` to the model's next step, all in one process, and writes
 * which files of the product have run a function meanwhile, as JSON.
 *
 * Run it with `TEMPORAL_DEBUG=1 node --import tsx approval-entry.ts`: workflows then run in the thread that is watched.
 */
import { Session } from 'node:inspector/promises';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';
import { startTestWorld } from '../../../testing/index.ts';
import { runCommand } from '../cli.ts';
import { OBEDIENT, startObedientModel } from '../models/obedient-model.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BUNDLE = '/* workflow bundle of countersign ';
const PRODUCT = /^(?:contracts|domain|workflows|activities|workers|client|cli)\//;

// In a worker the thread of workflows has no such hook either. Here it would see every promise of the process: those of
// Node 24 without a constructor end it.
Object.assign(globalHandlers, { setPromiseHook: () => undefined });

const model = await startObedientModel();
model.obey('Pay.', 'bank__pay', {});
const world = await startTestWorld({
  servers: { bank: { pay: {} } },
  config: {
    // The list is never fresh enough, as after minutes in which nobody has decided.
    servers: { bank: { credentials: { kind: 'given' }, recheckSeconds: 0 } },
    models: { main: { provider: 'openai-compatible', model: OBEDIENT, baseUrl: model.baseUrl } },
    policy: { strategy: 'always' },
    execution: { stretch: { turns: 0 } },
  },
});
// The model of the world that follows a script is not asked.
const spec = { agent: { name: 'payer', model: 'main' }, input: 'Pay.' };
const run = await world.start([{ text: '' }], spec, { authorizations: { bank: 'a-token' } });
const [request] = await world.openRequests(run);
if (request === undefined) throw new Error('nobody is asked');

const session = new Session();
session.connect();
await session.post('Debugger.enable');
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
// Each reading begins the counts anew.
await session.post('Profiler.takePreciseCoverage');
const where = ['--address', world.address, '--namespace', world.namespace];
const { exitCode, err } = await runCommand(['approve', run.runId, request.callId, '--as', 'ann', ...where], {
  ask: async () => await Promise.resolve('y'),
});
if (exitCode !== 0) throw new Error(err);
await run.result();
const { result } = await session.post('Profiler.takePreciseCoverage');

const ran = new Set<string>();
for (const { scriptId, url, functions } of result) {
  // The first range of a module is the module itself: it was loaded, and need not have run anything.
  const begun = functions
    .filter(({ functionName, ranges: [whole] }) => functionName !== '__name' && whole !== undefined && whole.count > 0)
    .flatMap(({ ranges: [whole] }) => (whole === undefined || whole.startOffset === 0 ? [] : [whole.startOffset]));
  if (begun.length === 0) continue;
  const { scriptSource } = await session.post('Debugger.getScriptSource', { scriptId });
  if (scriptSource.startsWith(BUNDLE)) for (const file of filesOf(scriptSource, begun)) ran.add(file);
  else if (url.startsWith('file:')) ran.add(relative(ROOT, fileURLToPath(url)));
}
await world.stop();
await model.close();
process.stdout.write(`${JSON.stringify([...ran].filter((file) => PRODUCT.test(file)).toSorted())}\n`);
process.exit(0);

/** Finds the sources of these places in the code of a bundle. */
function filesOf(code: string, offsets: readonly number[]): readonly string[] {
  const encoded = /sourceMappingURL=data:application\/json[^,]*;base64,([\w+/=]+)\s*$/.exec(code)?.[1] ?? '';
  // Sound: the bundle was made with a map of its own.
  const map = new SourceMap(JSON.parse(Buffer.from(encoded, 'base64').toString()) as SourceMapPayload);
  const lines = [0, ...[...code.matchAll(/\n/g)].map(({ index }) => index + 1)];
  return offsets.flatMap((offset) => {
    const line = lines.findLastIndex((start) => start <= offset);
    const entry = map.findEntry(line, offset - (lines[line] ?? 0));
    // The function around a module has no place of its own: what is found for it lies on an earlier line.
    return 'originalSource' in entry && entry.generatedLine === line ? [entry.originalSource] : [];
  });
}
