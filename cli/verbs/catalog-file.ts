/**
 * Implements `countersign catalog export` and `import`: a catalog's settings as a file for review, which is read in
 * this shape or the older one.
 *
 * 1. The same catalog always gives the same text: tools are sorted, and times and everything that only a refresh
 *    changes are left out.
 * 2. A tool's name contains no character in the file that a reviewer cannot see.
 * 3. An import is refused if it names unknown tools, if definitions have changed, or if the command line names another
 *    catalog.
 */
import { Document, Scalar, YAMLMap } from 'yaml';
import { CountersignError } from '../../contracts/errors.ts';
import { CatalogFile, FiledTool, ToolList } from '../../contracts/schemas/catalog.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { catalogFile, type ImportPlan, importPlan, type WantedTool, wantedTool } from '../../domain/catalog/file.ts';
import { visible } from '../../domain/text/escape.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { readChanged } from '../session/catalog-reading.ts';
import { readInput } from '../session/files.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { type Answer, escapedInvisible, verb } from '../session/verb.ts';
import { changeAnswer, planAnswer } from '../views/catalog-change.ts';
import { names } from '../views/format.ts';
import { EXPECTED_VERSION, MESSAGE, sendChanges, SERVER, TENANT } from './catalog-changes.ts';

/** A file of the older shape has tools alone. */
type ReadCatalogFile = Partial<Omit<CatalogFile, 'tools'>> & { readonly tools: ReadonlyMap<string, WantedTool> };

export function catalogYaml({ tools, ...head }: CatalogFile): string {
  const document = new Document(head);
  const map = new YAMLMap<Scalar<string>>();
  for (const [name, tool] of Object.entries(tools)) map.set(keyOf(name), document.createNode(tool));
  document.set('tools', map);
  document.commentBefore = ' Bring it back: countersign catalog import FILE --as ID';
  // Remaining invisible characters stand in quotes by now, and YAML accepts JSON escapes there.
  return escapedInvisible(document.toString({ lineWidth: 0, doubleQuotedAsJSON: true }).trimEnd());
}

function keyOf(name: string): Scalar<string> {
  const key = new Scalar(name);
  if (!/^[A-Za-z_][\w./-]*$/.test(name)) key.type = Scalar.QUOTE_DOUBLE;
  return key;
}

/** Parses either shape. @param shown names the file in messages @throws CountersignError `CATALOG_INVALID` */
export function parseCatalogFile(value: unknown, shown: string): ReadCatalogFile {
  if (Array.isArray(value))
    return { tools: fromList(parseAs(ToolList, value, 'CATALOG_INVALID', `catalog file ${shown}`)) };
  const { tools, ...head } = parseAs(CatalogFile, value, 'CATALOG_INVALID', `catalog file ${shown}`);
  const wanted = new Map(Object.entries(tools).map(([name, tool]) => [name, wantedTool(tool)]));
  const odd = oddlyNamed(value);
  if (odd !== undefined)
    wanted.set(
      ODD_NAME,
      wantedTool(parseAs(FiledTool, odd, 'CATALOG_INVALID', `${ODD_NAME} of catalog file ${shown}`)),
    );
  return { ...head, tools: wanted };
}

/** A legal tool name that zod leaves out of its result. */
const ODD_NAME = '__proto__';

function oddlyNamed(value: unknown): unknown {
  // Sound: the value was parsed as a catalog file, so it has tools.
  const { tools } = value as { tools: object };
  return Object.getOwnPropertyDescriptor(tools, ODD_NAME)?.value;
}

function fromList(list: ToolList): ReadonlyMap<string, WantedTool> {
  const wanted = new Map<string, WantedTool>();
  for (const [index, { name, enabled, requires_approval: requiresApproval }] of list.entries()) {
    const path = `[${index}].name`;
    if (wanted.has(name))
      throw new CountersignError('CATALOG_INVALID', `${path} stands twice; say all of a tool in one place.`, { path });
    wanted.set(name, { enabled, requiresApproval });
  }
  return wanted;
}

interface Target {
  readonly tenant: string;
  readonly server: string;
}

/** Returns the catalog into which the file goes. @throws CountersignError `USAGE` if options and file do not agree */
export function importTarget(file: Partial<Target>, options: Partial<Target>, shown: string): Target {
  for (const field of ['tenant', 'server'] as const) {
    const [ours, theirs] = [options[field], file[field]];
    if (ours !== undefined && theirs !== undefined && ours !== theirs)
      throw option.usage(`${shown} is of ${field} ${theirs}, not of ${visible(ours)}.`, { path: field });
  }
  const server = options.server ?? file.server;
  if (server === undefined) throw option.usage(`${shown} is a plain list: say whose tools it names with --server.`);
  return { tenant: options.tenant ?? file.tenant ?? 'default', server };
}

