/**
 * Writes a catalog's settings as a file for review, and reads such a file back, in this shape or the older one.
 *
 * 1. The same catalog always gives the same text: tools are sorted, and times and everything that only a refresh
 *    changes are left out.
 * 2. A tool's name contains no character in the file that a reviewer cannot see.
 * 3. An import is refused if it names unknown tools, if definitions have changed, or if the command line names another
 *    catalog.
 */
import { Document, Scalar, YAMLMap } from 'yaml';
import { CountersignError } from '../../contracts/errors.ts';
import { type CatalogConnection, CatalogFile, ToolList } from '../../contracts/schemas/catalog.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type ImportPlan, type WantedTool, wantedTool } from '../../domain/catalog/file.ts';
import { visible } from '../../domain/text/escape.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { escapedInvisible } from '../session/verb.ts';
import { names } from '../views/format.ts';
import { usage } from '../session/options.ts';

interface ReadCatalogFile {
  /** Absent, like the next three fields, in a file of the older shape. */
  readonly tenant?: string;
  readonly server?: string;
  readonly version?: number;
  readonly connection?: CatalogConnection | undefined;
  readonly tools: ReadonlyMap<string, WantedTool>;
}

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
  // Sound: the value was parsed as a catalog file, so it has tools. A legal name, which zod leaves out of its result.
  if (Object.hasOwn((value as { tools: object }).tools, '__proto__'))
    throw new CountersignError(
      'CATALOG_INVALID',
      `The catalog file ${shown} sets the tool __proto__, which no file can. Leave it out, and set it with \`countersign catalog\`.`,
      { path: 'tools.__proto__' },
    );
  return { ...head, tools: new Map(Object.entries(tools).map(([name, tool]) => [name, wantedTool(tool)])) };
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
      throw usage(`${shown} is of ${field} ${theirs}, not of ${visible(ours)}.`, { path: field });
  }
  const server = options.server ?? file.server;
  if (server === undefined) throw usage(`${shown} is a plain list: say whose tools it names with --server.`);
  return { tenant: options.tenant ?? file.tenant ?? 'default', server };
}

/** @throws CountersignError `TOOL_UNKNOWN`; `DEFINITION_CHANGED` if the change would be sent */
export function assertImportable(
  { unknown, refused }: ImportPlan,
  { shown, isPlan, tenant, server }: Target & { readonly shown: string; readonly isPlan: boolean },
): void {
  const [first, ...more] = unknown;
  if (first !== undefined) {
    const { tool, near } = first;
    const hint = near.length > 0 ? ` Did you mean ${names(near)}?` : ` See: countersign catalog list ${server}`;
    const rest = more.map((each) => each.tool);
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
