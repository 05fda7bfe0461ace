// The workflow bundle: what leaks into it is loaded by every cached run, unless all runs of a thread share it
// (docs/adr/0052), and a size limit alone would notice late and say nothing.
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from '@jest/globals';
import { bundleWorkflows, NOT_IN_RUNS } from '../../workers/bundle.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { declared } from '../support/syntax.ts';
import { sourceFiles } from './source-tree.ts';

/**
 * Two workflows with the whole gate; an eighth is from source maps, which name the line of a failing task. The last 260
 * kB are requests about something else than consent, whose answers are checked where they arrive: those to a server's
 * forms field by field, grants and consents to scopes; calls that wait for their server (docs/adr/0037), lists that
 * wait for a grant (0043), tasks (0041) linked resources (0042), questions on open connections, with what was told to
 * them (0040); and the guard against runs that a query rebuilt (0044). Messages to people (0070) are 20 kB. Looking for
 * names that maps lose is 3 kB; hosted calls (0080), tickets (0078) and approvals that end with credentials (0082) are
 * 15 kB, tasks that always leave a command (0087) 7 kB. Half a megabyte is zod, once for each worker thread (0052).
 */
const MAX_BYTES = 2_500_000;

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A name that only the package's own code has → the package. */
const FORBIDDEN = {
  '@modelcontextprotocol': 'the MCP SDK',
  '@ai-sdk': 'the model SDK',
  'api.openai.com': 'a model provider',
  'api.anthropic.com': 'a model provider',
  cfworker: 'the JSON Schema validator',
  undici: 'an HTTP client',
  oauth4webapi: 'the OAuth client',
};

let code: string;
let files: readonly string[];

beforeAll(async () => {
  ({ code, files } = await sharedBundle(bundleWorkflows, true));
  // Where none is kept it is made, on a machine that does other things, too.
}, 240_000);

/** Workflows that are not ours. */
async function bundleOthers() {
  return await bundleWorkflows(join(ROOT, 'test/support/forgery/broken-workflows.ts'));
}

test.each(Object.entries(FORBIDDEN))('the bundle does not hold %s (%s)', (name) => {
  const at = code.indexOf(name);
  expect(at === -1 ? 'absent' : code.slice(Math.max(0, at - 200), at + 100)).toBe('absent');
});

test('every module of schemas in the bundle stands in the list of those that the SDK must not freeze', async () => {
  const folder = join(ROOT, 'contracts/schemas/');
  const bundled = files.filter((file) => file.startsWith(folder)).map((file) => file.slice(folder.length));
  const shared = await readFile(join(ROOT, 'workflows/preloaded-schemas.ts'), 'utf8');
  const listed = /const SCHEMAS = \[([^\]]+)\]/.exec(shared)?.[1]?.match(/\w+/g) ?? [];
  const named = new Map(
    [...shared.matchAll(/import \* as (\w+) from '.*schemas\/(.+)';/g)].map(([, as, file]) => [as, file]),
  );
  // It has functions alone.
  const others = ['parse.ts'];
  expect(bundled.length).toBeGreaterThan(10);
  expect([...listed.map((as) => named.get(as) ?? as), ...others].toSorted()).toEqual(bundled.toSorted());
});

/** Numbers of the modules that these lines ask for, and of those that they ask for in turn. */
function reached(modules: ReadonlyMap<string, string>, lines: string): ReadonlySet<string> {
  const seen = new Set<string>();
  const asked = [lines];
  for (let text = asked.pop(); text !== undefined; text = asked.pop())
    for (const [, id = ''] of text.matchAll(/__webpack_require__\((?:\/\*[^*]*\*\/ )?(\d+)\)/g))
      if (!seen.has(id)) {
        seen.add(id);
        asked.push(modules.get(id) ?? '');
      }
  return seen;
}

test('all runs of a thread share the modules of domain/ (docs/adr/0065)', () => {
  const { instructions } = partsOfBundle(code);
  const modules = new Map(
    [...instructions.matchAll(/\n\/\* (\d+) \*\/\n([^]*?)\n\/\*\*\*\/ \}\)/g)].map(([, id = '', body = '']) => [
      id,
      body,
    ]),
  );
  const entry = instructions.slice(instructions.indexOf('exports.preloadModules = '));
  const shared = reached(modules, entry.slice(0, entry.indexOf('exports.importWorkflows')));
  const own = [...reached(modules, entry)].filter((id) => !shared.has(id)).map((id) => modules.get(id) ?? '');
  expect(own.some((body) => body.includes('function agentRun('))).toBe(true);
  const namesIn = (top: string, pattern: RegExp): string[] =>
    sourceFiles()
      .filter(({ folder }) => folder === top)
      .flatMap(({ text }) => [...text.matchAll(pattern)].map(([, name = '']) => name));
  const ambiguous = new Set(namesIn('workflows', /^(?:export )?(?:async )?function (\w+)/gm));
  const pure = namesIn('domain', /^export function (\w+)/gm).filter((name) => !ambiguous.has(name));
  expect(pure.length).toBeGreaterThan(100);
  const evaluatedInRuns = pure.filter((name) => own.some((body) => body.includes(`\nfunction ${name}(`)));
  // Of `domain/run/carry.ts`, which webpack merges into the one module that uses it.
  expect(evaluatedInRuns).toEqual(['fromCarry']);
});