/** @throws CountersignError `TOOL_UNKNOWN`; `DEFINITION_CHANGED` if the change would be sent */
export function assertImportable(
  { unknown, near, refused }: ImportPlan,
  { shown, isPlan, tenant, server }: Target & { readonly shown: string; readonly isPlan: boolean },
): void {
  const [tool, ...rest] = unknown;
  if (tool !== undefined) {
    const hint = near.length > 0 ? ` Did you mean ${names(near)}?` : ` See: countersign catalog list ${server}`;
    const others = rest.length > 0 ? `, nor ${names(rest, 5)}` : '';
    const path = `tools[${JSON.stringify(visible(tool))}]`;
    const message = `${shown}, ${path}: ${server} has no such tool${others}.${hint} Nothing was sent.`;
    throw new CountersignError('TOOL_UNKNOWN', message, { path, server });
  }
  if (refused.length === 0 || isPlan) return;
  const message = `${shown} would loosen ${names(refused, 5)}, and was written for another definition than the server has now. Read the difference (countersign catalog diff ${server} --tenant ${shellWord(tenant)}), put the new hash into the file, and bring it again; nothing was sent.`;
  throw new CountersignError('DEFINITION_CHANGED', message, { server });
}

/** Returns the parts of the connection that differ from the file; an import does not change the connection. */
export function connectionDifferences(has: object | undefined, file: ReadCatalogFile): readonly string[] {
  const { connection } = file;
  if (connection === undefined) return [];
  const there: Readonly<Record<string, unknown>> = { ...has };
  const wanted: Readonly<Record<string, unknown>> = { ...connection };
  return ['url', 'credentials', 'trusted', 'taskQueue'].filter((field) => there[field] !== wanted[field]);
}

export const EXPORT = verb({
  name: 'export',
  summary: "write the settings of a server's tools as a file for review",
  description:
    'Write the settings of each tool as YAML. The same catalog always gives the same text; `import` reads it back',
  args: { server: SERVER },
  options: { tenant: TENANT },
  examples: ['catalog export files > files.catalog.yaml', 'catalog export files --json'],
  run: async ({ args: { server }, options: { tenant }, session }) => {
    const file = catalogFile(await session(({ countersign }) => countersign.catalog(server, tenant).snapshot()));
    return { json: file, text: () => catalogYaml(file) };
  },
});

const IMPORTING = {
  as: option.text('<id>', 'who makes the change; not needed with --plan'),
  server: option.text('<name>', 'whose tools a plain list names'),
  tenant: option.text('<name>', "whose catalog (default: the file's, `default`)"),
  plan: option.flag('show what would change, and change nothing'),
  ...MESSAGE,
  expectedVersion: EXPECTED_VERSION,
} satisfies option.OptionRows;

export const IMPORT = verb({
  name: 'import',
  summary: 'set what differs between a file and a catalog',
  description:
    'Set what differs between a file and a catalog: up to 1,000 tools in one change, all of it or nothing; more follow in further changes. Only settings of tools are changed',
  args: { file: option.one('what `catalog export` wrote, or a list of tools; - for standard input') },
  options: IMPORTING,
  examples: [
    'catalog import files.catalog.yaml --plan',
    'catalog import files.catalog.yaml --as ann',
    'catalog import tools.json --server files --as ann',
  ],
  run: async ({ args: { file }, options, terminal, session }) => {
    const shown = file === '-' ? 'standard input' : file;
    const value = await readInput(file, { what: 'catalog file', code: 'CATALOG_INVALID' }, terminal);
    return await session(async (opened) => importFile(opened, value, shown, options));
  },
});

export async function importFile(
  { countersign, settings }: Session,
  value: unknown,
  shown: string,
  options: option.Values<typeof IMPORTING>,
): Promise<Answer> {
  const file = parseCatalogFile(value, shown);
  const { tenant, server } = importTarget(file, options, shown);
  const { as, plan: isPlan } = options;
  if (as === undefined && isPlan !== true)
    throw option.usage('Say who asks for it with --as, or look at it first with --plan.');
  const handle = countersign.catalog(server, tenant);
  const before = await handle.snapshot();
  const plan = importPlan(before.entries, file.tools);
  assertImportable(plan, { shown, isPlan: isPlan === true, tenant, server });
  if (as === undefined || isPlan === true)
    return planAnswer(before, plan, connectionDifferences(before.connection, file));
  const expectedVersion = options.expectedVersion ?? before.policyVersion;
  const changes = plan.tools.map(({ change }) => change);
  const acks = await sendChanges(handle, { ...options, as }, changes, expectedVersion);
  const changed = changes.map(({ tool }) => tool);
  return changeAnswer(before, acks, await readChanged(handle, settings, acks.at(-1)), changed);
}