test('modules of domain/ that no workflow reaches are not in the bundle, and all others are shared', () => {
  const all = new Map(sourceFiles().map((file) => [file.path, file]));
  const reachable = new Set([...all.keys()].filter((path) => path.startsWith('workflows/')));
  for (const path of reachable)
    for (const [, imported = '', from = ''] of all
      .get(path)
      ?.text.matchAll(/^(?:import|export) ([^;]*?)from '(\.[^']+)'/gm) ?? [])
      if (!imported.startsWith('type ')) reachable.add(join(dirname(path), from));
  const unreached = [...all.keys()].filter((path) => path.startsWith('domain/') && !reachable.has(path));
  expect([...NOT_IN_RUNS].map((name) => `domain/${name}.ts`).sort()).toEqual(unreached.sort());
});

test('no module of domain/ or contracts/ keeps what a run could leave for another', () => {
  const kept =
    /^(?:export )?(?:let|var) |^(?:export )?const \w+(?:: [^=]+)? = (?:new (?:Map|Set|WeakMap|WeakSet)(?:<[^>]*>)?\(\)|\[\]|\{\});|^  static (?!readonly)/m;
  const found = sourceFiles().filter(
    ({ folder, text }) => (folder === 'domain' || folder === 'contracts') && kept.test(text),
  );
  expect(found.map(({ path }) => path)).toEqual([]);
  expect(kept.test('const seen = new Map<string, number>();')).toBe(true);
});

test('the bundle holds our workflows', () => {
  expect(code).toContain('agentRun');
  expect(code).toContain('toolCatalog');
});

/** The code that runs, and the comment with the source map, whose name differs with the place where it was made. */
function partsOfBundle(bundle: string): { readonly instructions: string; readonly map: string } {
  const at = bundle.lastIndexOf('//# sourceMappingURL=');
  return at === -1 ? { instructions: bundle, map: '' } : { instructions: bundle.slice(0, at), map: bundle.slice(at) };
}

/** Code of the modules whose interceptors the bundle registers, in their order. Modules have numbers there. */
function interceptorsOf(bundle: string): string[] {
  const { instructions } = partsOfBundle(bundle);
  const at = instructions.indexOf('function importInterceptors() {');
  const registered = instructions.slice(at, instructions.indexOf('];', at));
  return [...registered.matchAll(/\*\/ (\d+)\)/g)].map(([, id = '']) => {
    const start = instructions.indexOf(`/* ${id} */`);
    return instructions.slice(start, instructions.indexOf('/***/ })', start));
  });
}

test.each([
  ['of workers', async () => code],
  ['of other workflows', async () => (await sharedBundle(bundleOthers)).code],
  ['of replays', async () => (await sharedBundle(bundleForReading)).code],
])('the bundle %s holds the guards against rebuilt runs (docs/adr/0044, 0087, 0088)', async (_, made) => {
  const bundle = await made();
  const interceptors = interceptorsOf(bundle);
  for (const own of ['const DIRECT = ', 'const SEPARATED = ', 'let isRecorded = '])
    expect(interceptors.filter((module) => module.includes(own))).toHaveLength(1);
  // Conditions of a second copy would never hear of refused updates.
  expect(partsOfBundle(bundle).instructions.split('let isRecorded = ')).toHaveLength(2);
});

test('nothing else makes a bundle of workflows, which then would be without the guard', () => {
  const makers = sourceFiles()
    .filter(({ path, text }) => !path.startsWith('test/') && /\bbundleWorkflowCode\b|\bworkflowsPath:/.test(text))
    .map(({ path }) => path);
  // The bench compares with workflows that are not ours.
  expect(makers.sort()).toEqual(['bench/lane-worker.ts', 'workers/bundle.ts']);
});

test('workflow code takes `condition` from its own module, where no refused update makes it true (docs/adr/0088)', () => {
  const takers = sourceFiles()
    .filter(({ path }) => path.startsWith('workflows/'))
    .filter(({ text }) =>
      /(?:im|ex)port[^;]*\bcondition\b[^;]*from '@temporalio\/workflow'|(?:im|ex)port \*[^;]*'@temporalio\/workflow'/.test(
        text,
      ),
    )
    .map(({ path }) => path);
  expect(takers).toEqual(['workflows/interceptors/condition.ts']);
});

test('the bundle stays within its size', () => {
  const bytes = Buffer.byteLength(code);
  const codeBytes = Buffer.byteLength(partsOfBundle(code).instructions);
  process.stderr.write(
    `workflow bundle: ${bytes} of at most ${MAX_BYTES} bytes, ${codeBytes} of them code, the rest source map\n`,
  );
  expect(bytes).toBeLessThanOrEqual(MAX_BYTES);
});

test('the bundle does not depend on where it was made: neither its code nor the map names a directory of this machine', () => {
  const { instructions, map } = partsOfBundle(code);
  const decoded = Buffer.from(map.slice(map.indexOf('base64,') + 'base64,'.length), 'base64').toString();
  expect(decoded).toContain(JSON.stringify(declared('agentRun')[0]?.path));
  expect(decoded).not.toContain(ROOT);
  expect(instructions).not.toContain(ROOT);
});
